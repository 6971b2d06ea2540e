"""Predictions of a network for a split: classes, labels and names fit together."""

import json

import pytest
import torch
from lightning_fabric import Fabric

from focalcal.calibrators import TemperatureScaling
from focalcal.data import load_data, own_data
from focalcal.metrics import evaluate
from focalcal.models import build_model
from focalcal.predictions import Predictions
from focalcal.predictions.token_predictions import TokenPredictions
from focalcal.recipes import load_recipe
from focalcal.training import train
from focalcal.training.building import load_translator
from focalcal.training.checkpoints import CheckpointFolder
from focalcal.training.evaluator import Evaluator, build_evaluator
from focalcal.training.preconditions import check_outputs
from focalcal.training.run_directory import open_run
from tiny_runs import CLASSES, Net, vectors

INPUTS, LABELS = vectors(20, 0)


def predict(data, network, split="shifted"):
    return Evaluator(Fabric(accelerator="cpu", devices=1), data, batch_size=8).predict(network, split)


def splits(beyond=0, **options):
    return own_data(train=(INPUTS, LABELS), val=(INPUTS, LABELS), shifted=(INPUTS, LABELS + beyond), **options)


def test_classes_without_names_may_be_more_than_the_labels():
    data = splits()
    found = predict(data, Net(outputs=CLASSES + 2))
    assert found.class_names is None
    assert found.num_classes == CLASSES + 2
    assert torch.equal(found.labels, LABELS)


def test_names_are_kept():
    names = ("a", "b", "c", "d")
    assert predict(splits(class_names=names), Net(), "train").class_names == names


def test_a_label_without_an_output_names_its_split():
    words = rf"^The network has {CLASSES} outputs, but there is a label {CLASSES + 1} in the data's split shifted\.$"
    with pytest.raises(ValueError, match=words):
        predict(splits(beyond=2), Net())
    with pytest.raises(ValueError, match=words):
        check_outputs(Net()(INPUTS), LABELS, splits(beyond=2))
    check_outputs(Net(outputs=CLASSES + 2)(INPUTS), LABELS, splits(beyond=2))


def test_training_labels_without_an_output():
    with pytest.raises(ValueError, match="The network has 2 outputs, but there is a label 3 in the data's split train"):
        check_outputs(Net(outputs=2)(INPUTS), LABELS, splits())


def test_names_that_are_too_few_for_the_outputs():
    data = splits(class_names=["a", "b", "c", "d"])
    check_outputs(Net()(INPUTS), LABELS, data)
    with pytest.raises(ValueError, match=r"^The network has 5 outputs, but the data has 4 class names\.$"):
        check_outputs(Net(outputs=5)(INPUTS), LABELS, data)


pytestmark = pytest.mark.slow

SMALL = {
    "data.synthetic": 40,
    "epochs": 3,
    "batch_tokens": 120,
    "schedule.warmup_epochs": 1,
    "model.dropout": 0.1,
    "hardware.threads": 1,
}


def small_recipe(**changes):
    return load_recipe("multi30k/transformer_tiny", {**SMALL, **changes})


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return train(small_recipe(), out=tmp_path_factory.mktemp("runs") / "whole", progress=False)


@pytest.fixture(scope="module")
def tokens(whole):
    return TokenPredictions.load(whole.files.predictions("test"))


def dense(tokens):
    return Predictions.from_logits(tokens[:], tokens.labels)


def test_the_streamed_results_are_those_of_all_logits(whole, tokens):
    val = dense(TokenPredictions.load(whole.files.predictions("val")))
    measured = whole.evaluation["splits"]["test"]
    for objective in ("nll", "ece"):
        scaler = TemperatureScaling(objective=objective).fit(val)
        assert whole.evaluation["temperature"][objective] == pytest.approx(scaler.temperature_, rel=1e-6)
        expected = evaluate(scaler.transform(dense(tokens)), bootstrap=0).values
        for name in ("error", "nll", "ece", "ada_ece", "brier"):
            assert measured[f"after_{objective}"][name] == pytest.approx(expected[name], rel=1e-5)
    expected = evaluate(dense(tokens), bootstrap=0).values
    for name in ("error", "nll", "ece", "classwise_ece"):
        assert measured["before"][name] == pytest.approx(expected[name], rel=1e-5)


def test_logits_are_the_networks_own_in_the_order_of_the_sentences(whole, tokens):
    model, _ = load_translator(whole)
    samples = whole.data().evaluation["test"]
    batch = samples.batch(torch.arange(len(samples)), device=torch.device("cpu"), generator=None)
    with torch.no_grad():
        torch.testing.assert_close(tokens[:], model(batch.inputs), atol=1e-4, rtol=1e-4)
    assert torch.equal(tokens.labels, batch.targets)
    ends = tokens.labels == 3
    assert torch.equal(tokens.sentences[ends], samples.ids)
    assert torch.equal(tokens.positions[ends] + 1, torch.from_numpy(samples.target.lengths))


def test_the_record_of_an_epoch_is_that_of_the_results(whole):
    last, result = whole.history[-1]["val"], whole.evaluation
    assert last["nll"] == pytest.approx(result["splits"]["val"]["before"]["nll"], rel=1e-6)
    assert last["ece"] == pytest.approx(result["splits"]["val"]["before"]["ece"], rel=1e-6)
    assert last["temperature"] == pytest.approx(result["temperature"]["nll"], rel=1e-6)
    assert set(whole.history[-1]["train"]) == {"loss", "feature_norm"}


def test_it_learns(whole):
    losses = [record["train"]["loss"] for record in whole.history]
    assert losses[-1] < losses[0]


class Stopped(Exception):
    pass


@pytest.mark.parametrize("average", [{}, {"ema_decay": None, "average_last": 2}])
def test_a_run_that_was_stopped_resumes_bit_for_bit(tmp_path, monkeypatch, average):
    recipe = small_recipe(**{"checkpoint.every_steps": 2, **average})
    straight = train(recipe, out=tmp_path / "straight", progress=False)
    write, seen = CheckpointFolder.write, []

    def stop_at_the_fourth(self, *arguments):
        write(self, *arguments)
        seen.append(arguments[:2])
        if len(seen) == 4:
            raise Stopped

    monkeypatch.setattr(CheckpointFolder, "write", stop_at_the_fourth)
    with pytest.raises(Stopped):
        train(recipe, out=tmp_path / "resumed", progress=False)
    monkeypatch.undo()
    resumed = train(recipe, out=tmp_path / "resumed", resume=True, progress=False)
    for split in ("val", "test"):
        files = [run.files.predictions(split).read_bytes() for run in (straight, resumed)]
        assert files[0] == files[1]
    assert straight.evaluation == resumed.evaluation


def test_the_average_is_over_the_last_epochs(tmp_path):
    changes = {"ema_decay": None, "average_last": 2}
    kept = {}
    write = CheckpointFolder.write

    def keep(self, epoch, step, checkpoint):
        kept[epoch] = {name: tensor.clone() for name, tensor in checkpoint.part("model").items()}
        write(self, epoch, step, checkpoint)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CheckpointFolder, "write", keep)
        run = train(small_recipe(**changes), out=tmp_path / "averaged", progress=False)
    weights = dict(load_translator(run)[0].state_dict())
    for name in ("embedding.weight", "encoder.0.attention.query.weight"):
        torch.testing.assert_close(weights[name], (kept[2][name] + kept[3][name]) / 2)


def test_the_run_keeps_its_vocabulary(whole):
    _, vocabulary = load_translator(open_run(whole.path))
    assert vocabulary.sha256 == json.loads(whole.files.environment.read_text())["data"]["vocabulary_sha256"]


def test_another_vocabulary_is_refused(tmp_path):
    run = train(small_recipe(epochs=1), out=tmp_path / "run", progress=False)
    facts = json.loads(run.files.environment.read_text())
    facts["data"]["vocabulary_sha256"] = "another"
    run.files.environment.write_text(json.dumps(facts))
    with pytest.raises(ValueError, match="is not the vocabulary that the run was trained with"):
        load_translator(run)
    run.files.vocabulary.unlink()
    with pytest.raises(ValueError, match="only runs on sentence pairs can translate"):
        load_translator(run)


def test_a_network_without_features_is_refused():
    data = load_data("multi30k", synthetic=5)
    evaluator = build_evaluator(Fabric(accelerator="cpu", devices=1), small_recipe(), data)
    with pytest.raises(TypeError, match=r"needs features\(\) and a classifier"):
        evaluator.measure(torch.nn.Linear(2, 2), "val")
    with pytest.raises(ValueError, match="too large to be kept"):
        evaluator.predict(build_model("transformer_tiny", 48), "val")


def test_a_file_of_another_kind_is_no_token_predictions(tmp_path):
    path = tmp_path / "test.safetensors"
    Predictions.from_logits([[1.0, 0.0]], [0]).save(path)
    with pytest.raises(ValueError, match="holds no predictions of tokens"):
        TokenPredictions.load(path)
