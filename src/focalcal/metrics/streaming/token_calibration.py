"""Calibration of token predictions, streamed: metrics, temperatures and curves without ever holding all logits."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from focalcal.base.chunks import IN_CACHE, IN_MEMORY, chunks
from focalcal.metrics.binning import equal_width_sums, mean_gap
from focalcal.metrics.evaluation import Evaluation
from focalcal.metrics.honest_intervals import HonestIntervals, SampledGaps
from focalcal.metrics.samples import ConfidenceSamples
from focalcal.metrics.streaming.accumulator import Accumulator
from focalcal.predictions.token_predictions import TokenPredictions
from focalcal.temperature import fit_inverse_temperature, target_gaps

# Calibration errors that have an interval for clusters.
_CALIBRATION_ERRORS = ("ece", "ada_ece", "debiased_ece", "ks_error")


@dataclass(frozen=True)
class TemperaturePoint:
    """Token-level ECE and NLL with logits divided by a temperature."""

    temperature: float
    ece: float
    nll: float


@dataclass(frozen=True)
class TokenSamples:
    """M tokens with logits divided by a temperature.

    Attributes:
        confidence: (M,) float64.
        correct: (M,) bool.
        nll: (M,) float64.
        sentences: (M,) int64, the sentence of each, counted from 0.
    """

    confidence: Tensor
    correct: Tensor
    nll: Tensor
    sentences: Tensor

    def intervals(
        self, values: dict[str, float], *, bins: int = 15, level: float = 0.90
    ) -> dict[str, tuple[float, float]]:
        """Compute intervals of metrics whose values are known; sentences are independent, tokens of one are not."""
        means = {"error": (~self.correct).double(), "nll": self.nll}
        found = {name: self._mean_interval(each, level) for name, each in means.items() if name in values}
        samples = ConfidenceSamples(self.confidence, self.correct, None)
        honest = HonestIntervals(SampledGaps(samples, bins, self.sentences))
        known = [name for name in _CALIBRATION_ERRORS if name in values]
        return found | {name: honest.interval(name, values[name], level) for name in known}

    def _mean_interval(self, values: Tensor, level: float) -> tuple[float, float]:
        """Compute the interval of a mean over tokens by the normal approximation for a ratio of sums over sentences."""
        mean = values.mean()
        spread = (values - mean).numpy()
        error = math.sqrt(float((np.bincount(self.sentences.numpy(), spread) ** 2).sum())) / len(values)
        reach = float(torch.special.ndtri(torch.tensor((1 + level) / 2, dtype=torch.float64))) * error
        return float(mean) - reach, float(mean) + reach


def token_samples(tokens: TokenPredictions, temperatures: Sequence[float]) -> list[TokenSamples]:
    """Compute confidence, correctness and NLL of every token at several temperatures, in one pass over the logits."""
    if not temperatures or not all(0 < temperature < float("inf") for temperature in temperatures):
        raise ValueError("Temperatures must be at least one number above 0.")
    confidence, nll = torch.zeros(2, len(temperatures), len(tokens), dtype=torch.float64)
    correct = torch.zeros(len(tokens), dtype=torch.bool)
    for block in chunks(*tokens.shape, IN_CACHE):
        logits, labels = tokens[block], tokens.labels[block]
        largest, answers = logits.max(1, keepdim=True)
        correct[block] = answers.squeeze(1) == labels
        gaps, of_label = logits - largest, target_gaps(logits, largest, labels)
        for row, temperature in enumerate(temperatures):
            total = (gaps / temperature).exp_().sum(1).double()
            confidence[row, block] = 1 / total
            nll[row, block] = total.log() - of_label / temperature
    sentences = torch.unique(tokens.sentences, return_inverse=True)[1]
    return [TokenSamples(confidence[row], correct, nll[row], sentences) for row in range(len(temperatures))]


def evaluate_tokens(tokens: TokenPredictions, *, temperature: float = 1.0, bins: int = 15) -> Evaluation:
    """Measure token predictions, their logits divided by a temperature, through an ``Accumulator``."""
    total = Accumulator(num_classes=tokens.shape[1], bins=bins)
    for block in chunks(*tokens.shape, IN_MEMORY):
        total.update(logits=tokens[block] / temperature, labels=tokens.labels[block], ignore_index=None)
    # Tokens of a sentence depend on each other: `TokenSamples` has the intervals.
    return total.compute(intervals=False)


def temperature_curve(
    tokens: TokenPredictions, temperatures: Sequence[float], *, bins: int = 15
) -> list[TemperaturePoint]:
    """Measure ECE and NLL at several temperatures in one pass over the logits.

    Examples:
        >>> weight = torch.tensor([[4.0, 0.0], [0.0, 0.0]])
        >>> ids = torch.zeros(4, dtype=torch.int64)
        >>> tokens = TokenPredictions(torch.eye(2)[ids], weight, torch.tensor([0, 0, 0, 1]), ids, ids, "val")
        >>> [round(point.ece, 3) for point in temperature_curve(tokens, [1.0, 3.64])]  # right 3 times of 4
        [0.232, 0.0]
    """
    return [
        TemperaturePoint(
            temperature,
            mean_gap(equal_width_sums(samples.confidence, samples.correct, bins, None)),
            float(samples.nll.mean()),
        )
        for temperature, samples in zip(temperatures, token_samples(tokens, temperatures), strict=True)
    ]


def fit_token_temperature(tokens: TokenPredictions, objective: Literal["nll", "ece"], bins: int = 15) -> float:
    """Find the temperature of lowest NLL, or of lowest ECE on the paper's grid 0.1, 0.2 … 10.0."""
    if objective == "nll":
        return fit_inverse_temperature(tokens, tokens.labels).temperature
    curve = temperature_curve(tokens, [tenth / 10 for tenth in range(1, 101)], bins=bins)
    return min(curve, key=lambda point: point.ece).temperature
