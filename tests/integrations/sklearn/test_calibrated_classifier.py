"""Calibrated classifiers: what they calibrate, and that they work wherever a classifier of scikit-learn does."""

import pickle

import numpy as np
import pandas
import pytest
from scipy.sparse import csr_matrix
from sklearn.datasets import load_digits, make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier, SGDClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    ShuffleSplit,
    TimeSeriesSplit,
    cross_val_predict,
    cross_val_score,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

import focalcal as fc
from focalcal.integrations.sklearn import CalibratedClassifier, neg_nll

NAMES = np.array(["cat", "dog", "eel"])


def samples(n=240, classes=3, seed=0):
    X, y = make_classification(
        n, 8, n_informative=5, n_redundant=0, n_classes=classes, class_sep=0.7, flip_y=0.1, random_state=seed
    )
    return X, NAMES[y]


def parts(*arrays, n=160):
    return [part for array in arrays for part in (array[:n], array[n:])]


def test_it_is_a_calibrator_on_held_out_predictions_and_a_classifier_trained_on_all():
    X, y = samples()
    X, new, y, _ = parts(X, y)
    model = CalibratedClassifier(GaussianNB(), "structured-vector", cv=4).fit(X, y)
    held_out = cross_val_predict(GaussianNB(), X, y, cv=4, method="predict_proba")
    numbers = np.searchsorted(NAMES, y)
    calibrator = fc.StructuredScaling("vector").fit(fc.Predictions.from_probs(held_out, numbers))
    inner = GaussianNB().fit(X, y).predict_proba(new)
    expected = calibrator.transform(fc.Predictions.from_probs(inner, np.zeros(len(new), int))).probs()
    np.testing.assert_allclose(model.predict_proba(new), expected.numpy(), atol=1e-12)
    np.testing.assert_array_equal(model.predict(new), NAMES[expected.numpy().argmax(1)])
    assert model.classes_.tolist() == ["cat", "dog", "eel"]


def test_naive_bayes_is_over_confident_and_repaired():
    digits = load_digits()
    X, new, y, truth = parts(digits.data, digits.target, n=900)
    plain = log_loss(truth, GaussianNB().fit(X, y).predict_proba(new), labels=range(10))
    repaired = log_loss(truth, CalibratedClassifier(GaussianNB(), "temperature").fit(X, y).predict_proba(new))
    assert repaired < 0.5 * plain


@pytest.mark.parametrize(
    ("estimator", "response"),
    [
        (LogisticRegression(), "decision_function"),
        (make_pipeline(StandardScaler(), LogisticRegression()), "decision_function"),
        (LinearSVC(), "decision_function"),
        (SVC(), "decision_function"),
        (RidgeClassifier(), "decision_function"),
        (SGDClassifier("modified_huber", alpha=0.1, random_state=0), "predict_proba"),  # its scores are not logits
        (GaussianNB(), "predict_proba"),
        (RandomForestClassifier(5, random_state=0), "predict_proba"),  # exact zeros
    ],
)
@pytest.mark.parametrize("classes", [2, 3])
def test_a_decision_function_is_calibrated_where_it_is_a_logit(estimator, response, classes):
    X, y = samples(classes=classes)
    X, new, y, truth = parts(X, y)
    model = CalibratedClassifier(estimator, "temperature", cv=3).fit(X, y)
    assert model.response_ == response
    probs = model.predict_proba(new)
    np.testing.assert_allclose(probs.sum(1), 1)
    assert log_loss(truth, probs) < np.log(classes)
    assert model.describe().startswith(f"{response} of {type(estimator).__name__}, calibrated by temperature: ")


def test_scores_of_pairs_of_classes_are_not_taken_for_scores_of_classes():
    X, y = samples()
    with pytest.raises(TypeError, match="neither predict_proba nor a decision_function with one score per class"):
        CalibratedClassifier(make_pipeline(SVC(decision_function_shape="ovo"))).fit(X, y)


@pytest.mark.parametrize("labels", [np.array([3, 7]), np.array([False, True]), np.array(["no", "yes"], dtype=object)])
def test_labels_of_any_type(labels):
    X, y = make_classification(80, random_state=0)
    model = CalibratedClassifier(LogisticRegression(), "platt", cv=3).fit(X, labels[y])
    assert set(model.predict(X).tolist()) == set(labels.tolist())
    assert np.mean(model.predict(X) == labels[y]) > 0.8


def test_a_trained_classifier_stays_as_it_is():
    X, y = samples()
    X, new, y, truth = parts(X, y)
    trained = GaussianNB().fit(X, y)
    model = CalibratedClassifier(FrozenEstimator(trained), "temperature").fit(new, truth)
    expected = fc.TemperatureScaling().fit(
        fc.Predictions.from_probs(trained.predict_proba(new), np.searchsorted(NAMES, truth))
    )
    assert model.calibrator_.temperature_ == expected.temperature_
    assert model.estimator_.estimator is trained
    assert "of GaussianNB" in model.describe()
    with pytest.raises(ValueError, match="knows the class 'eel', which is not in y"):
        model.fit(new[truth != "eel"], truth[truth != "eel"])
    with pytest.raises(ValueError, match="not been trained on the class 'fox'"):
        model.fit(new, np.where(truth == "eel", "fox", truth))


def test_pipelines_grids_and_pickles():
    X, y = samples()
    pipeline = make_pipeline(StandardScaler(), CalibratedClassifier(GaussianNB(), "temperature", cv=3))
    grid = {
        "calibratedclassifier__method": ["identity", "temperature", fc.StructuredScaling("vector")],
        "calibratedclassifier__estimator__var_smoothing": [1e-9, 1e-3],
    }
    search = GridSearchCV(pipeline, grid, scoring=neg_nll, cv=3, error_score="raise").fit(X, y)
    assert search.best_score_ == max(search.cv_results_["mean_test_score"])
    again = pickle.loads(pickle.dumps(search.best_estimator_))
    np.testing.assert_array_equal(again.predict_proba(X), search.predict_proba(X))


def test_arguments_of_a_calibrator_in_a_grid():
    X, y = samples()
    model = CalibratedClassifier(GaussianNB(), fc.StructuredScaling("vector"), cv=3)
    search = GridSearchCV(model, {"method__strength": [0.1, 10.0]}, scoring=neg_nll, cv=2, error_score="raise").fit(
        X, y
    )
    assert search.best_estimator_.calibrator_.strength_ == search.best_params_["method__strength"]
    assert model.method.strength == 1.0
    assert model.method.record_ is None
    with pytest.raises(ValueError, match="StructuredScaling has no argument 'strenght'; did you mean 'strength'"):
        model.set_params(method__strenght=1.0)


def test_weights_count_for_the_classifier_and_the_calibrator():
    X, y = samples(120)
    folds = np.arange(len(y)) % 3
    weights = 1 + np.arange(len(y)) % 2
    twice = np.repeat(np.arange(len(y)), weights)

    def splits(of):
        return [(np.flatnonzero(of != number), np.flatnonzero(of == number)) for number in range(3)]

    weighted = CalibratedClassifier(GaussianNB(), "temperature", cv=splits(folds)).fit(X, y, weights)
    repeated = CalibratedClassifier(GaussianNB(), "temperature", cv=splits(folds[twice])).fit(X[twice], y[twice])
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-8)
    pipeline = make_pipeline(StandardScaler(), GaussianNB())
    with pytest.warns(UserWarning, match="Pipeline takes no sample_weight: the weights count for the calibrator only"):
        CalibratedClassifier(pipeline, "temperature", cv=3).fit(X, y, weights)


def test_data_frames_and_sparse_matrices_reach_the_classifier():
    X, y = samples()
    frame = pandas.DataFrame(X, columns=list("abcdefgh"))
    model = CalibratedClassifier(LogisticRegression(), "temperature", cv=3).fit(frame, pandas.Series(y))
    assert model.feature_names_in_.tolist() == list("abcdefgh")
    expected = CalibratedClassifier(LogisticRegression(), "temperature", cv=3).fit(X, y).predict_proba(X)
    np.testing.assert_allclose(model.predict_proba(frame), expected)
    sparse = CalibratedClassifier(LogisticRegression(), "temperature", cv=3).fit(csr_matrix(X), y)
    np.testing.assert_allclose(sparse.predict_proba(csr_matrix(X)), expected, atol=1e-4)


def test_splitters():
    X, y = samples()
    groups = np.arange(len(y)) % 6
    model = CalibratedClassifier(GaussianNB(), "temperature", cv=GroupKFold(3)).fit(X, y, groups=groups)
    assert model.calibrator_.record_.samples == 240
    later = CalibratedClassifier(GaussianNB(), "temperature", cv=TimeSeriesSplit(3)).fit(X, y)
    assert later.calibrator_.record_.samples == 180
    with pytest.raises(ValueError, match=r"Sample \d+ is in \d test folds"):
        CalibratedClassifier(GaussianNB(), cv=ShuffleSplit(9, random_state=0)).fit(X, y)


@pytest.mark.slow
def test_the_default_chooses_by_cross_validation():
    X, y = samples()
    model = CalibratedClassifier(GaussianNB()).fit(X, y)
    assert model.calibrator_.method == "auto"
    scores = [
        cross_val_score(CalibratedClassifier(GaussianNB(), m, cv=3), X, y, scoring=neg_nll, cv=3)
        for m in ("auto", "identity")
    ]
    assert scores[0].mean() > scores[1].mean()


def test_bad_input():
    X, y = samples()
    with pytest.raises(TypeError, match="NearestNeighbors has neither predict_proba nor a decision_function"):
        CalibratedClassifier(FrozenEstimator(_with_classes(NearestNeighbors().fit(X)))).fit(X, y)
    with pytest.raises(ValueError, match="The class 'fox' has 2 samples, fewer than the 5 folds"):
        CalibratedClassifier(GaussianNB()).fit(X, np.where(np.arange(240) < 2, "fox", y))
    order = np.argsort(y)
    with pytest.raises(ValueError, match="The classifier of fold 2 has not been trained on the class 'eel'"):
        CalibratedClassifier(GaussianNB(), cv=KFold(3)).fit(X[order], y[order])
    with pytest.raises(TypeError, match="The classifier of fold 0, LinearRegression, has no classes_"):
        CalibratedClassifier(LinearRegression()).fit(X, np.searchsorted(NAMES, y))
    with pytest.raises(TypeError, match="The frozen classifier, GaussianNB, has no classes_"):
        CalibratedClassifier(FrozenEstimator(GaussianNB())).fit(X, y)
    with pytest.raises(ValueError, match="only one class, 'cat'"):
        CalibratedClassifier(GaussianNB()).fit(X, np.full(240, "cat"))
    with pytest.raises(ValueError, match="There is no calibrator 'temprature'; did you mean 'temperature'"):
        CalibratedClassifier(GaussianNB(), "temprature").fit(X, y)
    with pytest.raises(TypeError, match="method must be the name of a calibrator or a calibrator, not int"):
        CalibratedClassifier(GaussianNB(), 3).fit(X, y)
    with pytest.raises(ValueError, match="platt is for two classes, and y has 3"):
        CalibratedClassifier(GaussianNB(), "platt").fit(X, y)
    with pytest.raises(ValueError, match=r"sample_weight has shape \(3,\)"):
        CalibratedClassifier(GaussianNB()).fit(X, y, np.ones(3))


def _with_classes(estimator):
    estimator.classes_ = NAMES
    return estimator
