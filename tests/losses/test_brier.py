import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

import focalcal as fc
from oracles import losses as oracle


@settings(max_examples=50, deadline=None)
@given(
    st.integers(2, 5).flatmap(
        lambda k: st.lists(st.lists(st.floats(-50, 50), min_size=k, max_size=k), min_size=1, max_size=6)
    ),
    st.randoms(use_true_random=False),
)
def test_follows_the_formula(rows, random):
    classes = len(rows[0])
    labels = [random.randrange(classes) for _ in rows]
    onehot = [[float(k == y) for k in range(classes)] for y in labels]
    expected = [oracle.brier_sample(z, q) for z, q in zip(rows, onehot, strict=True)]
    logits = torch.tensor(rows, dtype=torch.float64)
    hard = fc.brier_loss(logits, torch.tensor(labels), reduction="none")
    soft = fc.brier_loss(logits, torch.tensor(onehot, dtype=torch.float64), reduction="none")
    assert hard.tolist() == pytest.approx(expected, abs=1e-12)
    assert soft.tolist() == pytest.approx(expected, abs=1e-12)
    mean = fc.BrierLoss()(logits, torch.tensor(labels))
    assert mean.item() == pytest.approx(sum(expected) / len(expected), abs=1e-12)


def test_weights_and_ignored_targets_mean_what_they_mean_in_cross_entropy():
    torch.manual_seed(0)
    logits, target, weight = torch.randn(4, 3, 2), torch.randint(3, (4, 2)), torch.rand(3)
    target[0, 0] = -100
    terms = fc.brier_loss(logits, target, reduction="none")
    assert terms.shape == (4, 2)
    assert terms[0, 0] == 0
    valid = target != -100
    torch.testing.assert_close(fc.brier_loss(logits, target), terms.sum() / valid.sum())
    by_class = weight[target.clamp(min=0)] * valid
    ours = fc.BrierLoss(weight=weight)(logits, target)
    torch.testing.assert_close(ours, (terms * by_class).sum() / by_class.sum())
    onehot = functional.one_hot(target.clamp(min=0), 3).movedim(-1, 1).float()
    soft = fc.brier_loss(logits, onehot, weight=weight, reduction="none")
    torch.testing.assert_close(soft[1:], (terms * by_class)[1:])


def test_gradient_is_finite_at_the_ends_and_right():
    logits = torch.tensor([[1e4, 0.0, -math.inf], [0.0, 0.0, -1e4]], requires_grad=True)
    fc.brier_loss(logits, torch.tensor([1, 0])).backward()
    assert logits.grad.isfinite().all()
    z = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda z: fc.brier_loss(z, torch.tensor([0, 3, 1])), z)


def test_errors_are_one_sentence():
    with pytest.raises(ValueError, match="Target 7 is out of range"):
        fc.brier_loss(torch.zeros(1, 3), torch.tensor([7]))
    with pytest.raises(ValueError, match="reduction must be"):
        fc.BrierLoss(reduction="median")


@pytest.mark.slow
def test_compiles():
    compiled = torch.compile(fc.BrierLoss(), fullgraph=True, backend="aot_eager")
    logits, target = torch.randn(5, 3), torch.randint(3, (5,))
    torch.testing.assert_close(compiled(logits, target), fc.brier_loss(logits, target))
