"""What an epoch's outputs say: error, NLL, calibration, and NLL and entropy of right and of wrong samples."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from focalcal.base.files import null_for_nan
from focalcal.gamma import GammaPolicy
from focalcal.metrics.binning import equal_mass_sums, equal_width_sums
from focalcal.metrics.calibration_error import mean_gap
from focalcal.metrics.scores import mean_of
from focalcal.metrics.statistics import SampleStatistics, sample_statistics
from focalcal.metrics.temperature_search import fit_inverse_temperature, logits_of
from focalcal.predictions import Predictions

_BINS = 15
_IGNORED = -100


def summary(stats: SampleStatistics) -> dict[str, float | None]:
    """The figures of an epoch; null where there is no sample to speak of (nothing wrong, say)."""
    right, wrong = stats.correct, ~stats.correct
    figures = {
        "error": mean_of(wrong, stats),
        "nll": mean_of(stats.nll, stats),
        "ece": mean_gap(equal_width_sums(stats.confidence, stats.correct, _BINS, stats.weight)),
        "ada_ece": mean_gap(equal_mass_sums(stats.confidence, stats.correct, _BINS, stats.weight)),
        "entropy": mean_of(stats.entropy, stats),
    }
    for name in ("nll", "entropy", "confidence"):
        values: Tensor = getattr(stats, name)
        figures |= {f"{name}_right": _mean(values[right]), f"{name}_wrong": _mean(values[wrong])}
    finite: dict[str, float | None] = null_for_nan(figures)
    return finite


def _mean(values: Tensor) -> float:
    return float(values.mean()) if len(values) else math.nan


def scaled_summary(preds: Predictions) -> dict[str, float | None]:
    """`summary` of predictions, with the temperature that suits them best and their NLL at it."""
    figures = summary(sample_statistics(preds))
    try:
        fit = fit_inverse_temperature(logits_of(preds), preds.labels, preds.weights)
    except (ArithmeticError, ValueError):  # no temperature to speak of, as where every output is the same
        return {**figures, "temperature": None, "scaled_nll": figures["nll"]}
    return {**figures, "temperature": fit.temperature, "scaled_nll": fit.nll}


def gamma_shares(loss: Any, stats: SampleStatistics, epoch: int) -> dict[str, float]:
    """Which share of the samples was trained with which γ; nothing for losses without one."""
    policy = getattr(loss, "gamma", None)
    if not isinstance(policy, GammaPolicy):
        return {}
    gammas = torch.as_tensor(policy.at_epoch(epoch).for_nll(stats.nll), dtype=torch.float64)
    values, counts = torch.unique(gammas.reshape(-1), return_counts=True)
    return {f"{value:g}": count / gammas.numel() for value, count in zip(values.tolist(), counts.tolist(), strict=True)}


def weight_norm(model: nn.Module) -> float | None:
    """The Frobenius norm of the last layer's weights; null for a network without a ``classifier``."""
    weight = getattr(getattr(model, "classifier", None), "weight", None)
    return float(weight.detach().double().norm()) if isinstance(weight, Tensor) else None


class FeatureNorms:
    """The norms of what the last layer gets, added up inside the context; none for a network without a ``classifier``.

    Used around training steps: they cost no forward pass of their own.
    """

    def __init__(self, model: nn.Module) -> None:
        self._layer = getattr(model, "classifier", None)
        self._total, self._count = torch.zeros((), dtype=torch.float64), 0

    def __enter__(self) -> "FeatureNorms":
        if isinstance(self._layer, nn.Module):
            self._hook = self._layer.register_forward_pre_hook(self._add)
        return self

    def __exit__(self, *reason: object) -> None:
        if isinstance(self._layer, nn.Module):
            self._hook.remove()

    def _add(self, _: nn.Module, inputs: tuple[Any, ...]) -> None:
        if not inputs or not isinstance(inputs[0], Tensor) or inputs[0].ndim < 2:
            return  # a layer of the user's own that takes something else
        norms = torch.linalg.vector_norm(inputs[0].detach().flatten(0, -2).float(), dim=-1)
        # Not a number of Python: asking an accelerator for one would make it wait at every step.
        self._total = self._total.to(norms.device) + norms.sum(dtype=torch.float64)
        self._count += len(norms)

    @property
    def sums(self) -> list[float]:
        """The sum of norms and their number."""
        return [float(self._total), float(self._count)]

    def restore(self, sums: list[float]) -> None:
        """Continue from what `sums` gave."""
        self._total, self._count = torch.tensor(sums[0], dtype=torch.float64), int(sums[1])


class RunningOutputs:
    """The outputs of an epoch's training steps; kept as they are up to a size, as numbers for each sample beyond it."""

    # 64 MB of float32: enough for CIFAR's whole epoch; more is turned into eight numbers a sample as it fills.
    _MOST_VALUES = 2**24

    def __init__(self) -> None:
        self._logits: list[Tensor] = []
        self._targets: list[Tensor] = []
        self._values = 0
        self._done: list[SampleStatistics] = []

    def add(self, logits: Tensor, targets: Tensor) -> None:
        """Keep the outputs of a step; rows that are not supervised are left out in the end."""
        self._logits.append(logits.detach().float().cpu())
        self._targets.append(targets.detach().cpu())
        self._values += logits.numel()
        if self._values > self._MOST_VALUES:
            self._done.append(self._take())

    def _take(self) -> SampleStatistics:
        logits, targets = torch.cat(self._logits), torch.cat(self._targets)
        self._logits, self._targets, self._values = [], [], 0
        if targets.ndim == 1 and not bool((targets != _IGNORED).any()):
            return _no_statistics()
        return sample_statistics(Predictions.from_logits(logits, targets))

    def tensors(self) -> dict[str, Tensor]:
        """The statistics of everything that was added, as columns (n,); empty before the first step."""
        if self._logits:
            self._done.append(self._take())
        if not self._done:
            return {}
        return dict(zip(_COLUMNS, map(torch.cat, zip(*map(_columns, self._done), strict=True)), strict=True))

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Go on from a checkpoint."""
        self._done = [self.joined(tensors)] if tensors else []

    @staticmethod
    def joined(columns: dict[str, Tensor]) -> SampleStatistics:
        """The statistics whose columns `tensors` gave."""
        return SampleStatistics(weight=None, **columns)


_COLUMNS = ("confidence", "correct", "prediction", "label", "nll", "brier", "entropy", "rank")


def _no_statistics() -> SampleStatistics:
    """Of no sample: a part of a batch may have no target at all."""
    one = sample_statistics(Predictions.from_logits(torch.zeros(1, 2), torch.zeros(1, dtype=torch.int64)))
    return SampleStatistics(weight=None, **{name: getattr(one, name)[:0] for name in _COLUMNS})


def _columns(stats: SampleStatistics) -> tuple[Tensor, ...]:
    return tuple(getattr(stats, name) for name in _COLUMNS)
