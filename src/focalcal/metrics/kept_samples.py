"""Samples kept one by one, as a whole number each, so that they can be sorted, compared and sent like counts."""

import torch
from torch import Tensor

from focalcal.metrics.statistics import ConfidenceSamples


def encode(confidence: Tensor, correct: Tensor) -> Tensor:
    """Positive int64 numbers that have the order of the confidences, with right after wrong where those are equal.

    Args:
        confidence: (N,) float64 in [0, 1].
        correct: (N,) bool.

    Examples:
        >>> codes = encode(torch.tensor([0.0, 1.0, 0.5]).double(), torch.tensor([False, True, True]))
        >>> decode(codes)[0].tolist(), decode(codes)[1].tolist(), int(codes[0])
        ([0.0, 1.0, 0.5], [False, True, True], 1)
    """
    # The bits of positive doubles have the order of their values; −0.0 must not be among them.
    bits = (confidence + 0.0).view(torch.int64)
    return (bits << 1) + correct + 1


def decode(codes: Tensor) -> tuple[Tensor, Tensor]:
    """Confidence and correctness of codes that `encode` gave."""
    codes = codes - 1
    return (codes >> 1).view(torch.float64), (codes & 1).bool()


class KeptSamples:
    """A growing list of samples with positive weight.

    Args:
        codes: (N,) int64 from `encode`.
        weights: (N,) float64, 1 for unweighted samples.
    """

    def __init__(self, codes: Tensor | None = None, weights: Tensor | None = None) -> None:
        self._codes = torch.zeros(0, dtype=torch.int64) if codes is None else codes
        self._weights = torch.zeros(0, dtype=torch.float64) if weights is None else weights
        self._length = len(self._codes)

    def __len__(self) -> int:
        return self._length

    def add(self, samples: ConfidenceSamples) -> None:
        """Append samples; those of weight 0 are left out."""
        codes, weights = encode(samples.confidence, samples.correct), samples.weight
        if weights is None:
            weights = torch.ones_like(samples.confidence)
        used = weights > 0
        codes, weights = codes[used], weights[used]
        length = self._length + len(codes)
        if length > len(self._codes):
            # Room for as many again: many small batches then cost no more than one large one.
            self._codes, self._weights = (torch.cat([part, part.new_empty(length)]) for part in self.joined())
        self._codes[self._length : length] = codes
        self._weights[self._length : length] = weights
        self._length = length

    def joined(self) -> tuple[Tensor, Tensor]:
        """Codes and weights of everything, in order of arrival."""
        return self._codes[: self._length], self._weights[: self._length]

    def samples(self) -> ConfidenceSamples:
        """The samples themselves; without weights if all of those are 1."""
        codes, weights = self.joined()
        confidence, correct = decode(codes)
        return ConfidenceSamples(confidence, correct, None if bool((weights == 1).all()) else weights)

    def in_any_order(self, other: "KeptSamples") -> "KeptSamples":
        """Both together, sorted, so that it does not matter which came first."""
        codes, weights = (torch.cat(parts) for parts in zip(self.joined(), other.joined(), strict=True))
        by_weight = weights.argsort(stable=True)
        order = by_weight[codes[by_weight].argsort(stable=True)]
        return KeptSamples(codes[order], weights[order])
