"""The reliability display: the diagrams of focalcal.plots, drawn on an axis."""

import sys

import numpy as np
import pytest
from matplotlib.figure import Figure
from sklearn.calibration import calibration_curve
from sklearn.datasets import load_iris, make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

import focalcal as fc
from focalcal.integrations.sklearn import ReliabilityDisplay

X, Y = load_iris(return_X_y=True)
NAMES = load_iris().target_names[Y]
MODEL = LogisticRegression(max_iter=500, C=0.1).fit(X, NAMES)


def test_top_label():
    ax = Figure().subplots()
    display = ReliabilityDisplay.from_estimator(MODEL, X, NAMES, bins=10, ax=ax)
    expected = fc.plots.reliability_diagram(fc.Predictions.from_probs(MODEL.predict_proba(X), Y), bins=10)
    for part in ("count", "confidence", "accuracy", "low", "high"):
        np.testing.assert_array_equal(getattr(display.diagram, part), getattr(expected, part))
    assert display.ax_ is ax
    assert display.figure_ is ax.figure
    assert f"LogisticRegression, ECE {expected.ece:.2%}" in [text.get_text() for text in ax.get_legend().get_texts()]
    assert display.plot(ax, name="again") is display


@pytest.mark.parametrize("binning", ["equal-width", "equal-mass"])
@pytest.mark.parametrize("label", ["setosa", "virginica"])
def test_one_class(label, binning):
    display = ReliabilityDisplay.from_estimator(MODEL, X, NAMES, label=label, bins=5, binning=binning, level=0.95)
    p, hit = MODEL.predict_proba(X)[:, MODEL.classes_.tolist().index(label)], label == NAMES
    if binning == "equal-width":
        share, mean = calibration_curve(hit, p, n_bins=5)
        held = display.diagram.count > 0
        np.testing.assert_allclose(display.diagram.accuracy[held], share)
        np.testing.assert_allclose(display.diagram.confidence[held], mean)
    assert display.diagram.count.sum() == len(X)
    assert display.diagram.level == 0.95
    inside = display.diagram.count > 0
    assert (display.diagram.low[inside] <= display.diagram.accuracy[inside] + 1e-12).all()
    assert display.ax_.get_xlabel() == f"probability of {label}"


def test_one_column_of_two_classes():
    features, labels = make_classification(100, random_state=0)
    p = LogisticRegression().fit(features, labels).predict_proba(features)
    one = ReliabilityDisplay.from_predictions(labels, p[:, 1], label=1, bins=4)
    two = ReliabilityDisplay.from_predictions(labels, p, label=1, bins=4)
    np.testing.assert_allclose(one.diagram.accuracy, two.diagram.accuracy)
    weights = np.linspace(0, 1, 100)
    weighted = ReliabilityDisplay.from_predictions(labels, p, sample_weight=weights)
    assert weighted.diagram.count.sum() == pytest.approx(weights.sum())


def test_bad_input(monkeypatch):
    with pytest.raises(TypeError, match="LinearSVC has no predict_proba"):
        ReliabilityDisplay.from_estimator(LinearSVC().fit(X, Y), X, Y)
    with pytest.raises(ValueError, match="no class 'rose'; the classes are 'setosa', 'versicolor', 'virginica'"):
        ReliabilityDisplay.from_estimator(MODEL, X, NAMES, label="rose")
    with pytest.raises(ValueError, match=r"3 columns of probabilities and 2 classes; pass classes="):
        ReliabilityDisplay.from_predictions(NAMES[:100], MODEL.predict_proba(X[:100]))
    with pytest.raises(ValueError, match="There is no class 3; there are 3, from 0"):
        fc.plots.class_reliability_diagram(fc.Predictions.from_probs(MODEL.predict_proba(X), Y), 3)
    soft = fc.Predictions.from_probs(MODEL.predict_proba(X), MODEL.predict_proba(X))
    with pytest.raises(ValueError, match="The labels are soft"):
        fc.plots.class_reliability_diagram(soft, 1)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install 'focalcal\[plots\]'"):
        ReliabilityDisplay.from_estimator(MODEL, X, NAMES)
