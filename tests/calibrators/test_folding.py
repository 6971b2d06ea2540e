"""Folding: a network with the calibrator inside says what the calibrator's transform says."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import focalcal as fc
from focalcal.calibrators import Calibrator
from oracles.temperature import sampled_predictions

LINEAR = ("temperature", "temperature-ece", "vector", "matrix", "structured-vector", "structured-matrix", "identity")
NOT_LINEAR = ("dirichlet", "isotonic", "histogram", "focal-temperature", "ensemble-temperature")


def fitted(method, classes=4, seed=0, **options):
    return fc.build_calibrator(method, **options).fit(sampled_predictions(300, classes, 2.0, seed))


def network(outputs=4, bias=True):
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, outputs, bias=bias)).double()


def transformed(calibrator: Calibrator, logits):
    preds = fc.Predictions.from_logits(logits.detach(), torch.zeros(len(logits), dtype=torch.int64))
    return calibrator.transform(preds).probs()


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("method", LINEAR)
def test_probabilities_are_those_of_transform(method, bias):
    calibrator, model, x = fitted(method), network(bias=bias).eval(), torch.randn(50, 6, dtype=torch.float64)
    expected = transformed(calibrator, model(x))
    layer = copy.deepcopy(model[3])
    folded = fc.fold(calibrator, model[3])
    torch.testing.assert_close(folded(model[:3](x)).softmax(1), expected, atol=1e-12, rtol=0)
    torch.testing.assert_close(model[3].state_dict(), layer.state_dict(), atol=0, rtol=0)
    assert fc.fold_into(model, calibrator) is model
    torch.testing.assert_close(model(x).softmax(1), expected, atol=1e-12, rtol=0)


@settings(max_examples=30)
@given(st.sampled_from(LINEAR), st.integers(2, 7), st.integers(0, 3), st.floats(0.1, 5))
def test_float32_agrees_to_a_millionth(method, classes, seed, scale):
    torch.manual_seed(seed)
    calibrator, layer, x = fitted(method, classes, seed), nn.Linear(5, classes), scale * torch.randn(40, 5)
    found = fc.fold(calibrator, layer)(x).detach().double().softmax(1)
    assert float((found - transformed(calibrator, layer(x).double())).abs().max()) < 1e-6 * max(1, scale)


@pytest.mark.parametrize("method", ["temperature", "platt", "matrix", "structured-vector", "vector"])
def test_one_logit_of_two_classes(method):
    calibrator, layer, x = fitted(method, classes=2), nn.Linear(3, 1).double(), torch.randn(30, 3, dtype=torch.float64)
    found = fc.Predictions.from_logits(fc.fold(calibrator, layer)(x).detach(), [0] * 30).probs()
    torch.testing.assert_close(found, transformed(calibrator, layer(x)), atol=1e-12, rtol=0)
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1)).double()
    expected = transformed(calibrator, model(x))
    fc.fold_into(model, calibrator, example=x)
    torch.testing.assert_close(model(x)[:, 0].sigmoid(), expected[:, 1], atol=1e-12, rtol=0)


@pytest.mark.parametrize("kind", [nn.Conv1d, nn.Conv2d, nn.Conv3d])
def test_convolutions(kind):
    calibrator, layer = fitted("structured-matrix"), kind(3, 4, 2).double()
    x = torch.randn(2, 3, *([5] * (layer.weight.ndim - 2)), dtype=torch.float64)
    expected = calibrator.to_module()(layer(x)).softmax(1)
    torch.testing.assert_close(fc.fold(calibrator, layer)(x).softmax(1), expected, atol=1e-12, rtol=0)
    model = nn.Sequential(layer)
    torch.testing.assert_close(fc.fold_into(model, calibrator, example=x)(x).softmax(1), expected, atol=1e-12, rtol=0)


def test_grouped_convolutions_take_what_keeps_classes_apart():
    layer, x = nn.Conv2d(4, 4, 1, groups=2).double(), torch.randn(2, 4, 3, 3, dtype=torch.float64)
    vector = fitted("vector")
    torch.testing.assert_close(fc.fold(vector, layer)(x), vector.to_module()(layer(x)), atol=1e-12, rtol=0)
    with pytest.raises(ValueError, match="mixes classes, and a grouped convolution keeps them apart"):
        fc.fold(fitted("matrix"), layer)


def test_tokens_with_the_classes_last():
    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.head = nn.Embedding(9, 5), nn.Linear(5, 4)

        def forward(self, tokens):
            return {"logits": self.head(self.embedding(tokens))}

    model, tokens, calibrator = Tagger(), torch.arange(8).reshape(2, 4), fitted("vector")
    expected = calibrator.to_module()(model(tokens)["logits"].movedim(-1, 1)).softmax(1)
    fc.fold_into(model, calibrator, example={"tokens": tokens})
    torch.testing.assert_close(model(tokens)["logits"].softmax(-1).movedim(-1, 1), expected, atol=1e-6, rtol=0)


def test_auto_where_it_chose_one():
    auto = fc.AutoCalibration(combine="choose", keep_argmax=True).fit(sampled_predictions(300, 4, 3.0))
    assert len(auto.members_) == 1
    weight, bias = auto.linear_map()
    assert weight.shape == (4, 4)
    assert bias.shape == (4,)


def test_the_layer_that_runs_last_is_found_by_running():
    class Twisted(nn.Module):
        """Registered in another order than it runs in, with an auxiliary output of the same size."""

        def __init__(self):
            super().__init__()
            self.head, self.body, self.auxiliary, self.act = (
                nn.Linear(5, 4),
                nn.Linear(3, 5),
                nn.Linear(5, 4),
                nn.ReLU(),
            )

        def forward(self, x):
            hidden = self.act(self.body(x))
            self.aside = self.auxiliary(hidden)
            return self.head(hidden)

    model, x, calibrator = Twisted().train(), torch.randn(6, 3), fitted("temperature")
    with pytest.raises(ValueError, match=r"Several layers could be the last one \(head, auxiliary\)"):
        fc.fold_into(model, calibrator)
    before, aside = model(x), model.aside
    fc.fold_into(model, calibrator, example=x)
    torch.testing.assert_close(model(x), before / calibrator.temperature_)
    torch.testing.assert_close(model.aside, aside)
    assert model.training
    fc.fold_into(model, calibrator, layer="auxiliary")
    model(x)
    torch.testing.assert_close(model.aside, aside / calibrator.temperature_)


def test_shared_weights_are_no_longer_shared():
    model = nn.ModuleDict({"embedding": nn.Embedding(4, 3), "output": nn.Linear(3, 4, bias=False)})
    model["output"].weight = model["embedding"].weight
    before = model["embedding"].weight.clone()
    fc.fold_into(model, fitted("temperature"))
    torch.testing.assert_close(model["embedding"].weight.detach(), before.detach(), atol=0, rtol=0)
    assert model["output"].weight is not model["embedding"].weight


@pytest.mark.parametrize("last", [nn.ReLU(), nn.Softmax(1)])
def test_what_follows_the_last_linear_layer_is_noticed(last):
    model, x, calibrator = nn.Sequential(nn.Linear(3, 4), last), torch.randn(8, 3) * 3, fitted("vector")
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(ValueError, match=r"The last layer, '1' \(\w+\), is not a linear one"):
        fc.fold_into(model, calibrator)
    with pytest.raises(ValueError, match="something other than a linear map follows"):
        fc.fold_into(model, calibrator, example=x)
    with pytest.raises(ValueError, match=r"The layer '1' is not linear but \w+"):
        fc.fold_into(model, calibrator, layer="1")
    torch.testing.assert_close(model.state_dict(), before, atol=0, rtol=0)


def test_what_cannot_be_folded():
    for method in NOT_LINEAR:
        with pytest.raises(ValueError, match="cannot be folded into a linear layer"):
            fc.fold(fitted(method), nn.Linear(3, 4))
    scaler = fitted("temperature")
    with pytest.raises(TypeError, match=r"not into ReLU; append calibrator\.to_module"):
        fc.fold(scaler, nn.ReLU())
    with pytest.raises(ValueError, match="fitted on 4 classes, and the layer has 3 outputs"):
        fc.fold(scaler, nn.Linear(3, 3))
    with pytest.raises(ValueError, match="fitted on 4 classes, and the layer has 1 outputs"):
        fc.fold(scaler, nn.Linear(3, 1))
    with pytest.raises(ValueError, match="no linear layer or convolution with 4 outputs"):
        fc.fold_into(nn.Sequential(nn.Linear(2, 3)), scaler)
    with pytest.raises(ValueError, match="no layer 'head'; its linear layers are 0"):
        fc.fold_into(nn.Sequential(nn.Linear(2, 4)), scaler, layer="head")
    with pytest.raises(ValueError, match="a single layer; use fold"):
        fc.fold_into(nn.Linear(2, 4), scaler)
    with pytest.raises(ValueError, match="has no weights yet"):
        fc.fold(scaler, nn.LazyLinear(4))
    with pytest.raises(ValueError, match="does not use a plain weight"):
        fc.fold(scaler, nn.utils.parametrizations.weight_norm(nn.Linear(2, 4)))
    with pytest.raises(TypeError, match="needs a network"):
        fc.fold_into(lambda x: x, scaler)
