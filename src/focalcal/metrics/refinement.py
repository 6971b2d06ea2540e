"""Parts of a loss: miscalibration, and what would be left after repair.

    loss = calibration + refinement,   refinement = min over T of the mean loss of softmax(z / T)

Calibration is what the best temperature takes away; refinement is what it leaves (Berta et al. 2025 estimate it by the
loss after temperature scaling). One number is fitted, on the same n samples, so that the refinement of the NLL is too
low by about 1/(2n) nats and its calibration too high by as much: little from a few hundred samples on. The split sees
what a temperature can repair, over- and under-confidence; what only a richer calibrator could repair counts as
refinement. Bins would see more, but top-label bins do not split the loss of all classes, and bins of every class have a
noise that grows with their number.

For NLL the minimum is found exactly (the problem is convex in 1/T). The Brier score Σ_k (p_k − q_k)² has its own best
temperature, which is not that of the NLL. It is not convex in 1/T, and with a few dozen samples it may have several
minima: we scan a range of T around 1 and the NLL's temperature, on a part of the samples where there are many, and
descend from there. No part is negative: T = 1 is among the candidates.
"""

import math
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from focalcal.base.chunks import chunk_rows
from focalcal.metrics.arguments import prepare_predictions, takes_predictions
from focalcal.metrics.binning import as_number
from focalcal.metrics.samples import SampleStatistics, sample_statistics
from focalcal.metrics.scores import mean_of
from focalcal.metrics.sums import Measurable, Sums, get_sums
from focalcal.predictions import Predictions
from focalcal.temperature import fit_inverse_temperature

_BLOCK_NUMBERS = 2**19
# The search goes over every n-th row, at least this many, before it goes over all of them.
_SCANNED_ROWS, _SAMPLED_ROWS = 512, 8192
_SCAN_STEP, _SCAN_MARGIN = 0.3, 3.0  # in log T
_LOWEST_T, _HIGHEST_T = 1e-4, 1e4
_LONGEST_STEP = 0.7  # in log T: a factor of 2
_MOST_PASSES = 100
_WORTHLESS_GAIN = 1e-12
# A parabola tells the loss after a last step so short up to about its cube, 1e-6, times a tenth of the score.
_LAST_STEP = 0.01
# e^−43 = 2e-19 counts for nothing beside 1, and its square is still a normal float32 (the others are slow).
_LOWEST_EXPONENT = -43.0


@dataclass(frozen=True)
class LossSplit:
    """A mean loss and its two parts.

    Attributes:
        total: The mean loss.
        refinement: The mean loss after the best temperature.
        temperature: That temperature; 1 where none is better than leaving the predictions alone, NaN if undefined.
        around: Each sample's loss next to that temperature with its derivatives in log(1/T), (3, N), if it is at hand.
    """

    total: float
    refinement: float
    temperature: float
    around: Tensor | None = field(default=None, repr=False, compare=False)

    @property
    def calibration(self) -> float:
        """The part that the temperature takes away: total − refinement; NaN where both are infinite."""
        return self.total - self.refinement


def nll_split(preds: Predictions, *, statistics: SampleStatistics | None = None) -> LossSplit:
    """Calibration and refinement of the negative log-likelihood, in nats.

    Args:
        preds: Predictions, with hard or soft labels and optional weights.
        statistics: Their `sample_statistics`, if they are at hand.

    Returns:
        The split. If a label's class has probability 0 the total is infinite. So is then the refinement where the class
        is masked by a logit of −inf (and the calibration is NaN), but not where a probability was given as 0, which
        counts as 1e-38 for the temperature.

    Examples:
        >>> logits = torch.tensor([[4.0, 0.0]]).expand(4, 2)
        >>> split = nll_split(Predictions.from_logits(logits, torch.tensor([0, 0, 0, 1])))  # right in 0.75, says 0.98
        >>> round(split.total, 4), round(split.calibration, 4), round(split.refinement, 4), round(split.temperature, 4)
        (1.0181, 0.4558, 0.5623, 3.641)
    """
    preds, statistics = _samples(preds, statistics)
    return _split_nll(preds, preds.logits(), mean_of(statistics.nll, statistics))


def brier_split(preds: Predictions, *, statistics: SampleStatistics | None = None) -> LossSplit:
    """Calibration and refinement of the Brier score Σ_k (p_k − q_k)²; arguments as in `nll_split`.

    Examples:
        >>> logits = torch.tensor([[4.0, 0.0]]).expand(4, 2)
        >>> split = brier_split(Predictions.from_logits(logits, torch.tensor([0, 0, 0, 1])))
        >>> round(split.total, 4), round(split.refinement, 4)  # a constant forecast of 0.75 scores 2 · 0.75 · 0.25
        (0.4827, 0.375)
    """
    return loss_splits(preds, statistics=statistics).brier


class LossSplits(NamedTuple):
    """Both splits of the same predictions."""

    nll: LossSplit
    brier: LossSplit

    @property
    def parts(self) -> "LossParts":
        """Both losses, and what the best temperatures leave of them."""
        numbers = (self.nll.total, self.nll.refinement, self.brier.total, self.brier.refinement)
        return LossParts(*(torch.tensor(number, dtype=torch.float64) for number in numbers))


class LossParts(NamedTuple):
    """Mean losses, and after the best temperature: () float64 each, or (B,) for B resamples."""

    nll: Tensor
    nll_refinement: Tensor
    brier: Tensor
    brier_refinement: Tensor


def loss_splits(preds: Predictions, *, statistics: SampleStatistics | None = None) -> LossSplits:
    """Compute both splits with as few passes over the outputs as possible; arguments as in `nll_split`."""
    preds, statistics = _samples(preds, statistics)
    logits = preds.logits()
    nll = _split_nll(preds, logits, mean_of(statistics.nll, statistics))
    brier = _split_brier(preds, logits, mean_of(statistics.brier, statistics), nll.temperature)
    return LossSplits(nll, brier)


def _samples(preds: Predictions, statistics: SampleStatistics | None) -> tuple[Predictions, SampleStatistics]:
    if preds.masked_classes:
        raise ValueError("The calibration part of a loss cannot be computed where classes are masked.")
    preds = prepare_predictions(preds)
    return preds, sample_statistics(preds) if statistics is None else statistics


def loss_parts(preds: Measurable) -> LossParts:
    """Split both losses of predictions; sums have the parts."""
    return cast(LossParts, get_sums(preds, "outputs")) if isinstance(preds, Sums) else loss_splits(preds).parts


@takes_predictions
def nll_calibration(preds: Measurable) -> float:
    """Compute what the best temperature takes away from the NLL, in nats (`nll_split`)."""
    return as_number((parts := loss_parts(preds)).nll - parts.nll_refinement)


@takes_predictions
def nll_refinement(preds: Measurable) -> float:
    """Compute the NLL after the best temperature, in nats (`nll_split`)."""
    return as_number(loss_parts(preds).nll_refinement)


@takes_predictions
def brier_calibration(preds: Measurable) -> float:
    """Compute what the best temperature takes away from the Brier score (`brier_split`)."""
    return as_number((parts := loss_parts(preds)).brier - parts.brier_refinement)


@takes_predictions
def brier_refinement(preds: Measurable) -> float:
    """Compute the Brier score after the best temperature (`brier_split`)."""
    return as_number(loss_parts(preds).brier_refinement)


def _split_nll(preds: Predictions, logits: Tensor, total: float) -> LossSplit:
    if math.isinf(total) and preds.kind == "logits":
        return LossSplit(total, math.inf, math.nan)
    fit = fit_inverse_temperature(logits, preds.labels, preds.weights, bounds=(_LOWEST_T, _HIGHEST_T))
    # Near T = 1 rounding may put the fitted loss a hair above the loss itself.
    return LossSplit(total, fit.nll, fit.temperature) if fit.nll <= total else LossSplit(total, total, 1.0)


def _split_brier(preds: Predictions, logits: Tensor, total: float, temperature: float) -> LossSplit:
    objective = _Brier(logits, preds.labels, preds.weights)
    few = objective.rows(len(logits) // min(_SCANNED_ROWS, 1 + _BLOCK_NUMBERS // preds.num_classes))
    found = _scan(few, 0.0 if math.isnan(temperature) else -math.log(temperature))
    some = objective.rows(len(logits) // _SAMPLED_ROWS)
    found = _descend(objective, found.u if some is objective else _descend(some, found.u).u)
    # Both columns of a score have the same squared error, of which its Brier score has one.
    of_both = 1 if preds.of == "top" else 2
    least = found.loss / of_both
    if least > total:
        return LossSplit(total, total, 1.0)
    return LossSplit(total, least, math.exp(-found.u), found.samples / of_both)


class _Point(NamedTuple):
    """A mean Brier score at u = log(1/T), with its derivatives in u; and those of each sample, (3, N)."""

    u: float
    loss: float
    slope: float
    curvature: float
    samples: Tensor


@dataclass(frozen=True)
class _Brier:
    """Mean Brier score as a function of u = log(1/T)."""

    values: Tensor  # (N, K) logits
    labels: Tensor  # (N,) int64 or (N, K) float64
    weights: Tensor | None  # (N,)

    def rows(self, stride: int) -> "_Brier":
        """Return every stride-th row; all rows if those have no weight."""
        weights = None if self.weights is None else self.weights[:: max(stride, 1)]
        if stride <= 1 or (weights is not None and not bool(weights.any())):
            return self
        return _Brier(self.values[::stride], self.labels[::stride], weights)

    def at(self, u: float) -> _Point:
        """Compute loss and both derivatives, in one pass of blocks that stay in the cache."""
        beta, (count, classes) = math.exp(u), self.values.shape
        rows = min(count, chunk_rows(classes, _BLOCK_NUMBERS))
        scratch = self.values.new_empty(3, rows, classes)
        parts = []
        for start in range(0, count, rows):
            block = slice(start, start + rows)
            parts.append(_brier_terms(self.values[block], self.labels[block], beta, scratch))
        samples = _in_log_temperature(torch.cat(parts, dim=1), beta)
        means = samples.mean(1) if self.weights is None else samples @ self.weights / self.weights.sum()
        loss, slope, curvature = means.tolist()
        return _Point(u, loss, slope, curvature, samples)


def losses_around(preds: Predictions, loss: Literal["nll", "brier"], temperature: float) -> Tensor:
    """Compute each sample's loss at a temperature, and its derivatives in u = log(1/T), in one pass: (3, N) float64.

    Args:
        preds: N predictions.
        loss: Which loss.
        temperature: T.
    """
    beta, values, labels = 1 / temperature, preds.logits(), preds.labels
    terms = _nll_terms if loss == "nll" else _brier_terms
    rows = min(len(values), chunk_rows(preds.num_classes, _BLOCK_NUMBERS))
    scratch = values.new_empty(3, rows, preds.num_classes)
    parts = [
        terms(values[start : start + rows], labels[start : start + rows], beta, scratch)
        for start in range(0, len(values), rows)
    ]
    found = _in_log_temperature(torch.cat(parts, dim=1), beta)
    # Both columns of a score have the same squared error, of which its Brier score has one.
    return found / 2 if loss == "brier" and preds.of != "top" else found


def _in_log_temperature(terms: Tensor, beta: float) -> Tensor:
    """Turn losses and their derivatives in β, (3, N), into those in u = log β."""
    value, slope, curvature = terms
    return torch.stack([value, beta * slope, beta * slope + beta * beta * curvature])


def _nll_terms(values: Tensor, labels: Tensor, beta: float, scratch: Tensor) -> Tensor:
    """Return (3, rows) float64: NLL of softmax(β z), and its first and second derivative in β; see `_brier_terms`."""
    gaps, powers, _ = scratch[:, : len(values)]
    torch.sub(values, values.amax(1, keepdim=True), out=gaps)
    if labels.dim() == 1:
        label = gaps.gather(1, labels[:, None])[:, 0].double()
    else:
        label = torch.where(labels > 0, labels * gaps, 0).sum(1).double()
    gaps.clamp_(min=_LOWEST_EXPONENT / beta)
    torch.mul(gaps, beta / math.log(2.0), out=powers).exp2_()
    total, first, second = _moments(powers, gaps)
    mean = first / total
    return torch.stack([total.log() - beta * label, mean - label, second / total - mean * mean])


def _brier_terms(values: Tensor, labels: Tensor, beta: float, scratch: Tensor) -> Tensor:
    """Return (3, rows) float64: Brier score of softmax(β z), and its first and second derivative in β.

    With d = z − max z, p = softmax(βd), m = Σ p d and V = Σ p d² − m²: dp/dβ = p (d − m), d²p/dβ² = p ((d − m)² − V).
    """
    gaps, powers, squares = scratch[:, : len(values)]
    torch.sub(values, values.amax(1, keepdim=True), out=gaps)
    gaps.clamp_(min=_LOWEST_EXPONENT / beta)
    torch.mul(gaps, beta / math.log(2.0), out=powers).exp2_()  # exp2 is twice as fast as exp
    torch.mul(powers, powers, out=squares)
    total = powers.sum(1).double()
    label, constant = _label_moments(labels, powers, gaps)
    _, mean, square = _moments(powers, gaps) / total
    own, label = _centre(_moments(squares, gaps) / total.square(), mean), _centre(label / total, mean)
    variance = square - mean * mean
    slope = 2 * (own[1] - label[1])
    curvature = 4 * own[2] - 2 * variance * own[0] - 2 * (label[2] - variance * label[0])
    return torch.stack([own[0] - 2 * label[0] + constant, slope, curvature])


def _label_moments(labels: Tensor, powers: Tensor, gaps: Tensor) -> tuple[Tensor, Tensor]:
    """Compute moments of powers where the label is (weighted by soft labels q), and Σ q² of each row."""
    if labels.dim() == 1:
        power, gap = (x.gather(1, labels[:, None]).double() for x in (powers, gaps))
        return _moments(power, gap), torch.ones(len(labels), dtype=torch.float64)
    return _moments(labels * powers, gaps), labels.square().sum(1)


def _moments(mass: Tensor, gaps: Tensor) -> Tensor:
    """Return (3, rows) float64: Σ mass, Σ mass·d and Σ mass·d²; `mass` is used up."""
    zeroth = mass.sum(1).double()
    first = mass.mul_(gaps).sum(1).double()
    return torch.stack([zeroth, first, mass.mul_(gaps).sum(1).double()])


def _centre(moments: Tensor, mean: Tensor) -> Tensor:
    """Return the same moments of d − mean."""
    zeroth, first, second = moments
    return torch.stack([zeroth, first - mean * zeroth, second - 2 * mean * first + mean * mean * zeroth])


def _scan(objective: _Brier, u: float) -> _Point:
    """Return the lowest of all minima that a walk from beyond T = 1 to beyond the temperature exp(−u) comes across."""
    low, high = min(u, 0.0) - _SCAN_MARGIN, max(u, 0.0) + _SCAN_MARGIN
    points = [objective.at(x) for x in np.linspace(low, high, 1 + math.ceil((high - low) / _SCAN_STEP)).tolist()]
    losses = [math.inf, *(point.loss for point in points), math.inf]
    lows = [p for p, before, after in zip(points, losses, losses[2:], strict=False) if p.loss <= min(before, after)]
    return min((_descend(objective, point.u) for point in lows), key=lambda found: found.loss)


def _descend(objective: _Brier, start: float) -> _Point:
    """Find a minimum near `start`: Newton steps where the curve is convex, fixed ones downhill elsewhere."""
    point, longest = objective.at(start), _LONGEST_STEP
    for _ in range(_MOST_PASSES):
        step = _step(point, longest)
        if abs(step) < _LAST_STEP or abs(point.slope) * longest < _WORTHLESS_GAIN:
            break
        trial = objective.at(point.u + step)
        if trial.loss <= point.loss:
            point = trial
        else:
            longest = abs(step) / 4
    # The last step is too small to be worth a pass: the derivatives tell what it gains.
    return point._replace(u=point.u + step, loss=point.loss + min(0.5 * point.slope * step, 0.0))


def _step(point: _Point, longest: float) -> float:
    """Change of u towards a minimum, of bounded length and within the range of temperatures."""
    newton = -point.slope / point.curvature if point.curvature > 0 else -math.copysign(math.inf, point.slope)
    step = min(max(newton, -longest), longest)
    return min(max(point.u + step, -math.log(_HIGHEST_T)), -math.log(_LOWEST_T)) - point.u
