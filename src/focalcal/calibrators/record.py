"""Record of a fit: the data of a calibrator, and what the fit did there; saved with it."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, NamedTuple, Protocol

from torch import Tensor

from focalcal._version import __version__
from focalcal.base.measures import MEASURES, Of
from focalcal.metrics.binning import equal_width_sums, mean_gap
from focalcal.metrics.samples import sample_statistics
from focalcal.predictions import Predictions

# More names than this are not written out.
_MOST_SHOWN = 5


class Quality(NamedTuple):
    """NLL in nats and ECE with 15 bins, as a fraction."""

    nll: float
    ece: float


class Described(Protocol):
    """Facts about all samples: predictions, a file of them, or shards."""

    @property
    def num_classes(self) -> int:
        """The number of classes."""

    @property
    def class_names(self) -> tuple[str, ...] | None:
        """Their names, if they have any."""

    @property
    def of(self) -> Of:
        """The measure of calibration, as in ``Predictions``."""


@dataclass(frozen=True)
class FitRecord:
    """Provenance of a fit.

    Attributes:
        focalcal: The version of focalcal that fitted.
        samples: Number of samples.
        classes: Number of classes.
        split: The split that the samples said they belong to.
        nll_before: NLL of the fitting data as they were given; inf where a label has probability 0.
        nll_after: NLL of the same data, calibrated.
        ece_before: ECE (15 bins) of the fitting data.
        ece_after: ECE of the same data, calibrated.
        of: What calibration was measured of; None in files from before that was kept.
        class_names: Names of the classes of the fitting data, in the order of their columns; None if they had none.
    """

    focalcal: str
    samples: int
    classes: int
    split: str | None
    nll_before: float
    nll_after: float
    ece_before: float
    ece_after: float
    of: Of | None = None
    class_names: tuple[str, ...] | None = None

    @classmethod
    def of_fit(cls, preds: Predictions, before: Quality, after: Quality) -> "FitRecord":
        """Join the facts about the fitting data with the quality before and after."""
        scores = before.nll, after.nll, before.ece, after.ece
        facts = __version__, len(preds), preds.num_classes, preds.split
        return cls(*facts, *scores, of=preds.of, class_names=preds.class_names)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name."""
        return {**asdict(self), "class_names": None if self.class_names is None else list(self.class_names)}

    def check(self, preds: Described, method: str, *, by_class: bool) -> None:
        """Refuse predictions that are not of the network that the calibrator was fitted on.

        Args:
            preds: What the calibrator is to be applied to, or a description of it.
            method: Its name.
            by_class: Whether it treats classes differently, so that the order of the columns matters.
        """
        start = f"The {method} calibrator was fitted on"
        if preds.num_classes != self.classes:
            raise ValueError(
                f"{start} {self.classes} classes and cannot be applied to predictions of {preds.num_classes}."
            )
        if self.of is not None and (self.of == "confidence") != (preds.of == "confidence"):
            raise ValueError(
                f"{start} {MEASURES[self.of].title}, and these are predictions of {MEASURES[preds.of].title}; read "
                "both in the same way."
            )
        known, given = self.class_names, preds.class_names
        if known is None or given is None or known == given:
            return
        if sorted(known) != sorted(given):
            place = next(place for place, (a, b) in enumerate(zip(known, given, strict=True)) if a != b)
            raise ValueError(
                f"{start} other classes: class {place} is {known[place]!r} there and {given[place]!r} here; use "
                "predictions of the same network, or the same class_names."
            )
        if by_class:
            raise ValueError(
                f"{start} the same classes in another order ({_show(known)} there, {_show(given)} here); put the "
                "columns into that order."
            )

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> "FitRecord":
        """Read what `to_dict` gave, from JSON: null is an infinite score."""
        optional = {name: content.get(name) for name in ("of", "class_names")}
        values = {field.name: content[field.name] for field in fields(cls) if field.name not in optional}
        names = optional["class_names"]
        if optional["of"] not in (None, *MEASURES) or not (names is None or _are_names(names, values["classes"])):
            raise ValueError("fitted_on is damaged")
        texts, counts = (values["focalcal"], values["split"] or ""), (values["samples"], values["classes"])
        scores = {
            name: math.inf if values[name] is None else values[name]
            for name in values
            if name.startswith(("nll_", "ece_"))
        }
        if not all(isinstance(text, str) for text in texts) or not all(type(count) is int for count in counts):
            raise ValueError("fitted_on is damaged")
        if not all(type(score) in (int, float) for score in scores.values()):
            raise ValueError("fitted_on is damaged")
        values |= {name: float(score) for name, score in scores.items()}
        return cls(**values, of=optional["of"], class_names=None if names is None else tuple(names))


def _are_names(names: Any, classes: Any) -> bool:
    return isinstance(names, list) and len(names) == classes and all(isinstance(name, str) for name in names)


def _show(names: tuple[str, ...]) -> str:
    return ", ".join(names[:_MOST_SHOWN]) + (", …" if len(names) > _MOST_SHOWN else "")


def quality(preds: Predictions) -> Quality:
    """Compute NLL and ECE of predictions."""
    stats = sample_statistics(preds)
    return quality_of(stats.nll, stats.confidence, stats.correct, stats.weight)


def quality_of(nll: Tensor, confidence: Tensor, correct: Tensor, weight: Tensor | None) -> Quality:
    """Compute NLL and ECE from per-sample numbers, (N,) each."""
    mean = nll.mean() if weight is None else nll[weight > 0] @ weight[weight > 0] / weight.sum()
    return Quality(float(mean), mean_gap(equal_width_sums(confidence, correct, 15, weight)))
