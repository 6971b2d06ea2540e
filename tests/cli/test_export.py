"""``focalcal export``: runs and checkpoints become ONNX files that say what the run's predictions say."""

import json
import shutil

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from typer.testing import CliRunner

import focalcal as fc
from focalcal.cli import app
from focalcal.training import open_run, train

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A small run on digits."""
    out = tmp_path_factory.mktemp("runs") / "digits"
    settings = {"epochs": 2, "model.hidden": [16], "data.train_size": 110, "batch_size": 40}
    train(fc.load_recipe("digits/mlp", settings), out=out, progress=False)
    return out


def answers(path, inputs):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(["probs"], {"input": inputs})[0]


def test_a_run_with_its_own_temperature(focalcal, run, tmp_path):
    ran = focalcal("export", run, "--out", tmp_path / "model.onnx")
    assert ran.code == 0, ran.err
    assert "temperature, fitted on the run's validation predictions: all logits are divided by T = " in ran.out
    assert "Input input (batch, 1, 8, 8): pixels normalised as (x / 255 − mean) / std." in ran.out
    samples = open_run(run).data().evaluation["test"]
    inputs = samples.batch(torch.arange(len(samples)), device=torch.device("cpu"), generator=None).inputs
    scaler = fc.TemperatureScaling().fit(open_run(run).predictions("val"))
    expected = scaler.transform(open_run(run).predictions("test")).probs().numpy()
    np.testing.assert_allclose(answers(tmp_path / "model.onnx", inputs.numpy()), expected, atol=1e-5)


def test_bytes_in_and_a_saved_calibrator(focalcal, run, tmp_path):
    scaler = fc.build_calibrator("structured-vector").fit(open_run(run).predictions("val"))
    scaler.save(tmp_path / "c.json")
    given = ("--calibrator", tmp_path / "c.json", "--pixels", "--float32", "--json")
    ran = focalcal("export", run, "--out", tmp_path / "model.onnx", *given)
    assert ran.code == 0, ran.err
    said = json.loads(ran.out)
    assert said["inputs"] == {"input": ["batch", 1, 8, 8]}
    assert said["calibrator"] == "structured"
    assert said["largest_difference"] < 1e-5
    images = open_run(run).data().evaluation["test"].images.numpy()
    expected = scaler.transform(open_run(run).predictions("test")).probs().numpy()
    np.testing.assert_allclose(answers(tmp_path / "model.onnx", images), expected, atol=1e-5)
    about = {entry.key: entry.value for entry in onnx.load(tmp_path / "model.onnx").metadata_props}
    assert json.loads(about["class_names"]) == list("0123456789")
    assert about["calibrator"] == scaler.describe()


def test_a_checkpoint(focalcal, refused, run, tmp_path):
    checkpoint = sorted((run / "checkpoints").glob("epoch-*.safetensors"))[0]
    assert "not of this checkpoint; give a --calibrator" in refused("export", checkpoint, "--out", tmp_path / "a.onnx")
    ran = focalcal("export", checkpoint, "--method", "identity", "--out", tmp_path / "a.onnx")
    assert ran.code == 0, ran.err
    assert ran.out.startswith("Calibrator: none.")
    network = open_run(run).network(checkpoint=checkpoint)
    inputs = torch.randn(3, 1, 8, 8)
    expected = network(inputs).softmax(1).detach().numpy()
    np.testing.assert_allclose(answers(tmp_path / "a.onnx", inputs.numpy()), expected, atol=1e-6)
    assert not torch.equal(network(inputs), open_run(run).network()(inputs))


def test_bad_input(refused, run, tmp_path):
    target = tmp_path / "model.onnx"
    scaler = fc.FocalInverse(gamma=1.0)
    scaler.save(tmp_path / "c.json")
    assert "There is no run directory and no checkpoint" in refused("export", tmp_path / "none", "--out", target)
    assert "is not a checkpoint of a run" in refused("export", tmp_path / "c.json", "--out", target)
    assert "leave out --method" in refused(
        "export", run, "--calibrator", tmp_path / "c.json", "--method", "auto", "--out", target
    )
    assert "There is no calibrator 'temprature'" in refused("export", run, "--method", "temprature", "--out", target)
    assert "should end in .onnx" in refused("export", run, "--out", tmp_path / "model.pt")
    assert "its folder does not exist" in refused("export", run, "--out", tmp_path / "no" / "model.onnx")
    alone = tmp_path / "run"
    shutil.copytree(run, alone)
    shutil.rmtree(alone / "predictions")
    assert "has no validation predictions to fit on; give a --calibrator" in refused("export", alone, "--out", target)
    assert not target.exists()


def test_a_run_without_weights(refused, tmp_path):
    out = tmp_path / "run"
    recipe = fc.load_recipe("digits/mlp", {"epochs": 1, "data.train_size": 100, "model.hidden": [8]})
    train(recipe, out=out, progress=False)
    shutil.rmtree(out / "checkpoints")
    assert "no undamaged checkpoint" in refused("export", out, "--out", tmp_path / "a.onnx")


def test_help_has_an_example():
    assert "focalcal export runs/a --calibrator t.json" in CliRunner().invoke(app, ["export", "--help"]).output
