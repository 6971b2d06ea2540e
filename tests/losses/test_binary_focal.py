import pytest
import torch
from torch import nn
from torch.nn import functional

import focalcal as fc
from focal_cases import POLICIES, with_gradient


@pytest.mark.parametrize("gamma", POLICIES, ids=str)
def test_binary_is_the_two_class_form(gamma):
    torch.manual_seed(7)
    logit, target = torch.randn(3, 4, dtype=torch.float64) * 5, torch.randint(2, (3, 4))
    pairs = torch.stack([torch.zeros_like(logit), logit], 1)
    for reduction in ("none", "mean", "sum"):
        ours = with_gradient(lambda z, r=reduction: fc.binary_focal_loss(z, target, gamma, reduction=r), logit)
        expected = with_gradient(lambda z, r=reduction: fc.focal_loss(z, target, gamma, reduction=r), pairs)
        torch.testing.assert_close(ours[0], expected[0])
        torch.testing.assert_close(ours[1], expected[1][:, 1])


def test_binary_at_gamma_0_is_binary_cross_entropy():
    logit, target = torch.randn(20), torch.rand(20)
    reference = functional.binary_cross_entropy_with_logits
    torch.testing.assert_close(fc.binary_focal_loss(logit, target, 0.0), reference(logit, target))
    weight = torch.tensor(2.5)
    ours = fc.binary_focal_loss(logit, target, 0.0, pos_weight=weight)
    torch.testing.assert_close(ours, reference(logit, target, pos_weight=weight))


def test_binary_of_a_scalar_and_second_derivatives():
    logit = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    assert fc.binary_focal_loss(logit, torch.tensor(1.0)).shape == ()
    assert torch.autograd.gradgradcheck(lambda z: fc.binary_focal_loss(z, torch.tensor(0.7).double(), 2.0), logit)


def test_gamma_can_be_changed_on_the_module():
    loss, logits, target = fc.FocalLoss(5.0), torch.randn(4, 3), torch.tensor([0, 1, 2, 0])
    loss.gamma = fc.FixedGamma(1.0)
    assert loss(logits, target) == fc.focal_loss(logits, target, 1.0)


def test_class_weights_that_fit_nothing_are_refused_at_construction():
    for weight in (torch.ones(1), torch.ones(2, 2)):
        with pytest.raises(ValueError, match="at least 2 classes"):
            fc.FocalLoss(weight=weight)
    with pytest.raises(ValueError, match="not differentiated"):
        fc.BrierLoss(weight=torch.ones(2, requires_grad=True))


def usual_formula(logit, target, gamma, alpha):
    """The binary focal loss as it was first published: α_t (1 − p_t)^γ times the cross-entropy."""
    p = logit.sigmoid()
    p_t = torch.where(target == 1, p, 1 - p)
    alpha_t = torch.where(target == 1, alpha, 1 - alpha)
    return alpha_t * (1 - p_t) ** gamma * -p_t.log()


@pytest.mark.parametrize("alpha", [0.0, 0.25, 0.5, 1.0])
@pytest.mark.parametrize("gamma", [0.0, 2.0, 3.5])
def test_alpha_is_the_usual_one(gamma, alpha):
    logit, target = torch.randn(3, 5, dtype=torch.float64), torch.randint(2, (3, 5))
    expected = usual_formula(logit, target, gamma, alpha)
    torch.testing.assert_close(fc.binary_focal_loss(logit, target, gamma, alpha=alpha, reduction="none"), expected)
    module = fc.BinaryFocalLoss(gamma, alpha=alpha, reduction="sum")
    torch.testing.assert_close(module(logit, target), expected.sum())


def test_the_module_is_a_bce_with_logits_loss():
    logit, target = torch.randn(4, 3), torch.rand(4, 3)
    weight = torch.tensor([1.0, 2.0, 3.0])
    ours = fc.BinaryFocalLoss(0.0, pos_weight=weight)
    assert isinstance(ours, nn.BCEWithLogitsLoss)
    assert ours.state_dict().keys() == {"pos_weight"}
    torch.testing.assert_close(ours(logit, target), nn.BCEWithLogitsLoss(pos_weight=weight)(logit, target))
    one = fc.BinaryFocalLoss(2.0, pos_weight=3.0)
    torch.testing.assert_close(one(logit, target), fc.binary_focal_loss(logit, target, 2.0, pos_weight=3.0))


def test_the_module_follows_a_schedule():
    loss, logit, target = fc.BinaryFocalLoss(fc.EpochGamma({0: 5.0, 2: 1.0})), torch.randn(9), torch.ones(9)
    for epoch, gamma in ((0, 5.0), (1, 5.0), (2, 1.0)):
        loss.set_epoch(epoch)
        assert loss(logit, target) == fc.binary_focal_loss(logit, target, gamma)
    with pytest.raises(ValueError, match="counted from 0"):
        loss.set_epoch(-1)


def test_the_module_compiles_and_shows_itself():
    loss, logit, target = fc.BinaryFocalLoss("flsd-53", alpha=0.25), torch.randn(9), torch.ones(9)
    compiled = torch.compile(loss, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(logit, target), loss(logit, target))
    assert "alpha=0.25, reduction='mean'" in repr(loss)


def test_binary_errors():
    for alpha in (-0.1, 1.5, float("nan")):
        with pytest.raises(ValueError, match=r"alpha must lie in \[0, 1\]"):
            fc.binary_focal_loss(torch.zeros(2), torch.zeros(2), alpha=alpha)
        with pytest.raises(ValueError, match=r"alpha must lie in \[0, 1\]"):
            fc.BinaryFocalLoss(alpha=alpha)
    with pytest.raises(ValueError, match=r"pos_weight of shape \(3,\) does not broadcast"):
        fc.binary_focal_loss(torch.zeros(2), torch.zeros(2), pos_weight=torch.ones(3))
    with pytest.raises(ValueError, match=r"shape \(2,\).*got \(3,\)"):
        fc.binary_focal_loss(torch.zeros(2), torch.zeros(3))
    with pytest.raises(TypeError, match="floating-point"):
        fc.binary_focal_loss(torch.zeros(2).long(), torch.zeros(2))
