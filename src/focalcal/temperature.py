"""The temperature that minimises the negative log-likelihood: one number, found in a few passes over the logits.

With β = 1/T and d = z − max z, the loss of a sample is log Σ_k exp(β d_k) − β d_y. Its mean is convex in β,
with first derivative E_p[d] − d_y and second derivative Var_p[d], where p = softmax(β d). The sums Σ e, Σ e·d and
Σ e·d² of one pass give the loss and both derivatives; the label's part is linear in β and is summed once.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, cast

import torch
from torch import Tensor

from focalcal.base.chunks import chunk_rows, chunks

Bound = Literal["lower", "upper"]

# Two scratch blocks of this many numbers stay in the cache while seven operations go over them; with much smaller
# ones, threads would wait for each other more often than they work.
_BLOCK_NUMBERS = 2**19
# The first guess comes from this many rows; its error of a few percent is what the first full pass starts from.
_SAMPLE_ROWS = 1024
# A step may change T by at most this factor's logarithm: the curve is flat far from the optimum, and Newton overshoots.
_LONGEST_STEP = math.log(30.0)
_TOLERANCE = 1e-11
_MOST_PASSES = 100


@dataclass(frozen=True)
class TemperatureFit:
    """Result of the search.

    Attributes:
        inverse_temperature: β = 1/T, positive and finite.
        nll: Mean negative log-likelihood at that temperature, in nats.
        passes: Full passes over the values that were needed.
        bound: "lower" or "upper" if the best T lies at or beyond that bound, else None.
    """

    inverse_temperature: float
    nll: float
    passes: int
    bound: Bound | None

    @property
    def temperature(self) -> float:
        """T = 1/β."""
        return 1.0 / self.inverse_temperature


class LogitRows(Protocol):
    """Logits (N, K) that are computed row by row when they are asked for, as (N, K) tensors are sliced.

    Every pass of the search asks for all of them again, a block at a time, so that they are never held together.
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """N and K."""

    def __getitem__(self, rows: slice) -> Tensor:
        """Return (n, K) logits of some rows, float32 or float64."""


def fit_inverse_temperature(
    values: Tensor | LogitRows,
    labels: Tensor,
    weights: Tensor | None = None,
    *,
    bounds: tuple[float, float] = (1e-4, 1e4),
) -> TemperatureFit:
    """Find β = 1/T that minimises the mean NLL of softmax(β · values).

    A Newton iteration on log β, kept inside the bracket that the signs of the derivative give, started from the optimum
    of a subsample and finished by cubic interpolation. No learning rate, no random number; never negative.

    Args:
        values: (N, K) logits or log-probabilities, float32 or float64; −inf marks a masked class. They may be rows that
            are computed when they are asked for; then labels are numbers and there are no weights of 0.
        labels: (N,) int64, or (N, K) rows of class probabilities.
        weights: (N,) non-negative weights of the samples.
        bounds: The smallest and largest T that may be returned.

    Returns:
        The β, the NLL there, and whether T stopped at a bound, which it does where there is no finite optimum: at the
        lower one if the label always has the largest value, at the upper one if the values do not speak for the labels.

    Raises:
        ValueError: if a label has a masked class, a value is NaN, or no weight is positive.

    Examples:
        >>> values = torch.tensor([[4.0, 0.0], [4.0, 0.0], [4.0, 0.0], [4.0, 0.0]])
        >>> fit = fit_inverse_temperature(values, torch.tensor([0, 0, 0, 1]))  # 3 of 4 right: softmax must say 0.75
        >>> round(fit.temperature, 6), round(4 / math.log(3), 6)
        (3.640957, 3.640957)
    """
    low, high = bounds
    if not 0 < low < high < math.inf:
        raise ValueError(f"bounds must be two numbers 0 < low < high of the temperature, not {bounds}.")
    objective = _Objective.of(values, labels, weights)
    if objective.is_constant():
        return objective.at_bound(high, "upper")
    if objective.is_separable():
        return objective.at_bound(low, "lower")
    return _search(objective, _first_guess(objective), -math.log(high), -math.log(low))


@dataclass(frozen=True)
class NllSums:
    """Sums over samples of the NLL of softmax(β z) and of its derivatives in β; those of parts of the data add up.

    Attributes:
        mass: Total weight.
        nll, slope, curvature: Σ of the NLL, its first and its second derivative, each times the sample's weight.
        is_separable: Whether the label always has the largest value.
        is_constant: Whether all values of each row are equal.
    """

    mass: float = 0.0
    nll: float = 0.0
    slope: float = 0.0
    curvature: float = 0.0
    is_separable: bool = True
    is_constant: bool = True

    @classmethod
    def of(cls, values: Tensor, labels: Tensor, weights: Tensor | None, inverse_temperature: float) -> "NllSums":
        """Add up samples; the arguments are those of `fit_inverse_temperature`."""
        mass = float(values.shape[0]) if weights is None else float(weights.double().sum())
        if mass == 0:
            return cls()
        objective = _Objective.of(values, labels, weights)
        point = objective.at(math.log(inverse_temperature))
        nll, slope, curvature = (mass * mean for mean in (point.nll, point.slope, point.curvature))
        return cls(mass, nll, slope, curvature, objective.is_separable(), objective.is_constant())

    def __add__(self, other: "NllSums") -> "NllSums":
        return NllSums(
            self.mass + other.mass,
            self.nll + other.nll,
            self.slope + other.slope,
            self.curvature + other.curvature,
            self.is_separable and other.is_separable,
            self.is_constant and other.is_constant,
        )


def fit_on_sums(
    sums_at: Callable[[float], NllSums], *, guess: float = 1.0, bounds: tuple[float, float] = (1e-4, 1e4)
) -> TemperatureFit:
    """Find β as `fit_inverse_temperature` does, of data that only sums are known of.

    Args:
        sums_at: Adds up all samples at a β; called some five times.
        guess: A first β.
        bounds: The smallest and largest T that may be returned.

    Examples:
        >>> values, labels = torch.tensor([[4.0, 0.0]]).expand(4, 2), torch.tensor([0, 0, 0, 1])
        >>> round(fit_on_sums(lambda beta: NllSums.of(values, labels, None, beta)).temperature, 6)
        3.640957
    """
    low, high = bounds
    first = sums_at(guess)
    if first.mass == 0:
        raise ValueError("There is no sample with a positive weight to fit a temperature on.")
    if first.is_separable:
        temperature, bound = (high, "upper") if first.is_constant else (low, "lower")
        at_bound = sums_at(1.0 / temperature)
        return TemperatureFit(1.0 / temperature, at_bound.nll / at_bound.mass, 2, cast(Bound, bound))
    return _search(_Summed(sums_at, {math.log(guess): first}), math.log(guess), -math.log(high), -math.log(low))


def _blocks(values: Tensor | LogitRows) -> Iterator[slice]:
    return chunks(values.shape[0], values.shape[1], _BLOCK_NUMBERS)


class _Point(NamedTuple):
    """The objective at u = log β."""

    u: float
    nll: float
    slope: float  # of the NLL in β
    curvature: float  # of the NLL in β, twice

    @property
    def slope_change(self) -> float:
        """Derivative of the slope in u."""
        return math.exp(self.u) * self.curvature


class _Curve(Protocol):
    """The mean NLL as a function of u = log β."""

    def at(self, u: float) -> _Point:
        """Compute loss and both derivatives at β = exp(u)."""


@dataclass(frozen=True)
class _Summed:
    """The mean NLL by sums that others add up; those at some u are known already."""

    sums_at: Callable[[float], NllSums]
    known: dict[float, NllSums]

    def at(self, u: float) -> _Point:
        sums = self.known.pop(u, None) or self.sums_at(math.exp(u))
        return _Point(u, sums.nll / sums.mass, sums.slope / sums.mass, sums.curvature / sums.mass)


@dataclass(frozen=True)
class _Objective:
    """Mean NLL as a function of β, with what does not depend on β worked out once."""

    values: Tensor | LogitRows  # (N, K)
    maxima: Tensor  # (N, 1)
    targets: Tensor  # (N,) float64: d_y, or its mean under soft labels
    weights: Tensor | None  # (N,) float64, sum 1

    @classmethod
    def of(cls, values: Tensor | LogitRows, labels: Tensor, weights: Tensor | None) -> "_Objective":
        if weights is not None:
            if isinstance(values, Tensor) and bool((weights == 0).any()):
                keep = weights > 0
                values, labels, weights = values[keep], labels[keep], weights[keep]
            weights = weights.double() / weights.double().sum()
        if values.shape[0] == 0:
            raise ValueError("There is no sample with a positive weight to fit a temperature on.")
        if isinstance(values, Tensor):
            maxima = values.amax(1, keepdim=True)
            targets = target_gaps(values, maxima, labels)
        else:
            maxima, targets = _streamed_gaps(values, labels)
        _reject_infinite_loss(targets)
        return cls(values, maxima, targets, weights)

    def rows(self, stride: int) -> "_Objective":
        """Return every stride-th row, with copies of the values."""
        weights = None if self.weights is None else self.weights[::stride] / self.weights[::stride].sum()
        return _Objective(self.values[::stride].contiguous(), self.maxima[::stride], self.targets[::stride], weights)

    def mean(self, terms: Tensor, start: int = 0) -> float:
        """Return the part of a weighted mean over all rows that the rows from `start` on contribute."""
        if self.weights is None:
            return float(terms.sum()) / self.values.shape[0]
        return float(terms @ self.weights[start : start + len(terms)])

    def is_separable(self) -> bool:
        return not bool(self.targets.any())

    def is_constant(self) -> bool:
        return not bool(self.targets.any()) and all(
            bool((self.values[block] == self.maxima[block]).all()) for block in _blocks(self.values)
        )

    def mean_gap(self) -> float:
        """Compute the distance of a class from the largest, on average over classes that are not masked."""
        gaps = self.maxima - self.values[:]
        masked = gaps.isinf()
        return float(gaps.masked_fill_(masked, 0).sum(dtype=torch.float64)) / (gaps.numel() - int(masked.sum()))

    def at(self, u: float) -> _Point:
        """Compute loss and both derivatives at β = exp(u): one pass in blocks that stay in the cache."""
        beta, (count, classes) = math.exp(u), self.values.shape
        step = chunk_rows(classes, _BLOCK_NUMBERS)
        gaps, powers = self.maxima.new_empty(2, min(step, count), classes)
        nll, slope, curvature = -beta * self.mean(self.targets), -self.mean(self.targets), 0.0
        for block in _blocks(self.values):
            start, size = block.start, block.stop - block.start
            torch.sub(self.values[block], self.maxima[block], out=gaps[:size])
            total, first, second = gap_moments(gaps[:size], powers[:size], beta)
            nll += self.mean(total.log(), start)
            slope += self.mean(first, start)
            curvature += self.mean(second - first * first, start)
        if math.isnan(slope):
            raise ValueError("The values hold NaN or +inf, so no temperature can be fitted; check the model's output.")
        return _Point(u, nll, slope, curvature)

    def at_bound(self, temperature: float, bound: Bound, passes: int = 1) -> TemperatureFit:
        return TemperatureFit(1.0 / temperature, self.at(-math.log(temperature)).nll, passes, bound)


def target_gaps(values: Tensor, maxima: Tensor, labels: Tensor) -> Tensor:
    """Return (N,) float64: the label's value minus the row's largest, averaged over classes where labels are soft."""
    if labels.dim() == 1:
        return (values.gather(1, labels[:, None]) - maxima).squeeze(1).double()
    gaps = (values - maxima).double()
    return (labels * gaps.where(labels > 0, torch.zeros((), dtype=torch.float64))).sum(1)


def _streamed_gaps(values: LogitRows, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return (N, 1) the largest value of each row, and `target_gaps`, block by block."""
    maxima, targets = [], []
    for block in _blocks(values):
        rows = values[block]
        maxima.append(rows.amax(1, keepdim=True))
        targets.append(target_gaps(rows, maxima[-1], labels[block]))
    return torch.cat(maxima), torch.cat(targets)


def _reject_infinite_loss(targets: Tensor) -> None:
    if bool(torch.isneginf(targets).any()):
        row = int(torch.isneginf(targets).nonzero()[0])
        raise ValueError(
            f"The label of sample {row} is a class whose logit is −inf (masked), so the NLL is infinite at every "
            "temperature; unmask the class or drop the sample."
        )


def gap_moments(gaps: Tensor, powers: Tensor, beta: float) -> tuple[Tensor, Tensor, Tensor]:
    """Compute Σ e^{βd}, E[d] and E[d²] of each row, (rows,) float64 each; ``powers`` is memory to write in."""
    # exp2 is twice as fast as exp in torch on a CPU.
    torch.mul(gaps, beta / math.log(2.0), out=powers)
    powers.exp2_()
    total = powers.sum(1).double()
    first = powers.mul_(gaps).sum(1).double() / total
    second = powers.mul_(gaps).sum(1).double() / total
    if bool(first.isnan().any()) and bool(torch.isneginf(gaps).any()):
        # 0 · −inf: the block has masked classes. Any finite gap this low has the power 0 too.
        return gap_moments(gaps.clamp_(min=torch.finfo(gaps.dtype).min), powers, beta)
    return total, first, second


def sample_stride(count: int) -> int:
    """Return every how many rows one belongs to the sample that the first guess comes from."""
    return max(1, count // _SAMPLE_ROWS)


def guess_from_sample(values: Tensor, labels: Tensor, weights: Tensor | None, count: int) -> float:
    """Return the first β that `fit_inverse_temperature` tries for ``count`` samples, given every `sample_stride`-th.

    Weights are positive. Where all values of each row are equal there is nothing to guess from, and it is 1.
    """
    sample = _Objective.of(values, labels, weights)
    gap = sample.mean_gap()
    return math.exp(_guess(sample, sample_stride(count), gap)) if gap else 1.0


def _first_guess(objective: _Objective) -> float:
    """Return a log β from a scale of the values, improved on a subsample where that is cheap."""
    stride = sample_stride(objective.values.shape[0])
    sample = objective.rows(stride) if stride > 1 else objective
    return _guess(sample, stride, sample.mean_gap() or objective.mean_gap())


def _guess(sample: _Objective, stride: int, gap: float) -> float:
    scale = math.log((1.0 + math.log(sample.values.shape[1])) / gap)
    if stride < 4 or sample.is_separable():
        return scale
    fit = _search(sample, scale, scale - 5.0, scale + 5.0, tolerance=1e-4)
    return math.log(fit.inverse_temperature) if fit.bound is None else scale


def _search(objective: _Curve, start: float, low: float, high: float, tolerance: float = _TOLERANCE) -> TemperatureFit:
    """Find the root of the slope in u = log β between low and high."""
    u, below, above, previous = min(max(start, low), high), -math.inf, math.inf, None
    for passes in range(1, _MOST_PASSES + 1):
        point = objective.at(u)
        below, above = (u, above) if point.slope < 0 else (below, u)
        if (u == high and point.slope < 0) or (u == low and point.slope > 0):
            return TemperatureFit(math.exp(u), point.nll, passes, "lower" if u == high else "upper")
        step, error = _next_step(point, previous)
        if error < tolerance and below <= u + step <= above:
            return _finish(point, step, passes)
        if above - below <= tolerance:  # rounding decides the sign of the slope here
            return _finish(point, 0.0, passes)
        target = min(max(u + step, low), high)
        if passes >= _MOST_PASSES // 2:  # one sample may outweigh the others by so much that rounding is all one sees
            u = _halve(max(below, low), min(above, high), tolerance, towards_high=above == math.inf)
        else:
            u = target if below < target < above else 0.5 * (below + above)
        previous = point
    raise ArithmeticError(f"The temperature search did not converge in {_MOST_PASSES} passes.")


def _halve(low: float, high: float, tolerance: float, *, towards_high: bool) -> float:
    """Return the middle, or the end that has not been tried once the two have met."""
    if high - low <= tolerance:
        return high if towards_high else low
    return 0.5 * (low + high)


def _next_step(point: _Point, previous: _Point | None) -> tuple[float, float]:
    """Return a step in u towards slope 0, and an estimate of the error that is left after it."""
    newton = _clip(-point.slope / point.slope_change) if point.slope_change > 0 else _clip(-point.slope * math.inf)
    if previous is not None and abs(newton) < 0.1 and _allow_cubic(point, previous):
        cubic = _cubic_root(point, previous) - point.u
        if abs(cubic - newton) < 0.5 * abs(newton):
            return cubic, (cubic * (previous.u - point.u)) ** 2
    return newton, newton**2


def _allow_cubic(a: _Point, b: _Point) -> bool:
    """Return whether two points are near, and rounding has not given them the same slope, or one of them no change."""
    return abs(b.u - a.u) < 0.5 and a.slope != b.slope and a.slope_change > 0 and b.slope_change > 0


def _clip(step: float) -> float:
    return 0.0 if math.isnan(step) else min(max(step, -_LONGEST_STEP), _LONGEST_STEP)


def _cubic_root(a: _Point, b: _Point) -> float:
    """Return the u at slope 0 on the cubic u(slope) that has both points and both derivatives."""
    width = b.slope - a.slope
    t = -a.slope / width
    left, right = width / a.slope_change, width / b.slope_change
    rise = b.u - a.u
    return a.u + t * left + t * t * (3 * rise - 2 * left - right) + t**3 * (left + right - 2 * rise)


def _finish(point: _Point, step: float, passes: int) -> TemperatureFit:
    """Take the last step; the loss after it follows from the derivatives before it."""
    beta = math.exp(point.u + step)
    move = beta - math.exp(point.u)
    nll = point.nll + point.slope * move + 0.5 * point.curvature * move**2
    return TemperatureFit(beta, nll, passes, None)
