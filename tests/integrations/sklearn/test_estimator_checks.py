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

    def _checked(self, p, y="no_validation", *, reset=False):
        return super()._checked(p, y, reset=reset)[:, :1]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # one feature is not a classifier
        return tags


def expected_failures(estimator):
    if isinstance(estimator, CalibratedClassifier):
        return {}
    return {
        "check_fit1d": "One column of scores is what two classes have.",
        "check_sample_weight_equivalence_on_dense_data": "The ridge of Platt scaling falls with the number of samples, "
        "which weights do not change as repeated samples would.",
    }


@parametrize_with_checks(
    [CalibratedClassifier(LogisticRegression(), "temperature", cv=3), FirstFeatureCalibrator("platt", kind="logits")],
    expected_failed_checks=expected_failures,
)
def test_check(estimator, check):
    check(estimator)
