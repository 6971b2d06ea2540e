"""The catalogue of metrics: names, meanings, units, ranges. Free of torch, so that ``--help`` can use it."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from focalcal.base.measures import Of, with_event

Unit = Literal["percent", "points", "nats", "number"]
Group = Literal["accuracy", "loss", "calibration", "parts of losses", "confidence"]
# Sums that a metric is a function of: over all samples, per bin of equal width, per bin for a perfect model, in the
# order of confidence, per class and bin, of residuals on a grid; or the outputs themselves, in several passes.
Source = Literal["means", "bins", "chance", "ranking", "classes", "residuals", "outputs"]

# How intervals are made from resamples, and how at all.
Method = Literal["basic", "percentile", "bca"]
IntervalMethod = Literal["honest", "basic", "percentile", "bca"]

# |S99| and top-5 accuracy.
CONFIDENT = 0.99
TOP_K = 5


@dataclass(frozen=True)
class Metric:
    """A metric, described once for tables, reports, gates and help.

    The function of the same name in `focalcal.metrics` computes it.

    Attributes:
        title: Its name for people.
        reading: What the number says, in a few words.
        group: Metrics of one group stand together in tables.
        source: The sums that it is a function of.
        unit: Percent of samples or of probability, percentage points with a sign, nats, or a plain number.
        range: The least and the largest value that it can have.
        better: Which values are better; None where neither are.
        default_method: How its interval is made if nothing else is asked for; None if it has none.
        partial_sums: For sums in the order of confidence: by how many times the error of a partial sum it can move
            where the order is known up to cells only; 0 if it cannot be computed then.
        fewest_classes: How many classes there must be for it to say anything.
        of: Predictions that have it, by what their calibration is measured of.
    """

    title: str
    reading: str
    group: Group
    source: Source
    unit: Unit = "percent"
    range: tuple[float, float] = (0.0, 1.0)
    better: Literal["lower", "higher"] | None = "lower"
    default_method: IntervalMethod | None = "basic"
    partial_sums: int = 0
    fewest_classes: int = 2
    of: tuple[Of, ...] = ("top", "score", "confidence")

    @property
    def has_interval(self) -> bool:
        """True if it has an interval at all; then the bootstrap can give it one, too."""
        return self.default_method is not None

    @property
    def heading(self) -> str:
        """The title with its unit, where that is not a share."""
        return f"{self.title} (nats)" if self.unit == "nats" else self.title

    @property
    def capitalized(self) -> str:
        """The title as the heading of a table or section."""
        return self.title[0].upper() + self.title[1:]

    @property
    def is_share(self) -> bool:
        """True if values are fractions (or differences of fractions), which are often given in percent by mistake."""
        return self.unit in ("percent", "points")

    def format(self, value: float) -> str:
        """Write a value for people: in percent where that is customary, a dash where it is undefined.

        Examples:
            >>> METRICS["ece"].format(0.0537), METRICS["nll"].format(0.37821), METRICS["signed_gap"].format(-0.012)
            ('5.37%', '0.3782', '−1.20')
        """
        if self.unit == "points":
            return _number(100 * value, "+.2f")
        return _number(100 * value, ".2f", "%") if self.unit == "percent" else _number(value, ".4f")

    def format_change(self, value: float) -> str:
        """Write a difference of two values for people: in percentage points where the values are in percent.

        Examples:
            >>> METRICS["ece"].format_change(-0.0412), METRICS["nll"].format_change(0.0312)
            ('−4.12 pt', '+0.0312')
        """
        return _number(100 * value, "+.2f", " pt") if self.is_share else _number(value, "+.4f")


def _number(value: float, form: str, unit: str = "") -> str:
    if math.isnan(value):
        return "–"
    return ("∞" if value > 0 else "−∞") if math.isinf(value) else f"{value:{form}}{unit}".replace("-", "−")


_POSITIVE = (0.0, math.inf)
_HONEST: IntervalMethod = "honest"
# What needs the probabilities of classes, and what is about answers that are right or wrong.
_OF_CLASSES: tuple[Of, ...] = ("top", "score")
_OF_ANSWERS: tuple[Of, ...] = ("top", "confidence")

# In the order of tables: how often it is right, what it loses, how far confidence is off, how confident it is.
METRICS: Mapping[str, Metric] = {
    "error": Metric("error", "how often the predicted class is wrong", "accuracy", "means"),
    "accuracy": Metric("accuracy", "how often it is right", "accuracy", "means", better="higher"),
    "top_5_accuracy": Metric(
        title="top-5 accuracy",
        reading="the label is among the five most probable",
        group="accuracy",
        source="means",
        better="higher",
        fewest_classes=TOP_K + 1,
        of=("top",),
    ),
    "nll": Metric(
        title="NLL",
        reading="loss of the label's probability; lower is better",
        group="loss",
        source="means",
        unit="nats",
        range=_POSITIVE,
    ),
    "brier": Metric(
        title="Brier score",
        reading="squared error of all probabilities, 0 to 2",
        group="loss",
        source="means",
        unit="number",
        range=(0.0, 2.0),
    ),
    "ece": Metric("ECE", "how far confidence is off, on average", "calibration", "bins", default_method=_HONEST),
    "ece_floor": Metric(
        title="ECE of a perfect model (floor)",
        reading="what chance alone gives a perfect model",
        group="calibration",
        source="chance",
        better=None,
        default_method=None,
    ),
    "debiased_ece": Metric(
        "debiased ECE (L2)", "root mean square gap, chance taken off", "calibration", "ranking", default_method=_HONEST
    ),
    "smooth_ece": Metric(
        "smooth ECE", "how far confidence is off, without bins", "calibration", "residuals", default_method=_HONEST
    ),
    "mce": Metric("MCE", "how far it is off in the worst bin", "calibration", "bins", default_method=_HONEST),
    "ada_ece": Metric(
        "AdaECE", "as ECE, in bins of equal mass", "calibration", "ranking", default_method=_HONEST, partial_sums=2
    ),
    "ks_error": Metric(
        title="KS calibration error",
        reading="largest sum of gaps up to a confidence",
        group="calibration",
        source="ranking",
        default_method=_HONEST,
        partial_sums=1,
    ),
    "classwise_ece": Metric(
        title="classwise-ECE",
        reading="mean gap over the classes' probabilities",
        group="calibration",
        source="classes",
        default_method=_HONEST,
        of=_OF_CLASSES,
    ),
    "signed_gap": Metric(
        title="mean confidence − accuracy",
        reading="above 0 over-, below 0 under-confident",
        group="calibration",
        source="means",
        unit="points",
        range=(-1.0, 1.0),
        better=None,
    ),
    "nll_calibration": Metric(
        title="NLL, calibration part",
        reading="what one temperature would take off",
        group="parts of losses",
        source="outputs",
        unit="number",
        range=_POSITIVE,
    ),
    "nll_refinement": Metric(
        title="NLL, refinement part",
        reading="what would stay",
        group="parts of losses",
        source="outputs",
        unit="number",
        range=_POSITIVE,
    ),
    "brier_calibration": Metric(
        title="Brier, calibration part",
        reading="what one temperature would take off",
        group="parts of losses",
        source="outputs",
        unit="number",
        range=(0.0, 2.0),
    ),
    "brier_refinement": Metric(
        title="Brier, refinement part",
        reading="what would stay",
        group="parts of losses",
        source="outputs",
        unit="number",
        range=(0.0, 2.0),
    ),
    "mean_confidence": Metric("mean confidence", "how sure it says it is", "confidence", "means", better=None),
    "mean_confidence_right": Metric(
        title="mean confidence, right",
        reading="where it is right",
        group="confidence",
        source="means",
        better="higher",
        of=_OF_ANSWERS,
    ),
    "mean_confidence_wrong": Metric(
        "mean confidence, wrong", "where it is wrong; lower is better", "confidence", "means", of=_OF_ANSWERS
    ),
    "mean_entropy": Metric(
        title="mean entropy",
        reading="how spread out the probabilities are",
        group="confidence",
        of=_OF_CLASSES,
        source="means",
        unit="nats",
        range=_POSITIVE,
        better=None,
    ),
    "mean_entropy_right": Metric(
        title="mean entropy, right",
        reading="where it is right",
        group="confidence",
        of=("top",),
        source="means",
        unit="number",
        range=_POSITIVE,
    ),
    "mean_entropy_wrong": Metric(
        title="mean entropy, wrong",
        reading="where it is wrong; higher is better",
        group="confidence",
        of=("top",),
        source="means",
        unit="number",
        range=_POSITIVE,
        better="higher",
    ),
    "confident_share": Metric(
        title="confidence ≥ 0.99 (|S99|)",
        reading="samples of which it is 99% sure or more",
        group="confidence",
        of=_OF_ANSWERS,
        source="means",
        better=None,
    ),
    "confident_accuracy": Metric(
        title="accuracy of |S99|",
        reading="how often it is right about those",
        group="confidence",
        of=_OF_ANSWERS,
        source="means",
        better="higher",
    ),
}


# What the words are where predictions are scores.
_OF_SCORES: Mapping[str, Mapping[str, str]] = {
    "error": {"reading": "how often the more probable class is wrong"},
    "accuracy": {"reading": "how often the more probable class is right"},
    "ece": {"reading": "how far the score is off, on average"},
    "smooth_ece": {"reading": "how far the score is off, without bins"},
    "ks_error": {"reading": "largest sum of gaps up to a score"},
    "signed_gap": {
        "title": "mean score − frequency of class 1",
        "reading": "above 0 scores are too high, below 0 too low",
    },
    "mean_confidence": {"title": "mean score", "reading": "how probable it says class 1 is"},
}


def describe_metric(name: str, of: Of, event: str | None = None) -> Metric:
    """Return a metric with the words for what calibration is measured of; ``event`` is what class 1 is called.

    Examples:
        >>> describe_metric("signed_gap", "score").title, describe_metric("signed_gap", "top").title
        ('mean score − frequency of class 1', 'mean confidence − accuracy')
    """
    metric = METRICS[name]
    if of == "confidence" and name == "nll":
        metric = replace(metric, reading="loss of the confidence as a probability; lower is better")
    if of != "top" and name == "brier":
        metric = replace(metric, reading="squared error of the probability, 0 to 1", range=(0.0, 1.0))
    words = _OF_SCORES.get(name, {}) if of == "score" else {}
    return replace(metric, **{part: with_event(text, event) for part, text in words.items()}) if words else metric  # type: ignore[arg-type]


def names_for(names: Iterable[str], num_classes: int, of: Of) -> tuple[str, ...]:
    """Return those of the metrics that predictions of this number of classes, measured so, can have.

    Examples:
        >>> names_for(["ece", "classwise_ece", "top_5_accuracy"], num_classes=2, of="score")
        ('ece', 'classwise_ece')
    """
    return tuple(name for name in names if num_classes >= METRICS[name].fewest_classes and of in METRICS[name].of)
