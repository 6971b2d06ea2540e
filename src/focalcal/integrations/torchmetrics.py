"""Calibration metrics for torchmetrics: one state of fixed size, which processes and batches add up.

Needs ``pip install 'focalcal[torchmetrics]'``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from focalcal.base.optional import import_optional
from focalcal.metrics.catalogue import METRICS
from focalcal.metrics.streaming.fixed_sums import FixedSums, batch_predictions, choose_metrics

import_optional("torchmetrics", extra="torchmetrics", what="Calibration metrics for torchmetrics", at_least="1.6")
from torchmetrics import Metric  # noqa: E402 (a sentence about the extra comes first)

__all__ = ["CalibrationError", "CalibrationMetric", "CalibrationMetrics"]


class CalibrationMetrics(Metric):
    """All metrics at once, as a dictionary: error, NLL, ECE, …, the NLL after temperature scaling and its temperature.

    The state consists of sums, int64 and float64 whatever type the module is moved to: below 1 MB up to 1,000 classes
    (with more, classwise-ECE is left out unless it is asked for). All metrics are exact but for AdaECE and the KS
    error, which know confidences up to 2^-12, smooth ECE (`bounds` says how far they may be off) and ``scaled_nll``
    (1e-5).

    Args:
        num_classes: K, at least 2.
        logits: True if ``update`` is given logits, False if it is given probabilities; it is never guessed.
        bins: Number of bins of binned metrics.
        metrics: Names of the metrics wanted; None for all. ``scaled_nll`` is the NLL after temperature scaling.
        ignore_index: Positions with this label are left out.
        kwargs: Options of ``torchmetrics.Metric``, such as ``sync_on_compute``.

    Examples:
        >>> metric = CalibrationMetrics(num_classes=2, logits=False, metrics=["error", "ece", "scaled_nll"])
        >>> metric.update(torch.tensor([[0.75, 0.25], [0.25, 0.75], [0.5, 0.5]]), torch.tensor([0, 1, 1]))
        >>> {name: round(float(value), 3) for name, value in metric.compute().items()}
        {'error': 0.333, 'ece': 0.333, 'scaled_nll': 0.231}
    """

    is_differentiable = False
    full_state_update = False
    counts: Tensor  # the state that is on the metric's device, as the others are

    def __init__(
        self,
        num_classes: int,
        *,
        logits: bool,
        bins: int = 15,
        metrics: Sequence[str] | None = None,
        ignore_index: int | None = -100,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if not isinstance(logits, bool):
            raise TypeError(f"logits must be True (logits) or False (probabilities), got {logits!r}.")
        self.num_classes, self.logits, self.bins, self.ignore_index = num_classes, logits, bins, ignore_index
        self.metrics = None if metrics is None else tuple(choose_metrics(metrics, num_classes))
        for name, tensor in self._new_sums().tensors().items():
            self.add_state(name, tensor, dist_reduce_fx="sum")

    def update(self, preds: Tensor, target: Tensor, weights: Tensor | None = None) -> None:
        """Add a batch.

        Args:
            preds: (N, K) or (N, K, d1, …) logits or probabilities, as ``logits`` says. For two classes also one column,
                (N,) or (N, 1): the score of class 1, which is measured as a score.
            target: (N,) or (N, d1, …) classes, or class probabilities of the shape of ``preds``.
            weights: (N,) or (N, d1, …), at least 0.
        """
        given = batch_predictions(
            preds.detach(), target, logits=self.logits, weights=weights, ignore_index=self.ignore_index
        )
        choose_metrics(self.metrics, self.num_classes, given.of)  # raises where a score does not have one
        batch = self._new_sums()
        batch.add(given)
        for name, tensor in batch.tensors().items():
            state: Tensor = getattr(self, name)
            state.add_(tensor.to(state.device))

    def compute(self) -> dict[str, Tensor] | Tensor:
        """Compute all metrics of everything since the last reset; NaN where one is undefined."""
        sums, device = self._sums(), self.counts.device
        names = choose_metrics(self.metrics, self.num_classes, sums.of)
        return {name: torch.tensor(value, device=device) for name, value in sums.compute(names).items()}

    def bounds(self) -> dict[str, float]:
        """Bound how far AdaECE, the KS error and smooth ECE may be off, for what this process has seen."""
        return self._sums().bounds()

    def plot(self, val: Any = None, ax: Any = None) -> Any:
        """Draw one result, or a list of them over time; returns the figure and the axis."""
        return self._plot(val, ax)

    def _new_sums(self) -> FixedSums:
        return FixedSums.for_metrics(self.metrics or (), self.num_classes, self.bins)

    def _sums(self) -> FixedSums:
        return self._new_sums().load({name: getattr(self, name) for name in self._defaults})

    def _apply(self, fn: Callable[[Tensor], Tensor], exclude_state: Sequence[str] = "") -> Any:
        """Follow the module to another device, and keep int64 and float64 whatever type it is converted to."""
        super()._apply(fn, exclude_state=tuple(self._defaults))
        device = fn(torch.zeros(1, device=self.counts.device)).device
        if device.type != "mps":  # which has no float64: the sums stay where they are
            for name, default in self._defaults.items():
                assert isinstance(default, Tensor)
                self._defaults[name] = default.to(device)
                setattr(self, name, getattr(self, name).to(device))
        return self


class CalibrationMetric(CalibrationMetrics):
    """One metric by its name in the catalogue (`focalcal.metrics.METRICS`), or ``scaled_nll`` or ``temperature``.

    In a ``MetricCollection`` all metrics of the same classes and bins share one state and one update.

    Args:
        name: Name of the metric.
        num_classes: K, at least 2.
        logits: True if ``update`` is given logits, False if it is given probabilities.
        bins: Number of bins of binned metrics.
        ignore_index: Positions with this label are left out.
        kwargs: Options of ``torchmetrics.Metric``.

    Examples:
        >>> metric = CalibrationMetric("brier", num_classes=2, logits=False)
        >>> metric(torch.tensor([[0.5, 0.5], [1.0, 0.0]]), torch.tensor([1, 0]))
        tensor(0.2500)
    """

    def __init__(
        self,
        name: str,
        num_classes: int,
        *,
        logits: bool,
        bins: int = 15,
        ignore_index: int | None = -100,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_classes, logits=logits, bins=bins, metrics=[name], ignore_index=ignore_index, **kwargs)
        self.name = name

    @property
    def higher_is_better(self) -> bool | None:  # type: ignore[override]
        """True if larger values are better; None where neither are."""
        better = "lower" if self.name == "scaled_nll" else METRICS[self.name].better if self.name in METRICS else None
        return None if better is None else better == "higher"

    @property
    def plot_lower_bound(self) -> float | None:  # type: ignore[override]
        """The least value that the metric can have."""
        return METRICS[self.name].range[0] if self.name in METRICS else 0.0

    @property
    def plot_upper_bound(self) -> float | None:  # type: ignore[override]
        """The largest value that the metric can have."""
        largest = METRICS[self.name].range[1] if self.name in METRICS else math.inf
        return None if math.isinf(largest) else largest

    def compute(self) -> Tensor:
        """Compute the metric of everything since the last reset."""
        values = super().compute()
        assert isinstance(values, dict)
        return values[self.name]


class CalibrationError(CalibrationMetric):
    """ECE or MCE, named as in torchmetrics.

    Bins are (lower, upper], sums are float64 and counts int64: torchmetrics' own metric keeps float32 sums and every
    confidence.

    Args:
        num_classes: K, at least 2.
        logits: True if ``update`` is given logits, False if it is given probabilities.
        norm: "l1" for ECE, "max" for MCE.
        bins: Number of bins of equal width.
        ignore_index: Positions with this label are left out.
        kwargs: Options of ``torchmetrics.Metric``.

    Examples:
        >>> metric = CalibrationError(num_classes=2, logits=False)
        >>> metric(torch.tensor([[0.75, 0.25], [0.875, 0.125]]), torch.tensor([0, 0]))
        tensor(0.1875)
    """

    def __init__(
        self,
        num_classes: int,
        *,
        logits: bool,
        norm: Literal["l1", "max"] = "l1",
        bins: int = 15,
        ignore_index: int | None = -100,
        **kwargs: Any,
    ) -> None:
        names = {"l1": "ece", "max": "mce"}
        if norm not in names:
            raise ValueError(
                f"norm must be 'l1' (ECE) or 'max' (MCE), got {norm!r}; an L2 error without its bias is "
                "focalcal.metrics.debiased_ece, which needs all samples."
            )
        super().__init__(names[norm], num_classes, logits=logits, bins=bins, ignore_index=ignore_index, **kwargs)
