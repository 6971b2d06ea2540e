"""Our losses in the real skorch: probabilities are probabilities, and search works by names."""

import numpy as np
import pytest
import torch
from sklearn.model_selection import GridSearchCV
from skorch import NeuralNetBinaryClassifier, NeuralNetClassifier
from torch import nn

import focalcal as fc

CLASSES = 3


def data(n=120, seed=0):
    generator = np.random.default_rng(seed)
    inputs = generator.normal(size=(n, 4)).astype(np.float32)
    return inputs, (inputs[:, :CLASSES] + generator.normal(size=(n, CLASSES))).argmax(1).astype(np.int64)


def net(criterion, **options):
    torch.manual_seed(0)
    quiet = {"max_epochs": 3, "lr": 0.1, "verbose": 0, "train_split": None}
    return NeuralNetClassifier(nn.Linear(4, CLASSES), criterion=criterion, **quiet | options)


LOSSES = [fc.FocalLoss, fc.BrierLoss, fc.MMCELoss, fc.LabelSmoothingLoss, lambda: fc.build_loss("cross-entropy")]


@pytest.mark.parametrize("criterion", LOSSES)
def test_probabilities_are_the_softmax_of_the_logits(criterion):
    inputs, labels = data()
    fitted = net(criterion() if not isinstance(criterion, type) else criterion).fit(inputs, labels)
    probs, logits = fitted.predict_proba(inputs), fitted.forward(inputs)
    np.testing.assert_allclose(probs, logits.softmax(1).numpy(), rtol=1e-6)
    np.testing.assert_allclose(probs.sum(1), 1.0, rtol=1e-5)
    assert fc.Predictions.from_probs(probs, labels).num_classes == CLASSES


def test_a_network_learns():
    inputs, labels = data()
    fitted = net(fc.FocalLoss, criterion__gamma="flsd-53", max_epochs=20).fit(inputs, labels)
    losses = fitted.history[:, "train_loss"]
    assert losses[-1] < losses[0]
    assert fitted.score(inputs, labels) > 0.5


def test_gamma_is_searched_by_name():
    inputs, labels = data()
    search = GridSearchCV(
        net(fc.FocalLoss), {"criterion__gamma": ["fl-1", "flsd-53"]}, cv=2, scoring="neg_log_loss", error_score="raise"
    )
    search.fit(inputs, labels)
    assert search.best_params_["criterion__gamma"] in ("fl-1", "flsd-53")


def test_one_logit_per_decision():
    inputs, labels = data()
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 1), nn.Flatten(0))
    options = {"max_epochs": 2, "verbose": 0, "train_split": None}
    binary = NeuralNetBinaryClassifier(module, criterion=fc.BinaryFocalLoss, criterion__alpha=0.25, **options)
    binary.fit(inputs, (labels == 0).astype(np.float32))
    probs, logits = binary.predict_proba(inputs), binary.forward(inputs)
    np.testing.assert_allclose(probs[:, 1], logits.sigmoid().numpy(), rtol=1e-5)
    np.testing.assert_allclose(probs.sum(1), 1.0, rtol=1e-5)
