import io
import math

import pytest
import torch
from PIL import Image

from focalcal.data import load_data
from focalcal.metrics import classwise_ece, sample_statistics
from focalcal.metrics.samples import block_statistics
from focalcal.predictions import Predictions
from focalcal.report.classes import ClassesSoFar
from focalcal.report.mistakes import MistakesSoFar, Thumbnails, run_thumbnails
from focalcal.training import train
from report.conftest import world


def classes_of(preds, rows):
    found = ClassesSoFar(preds.num_classes, 15, preds.weights is not None)
    for block in preds.blocks(rows):
        for stats, probs in block_statistics(block):
            found.add(stats, probs)
    return found.classes()


@pytest.mark.parametrize("weighted", [False, True])
def test_rows_of_classes(weighted):
    weights = torch.rand(300, generator=torch.Generator().manual_seed(1)).double() if weighted else None
    preds = world(300, 4, weights=weights)
    classes, stats = classes_of(preds, 70), sample_statistics(preds)
    w = torch.ones(300).double() if weights is None else weights
    for k in range(4):
        own = stats.label == k
        assert float(classes.count[k]) == pytest.approx(float(w[own].sum()))
        assert float(classes.accuracy[k]) == pytest.approx(float((w * stats.correct)[own].sum() / w[own].sum()))
        assert float(classes.confidence[k]) == pytest.approx(float((w * stats.confidence)[own].sum() / w[own].sum()))
        said = stats.prediction == k
        of, mass = classes.predicted, float(w[said].sum())
        assert of.count[k] == pytest.approx(mass)
        assert of.accuracy[k] == pytest.approx(float((w * stats.correct)[said].sum()) / mass)
        assert of.confidence[k] == pytest.approx(float((w * stats.confidence)[said].sum()) / mass)
        assert of.low[k] <= of.gap[k] <= of.high[k]
    assert float(classes.classwise_ece.mean()) == pytest.approx(classwise_ece(preds))
    assert classes.bins(2).count.sum() == pytest.approx(float(w.sum()))
    assert classes.largest_errors(1) == [int(classes.classwise_ece.argmax())]


def test_a_class_without_samples():
    classes = classes_of(Predictions.from_probs([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25]], [0, 1]), 2)
    assert float(classes.count[2]) == 0
    assert math.isnan(float(classes.accuracy[2]))
    assert float(classes.classwise_ece[2]) == pytest.approx(0.25)


def mistakes_of(preds, rows, most=5):
    found = MistakesSoFar(preds.num_classes, most)
    for block in preds.blocks(rows):
        for stats, _ in block_statistics(block):
            found.add(stats, block.ids)
    return found


@pytest.mark.parametrize("rows", [7, 100, 1000])
def test_the_most_confident_mistakes(rows):
    preds = world(400, 3, ids=[f"x{i}" for i in range(400)])
    stats = sample_statistics(preds)
    wrong = (~stats.correct).nonzero()[:, 0].tolist()
    wanted = sorted(wrong, key=lambda i: (-float(stats.confidence[i]), i))[:5]
    found = mistakes_of(preds, rows).worst()
    assert [mistake.id for mistake in found] == [f"x{i}" for i in wanted]
    assert [(mistake.label, mistake.prediction) for mistake in found] == [
        (int(stats.label[i]), int(stats.prediction[i])) for i in wanted
    ]


def test_samples_without_ids_are_called_by_their_number():
    preds = Predictions.from_probs([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3]], [0, 1, 1])
    assert [mistake.id for mistake in mistakes_of(preds, 1).worst()] == ["#1", "#2"]


def test_confusions():
    probs = [[0.9, 0.1, 0.0], [0.8, 0.2, 0.0], [0.0, 0.4, 0.6], [0.1, 0.0, 0.9], [1.0, 0.0, 0.0]]
    preds = Predictions.from_probs(probs, [1, 1, 1, 2, 0])
    found = mistakes_of(preds, 2).confusions()
    assert [(pair.label, pair.prediction, pair.count) for pair in found] == [(1, 0, 2.0), (1, 2, 1.0)]
    assert found[0].confidence == pytest.approx(0.85)


def test_a_mistake_without_weight_is_none():
    preds = Predictions.from_probs([[0.9, 0.1], [0.8, 0.2]], [1, 1], weights=[0.0, 1.0])
    found = mistakes_of(preds, 2)
    assert [mistake.id for mistake in found.worst()] == ["#1"]
    assert [pair.count for pair in found.confusions()] == [1.0]


def test_pictures_are_the_samples_enlarged():
    images = torch.arange(2 * 3 * 8 * 8, dtype=torch.int64).remainder(256).to(torch.uint8).reshape(2, 3, 8, 8)
    pictures = Thumbnails(images, [7, 9])
    picture = Image.open(io.BytesIO(pictures["9"]))
    assert picture.size == (64, 64)
    assert picture.getpixel((8 * 2, 8 * 5)) == tuple(images[1, :, 5, 2].tolist())
    assert sorted(pictures) == ["7", "9"]
    assert pictures.get("8") is None


def test_runs_of_one_data_set_have_pictures(tmp_path):
    run = train("digits/mlp", out=tmp_path / "a", overrides={"epochs": 1, "data.train_size": 50}, progress=False)
    pictures = run_thumbnails([run.path])
    test = load_data("digits").evaluation["test"]
    assert set(pictures) == set(run.predictions("test").ids)
    pixels = Image.open(io.BytesIO(pictures[str(int(test.ids[3]))])).resize((8, 8), Image.Resampling.NEAREST)
    assert list(pixels.tobytes()) == test.images[3].flatten().tolist()


def test_files_and_missing_data_have_none(tmp_path):
    assert run_thumbnails([tmp_path]) == {}
    assert run_thumbnails([]) == {}
    (tmp_path / "config.yaml").write_text("data: {name: sst}\nmodel: tree_lstm\nepochs: 1\n")
    assert run_thumbnails([tmp_path]) == {}
