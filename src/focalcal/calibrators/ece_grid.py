"""The temperature of a grid with the least ECE, exactly, without trying most of the grid.

The ECE is at least |mean confidence − accuracy| (the bins' gaps are summed without their signs), and each sample's
confidence falls as T grows. So from the T at which the mean confidence meets the accuracy one goes outwards, and once
that lower bound is above the best ECE so far, nothing farther out can be better.
"""

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from focalcal.base.chunks import chunk_rows
from focalcal.metrics.binning import equal_width_sums, mean_gap
from focalcal.metrics.samples import sample_statistics
from focalcal.predictions import Predictions
from focalcal.predictions.masking import answer_classes
from focalcal.temperature import target_gaps

# A block and its exponentials stay in the cache.
_BLOCK_NUMBERS = 2**18
# Rows for the first guess at where the mean confidence meets the accuracy.
_SAMPLE_ROWS = 1024
# Far above what float64 sums lose, far below any difference of ECE that matters.
_SLACK = 1e-9


@dataclass(frozen=True)
class ScaledScores:
    """Per-sample scores of predictions at any temperature; what does not depend on it is worked out once.

    Attributes:
        logits: (N, K).
        maxima: (N, 1), the largest of each row.
        correct: (N,) bool, as in `ConfidenceSamples`.
        weight: (N,) float64, or None.
        behind: (N,) float64, by how much the logit that confidence is of is below the largest of all; None where it
            is the largest itself: where predictions are measured by predicted class and no class is masked.
    """

    logits: Tensor
    maxima: Tensor
    correct: Tensor
    weight: Tensor | None
    behind: Tensor | None = None

    @classmethod
    def of(cls, preds: Predictions) -> "ScaledScores":
        """Return the scores of predictions; soft labels count as their most probable class in ``correct``.

        Examples:
            >>> scores = ScaledScores.of(Predictions.from_logits([[math.log(9.0), 0.0]], [1]))
            >>> scores.correct.tolist(), scores.confidence(temperature=2.0).tolist()
            ([False], [0.75])
        """
        logits = preds.logits()
        top = preds.values.amax(1, keepdim=True)
        maxima = top if preds.kind == "logits" else logits.amax(1, keepdim=True)
        if preds.of != "top":
            behind = (maxima.double() - logits[:, 1:].double()).squeeze(1)
            return cls(logits, maxima, preds.hard_labels == 1, preds.weights, behind)
        if not preds.masked_classes:
            return cls(logits, maxima, _is_first_maximum(preds.values, top, preds.hard_labels), preds.weights)
        correct = sample_statistics(preds).correct
        behind = (maxima.double() - logits[:, answer_classes(preds)].amax(1, keepdim=True).double()).squeeze(1)
        return cls(logits, maxima, correct, preds.weights, behind)

    def every(self, stride: int) -> "ScaledScores":
        """Return the scores of every ``stride``-th sample."""
        weight = None if self.weight is None else self.weight[::stride]
        behind = None if self.behind is None else self.behind[::stride]
        return ScaledScores(self.logits[::stride], self.maxima[::stride], self.correct[::stride], weight, behind)

    def confidence(self, temperature: float) -> Tensor:
        """Return (N,) float64: the largest probability of softmax(z / T) that an answer has, computed in float64."""
        return self._largest(temperature) / self._totals(1.0 / temperature, torch.float64)

    def confidence_and_nll(self, labels: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
        """Return (N,) float64 each, computed in the logits' float type.

        Args:
            labels: (N,) int64, or (N, K) rows of class probabilities.
            temperature: T.
        """
        totals = self._totals(1.0 / temperature, self.logits.dtype)
        nll = totals.log() - target_gaps(self.logits, self.maxima, labels) / temperature
        return self._largest(temperature) / totals, nll

    def _largest(self, temperature: float) -> Tensor | float:
        """Return (N,) exp((z_answer − max z) / T)."""
        return 1.0 if self.behind is None else torch.exp(-self.behind / temperature)

    def _totals(self, beta: float, dtype: torch.dtype) -> Tensor:
        """Return (N,) float64: Σ_k exp(β (z_k − max z)); 1 over it is the top confidence."""
        count, classes = self.logits.shape
        scratch = torch.empty(min(count, chunk_rows(classes, _BLOCK_NUMBERS)), classes, dtype=dtype)
        totals, maxima = torch.empty(count, dtype=torch.float64), self.maxima.to(dtype)
        for start in range(0, count, len(scratch)):
            block = slice(start, start + len(scratch))
            powers = scratch[: len(self.logits[block])].copy_(self.logits[block]).sub_(maxima[block])
            # exp2 is twice as fast as exp in torch on a CPU.
            totals[block] = powers.mul_(beta / math.log(2.0)).exp2_().sum(1)
        return totals


def fit_temperature_on_grid(preds: Predictions, grid: Sequence[float], bins: int) -> float:
    """Return the T of ``grid`` at which softmax(z / T) has the least ECE, the first in the grid's order on ties.

    Args:
        preds: N predictions; soft labels count as their most probable class, weights count.
        grid: Positive temperatures in any order.
        bins: The number of bins.

    Examples:
        >>> preds = Predictions.from_logits([[4.0, 0.0]] * 4, [0, 0, 0, 1])  # right 3 times of 4: T = 3.64 is best
        >>> fit_temperature_on_grid(preds, [1.0, 3.0, 3.7, 5.0], bins=15)
        3.7
    """
    if preds.weights is not None:
        preds = preds.select(preds.weights > 0)
    scores, ascending = ScaledScores.of(preds), sorted(set(grid))
    sample = scores.every(max(1, len(preds) // _SAMPLE_ROWS))
    start = bisect_left(ascending, True, key=lambda temperature: _gap_and_error(sample, temperature, bins)[0] <= 0)
    errors: dict[float, float] = {}
    if scores.behind is not None:  # a confidence that is not the largest grows with T
        errors = {temperature: _gap_and_error(scores, temperature, bins)[1] for temperature in ascending}
        return float(min(grid, key=errors.__getitem__))
    _walk(scores, bins, ascending[start:], errors, outwards=-1)
    _walk(scores, bins, reversed(ascending[:start]), errors, outwards=1)
    # In the order of the user's grid, so that the first minimum is theirs.
    return float(min((temperature for temperature in grid if temperature in errors), key=errors.__getitem__))


def _walk(
    scores: ScaledScores, bins: int, temperatures: Iterable[float], errors: dict[float, float], outwards: int
) -> None:
    """Fill in ``errors`` until the signed gap, growing in direction ``outwards``, rules out everything that follows."""
    for temperature in temperatures:
        gap, errors[temperature] = _gap_and_error(scores, temperature, bins)
        if outwards * gap > min(errors.values()) + _SLACK:
            return


def _gap_and_error(scores: ScaledScores, temperature: float, bins: int) -> tuple[float, float]:
    """Compute mean confidence − accuracy, and ECE, in float64: a rounded confidence could fall into another bin."""
    sums = equal_width_sums(scores.confidence(temperature), scores.correct, bins, scores.weight)
    return float(sums.gap.sum() / sums.count.sum()), mean_gap(sums)


def _is_first_maximum(values: Tensor, top: Tensor, labels: Tensor) -> Tensor:
    """Return (N,) bool: whether argmax, the first of ties, is the label; several times faster than argmax."""
    found = (values.gather(1, labels[:, None]) == top).squeeze(1)
    rows = chunk_rows(values.shape[1], _BLOCK_NUMBERS)
    equal = torch.empty_like(values[:rows])
    ties = torch.empty(len(values), dtype=values.dtype)
    for start in range(0, len(values), rows):
        block = slice(start, start + rows)
        # Comparing into floats and adding those is far faster than counting booleans.
        torch.sum(torch.eq(values[block], top[block], out=equal[: len(values[block])]), 1, out=ties[block])
    tied = (ties > 1).nonzero().squeeze(1)
    found[tied] = values[tied].argmax(1) == labels[tied]
    return found
