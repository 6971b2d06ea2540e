"""What `evaluate` was asked for."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from focalcal.metrics.evaluation import METRIC_TITLES, Evaluation
from focalcal.metrics.resampling.scalars import TOP_K

# These need the outputs themselves, several times over.
PARTS_OF_LOSSES = ("nll_calibration", "nll_refinement", "brier_calibration", "brier_refinement")


@dataclass(frozen=True)
class EvaluationRequest:
    """The metrics wanted, and how.

    Attributes:
        names: the metrics, in the order wanted.
        by_name: whether they were named, or are all that there are.
        bins: of binned metrics.
        resamples: how many of them intervals are made of; 0 for no intervals.
        level: of the intervals.
        seed: of the resamples.
    """

    names: tuple[str, ...]
    by_name: bool
    bins: int
    resamples: int
    level: float
    seed: int

    def chosen(self, evaluation: Evaluation) -> Evaluation:
        """Only what is wanted, in its order."""
        values, bounds = evaluation.values, evaluation.bounds
        return replace(
            evaluation,
            values={name: values[name] for name in self.names if name in values},
            bounds={name: bounds[name] for name in self.names if name in bounds},
        )


def checked_names(metrics: Sequence[str] | None, num_classes: int) -> tuple[str, ...]:
    """The names asked for, or all that make sense for so many classes; raises for what is no metric.

    Examples:
        >>> checked_names(["ece", "nll", "ece"], num_classes=10)
        ('ece', 'nll')
    """
    possible = tuple(name for name in METRIC_TITLES if name != "top_5_accuracy" or num_classes > TOP_K)
    if metrics is None:
        return possible
    if isinstance(metrics, str):
        raise TypeError(f"metrics must be a list of names; pass [{metrics!r}].")
    for name in metrics:
        if name not in possible:
            nearest = difflib.get_close_matches(str(name).lower().replace("-", "_"), possible, n=1, cutoff=0.0)
            raise ValueError(f"There is no metric {name!r}; did you mean {nearest[0]!r}? (All: {', '.join(possible)}.)")
    return tuple(dict.fromkeys(metrics))
