import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

import focalcal as fc
from oracles import losses as oracle


@settings(max_examples=50, deadline=None)
@given(
    st.integers(2, 6).flatmap(lambda k: st.lists(st.floats(-30, 30), min_size=k, max_size=k)),
    st.floats(0, 0.5),
    st.randoms(use_true_random=False),
)
def test_spreads_alpha_over_the_other_classes(row, alpha, random):
    label = random.randrange(len(row))
    onehot = [float(k == label) for k in range(len(row))]
    expected = oracle.focal_sample(row, oracle.smooth_paper(onehot, alpha), 0.0)
    logits = torch.tensor([row], dtype=torch.float64)
    ours = fc.smoothed_cross_entropy(logits, torch.tensor([label]), alpha)
    assert ours.item() == pytest.approx(expected, rel=1e-9, abs=1e-12)
    soft = [random.random() for _ in row]
    expected = oracle.focal_sample(row, oracle.smooth_paper(soft, alpha), 0.0)
    ours = fc.LabelSmoothingLoss(alpha)(logits, torch.tensor([soft], dtype=torch.float64))
    assert ours.item() == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_is_not_pytorchs_smoothing():
    logits, target = torch.randn(6, 4), torch.randint(4, (6,))
    paper, pytorch = (
        fc.smoothed_cross_entropy(logits, target, 0.1),
        functional.cross_entropy(logits, target, label_smoothing=0.1),
    )
    assert not torch.isclose(paper, pytorch)
    torch.testing.assert_close(paper, functional.cross_entropy(logits, target, label_smoothing=0.1 * 4 / 3))


def test_alpha_0_is_cross_entropy_with_every_option():
    logits, target, weight = torch.randn(6, 4, 2), torch.randint(4, (6, 2)), torch.rand(4)
    for reduction in ("none", "mean", "sum"):
        ours = fc.LabelSmoothingLoss(0.0, weight=weight, ignore_index=1, reduction=reduction)(logits, target)
        theirs = functional.cross_entropy(logits, target, weight=weight, ignore_index=1, reduction=reduction)
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("alpha", [-0.1, 1.0, float("nan")])
def test_alpha_outside_its_range(alpha):
    with pytest.raises(ValueError, match="alpha must lie"):
        fc.LabelSmoothingLoss(alpha)


def test_alpha_beyond_what_the_classes_allow():
    with pytest.raises(ValueError, match=r"at most \(K − 1\)/K = 0.5 for 2 classes, got 0.6"):
        fc.smoothed_cross_entropy(torch.zeros(1, 2), torch.tensor([0]), 0.6)
