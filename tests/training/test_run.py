"""``train`` for a user's own network and data, run directories, and refusals in one sentence."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
import yaml
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import focalcal
from focalcal.data.data_types import DataSet
from focalcal.recipes import Recipe
from focalcal.training import RunDirectory, open_run, train
from focalcal.training.preconditions import hold
from tiny_runs import CLASSES, HARDWARE, Net, data, prediction_bytes, recipe, run, vectors

PAGE = Path(__file__).parents[2] / "docs" / "training.md"


def test_documented_examples_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    assert len(blocks) >= 2
    names = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    assert len([line for line in blocks[0].splitlines() if line.strip() and "import" not in line]) <= 10
    assert (tmp_path / "runs/own/predictions/test.safetensors").is_file()


class MapStyle:
    def __init__(self, pair):
        self.pair = pair

    def __len__(self):
        return len(self.pair[1])

    def __getitem__(self, index):
        return self.pair[0][index], int(self.pair[1][index])


KINDS = {
    "tensors": lambda pair: pair,
    "arrays": lambda pair: (pair[0].numpy(), pair[1].numpy()),
    "map-style": MapStyle,
    "TensorDataset": lambda pair: TensorDataset(*pair),
    "DataLoader": lambda pair: DataLoader(TensorDataset(*pair), batch_size=7),
    "iterable": lambda pair: ((x, int(y)) for x, y in zip(*pair, strict=True)),
}


@pytest.fixture(scope="module")
def from_tensors(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "a"
    run(out)
    return out


@pytest.mark.parametrize("kind", KINDS)
def test_any_data_of_ones_own(from_tensors, tmp_path, kind):
    splits = {name: KINDS[kind](vectors(size, seed)) for seed, (name, size) in enumerate(SIZES.items())}
    train(recipe(), out=tmp_path / "a", model=Net(), data=splits, progress=False)
    assert prediction_bytes(tmp_path / "a") == prediction_bytes(from_tensors)


SIZES = {"train": 100, "val": 61, "test": 45}


def test_run_directory(from_tensors):
    assert {file.name for file in from_tensors.iterdir() if file.name != ".lock"} == {
        "config.yaml",
        "history.jsonl",
        "checkpoints",
        "predictions",
        "evaluation.json",
        "environment.json",
    }
    opened = open_run(from_tensors)
    assert opened.recipe == recipe()
    assert opened.predictions("test").split == "test"
    assert len(opened.predictions("val")) == 61
    assert RunDirectory(from_tensors).predictions("val") == from_tensors / "predictions/val.safetensors"
    assert yaml.safe_load((from_tensors / "config.yaml").read_text())["epochs"] == 2
    result = opened.evaluation
    assert set(result) == {"recipe", "loss", "seed", "selection", "epoch", "temperature", "splits"}
    assert set(result["splits"]) == {"val", "test"}
    assert set(result["splits"]["test"]) == {"before", "after_nll", "after_ece"}
    before, after = (result["splits"]["val"][name]["nll"] for name in ("before", "after_nll"))
    assert after <= before + 1e-9


def test_environment(from_tensors, monkeypatch):
    written = json.loads((from_tensors / "environment.json").read_text())
    assert written["packages"]["torch"] == torch.__version__.partition("+")[0] or written["packages"]["torch"]
    assert written["packages"]["focalcal"] == focalcal.__version__
    assert (written["device"], written["processes"], written["threads"]) == ("cpu", 1, 1)
    asked = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    assert written["git_commit"] == (asked.stdout.strip() or None)
    assert written["data"]["sizes"] == SIZES
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", written["started"])


def test_results_hold_no_path_and_no_date(from_tensors):
    for content in prediction_bytes(from_tensors).values():
        assert str(from_tensors).encode() not in content
        assert b"202" not in content[:2000].split(b'"ids"')[0]


def test_overrides_and_loss_by_name(tmp_path):
    changes = {"optimizer": "adam", "optimizer.lr": 0.01, "epochs": 1}
    finished = train(
        recipe(), out=tmp_path / "a", overrides=changes, model=Net(), data=data(), loss="fl-3", progress=False
    )
    assert (finished.recipe.optimizer.name, finished.recipe.optimizer.lr) == ("adam", 0.01)
    assert (finished.recipe.epochs, finished.recipe.loss) == (1, "fl-3")


def test_packaged_recipe_with_own_network(tmp_path):
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    changes = {"epochs": 1, "data.train_size": 100}
    finished = train("digits/mlp", out=tmp_path / "a", model=network, overrides=changes, progress=False)
    assert finished.recipe.model.name == "own"
    assert finished.history[0]["weight_norm"] is None


class Wrong(nn.Module):
    def __init__(self, answer):
        super().__init__()
        self.layer, self.answer = nn.Linear(8, CLASSES), answer

    def forward(self, x):
        return self.answer(self.layer(x))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"samples": {"train": vectors(20, 0)}}, "The data has no split val"),
        ({"samples": {"train": vectors(20, 0), "val": None}}, "The data has no split val"),
        ({"samples": {"val": vectors(20, 0)}}, "The data has no split train"),
        ({"samples": [1, 2]}, "The data must be a DataSet or splits by their names, got list"),
        ({"samples": {"train": vectors(20, 0), "val": (torch.zeros(3, 8), [0, 1])}}, "3 inputs but 2 labels"),
        ({"samples": {"train": (torch.zeros(2, 8), [0, -1]), "val": vectors(9, 0)}}, "label -1 is negative"),
        (
            {"network": Wrong(lambda y: y[:, 0])},
            r"must give logits of shape \(16, K\) for this batch, got shape \(16,\)",
        ),
        ({"network": Wrong(lambda y: y[:5])}, r"got shape \(5, 4\)"),
        ({"network": Wrong(lambda y: (y, y))}, "got tuple"),
        ({"network": Net(outputs=3)}, "The network has 3 outputs, but there is a label 3 in the data"),
        ({"loss": "focal-lose"}, "focal-lose"),
        ({"hardware": {**HARDWARE, "precision": "16-mixed"}}, "16-mixed is for GPUs"),
    ],
)
def test_refusals(tmp_path, options, said):
    with pytest.raises((ValueError, TypeError), match=said) as refused:
        run(tmp_path / "a", **options)
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "a/checkpoints").exists()


def test_data_set_without_val(tmp_path):
    usual = data()
    bare = DataSet("own", usual.class_names, usual.train, {"test": usual.evaluation["test"]}, usual.model_options)
    with pytest.raises(ValueError, match="The data has no split val"):
        run(tmp_path / "a", samples=bare)


def test_wrong_rows_in_evaluation_only(tmp_path):
    class OnlyInTraining(Net):
        def forward(self, x):
            return super().forward(x) if self.training else super().forward(x)[1:]

    with pytest.raises(ValueError, match="one row of logits for each of 61 samples"):
        run(tmp_path / "a", network=OnlyInTraining())


def test_unknown_override(tmp_path):
    with pytest.raises(ValueError, match="there is no key optimiser"):
        train(recipe(), out=tmp_path / "a", overrides={"optimiser.lr": 1}, model=Net(), data=data())


def test_folder_that_holds_a_run(from_tensors):
    with pytest.raises(ValueError, match="already holds a run: resume it with --resume"):
        run(from_tensors)


def test_folder_that_is_a_file(tmp_path):
    (tmp_path / "a").write_text("mine")
    with pytest.raises(ValueError, match="is a file; choose another folder"):
        run(tmp_path / "a")
    with pytest.raises(ValueError, match="is not a run directory"):
        open_run(tmp_path)


def test_recipe_for_own_parts_without_them(tmp_path):
    with pytest.raises(ValueError, match=r"is for data of your own: pass it as focalcal\.train"):
        train(Recipe(data="own", model="own", epochs=1), out=tmp_path / "a")


def test_a_folder_has_one_writer_at_a_time(tmp_path):
    folder = tmp_path / "deep" / "run"
    with hold(RunDirectory(folder)):
        (folder / "config.yaml").write_text("")
        with pytest.raises(ValueError, match="Another process is training in"), hold(RunDirectory(folder)):
            pass
    with hold(RunDirectory(folder)):  # free again
        pass
    assert (folder / "config.yaml").is_file()


def test_a_run_that_does_not_begin_leaves_no_folder(tmp_path):
    with pytest.raises(ValueError, match="no split val"):
        train("digits/mlp", out=tmp_path / "run", data={"train": ([[1.0]], [0])}, progress=False)
    assert not (tmp_path / "run").exists()


def test_a_run_without_a_checkpoint_does_not_block_the_next(tmp_path):
    with pytest.raises(TypeError, match="one number that depends on the logits"):
        train("digits/mlp", out=tmp_path / "a", loss=lambda logits, targets: logits.sum(dim=1), progress=False)
    train("digits/mlp", out=tmp_path / "a", overrides={"epochs": 1, "data.train_size": 50}, progress=False)


def test_lost_predictions_are_made_again(tmp_path):
    small = {"epochs": 1, "data.train_size": 50}
    run = train("digits/mlp", out=tmp_path / "a", overrides=small, progress=False)
    before = (run.path / "predictions" / "test.safetensors").read_bytes()
    (run.path / "predictions" / "test.safetensors").unlink()
    train("digits/mlp", out=tmp_path / "a", overrides=small, resume=True, progress=False)
    assert (run.path / "predictions" / "test.safetensors").read_bytes() == before


@pytest.mark.parametrize("loss", [lambda logits, targets: 1.0, lambda logits, targets: logits.detach().mean()])
def test_a_loss_must_be_a_number_with_a_gradient(tmp_path, loss):
    with pytest.raises(TypeError, match="one number that depends on the logits"):
        train("digits/mlp", out=tmp_path / "a", loss=loss, progress=False)


@pytest.mark.parametrize("lost", [("evaluation.json",), ("evaluation.json", "predictions")])
def test_a_run_that_was_killed_before_its_predictions_is_not_finished_with_other_data(tmp_path, lost):
    """The last epoch is done, and so is nothing after it: other samples must not end up under its name."""
    run(tmp_path / "a")
    before = prediction_bytes(tmp_path / "a")
    for name in lost:
        place = tmp_path / "a" / name
        shutil.rmtree(place) if place.is_dir() else place.unlink()
    kept = snapshot(tmp_path / "a")
    inputs, labels = vectors(45, seed=9)
    for other in ({"test": (inputs, vectors(45, 2)[1])}, {"test": (vectors(45, 2)[0], labels.flip(0))}):
        with pytest.raises(ValueError, match="The samples of the data have changed since the run in"):
            run(tmp_path / "a", samples={**splits(), **other}, resume=True)
        assert snapshot(tmp_path / "a") == kept
    run(tmp_path / "a", samples=splits(), resume=True)
    assert prediction_bytes(tmp_path / "a") == before


def splits():
    return {"train": vectors(100, 0), "val": vectors(61, 1), "test": vectors(45, 2)}


def snapshot(folder):
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
