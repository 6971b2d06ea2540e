import re

import pytest
import torch
from torch.nn import functional

import focalcal as fc
from focalcal.losses import LOSS_NAMES


@pytest.mark.parametrize("name", [*LOSS_NAMES, "fl-0.5", "ls-0.1"])
def test_every_loss_trains_a_step(name):
    torch.manual_seed(0)
    logits, target = torch.randn(8, 4, requires_grad=True), torch.randint(4, (8,))
    loss = fc.build_loss(name, weight=torch.rand(4), ignore_index=3)(logits, target)
    loss.backward()
    assert loss.isfinite()
    assert logits.grad.abs().sum() > 0


@pytest.mark.parametrize(
    ("name", "reference"),
    [
        ("cross-entropy", lambda z, t: functional.cross_entropy(z, t)),
        ("fl-1", lambda z, t: fc.focal_loss(z, t, 1.0)),
        ("fl-2", lambda z, t: fc.focal_loss(z, t, 2.0)),
        ("fl-3", lambda z, t: fc.focal_loss(z, t, 3.0)),
        ("fl-0.5", lambda z, t: fc.focal_loss(z, t, 0.5)),
        ("ls-0.05", lambda z, t: fc.smoothed_cross_entropy(z, t, 0.05)),
        ("ls-0.1", lambda z, t: fc.smoothed_cross_entropy(z, t, 0.1)),
        ("flsc-531", lambda z, t: fc.focal_loss(z, t, 5.0)),
        ("flsd-53", lambda z, t: fc.focal_loss(z, t, fc.SampleGamma((0.2,), (5.0, 3.0)))),
        ("flsd-532", lambda z, t: fc.focal_loss(z, t, fc.SampleGamma((0.2, 0.5), (5.0, 3.0, 2.0)))),
        ("brier", lambda z, t: fc.brier_loss(z, t)),
    ],
)
def test_names_mean_what_they_say(name, reference):
    logits, target = torch.randn(30, 4), torch.randint(4, (30,))
    torch.testing.assert_close(fc.build_loss(name)(logits, target), reference(logits, target))


def test_schedules_are_scaled_to_the_run():
    assert fc.build_loss("flsc-532").gamma == fc.EpochGamma({0: 5.0, 100: 3.0, 250: 2.0})
    assert fc.build_loss("flsc-532", epochs=50).gamma == fc.EpochGamma({0: 5.0, 14: 3.0, 36: 2.0})


@pytest.mark.parametrize(
    ("name", "nearest"), [("flsd53", "flsd-53"), ("crossentropy", "cross-entropy"), ("Brier", "brier")]
)
def test_unknown_name_suggests_the_nearest(name, nearest):
    with pytest.raises(ValueError, match=f"did you mean '{nearest}'") as caught:
        fc.build_loss(name)
    assert "\n" not in str(caught.value)


def test_an_alpha_beyond_one_is_refused():
    with pytest.raises(ValueError, match=r"^The α of ls-<α> must lie in \[0, 1\), got 1\.5\.$"):
        fc.build_loss("ls-1.5")


@pytest.mark.parametrize("name", ["flsd53", "zzz", "ls-1", "fl-", "fl--1", "fl-1e3", ""])
def test_refusals_end_once(name):
    with pytest.raises(ValueError) as caught:
        fc.build_loss(name)
    assert re.search(r"[^.?][.?]$", str(caught.value))
    assert "?;" not in str(caught.value)


def test_unknown_name_without_a_likeness():
    with pytest.raises(ValueError, match="There is no loss 'zzz'; known are"):
        fc.build_loss("zzz")
