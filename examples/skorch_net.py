"""skorch: a focal loss by its name, searched like any parameter; probabilities that are measured and calibrated.

    python examples/skorch_net.py [--quick]

Needs pip install 'focalcal[skorch]'.
"""

import sys

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, train_test_split
from skorch import NeuralNetClassifier
from torch import nn

import focalcal as fc

QUICK = "--quick" in sys.argv


def main() -> None:
    """Search the loss by cross-validation, then calibrate the winner on held-out images."""
    torch.manual_seed(0)
    images, labels = load_digits(return_X_y=True)
    images, rest, labels, rest_labels = train_test_split(
        (images / 16).astype(np.float32), labels, train_size=900, random_state=0
    )
    net = NeuralNetClassifier(
        nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)),
        criterion=fc.FocalLoss,
        criterion__gamma="flsd-53",
        optimizer=torch.optim.Adam,
        lr=3e-3,
        max_epochs=2 if QUICK else 20,
        train_split=None,
        verbose=0,
    )
    names = ["fl-0", "flsd-53"] if QUICK else ["fl-0", "fl-1", "fl-3", "flsd-53"]
    search = GridSearchCV(net, {"criterion__gamma": names}, cv=3, scoring="neg_log_loss")
    search.fit(images, labels)
    for name, score in zip(names, search.cv_results_["mean_test_score"], strict=True):
        print(f"{name:>8}: NLL {-score:.3f} in cross-validation")

    # predict_proba applies the softmax, because FocalLoss is an nn.CrossEntropyLoss.
    probs, middle = search.predict_proba(rest), len(rest) // 2
    val = fc.Predictions.from_probs(probs[:middle], rest_labels[:middle], split="val")
    test = fc.Predictions.from_probs(probs[middle:], rest_labels[middle:], split="test")
    scaler = fc.TemperatureScaling().fit(val)
    for title, predictions in (("uncalibrated", test), ("calibrated", scaler.transform(test))):
        result = fc.evaluate(predictions, metrics=["error", "ece", "nll"], intervals=False)
        print(f"{title:>13}: error {result['error']:.3f}, ECE {result['ece']:.4f}, NLL {result['nll']:.4f}")


if __name__ == "__main__":
    main()
