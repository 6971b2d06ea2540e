import statistics

import pytest
import torch

from focalcal.predictions import Predictions
from focalcal.sweeps.loss_table import average_figures, best_losses, find_ties, lines_as_markdown, table_line
from focalcal.sweeps.result_rows import Row
from focalcal.sweeps.scoring import ScoredEpoch


def _rows(loss: str, *values: float) -> list[Row]:
    """Error, and ECE before and after scaling at T = 2, of each seed."""
    rows = []
    for seed, value in enumerate(values):
        head = ("Digits", "MLP", loss, seed, "last")
        rows.append(Row(*head, "error", "", value, value - 1, value + 1))
        rows.append(Row(*head, "ece", "pre", 2 * value, value, 3 * value))
        rows.append(Row(*head, "ece", "post", value / 2, 0.0, value, temperature=2.0 + seed))
    return rows


def test_figures_are_means_over_seeds_with_their_spread():
    found = average_figures(_rows("fl-3", 4.0, 6.0, 8.0))
    assert found["fl-3", "error", ""].value == 6.0
    assert found["fl-3", "error", ""].spread == pytest.approx(statistics.stdev([4, 6, 8]))
    assert found["fl-3", "error", ""].interval is None
    assert found["fl-3", "temperature", ""].value == 3.0


def test_one_seed_has_the_bootstrap_interval():
    figure = average_figures(_rows("fl-3", 4.0))["fl-3", "ece", "pre"]
    assert (figure.spread, figure.interval, figure.uncertainty) == (None, (4.0, 12.0), "[4.00, 12.00]")


def test_best_and_ties_are_marked():
    found = average_figures(_rows("a", 4.0) + _rows("b", 5.0) + _rows("c", 9.0))
    best = best_losses(found, ["a", "b", "c"])
    assert best == {("error", ""): "a", ("ece", "pre"): "a", ("ece", "post"): "a"}
    tied = {("error", ""): frozenset("ab"), ("ece", "pre"): frozenset("a"), ("ece", "post"): frozenset("abc")}
    lines = {loss: table_line(found, loss, best, tied) for loss in "abc"}
    assert lines["a"]["error"].markdown() == "**4.00** [3.00, 5.00]"
    assert lines["b"]["error"].markdown() == "≈5.00 [4.00, 6.00]"
    assert lines["c"]["ece"].markdown().startswith("18.00 → ≈4.50 ")
    assert lines["a"]["nll"].markdown() == "– → –"
    text = lines_as_markdown(lines)
    assert text.count("\n| ") == 4
    assert len({line.count("|") for line in text.splitlines() if line.startswith("|")}) == 1


def _scored(method: str, seed: int, sharpness: float, noise: float = 0.0) -> ScoredEpoch:
    """Two-class predictions of 2,000 samples whose logit is the true log-odds times ``sharpness``."""
    source = torch.Generator().manual_seed(seed)
    odds = torch.randn(2000, generator=source, dtype=torch.float64)
    labels = (torch.rand(2000, generator=source) < odds.sigmoid()).long()
    logit = sharpness * odds + noise * torch.randn(2000, generator=source, dtype=torch.float64)
    preds = Predictions.from_logits(logit, labels)
    return ScoredEpoch(method, seed, "last", (preds, preds), 1.0, ())


def test_a_clear_difference_is_no_tie_and_a_small_one_is():
    scored = [_scored("good", 0, 1.0), _scored("same", 0, 1.01), _scored("sharp", 0, 5.0)]
    found = find_ties(scored, {("nll", "pre"): "good"}, bootstrap=200, level=0.9)
    assert found == {("nll", "pre"): frozenset({"good", "same"})}


def test_a_difference_must_be_shown_for_every_seed():
    scored = [_scored("good", 0, 1.0), _scored("mixed", 0, 5.0), _scored("good", 1, 1.0), _scored("mixed", 1, 1.0)]
    found = find_ties(scored, {("nll", "pre"): "good"}, bootstrap=200, level=0.9)
    assert found["nll", "pre"] == {"good", "mixed"}


def test_a_loss_is_judged_by_the_seeds_that_it_shares_with_the_best():
    thrice = [_scored(loss, seed, how) for seed in range(3) for loss, how in (("good", 1.0), ("sharp", 5.0))]
    once = [_scored("same", 0, 1.01), _scored("blunt", 0, 0.1)]
    found = find_ties([*thrice, *once], {("nll", "pre"): "good"}, bootstrap=200, level=0.9)
    assert found["nll", "pre"] == {"good", "same"}
    found = find_ties([*thrice, *once], {("nll", "pre"): "same"}, bootstrap=200, level=0.9)
    assert found["nll", "pre"] == {"good", "same"}


def test_without_a_seed_in_common_no_difference_is_shown():
    found = find_ties(
        [_scored("good", 0, 1.0), _scored("sharp", 1, 5.0)], {("nll", "pre"): "good"}, bootstrap=50, level=0.9
    )
    assert found["nll", "pre"] == {"good", "sharp"}


def test_one_loss_is_alone():
    assert find_ties([_scored("good", 0, 1.0)], {("ece", "post"): "good"}, bootstrap=50, level=0.9) == {
        ("ece", "post"): frozenset({"good"})
    }
