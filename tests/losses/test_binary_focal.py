import pytest
import torch
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


def test_binary_errors():
    with pytest.raises(ValueError, match=r"pos_weight of shape \(3,\) does not broadcast"):
        fc.binary_focal_loss(torch.zeros(2), torch.zeros(2), pos_weight=torch.ones(3))
    with pytest.raises(ValueError, match=r"shape \(2,\).*got \(3,\)"):
        fc.binary_focal_loss(torch.zeros(2), torch.zeros(3))
    with pytest.raises(TypeError, match="floating-point"):
        fc.binary_focal_loss(torch.zeros(2).long(), torch.zeros(2))
