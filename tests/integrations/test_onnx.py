"""ONNX files: what onnxruntime computes from them is what torch and the calibrator's transform give."""

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import nn

import focalcal as fc
from focalcal.integrations import onnx as exporting
from focalcal.integrations.onnx_operators import translations
from oracles.temperature import sampled_predictions

pytestmark = pytest.mark.slow

# One of each module, the others share theirs; and those that compute in another type with float32.
METHODS = ["temperature", "structured-matrix", "dirichlet", "isotonic", "histogram", "focal-temperature", "beta"]
IN_FLOAT64 = ["isotonic", "histogram", "focal-temperature", "ensemble-temperature", "auto"]


def network(outputs=4):
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Dropout(0.5), nn.Linear(5, outputs))


def run(path, *inputs, **named):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    given = named or {one.name: value for one, value in zip(session.get_inputs(), inputs, strict=True)}
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, {name: value.numpy() for name, value in given.items()}), strict=True))


def transformed(calibrator, logits):
    return calibrator.transform(fc.Predictions.from_logits(logits, np.zeros(len(logits), int))).probs()


def is_double(tensor_type):
    return tensor_type == onnx.TensorProto.DOUBLE


def double_values(path):
    """Names of all values of the graph that are float64."""
    model = onnx.shape_inference.infer_shapes(onnx.load(path))
    values = [*model.graph.input, *model.graph.output, *model.graph.value_info]
    named = [value.name for value in values if is_double(value.type.tensor_type.elem_type)]
    return named + [part.name for part in model.graph.initializer if is_double(part.data_type)]


@pytest.mark.parametrize(
    ("method", "float32"), [*((name, False) for name in METHODS), *((name, True) for name in IN_FLOAT64)]
)
def test_every_calibrator(tmp_path, method, float32):
    classes = 2 if method == "beta" else 4
    calibrator = fc.build_calibrator(method).fit(sampled_predictions(300, classes, 2.0))
    model, path = network(classes), tmp_path / "model.onnx"
    written = fc.export_onnx(model, calibrator, torch.randn(7, 6), path, float32=float32)
    assert model.training
    assert written.inputs == {"input": ("batch", 6)}
    assert written.difference < (1e-5 if float32 else 1e-6)
    x = 9 * torch.randn(200, 6)
    with torch.no_grad():
        expected = transformed(calibrator, model.eval()(x)).numpy()
    found = run(path, x)
    assert list(found) == ["logits", "probs"]
    np.testing.assert_allclose(found["probs"], expected, atol=1e-4 if float32 else 2e-6)
    logits = torch.from_numpy(found["logits"])
    np.testing.assert_allclose(logits.softmax(1).numpy(), found["probs"], atol=1e-6)
    assert not float32 or double_values(path) == []
    assert [file.name for file in tmp_path.iterdir()] == ["model.onnx"]


def test_pixels_and_uncertain_inputs(tmp_path):
    """Logits of (N, K, d1, d2), a dictionary of inputs, another axis that may vary, and text about the file."""

    class Segmenter(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Conv2d(3, 5, 3, padding=1), nn.Conv2d(5, 4, 1)

        def forward(self, image, weight):
            return {"logits": self.last(torch.relu(self.first(image))) * weight[:, None, None, None]}

    calibrator, model = fc.build_calibrator("vector").fit(sampled_predictions(300, 4, 2.0)), Segmenter()
    example = {"image": torch.randn(1, 3, 8, 8), "weight": torch.ones(1)}
    written = fc.export_onnx(
        model, calibrator, example, tmp_path / "a.onnx", outputs=["probs"], dynamic_axes=[2], metadata={"by": "<us>"}
    )
    assert written.inputs == {"image": ("batch", 3, "axis_2", 8), "weight": ("batch",)}
    image, weight = torch.randn(3, 3, 5, 8), torch.tensor([0.5, 1, 2])
    found = run(tmp_path / "a.onnx", image=image, weight=weight)
    expected = calibrator.to_module()(model(image, weight)["logits"]).softmax(1)
    assert list(found) == ["probs"]
    np.testing.assert_allclose(found["probs"], expected.detach().numpy(), atol=1e-6)
    about = {entry.key: entry.value for entry in onnx.load(tmp_path / "a.onnx").metadata_props}
    assert about["by"] == "<us>"
    assert about["calibrator"] == calibrator.describe()


@pytest.mark.parametrize("kind", ["logits", "probs"])
def test_one_number_for_two_classes(tmp_path, kind):
    calibrator = fc.build_calibrator("temperature").fit(sampled_predictions(300, 2, 2.0))
    layers = [nn.Linear(6, 1), nn.Flatten(0)] + [nn.Sigmoid()] * (kind == "probs")
    model, x = nn.Sequential(*layers), torch.randn(20, 6)
    fc.export_onnx(model, calibrator, x, tmp_path / "a.onnx", kind=kind)
    make = fc.Predictions.from_logits if kind == "logits" else fc.Predictions.from_probs
    expected = calibrator.transform(make(model(x).detach(), [0] * 20)).probs()
    np.testing.assert_allclose(run(tmp_path / "a.onnx", x)["probs"], expected.numpy(), atol=1e-6)


def test_several_inputs_and_no_calibrator(tmp_path):
    model = nn.Bilinear(3, 2, 4)
    written = fc.export_onnx(model, None, (torch.randn(2, 3), torch.randn(2, 2)), tmp_path / "a.onnx")
    assert list(written.inputs) == ["input_0", "input_1"]
    a, b = torch.randn(5, 3), torch.randn(5, 2)
    np.testing.assert_allclose(run(tmp_path / "a.onnx", a, b)["logits"], model(a, b).detach().numpy(), atol=1e-6)


def test_a_float64_network_in_float32(tmp_path):
    model = network().double()
    written = fc.export_onnx(model, None, torch.randn(2, 6, dtype=torch.float64), tmp_path / "a.onnx", float32=True)
    assert double_values(written.path) == []
    assert next(model.parameters()).dtype == torch.float64


@pytest.mark.filterwarnings("ignore")  # of the exporter about itself
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_operators_keep_their_digits(tmp_path, dtype):
    class Operators(nn.Module):
        def forward(self, x, thresholds):
            return torch.log1p(x), torch.expm1(x), torch.searchsorted(thresholds, x)

    numbers = [0.0, 1e-30, 1e-20, -1e-9, 1e-3, 0.3, 0.6, 5.0, 50.0, 500.0, 1e20, -0.5, -0.999999, torch.inf, -1.0]
    x = torch.tensor([numbers, numbers[::-1]], dtype=dtype)
    thresholds = torch.tensor([[-1.0, 0.0, 0.3, 5.0], [0.0, 1e-9, 2.0, torch.inf]], dtype=dtype)
    program = torch.onnx.export(
        Operators().eval(), (x, thresholds), dynamo=True, custom_translation_table=translations(), verbose=False
    )
    program.save(tmp_path / "operators.onnx")
    found = run(tmp_path / "operators.onnx", x, thresholds).values()
    for values, expected in zip(found, Operators()(x, thresholds), strict=True):
        np.testing.assert_allclose(values, expected.numpy(), rtol=2e-7 if dtype == torch.float32 else 4e-16)


def test_an_export_whose_check_fails_leaves_no_file(tmp_path, monkeypatch):
    calibrator = fc.build_calibrator("temperature").fit(sampled_predictions(300, 4, 2.0))
    honest = exporting._run

    def wrong(session, inputs):
        found = honest(session, inputs)
        return {name: values + 0.01 if name == "probs" else values for name, values in found.items()}

    monkeypatch.setattr(exporting, "_run", wrong)
    with pytest.raises(ValueError, match=r"not kept: the calibrated probabilities differ .* by 0\.01"):
        fc.export_onnx(network(), calibrator, torch.randn(3, 6), tmp_path / "a.onnx")
    assert list(tmp_path.iterdir()) == []


class OfFixedSize(nn.Module):
    def forward(self, x):
        return x.reshape(3, 4)


class Undecided(nn.Module):
    def forward(self, x):
        return x if float(x.sum()) > 0 else -x


@pytest.mark.parametrize("model", [OfFixedSize(), Undecided()])
def test_a_network_that_cannot_be_exported(tmp_path, model):
    with pytest.raises(ValueError, match="The network cannot be exported to ONNX: ") as said:
        fc.export_onnx(model, None, torch.randn(3, 4), tmp_path / "a.onnx")
    assert "\n" not in str(said.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_hugging_face_network_with_texts_of_any_length(tmp_path):
    from transformers import BertConfig, BertForSequenceClassification

    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    model = BertForSequenceClassification(BertConfig(vocab_size=50, num_labels=4, **sizes)).eval()
    calibrator = fc.build_calibrator("vector").fit(sampled_predictions(300, 4, 2.0))
    example = {"input_ids": torch.randint(50, (3, 7)), "attention_mask": torch.ones(3, 7, dtype=torch.int64)}
    fc.export_onnx(model, calibrator, example, tmp_path / "a.onnx", dynamic_axes=[1])
    longer = {"input_ids": torch.randint(50, (2, 11)), "attention_mask": torch.ones(2, 11, dtype=torch.int64)}
    with torch.no_grad():
        expected = transformed(calibrator, model(**longer).logits).numpy()
    np.testing.assert_allclose(run(tmp_path / "a.onnx", **longer)["probs"], expected, atol=1e-6)
