"""What is measured on predictions. Fractions, not percent; entropy and NLL in nats; NaN where a metric is undefined."""

from focalcal.metrics.accumulator import Accumulator
from focalcal.metrics.calibration_error import ada_ece, class_table, classwise_ece, ece, mce
from focalcal.metrics.class_table import ClassTable
from focalcal.metrics.comparison import compare, compare_many
from focalcal.metrics.conventions import bins_by_convention
from focalcal.metrics.debiased import debiased_ece
from focalcal.metrics.differences import Comparison, Difference
from focalcal.metrics.evaluate import evaluate
from focalcal.metrics.evaluation import METRIC_TITLES, Evaluation
from focalcal.metrics.floor import ece_floor
from focalcal.metrics.intervals import Bootstrap, bootstrap
from focalcal.metrics.ood import OodEvaluation, fpr_at_tpr, ood_auroc, ood_evaluate
from focalcal.metrics.refinement import (
    LossSplit,
    brier_calibration,
    brier_refinement,
    brier_split,
    loss_splits,
    nll_calibration,
    nll_refinement,
    nll_split,
)
from focalcal.metrics.scores import (
    accuracy,
    brier,
    confident_accuracy,
    confident_share,
    error,
    mean_confidence,
    mean_entropy,
    nll,
    signed_gap,
    top_k_accuracy,
)
from focalcal.metrics.smooth import smooth_ece
from focalcal.metrics.statistics import SampleStatistics, sample_statistics

__all__ = [
    "METRIC_TITLES",
    "Accumulator",
    "Bootstrap",
    "ClassTable",
    "Comparison",
    "Difference",
    "Evaluation",
    "LossSplit",
    "OodEvaluation",
    "SampleStatistics",
    "accuracy",
    "ada_ece",
    "bins_by_convention",
    "bootstrap",
    "brier",
    "brier_calibration",
    "brier_refinement",
    "brier_split",
    "class_table",
    "classwise_ece",
    "compare",
    "compare_many",
    "confident_accuracy",
    "confident_share",
    "debiased_ece",
    "ece",
    "ece_floor",
    "error",
    "evaluate",
    "fpr_at_tpr",
    "loss_splits",
    "mce",
    "mean_confidence",
    "mean_entropy",
    "nll",
    "nll_calibration",
    "nll_refinement",
    "nll_split",
    "ood_auroc",
    "ood_evaluate",
    "sample_statistics",
    "signed_gap",
    "smooth_ece",
    "top_k_accuracy",
]
