"""Slow, obvious versions: resamples written out row by row, every swap tried, corrections by their definition."""

from collections.abc import Callable, Iterator
from itertools import product

import numpy as np
import torch

from focalcal.metrics.calibration_error import ada_ece, classwise_ece, ece, mce
from focalcal.metrics.debiased import debiased_ece
from focalcal.metrics.refinement import brier_calibration, brier_refinement, nll_calibration, nll_refinement
from focalcal.metrics.scores import (
    accuracy,
    brier,
    confident_accuracy,
    confident_share,
    error,
    mean_confidence,
    mean_entropy,
    nll,
    signed_gap,
    top_k_accuracy,
)
from focalcal.metrics.smooth import smooth_ece
from focalcal.predictions import Predictions

METRICS: dict[str, Callable[[Predictions, int], float]] = {
    "error": lambda p, _: error(p),
    "accuracy": lambda p, _: accuracy(p),
    "top_5_accuracy": lambda p, _: top_k_accuracy(p, 5),
    "nll": lambda p, _: nll(p),
    "brier": lambda p, _: brier(p),
    "ece": ece,
    "mce": mce,
    "ada_ece": ada_ece,
    "classwise_ece": classwise_ece,
    "debiased_ece": debiased_ece,
    "smooth_ece": lambda p, _: smooth_ece(p),
    "confident_share": lambda p, _: confident_share(p),
    "confident_accuracy": lambda p, _: confident_accuracy(p),
    "mean_confidence": lambda p, _: mean_confidence(p),
    "mean_confidence_right": lambda p, _: mean_confidence(p, "right"),
    "mean_confidence_wrong": lambda p, _: mean_confidence(p, "wrong"),
    "mean_entropy": lambda p, _: mean_entropy(p),
    "mean_entropy_right": lambda p, _: mean_entropy(p, "right"),
    "mean_entropy_wrong": lambda p, _: mean_entropy(p, "wrong"),
    "signed_gap": lambda p, _: signed_gap(p),
}
LOSS_PARTS: dict[str, Callable[[Predictions], float]] = {
    "nll_calibration": nll_calibration,
    "nll_refinement": nll_refinement,
    "brier_calibration": brier_calibration,
    "brier_refinement": brier_refinement,
}


def written_out(preds: Predictions, counts: np.ndarray) -> Predictions:
    """The resample itself: every row as often as it is counted."""
    return preds.select(np.repeat(np.arange(len(preds)), counts).tolist())


def swapped(a: Predictions, b: Predictions, swap: tuple[int, ...]) -> tuple[Predictions, Predictions]:
    """Both sets of predictions (of one kind), with the rows where ``swap`` is 1 exchanged."""
    chosen = torch.tensor(swap, dtype=torch.bool)[:, None]
    return (
        a.with_values(torch.where(chosen, b.values, a.values), a.kind),
        b.with_values(torch.where(chosen, a.values, b.values), b.kind),
    )


def all_differences(name: str, a: Predictions, b: Predictions, bins: int) -> Iterator[float]:
    """metric(a) − metric(b) after every one of the 2^N ways of swapping; without a swap first."""
    for swap in product((0, 1), repeat=len(a)):
        first, second = swapped(a, b, swap)
        yield METRICS[name](first, bins) - METRICS[name](second, bins)


def exact_p_value(name: str, a: Predictions, b: Predictions, bins: int) -> float:
    differences = list(all_differences(name, a, b, bins))
    hits = [not abs(d) < abs(differences[0]) - 1e-12 for d in differences]
    return float("nan") if np.isnan(differences[0]) else sum(hits) / len(hits)


def holm_rejects(p_values: list[float], level: float) -> list[bool]:
    """Holm's procedure as stated: from the smallest p on, reject while p ≤ level / (number not yet rejected)."""
    rejected = [False] * len(p_values)
    for done, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        if p_values[place] > level / (len(p_values) - done):
            break
        rejected[place] = True
    return rejected
