import pytest
import torch
from torch import nn
from torch.nn import functional

import focalcal as fc
from oracles import losses as oracle

OPTIONS = [
    {},
    {"reduction": "sum"},
    {"reduction": "none"},
    {"label_smoothing": 0.1},
    {"weight": torch.tensor([0.5, 2.0, 1.0, 0.0], dtype=torch.float64)},
]


def value_and_gradient(loss, logits, target):
    z = logits.clone().requires_grad_()
    value = loss(z, target)
    value.sum().backward()
    return value.detach(), z.grad


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("shape", [(6, 4), (3, 4, 5)])
def test_is_pytorchs(options, shape):
    torch.manual_seed(0)
    logits, soft = torch.randn(shape, dtype=torch.float64), torch.softmax(torch.randn(shape, dtype=torch.float64), 1)
    hard = soft.argmax(1)
    hard[0] = -100
    ours, theirs = fc.build_loss("cross-entropy", **options), nn.CrossEntropyLoss(**options)
    for target in (hard, soft):
        for one, other in zip(*(value_and_gradient(loss, logits, target) for loss in (ours, theirs)), strict=True):
            torch.testing.assert_close(one, other)


def test_is_a_cross_entropy_loss():
    loss = fc.build_loss("cross-entropy", reduction="sum", ignore_index=2)
    assert isinstance(loss, nn.CrossEntropyLoss)
    assert (loss.reduction, loss.ignore_index) == ("sum", 2)
    logits, target = torch.randn(5, 3), torch.tensor([0, 2, 1, 1, 2])
    assert loss(input=logits, target=target) == functional.cross_entropy(
        logits, target, reduction="sum", ignore_index=2
    )


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_no_mass_on_a_masked_class_costs_nothing(reduction):
    rows = [[0.5, -1.0, -torch.inf], [2.0, -torch.inf, 0.0], [1.0, 2.0, 3.0]]
    mass = [[0.3, 0.7, 0.0], [1.0, 0.0, 0.0], [0.2, 0.3, 0.5]]
    logits, target = (torch.tensor(some, dtype=torch.float64) for some in (rows, mass))
    value, gradient = value_and_gradient(fc.build_loss("cross-entropy", reduction=reduction), logits, target)
    terms = torch.tensor([oracle.focal_sample(z, q, 0.0) for z, q in zip(rows, mass, strict=True)], dtype=torch.float64)
    torch.testing.assert_close(value, {"mean": terms.mean(), "sum": terms.sum(), "none": terms}[reduction])
    expected = (torch.softmax(logits, 1) - target) / (3 if reduction == "mean" else 1)
    torch.testing.assert_close(gradient, expected)
    assert functional.cross_entropy(logits, target).isnan()  # what it is for


def test_mass_on_a_masked_class_is_infinitely_wrong():
    logits, target = torch.tensor([[0.0, -torch.inf]]), torch.tensor([[0.9, 0.1]])
    assert fc.build_loss("cross-entropy")(logits, target) == torch.inf


def test_compiles_into_one_graph():
    loss = torch.compile(fc.build_loss("cross-entropy"), fullgraph=True, backend="eager")
    logits = torch.randn(4, 3)
    for target in (torch.tensor([0, 1, 2, 1]), torch.softmax(torch.randn(4, 3), 1)):
        torch.testing.assert_close(loss(logits, target), functional.cross_entropy(logits, target))
