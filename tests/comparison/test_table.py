import statistics

import pytest

from focalcal.comparison.rows import Row
from focalcal.comparison.table import best_losses, cells, figures, markdown


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
    found = figures(_rows("fl-3", 4.0, 6.0, 8.0))
    assert found["fl-3", "error", ""].value == 6.0
    assert found["fl-3", "error", ""].spread == pytest.approx(statistics.stdev([4, 6, 8]))
    assert found["fl-3", "error", ""].interval is None
    assert found["fl-3", "temperature", ""].value == 3.0


def test_one_seed_has_the_bootstrap_interval():
    figure = figures(_rows("fl-3", 4.0))["fl-3", "ece", "pre"]
    assert (figure.spread, figure.interval, figure.uncertainty) == (None, (4.0, 12.0), "[4.00, 12.00]")


def test_best_and_ties_are_marked():
    found = figures(_rows("a", 4.0) + _rows("b", 5.0) + _rows("c", 9.0))
    best = best_losses(found, ["a", "b", "c"])
    assert best == {("error", ""): "a", ("ece", "pre"): "a", ("ece", "post"): "a"}
    tied = {("error", ""): frozenset("ab"), ("ece", "pre"): frozenset("a"), ("ece", "post"): frozenset("abc")}
    lines = {loss: cells(found, loss, best, tied) for loss in "abc"}
    assert lines["a"]["error"].markdown() == "**4.00** [3.00, 5.00]"
    assert lines["b"]["error"].markdown() == "≈5.00 [4.00, 6.00]"
    assert lines["c"]["ece"].markdown().startswith("18.00 → ≈4.50 ")
    assert lines["a"]["nll"].markdown() == "– → –"
    text = markdown(lines, "How to read it.")
    assert text.count("\n| ") == 4
    assert len({line.count("|") for line in text.splitlines() if line.startswith("|")}) == 1
