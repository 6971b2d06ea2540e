"""NLL after temperature scaling from sums: the NLL at fixed temperatures, with its derivatives, interpolated.

With u = log(1/T), the NLL f of all samples and its derivatives f′ and f″ in u are sums over samples at every u. They
are kept at 17 values of u, a factor of 2^(3/4) apart in T from 1/64 to 64, and add up over parts of the data. Between
two of them f is the polynomial of degree 5 with these values and derivatives, which is off by at most h⁶/46080 |f⁽⁶⁾| =
4e-7 |f⁽⁶⁾|.
"""

import math

import numpy as np
import torch
from torch import Tensor

from focalcal.base.chunks import chunks
from focalcal.temperature import gap_moments, target_gaps

_POINTS = 17
_LARGEST = 6 * math.log(2.0)  # log T at the end of the grid
_STEP = 2 * _LARGEST / (_POINTS - 1)
_BISECTIONS = 50


class TemperatureGrid:
    """Sums of the NLL and its derivatives at fixed temperatures.

    Attributes:
        sums: (3, 17) float64: Σ NLL, Σ dNLL/du and Σ d²NLL/du², each times the sample's weight, at ascending u.

    Examples:
        >>> grid = TemperatureGrid()
        >>> logits = torch.tensor([[4.0, 0.0]]).expand(4, 2)
        >>> grid.add(logits, torch.tensor([0, 0, 0, 1]))  # 3 of 4 right: softmax must say 0.75
        >>> nll, temperature = grid.minimum()
        >>> round(nll / 4, 4), round(temperature, 4), round(4 / math.log(3), 4)
        (0.5623, 3.641, 3.641)
    """

    def __init__(self) -> None:
        self.sums = torch.zeros(3, _POINTS, dtype=torch.float64)

    def add(self, logits: Tensor, labels: Tensor, weights: Tensor | None = None) -> None:
        """Add samples.

        Args:
            logits: (N, K) float32 or float64; −inf masks a class.
            labels: (N,) int64, or (N, K) class probabilities.
            weights: (N,) float64, or None.
        """
        maxima = logits.amax(1, keepdim=True)
        targets = target_gaps(logits, maxima, labels)
        u = torch.linspace(-_LARGEST, _LARGEST, _POINTS, dtype=torch.float64)
        for block in chunks(len(logits), _POINTS * logits.shape[1]):
            terms = _terms(logits[block] - maxima[block], targets[block], u.exp())
            self.sums += terms.sum(2) if weights is None else terms @ weights[block]

    def minimum(self) -> tuple[float, float]:
        """Return the least Σ NLL over temperatures from 1/64 to 64, and its temperature: an end if it lies beyond.

        Where a label has a masked class, both are infinite or undefined: inf and NaN.
        """
        nll, slope, curvature = self.sums.numpy()
        if not bool(self.sums.isfinite().all()):
            return math.inf, math.nan
        rising = np.flatnonzero(slope >= 0)
        node = int(rising[0]) if len(rising) else _POINTS - 1
        if node == 0 or slope[node] < 0:
            return float(nll[node]), math.exp(_LARGEST - node * _STEP)
        left = slice(node - 1, node + 1)
        place, least = _least_between(nll[left], slope[left] * _STEP, curvature[left] * _STEP**2)
        return min(least, float(nll.min())), math.exp(_LARGEST - (node - 1 + place) * _STEP)


def _terms(gaps: Tensor, targets: Tensor, beta: Tensor) -> Tensor:
    """Return (3, points, N) float64: the NLL of softmax(β d) and its derivatives in log β.

    With s = β d they are log Σ e^s − s_y, E[s] − s_y, and Var[s] more than the first derivative.
    """
    scaled = (gaps * beta.to(gaps.dtype)[:, None, None]).reshape(-1, gaps.shape[1])
    total, first, second = (part.view(len(beta), -1) for part in gap_moments(scaled, torch.empty_like(scaled), 1.0))
    of_label = beta[:, None] * targets
    slope = first - of_label
    return torch.stack([total.log() - of_label, slope, slope + second - first.square()])


def _least_between(f: np.ndarray, slope: np.ndarray, curvature: np.ndarray) -> tuple[float, float]:
    """Return the place in [0, 1] and the value of the minimum of the polynomial of degree 5 through both ends."""
    rise = f[1] - f[0]
    steep, bend = slope.sum(), curvature[0] - curvature[1]
    polynomial = np.polynomial.Polynomial(
        [
            f[0],
            slope[0],
            curvature[0] / 2,
            10 * rise - 4 * steep - 2 * slope[0] - curvature[0] - bend / 2,
            -15 * rise + 7 * steep + slope[0] + curvature[0] / 2 + bend,
            6 * rise - 3 * steep - bend / 2,
        ]
    )
    derivative, low, high = polynomial.deriv(), 0.0, 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if derivative(middle) < 0 else (low, middle)
    return high, float(polynomial(high))
