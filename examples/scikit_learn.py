"""scikit-learn: any classifier calibrated by cross-validation, chosen by NLL, and its reliability diagram.

    python examples/scikit_learn.py [--quick]

Needs pip install 'focalcal[plots]' for the picture. Writes reliability.png to the current folder.
"""

import sys

from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from focalcal.integrations.sklearn import (
    CalibratedClassifier,
    ProbabilityCalibrator,
    ReliabilityDisplay,
    neg_ece,
    neg_nll,
)

QUICK = "--quick" in sys.argv


def main() -> None:
    """Calibrate naive Bayes, which is far too confident, and compare it with itself on test images."""
    images, labels = load_digits(return_X_y=True)
    labels = labels.astype(str)  # labels may be of any type
    train, test, train_labels, test_labels = train_test_split(images, labels, test_size=500, random_state=0)

    plain = make_pipeline(StandardScaler(), GaussianNB()).fit(train, train_labels)
    methods = (
        ["temperature", "structured-vector"] if QUICK else ["temperature", "structured-vector", "isotonic", "auto"]
    )
    search = GridSearchCV(
        CalibratedClassifier(make_pipeline(StandardScaler(), GaussianNB()), cv=3),
        {"method": methods},
        scoring=neg_nll,
        cv=3,
    ).fit(train, train_labels)
    print(f"Calibrated: {search.best_estimator_.describe()}")

    figure = Figure(figsize=(8, 4), layout="constrained")
    for ax, (name, model) in zip(
        figure.subplots(1, 2), {"plain": plain, "calibrated": search.best_estimator_}.items(), strict=True
    ):
        print(f"{name:>11}: ECE {-neg_ece(model, test, test_labels):.4f}, NLL {-neg_nll(model, test, test_labels):.4f}")
        ReliabilityDisplay.from_estimator(model, test, test_labels, name=name, ax=ax)
    figure.savefig("reliability.png")

    # Probabilities that came from anywhere: fit on some of them, apply to others.
    probs = plain.predict_proba(test)
    calibrator = ProbabilityCalibrator("temperature").fit(probs[:250], test_labels[:250])
    print(f"Highest confidence before {probs[250:].max():.6f}, after {calibrator.predict_proba(probs[250:]).max():.6f}")


if __name__ == "__main__":
    main()
