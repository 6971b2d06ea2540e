"""Drift of calibrators: whether one that was fitted on earlier data still holds on new data."""

import math
import warnings
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from focalcal.base.files import null_for_nan
from focalcal.calibrators.base import CalibrationWarning, Calibrator
from focalcal.calibrators.cross_validation import draw_folds, mean_and_error
from focalcal.calibrators.temperature_scaling import TemperatureScaling
from focalcal.metrics import METRICS, sample_statistics
from focalcal.metrics.bootstrap.intervals import check_resampling
from focalcal.metrics.clusters import FEW_CLUSTERS, cluster_numbers, count_clusters
from focalcal.metrics.gap_intervals import tail, z_score
from focalcal.predictions import Predictions

_FOLDS = 5
# Fewer samples (or clusters) than this cannot be fitted on and judged by.
_FEWEST_SAMPLES = 10


@dataclass(frozen=True)
class ScoreChange:
    """The mean difference of a proper score over samples, with its significance.

    Attributes:
        mean: The mean difference.
        interval: Confidence interval of the mean.
        p_value: Two-sided, of no difference.
    """

    mean: float
    interval: tuple[float, float]
    p_value: float


@dataclass(frozen=True)
class CalibratorDrift:
    """Value of a fitted calibrator on new data.

    Attributes:
        method: The calibrator's method.
        learned: What it learned, in words.
        n: The number of new samples.
        clusters: The number of clusters that they belong to; None where samples are independent of each other.
        score: The proper score that judges: ``"nll"``, or ``"brier"`` where the NLL is infinite.
        uncalibrated: The score of the new data uncalibrated.
        calibrated: After the calibrator.
        refitted: After one of its kind that was fitted on the new data; each sample by a fit on the other folds.
        gain: Uncalibrated − calibrated: above 0 the calibrator still helps.
        loss: Calibrated − refitted: above 0 a refit is better.
        level: Level of intervals and tests.
    """

    method: str
    learned: str
    n: int
    clusters: int | None
    score: str
    uncalibrated: float
    calibrated: float
    refitted: float
    gain: ScoreChange
    loss: ScoreChange
    level: float

    @property
    def holds(self) -> bool:
        """True if a refit on the new data is not significantly better."""
        return not (self.loss.mean > 0 and self.loss.p_value <= 1 - self.level + 1e-12)

    @property
    def helps(self) -> bool:
        """True if it is significantly better than no calibration."""
        return self.gain.mean > 0 and self.gain.p_value <= 1 - self.level + 1e-12

    @property
    def verdict(self) -> str:
        """In words: whether it still holds, and what a refit would change."""
        title = METRICS[self.score].title
        p_value = f" ({_p_text(self.loss.p_value)})"
        if self.holds and self.loss.mean <= 0:
            first, p_value = f"still holds: a refit on the new data has no lower {title}", ""
        elif self.holds:
            first = f"still holds: a refit on the new data has no significantly lower {title}"
        else:
            first = f"no longer holds: a refit on the new data would lower the {title} by {self.loss.mean:.4f}"
        small = self.gain.p_value <= 1 - self.level + 1e-12
        side = "lower than" if self.helps else "higher than" if small else "not significantly different from"
        second = f"{title} {self.calibrated:.4f} is {side} {self.uncalibrated:.4f} uncalibrated"
        few = self.clusters is not None and self.clusters < FEW_CLUSTERS
        roughly = f" Judged by {self.clusters} clusters, which are few: p-values are rough." if few else ""
        return f"{first}{p_value}; {second} ({_p_text(self.gain.p_value)}).{roughly}"

    def to_dict(self) -> dict[str, Any]:
        """Return everything for JSON: undefined numbers are None."""
        numbers = {name: getattr(self, name) for name in ("method", "learned", "n", "clusters", "score", "level")}
        scores = {name: getattr(self, name) for name in ("uncalibrated", "calibrated", "refitted")}
        changes = {name: vars(getattr(self, name)) for name in ("gain", "loss")}
        content: dict[str, Any] = null_for_nan(
            {**numbers, **scores, **changes, "holds": self.holds, "helps": self.helps, "verdict": self.verdict}
        )
        return content


def calibrator_drift(
    calibrator: Calibrator, preds: Predictions, *, level: float = 0.90, seed: int = 0
) -> CalibratorDrift:
    """Judge a fitted calibrator on new data: does January's still hold in February?

    It is compared, sample by sample and by NLL, with no calibration and with a calibrator of its kind that is fitted on
    the new data: in five folds, each sample by a fit on the other four, so that a refit has no advantage from having
    seen the sample. The calibrator no longer holds if the refit is significantly better. One without anything to learn
    is compared with temperature scaling. Samples of one cluster stay in one fold, and differences are judged by
    clusters.

    Args:
        calibrator: Fitted on earlier data.
        preds: New predictions with labels, at least 10, or of at least 10 clusters.
        level: Level of intervals and tests.
        seed: Seed for the folds.

    Examples:
        >>> generator = torch.Generator().manual_seed(0)
        >>> def month(sharpness):
        ...     logits = 2 * torch.randn(2000, 4, generator=generator)
        ...     labels = torch.multinomial(logits.softmax(1), 1, generator=generator)[:, 0]
        ...     return Predictions.from_logits(sharpness * logits, labels)
        >>> january = TemperatureScaling().fit(month(2.0))
        >>> calibrator_drift(january, month(2.0)).holds, calibrator_drift(january, month(3.0)).holds
        (True, False)
    """
    check_resampling(1, level, seed)
    transformed = calibrator.transform(preds)
    numbers = cluster_numbers(preds)
    units = len(preds) if numbers is None else count_clusters(numbers, preds.weights)
    if units < _FEWEST_SAMPLES:
        what = f"{units} samples" if numbers is None else f"the samples of {units} clusters"
        raise ValueError(f"A calibrator cannot be judged by {what}: give at least {_FEWEST_SAMPLES} of the new data.")
    scores = [_scores(preds), _scores(transformed), _score_refits(calibrator, preds, seed)]
    score = "nll" if all(bool(one["nll"].isfinite().all()) for one in scores) else "brier"
    before, after, again = (one[score] for one in scores)
    means = [mean_and_error(one, preds.weights)[0] for one in (before, after, again)]
    return CalibratorDrift(
        method=calibrator.method,
        learned=calibrator.describe(),
        n=len(preds),
        clusters=None if numbers is None else units,
        score=score,
        uncalibrated=means[0],
        calibrated=means[1],
        refitted=means[2],
        gain=_change(before - after, preds.weights, numbers, level),
        loss=_change(after - again, preds.weights, numbers, level),
        level=level,
    )


def _scores(preds: Predictions) -> dict[str, Tensor]:
    statistics = sample_statistics(preds)
    return {"nll": statistics.nll, "brier": statistics.brier}


def _score_refits(calibrator: Calibrator, preds: Predictions, seed: int) -> dict[str, Tensor]:
    """Score each sample by a fit on the other folds."""
    folds = draw_folds(preds, _FOLDS, seed)
    found = {name: torch.empty(len(preds), dtype=torch.float64) for name in ("nll", "brier")}
    for fold in range(int(folds.max()) + 1):
        held_out = folds == fold
        again = type(calibrator)(**calibrator.get_params()) if calibrator.needs_fit else TemperatureScaling()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrationWarning)
            again.fit(preds.select(~held_out), allow_test=True)
        for name, values in _scores(again.transform(preds.select(held_out))).items():
            found[name][held_out] = values
    return found


def _change(differences: Tensor, weights: Tensor | None, clusters: Tensor | None, level: float) -> ScoreChange:
    mean, error = mean_and_error(differences, weights, clusters)
    degrees = math.inf if clusters is None else float(max(count_clusters(clusters, weights) - 1, 1))
    reach = z_score(level, degrees) * error
    p_value = 1.0 if mean == 0 else 2 * tail(-abs(mean) / error, degrees) if error > 0 else math.nan
    return ScoreChange(mean, (mean - reach, mean + reach), p_value)


def _p_text(p_value: float) -> str:
    return "p < 0.001" if p_value < 0.001 else f"p = {p_value:.2g}"
