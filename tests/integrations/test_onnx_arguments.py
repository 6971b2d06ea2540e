"""ONNX export: what is refused before anything is written."""

import sys
import tomllib
from pathlib import Path

import pytest
import torch
from torch import nn

import focalcal as fc
from focalcal.integrations.onnx import _OLDEST
from oracles.temperature import sampled_predictions

PROJECT = Path(__file__).parents[2] / "pyproject.toml"
X = torch.randn(3, 6)


@pytest.fixture
def scaler():
    return fc.TemperatureScaling().fit(sampled_predictions(50, 4, 2.0))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"path": "model.pt"}, r"should end in \.onnx"),
        ({"path": "nowhere/model.onnx"}, "its folder does not exist"),
        ({"outputs": "probs"}, "outputs must be"),
        ({"outputs": ["probabilities"]}, "outputs must be"),
        ({"kind": "scores"}, "kind must be 'logits' or 'probs'"),
        ({"dynamic_axes": [0]}, "axes from 1 to 1"),
        ({"dynamic_axes": [2]}, "axes from 1 to 1"),
        ({"example": (X, X[:2])}, "the same number of rows"),
        ({"example": X[:0]}, "at least one"),
        ({"model": nn.Linear(6, 5)}, r"fitted on 4 classes, and the network gives outputs of shape \(3, 5\)"),
        ({"example": X * torch.nan}, "NaN or infinite logits for the example"),
    ],
)
def test_what_is_refused(tmp_path, scaler, changes, sentence):
    given = {"model": nn.Linear(6, 4), "calibrator": scaler, "example": X, "path": "model.onnx", **changes}
    given["path"] = tmp_path / given["path"]
    with pytest.raises(ValueError, match=sentence):
        fc.export_onnx(**given)
    assert list(tmp_path.iterdir()) == []


def test_wrong_types(tmp_path, scaler):
    with pytest.raises(TypeError, match="needs a network"):
        fc.export_onnx(lambda x: x, scaler, X, tmp_path / "a.onnx")
    for example in ("text", {}, {"x": 3}, torch.tensor(1.0)):
        with pytest.raises(TypeError, match="example must be a batch of inputs"):
            fc.export_onnx(nn.Linear(6, 4), scaler, example, tmp_path / "a.onnx")


@pytest.mark.parametrize("package", ["onnx", "onnxscript", "onnxruntime"])
def test_a_missing_package_is_named_with_its_extra(tmp_path, scaler, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"need {package}, which is not installed: pip install 'focalcal\[onnx\]'"):
        fc.export_onnx(nn.Linear(6, 4), scaler, X, tmp_path / "a.onnx")
    assert list(tmp_path.iterdir()) == []


def test_the_oldest_versions_are_those_of_the_extra():
    extra = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["optional-dependencies"]["onnx"]
    assert dict(line.split(">=") for line in extra) == _OLDEST


def test_a_package_that_is_too_old_is_named_with_its_version(tmp_path, scaler, monkeypatch):
    monkeypatch.setattr("importlib.metadata.version", lambda name: "1.16.0")
    with pytest.raises(
        ImportError, match=r"need onnx 1\.17 or newer, and 1\.16\.0 is installed: pip install --upgrade"
    ):
        fc.export_onnx(nn.Linear(6, 4), scaler, X, tmp_path / "a.onnx")


def test_an_onnxscript_that_is_too_old_for_torch_is_named(tmp_path, scaler, monkeypatch):
    def export(*_, **__):
        try:
            raise ModuleNotFoundError("No module named 'onnxscript.new'", name="onnxscript.new")
        except ModuleNotFoundError as error:
            raise RuntimeError("Failed to convert") from error

    monkeypatch.setattr(torch.onnx, "export", export)
    with pytest.raises(ImportError, match=r"need a newer onnxscript for torch .*, and .* is installed: pip install"):
        fc.export_onnx(nn.Linear(6, 4), scaler, X, tmp_path / "a.onnx")
    assert list(tmp_path.iterdir()) == []
