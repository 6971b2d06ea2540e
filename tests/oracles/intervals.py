"""Slow, obvious versions: resamples written out row by row, every swap tried, corrections by their definition."""

import inspect
from collections.abc import Callable, Iterator
from itertools import product

import numpy as np
import torch

from focalcal import metrics
from focalcal.metrics.catalogue import METRICS as CATALOGUE
from focalcal.predictions import Predictions


def _on_predictions(name: str) -> Callable[[Predictions, int], float]:
    """The public function, given the number of bins if it takes one."""
    function = getattr(metrics, name)
    with_bins = "bins" in inspect.signature(function).parameters
    return lambda preds, bins=15: function(preds, bins=bins) if with_bins else function(preds)


METRICS = {
    name: _on_predictions(name)
    for name, metric in CATALOGUE.items()
    if metric.has_interval and metric.source != "outputs"
}
LOSS_PARTS = {name: _on_predictions(name) for name, metric in CATALOGUE.items() if metric.source == "outputs"}


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
