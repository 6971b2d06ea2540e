"""Metrics of predictions: fractions, not percent; entropy and NLL in nats; NaN where a metric is undefined.

The names are imported on first use: the command line takes the catalogue from here, and must not wait for torch.
"""

from typing import TYPE_CHECKING

from focalcal.base.lazy import lazy_names

if TYPE_CHECKING:
    from focalcal.metrics.bootstrap.comparison import compare as compare
    from focalcal.metrics.bootstrap.comparison import compare_many as compare_many
    from focalcal.metrics.bootstrap.differences import Comparison as Comparison
    from focalcal.metrics.bootstrap.differences import Difference as Difference
    from focalcal.metrics.bootstrap.intervals import Bootstrap as Bootstrap
    from focalcal.metrics.calibration_error import bins_by_convention as bins_by_convention
    from focalcal.metrics.calibration_error import ece as ece
    from focalcal.metrics.calibration_error import mce as mce
    from focalcal.metrics.calibration_testing import calibration_test as calibration_test
    from focalcal.metrics.catalogue import METRICS as METRICS
    from focalcal.metrics.catalogue import Metric as Metric
    from focalcal.metrics.classwise import ClassTable as ClassTable
    from focalcal.metrics.classwise import class_table as class_table
    from focalcal.metrics.classwise import classwise_ece as classwise_ece
    from focalcal.metrics.evaluating import evaluate as evaluate
    from focalcal.metrics.evaluation import CalibrationTest as CalibrationTest
    from focalcal.metrics.evaluation import Evaluation as Evaluation
    from focalcal.metrics.floor import ece_floor as ece_floor
    from focalcal.metrics.group_results import GroupResult as GroupResult
    from focalcal.metrics.group_results import GroupTable as GroupTable
    from focalcal.metrics.group_results import GroupTest as GroupTest
    from focalcal.metrics.honest_intervals import calibration_intervals as calibration_intervals
    from focalcal.metrics.ood import OodEvaluation as OodEvaluation
    from focalcal.metrics.ood import fpr_at_tpr as fpr_at_tpr
    from focalcal.metrics.ood import ood_auroc as ood_auroc
    from focalcal.metrics.ood import ood_evaluate as ood_evaluate
    from focalcal.metrics.predicted_classes import PredictedClasses as PredictedClasses
    from focalcal.metrics.predicted_classes import calibration_by_class as calibration_by_class
    from focalcal.metrics.ranking import ada_ece as ada_ece
    from focalcal.metrics.ranking import debiased_ece as debiased_ece
    from focalcal.metrics.ranking import ks_error as ks_error
    from focalcal.metrics.refinement import LossSplit as LossSplit
    from focalcal.metrics.refinement import brier_calibration as brier_calibration
    from focalcal.metrics.refinement import brier_refinement as brier_refinement
    from focalcal.metrics.refinement import brier_split as brier_split
    from focalcal.metrics.refinement import loss_splits as loss_splits
    from focalcal.metrics.refinement import nll_calibration as nll_calibration
    from focalcal.metrics.refinement import nll_refinement as nll_refinement
    from focalcal.metrics.refinement import nll_split as nll_split
    from focalcal.metrics.samples import SampleStatistics as SampleStatistics
    from focalcal.metrics.samples import sample_statistics as sample_statistics
    from focalcal.metrics.scores import accuracy as accuracy
    from focalcal.metrics.scores import brier as brier
    from focalcal.metrics.scores import confident_accuracy as confident_accuracy
    from focalcal.metrics.scores import confident_share as confident_share
    from focalcal.metrics.scores import error as error
    from focalcal.metrics.scores import mean_confidence as mean_confidence
    from focalcal.metrics.scores import mean_confidence_right as mean_confidence_right
    from focalcal.metrics.scores import mean_confidence_wrong as mean_confidence_wrong
    from focalcal.metrics.scores import mean_entropy as mean_entropy
    from focalcal.metrics.scores import mean_entropy_right as mean_entropy_right
    from focalcal.metrics.scores import mean_entropy_wrong as mean_entropy_wrong
    from focalcal.metrics.scores import nll as nll
    from focalcal.metrics.scores import signed_gap as signed_gap
    from focalcal.metrics.scores import top_5_accuracy as top_5_accuracy
    from focalcal.metrics.scores import top_k_accuracy as top_k_accuracy
    from focalcal.metrics.smooth import smooth_ece as smooth_ece
    from focalcal.metrics.streaming.accumulator import Accumulator as Accumulator
    from focalcal.metrics.streaming.sharded_evaluation import evaluate_shards as evaluate_shards

__getattr__, __dir__, __all__ = lazy_names(__name__)
