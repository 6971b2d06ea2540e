"""Our modules stand where PyTorch's stand: they are subclasses, with the same attributes, state and calls."""

import copy
import pickle

import pytest
import torch
from torch import nn

import focalcal as fc

MODULES = [fc.FocalLoss, fc.BrierLoss, fc.MMCELoss, fc.LabelSmoothingLoss]


@pytest.mark.parametrize("module", MODULES)
def test_is_a_cross_entropy_loss_with_its_attributes(module):
    weight = torch.tensor([1.0, 2.0, 3.0])
    ours, theirs = (kind(weight=weight, ignore_index=2, reduction="sum") for kind in (module, nn.CrossEntropyLoss))
    assert isinstance(ours, nn.CrossEntropyLoss)
    for name in ("ignore_index", "reduction", "label_smoothing"):
        assert getattr(ours, name) == getattr(theirs, name)
    assert ours.state_dict().keys() == theirs.state_dict().keys() == {"weight"}
    assert ours.to(torch.float64).weight.dtype == torch.float64


@pytest.mark.parametrize("name", fc.losses.LOSS_NAMES)
def test_every_named_loss_is_a_cross_entropy_loss(name):
    assert isinstance(fc.build_loss(name), nn.CrossEntropyLoss)


@pytest.mark.parametrize("module", [*MODULES, fc.BinaryFocalLoss])
def test_copies_compute_the_same(module):
    loss = module()
    shape = (6,) if module is fc.BinaryFocalLoss else (6, 3)
    logits, target = torch.randn(shape), torch.randint(2, (6,))
    for twin in (copy.deepcopy(loss), copy.copy(loss), pickle.loads(pickle.dumps(loss))):
        assert twin(logits, target) == loss(logits, target)


@pytest.mark.parametrize("module", MODULES)
def test_a_reduction_can_be_changed_afterwards(module):
    logits, target = torch.randn(6, 3), torch.randint(3, (6,))
    loss = module()
    loss.reduction = "sum"
    torch.testing.assert_close(loss(logits, target), module(reduction="sum")(logits, target))


@pytest.mark.parametrize("name", ["fl-2", "fl-0.5", "flsd-53", "flsd-532", "flsc-531", "flsc-532"])
def test_names_of_focal_losses(name):
    assert fc.FocalLoss(name).gamma == fc.build_loss(name).gamma == fc.BinaryFocalLoss(name).gamma
    assert fc.FocalLoss(name, label_smoothing=0.1, reduction="none").reduction == "none"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("brier", r"^brier is not a focal loss, so it has no γ; build_loss\('brier'\) makes it\.$"),
        ("ls-0.05", r"^ls-0\.05 is not a focal loss"),
        ("flsd53", r"^There is no loss 'flsd53'; did you mean 'flsd-53'\?$"),
        ("ls-2", r"^The α of ls-<α> must lie in \[0, 1\), got 2\.$"),
    ],
)
def test_other_names_are_refused(name, said):
    with pytest.raises(ValueError, match=said):
        fc.FocalLoss(name)
