import torch

from focalcal.comparison.scoring import Scored
from focalcal.comparison.ties import ties
from focalcal.predictions import Predictions


def _scored(method: str, seed: int, sharpness: float, noise: float = 0.0) -> Scored:
    """Two-class predictions of 2,000 samples whose logit is the true log-odds times ``sharpness``."""
    source = torch.Generator().manual_seed(seed)
    odds = torch.randn(2000, generator=source, dtype=torch.float64)
    labels = (torch.rand(2000, generator=source) < odds.sigmoid()).long()
    logit = sharpness * odds + noise * torch.randn(2000, generator=source, dtype=torch.float64)
    preds = Predictions.from_logits(logit, labels)
    return Scored(method, seed, "last", (preds, preds), 1.0, ())


def test_a_clear_difference_is_no_tie_and_a_small_one_is():
    scored = [_scored("good", 0, 1.0), _scored("same", 0, 1.01), _scored("sharp", 0, 5.0)]
    found = ties(scored, {("nll", "pre"): "good"}, samples=200, level=0.9)
    assert found == {("nll", "pre"): frozenset({"good", "same"})}


def test_a_difference_must_be_shown_for_every_seed():
    scored = [_scored("good", 0, 1.0), _scored("mixed", 0, 5.0), _scored("good", 1, 1.0), _scored("mixed", 1, 1.0)]
    found = ties(scored, {("nll", "pre"): "good"}, samples=200, level=0.9)
    assert found["nll", "pre"] == {"good", "mixed"}


def test_a_loss_is_judged_by_the_seeds_that_it_shares_with_the_best():
    thrice = [_scored(loss, seed, how) for seed in range(3) for loss, how in (("good", 1.0), ("sharp", 5.0))]
    once = [_scored("same", 0, 1.01), _scored("blunt", 0, 0.1)]
    found = ties([*thrice, *once], {("nll", "pre"): "good"}, samples=200, level=0.9)
    assert found["nll", "pre"] == {"good", "same"}
    found = ties([*thrice, *once], {("nll", "pre"): "same"}, samples=200, level=0.9)
    assert found["nll", "pre"] == {"good", "same"}


def test_without_a_seed_in_common_no_difference_is_shown():
    found = ties([_scored("good", 0, 1.0), _scored("sharp", 1, 5.0)], {("nll", "pre"): "good"}, samples=50, level=0.9)
    assert found["nll", "pre"] == {"good", "sharp"}


def test_one_loss_is_alone():
    assert ties([_scored("good", 0, 1.0)], {("ece", "post"): "good"}, samples=50, level=0.9) == {
        ("ece", "post"): frozenset({"good"})
    }
