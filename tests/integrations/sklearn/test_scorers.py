"""Scorers: the metrics, negated where lower is better, whatever classes a fold has."""

import pickle

import numpy as np
import pytest
import sklearn
from sklearn.datasets import load_iris, make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, log_loss, make_scorer
from sklearn.model_selection import cross_validate
from sklearn.svm import LinearSVC

import focalcal as fc
from focalcal.integrations import sklearn as ours
from focalcal.integrations.sklearn import MetricScorer, neg_ece, neg_nll
from focalcal.metrics import METRICS

X, Y = load_iris(return_X_y=True)
NAMES = load_iris().target_names[Y]
MODEL = LogisticRegression(max_iter=500).fit(X, NAMES)


@pytest.mark.parametrize(
    "name", [name for name, metric in METRICS.items() if metric.better and metric.fewest_classes < 4]
)
def test_every_metric_that_can_be_better(name):
    preds = fc.Predictions.from_probs(MODEL.predict_proba(X), Y)
    sign = 1 if METRICS[name].better == "higher" else -1
    assert MetricScorer(name)(MODEL, X, NAMES) == sign * getattr(fc.metrics, name)(preds)


def test_those_with_names():
    for name in [name for name in ours.__all__ if name.startswith("neg_")]:
        scorer = getattr(ours, name)
        assert repr(scorer) == f"MetricScorer({name!r})"
        assert scorer(MODEL, X, NAMES) <= 0
    assert neg_nll(MODEL, X, NAMES) == pytest.approx(-log_loss(NAMES, MODEL.predict_proba(X)))


def test_a_fold_without_a_class_and_two_classes():
    rows = Y < 2
    expected = fc.metrics.ece(fc.Predictions.from_probs(MODEL.predict_proba(X[rows]), Y[rows]))
    assert neg_ece(MODEL, X[rows], NAMES[rows]) == -expected
    features, labels = make_classification(60, random_state=0)
    binary = LogisticRegression().fit(features, labels == 1)
    expected = fc.metrics.brier(fc.Predictions.from_probs(binary.predict_proba(features), labels))
    assert ours.neg_brier(binary, features, labels == 1) == -expected


def test_weights_and_options():
    weights = np.linspace(0, 2, len(Y))
    preds = fc.Predictions.from_probs(MODEL.predict_proba(X), Y, weights=weights)
    assert MetricScorer("ece", bins=7)(MODEL, X, NAMES, sample_weight=weights) == -fc.metrics.ece(preds, bins=7)


def test_weights_reach_a_scorer_that_asks_for_them():
    weights = np.linspace(0.1, 2, len(Y))
    train, test = np.flatnonzero(np.arange(len(Y)) % 2), np.flatnonzero(np.arange(len(Y)) % 2 == 0)
    with sklearn.config_context(enable_metadata_routing=True):
        model = LogisticRegression(max_iter=500).set_fit_request(sample_weight=False)
        scorer = MetricScorer("brier").set_score_request(sample_weight=True)
        options = {"scoring": scorer, "return_estimator": True, "error_score": "raise"}
        scores = cross_validate(model, X, NAMES, params={"sample_weight": weights}, cv=[(train, test)], **options)
    (fitted,) = scores["estimator"]
    preds = fc.Predictions.from_probs(fitted.predict_proba(X[test]), Y[test], weights=weights[test])
    assert scores["test_score"] == pytest.approx([-fc.metrics.brier(preds)], rel=1e-12)


def test_a_fold_that_lacks_a_class_is_measured_in_cross_validation():
    rows = np.flatnonzero(Y < 2)[::5]
    folds = [(np.setdiff1d(np.arange(len(Y)), rows), rows)]
    scores = cross_validate(LogisticRegression(max_iter=500), X, NAMES, cv=folds, scoring=neg_nll, error_score="raise")
    assert scores["test_score"][0] > -0.5


def test_a_small_probability_of_the_first_of_two_classes_keeps_its_digits():
    class Sure:
        classes_ = np.array(["no", "yes"])

        def predict_proba(self, X):
            return np.column_stack([np.full(len(X), 1e-30), np.ones(len(X))])

    assert neg_nll(Sure(), X[:2], np.array(["no", "yes"])) == pytest.approx(np.log(1e-30) / 2)


def test_they_are_what_make_scorer_makes():
    assert isinstance(neg_ece, type(make_scorer(accuracy_score)))
    copied = pickle.loads(pickle.dumps(MetricScorer("ece", bins=7)))
    assert repr(copied) == "MetricScorer('neg_ece', bins=7)"
    assert copied(MODEL, X, NAMES) == MetricScorer("ece", bins=7)(MODEL, X, NAMES)


def test_cross_validation_with_several():
    scores = cross_validate(
        LogisticRegression(max_iter=500), X, NAMES, cv=3, scoring={"ece": neg_ece, "accuracy": "accuracy"}
    )
    assert scores["test_ece"].shape == (3,)
    assert (scores["test_ece"] < 0).all()


def test_bad_input():
    with pytest.raises(ValueError, match="There is no metric 'esce'; did you mean 'ece'"):
        MetricScorer("esce")
    with pytest.raises(ValueError, match="Neither high nor low values of mean_confidence are better"):
        MetricScorer("mean_confidence")
    with pytest.raises(TypeError, match=r"LinearSVC has no predict_proba, which MetricScorer\('neg_ece'\) needs"):
        neg_ece(LinearSVC().fit(X, Y), X, Y)
    with pytest.raises(ValueError, match="The label 'rose' is not one of the classes, 'setosa'"):
        neg_ece(MODEL, X, np.full(len(X), "rose"))
