"""scikit-learn's own checks of estimators."""

import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

from focalcal.integrations.sklearn import CalibratedClassifier, ProbabilityCalibrator

pytestmark = [
    pytest.mark.filterwarnings("ignore::focalcal.CalibrationWarning"),  # the data of the checks are separable
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning"),
]


class FirstFeatureCalibrator(ProbabilityCalibrator):
    """The checks feed features of any number, which are no probabilities: the first serves as the logit of class 1."""

    def _check_scores(self, p, y="no_validation", *, reset=False):
        return super()._check_scores(p, y, reset=reset)[:, :1]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # one feature is not a classifier
        return tags


_WEIGHTS = "check_sample_weight_equivalence_on_{}_data"
# Either reason alone is enough. The check passes with folds that keep equal samples together and with n = Σw, but then
# weights multiplied by 100 would be a hundred times as many samples, and penalties would vanish.
_AUTO = (
    "auto deals a sample and its copy into folds of their own, and its penalties fall with the number of samples, "
    "which with weights is (Σw)²/Σw²: the scale of weights means nothing, so that a weight of 2 is not two samples."
)


def expected_failures(estimator):
    if isinstance(estimator, CalibratedClassifier):
        return {_WEIGHTS.format(kind): _AUTO for kind in ("dense", "sparse") if estimator.method == "auto"}
    return {
        "check_fit1d": "One column of scores is what two classes have.",
        _WEIGHTS.format("dense"): "The ridge of Platt scaling falls with the number of samples, which with weights is "
        "(Σw)²/Σw²: the scale of weights means nothing.",
    }


@pytest.mark.slow
@parametrize_with_checks(
    [
        CalibratedClassifier(LogisticRegression(), cv=2),
        CalibratedClassifier(LogisticRegression(), "temperature", cv=3),
        FirstFeatureCalibrator("platt", kind="logits"),
    ],
    expected_failed_checks=expected_failures,
)
def test_check(estimator, check):
    check(estimator)
