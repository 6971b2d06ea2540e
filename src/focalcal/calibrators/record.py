"""Record of a fit: the data of a calibrator, and what the fit did there; saved with it."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, NamedTuple

from torch import Tensor

from focalcal._version import __version__
from focalcal.metrics.binning import equal_width_sums, mean_gap
from focalcal.metrics.samples import sample_statistics
from focalcal.predictions import Predictions


class Quality(NamedTuple):
    """NLL in nats and ECE with 15 bins, as a fraction."""

    nll: float
    ece: float


@dataclass(frozen=True)
class FitRecord:
    """Provenance of a fit.

    Attributes:
        focalcal: the version that fitted.
        samples: how many samples.
        classes: how many classes.
        split: the split that the samples said they belong to.
        nll_before: NLL of the fitting data as they were given; inf where a label has probability 0.
        nll_after: NLL of the same data, calibrated.
        ece_before: ECE (15 bins) of the fitting data.
        ece_after: ECE of the same data, calibrated.
    """

    focalcal: str
    samples: int
    classes: int
    split: str | None
    nll_before: float
    nll_after: float
    ece_before: float
    ece_after: float

    @classmethod
    def of(cls, preds: Predictions, before: Quality, after: Quality) -> "FitRecord":
        """Join the facts about the fitting data with the quality before and after."""
        return cls(
            __version__, len(preds), preds.num_classes, preds.split, before.nll, after.nll, before.ece, after.ece
        )

    def to_dict(self) -> dict[str, Any]:
        """The fields by name."""
        return asdict(self)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> "FitRecord":
        """The inverse of `to_dict`, from JSON: null is an infinite score."""
        values = {field.name: content[field.name] for field in fields(cls)}
        texts, counts = (values["focalcal"], values["split"] or ""), (values["samples"], values["classes"])
        scores = {name: math.inf if values[name] is None else values[name] for name in values if "_" in name}
        if not all(isinstance(text, str) for text in texts) or not all(type(count) is int for count in counts):
            raise ValueError("fitted_on is damaged")
        if not all(type(score) in (int, float) for score in scores.values()):
            raise ValueError("fitted_on is damaged")
        return cls(**{**values, **{name: float(score) for name, score in scores.items()}})


def quality(preds: Predictions) -> Quality:
    """NLL and ECE of predictions."""
    stats = sample_statistics(preds)
    return quality_of(stats.nll, stats.confidence, stats.correct, stats.weight)


def quality_of(nll: Tensor, confidence: Tensor, correct: Tensor, weight: Tensor | None) -> Quality:
    """NLL and ECE from per-sample numbers, (N,) each."""
    mean = nll.mean() if weight is None else nll[weight > 0] @ weight[weight > 0] / weight.sum()
    return Quality(float(mean), mean_gap(equal_width_sums(confidence, correct, 15, weight)))
