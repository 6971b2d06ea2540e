"""Scorers: the metrics, negated where lower is better, whatever classes a fold has."""

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
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
