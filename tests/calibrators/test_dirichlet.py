"""Dirichlet calibration."""

import numpy as np
import pytest
import torch

from focalcal.calibrators import DirichletCalibration, MatrixScaling
from focalcal.metrics.scores import nll
from focalcal.predictions import Predictions
from oracles.temperature import sampled_predictions


def test_it_is_matrix_scaling_of_log_probabilities():
    val = sampled_predictions(400, 4, 2.0)
    as_log_probs = val.with_values(val.log_probs(), "logits")
    dirichlet, matrix = DirichletCalibration().fit(val), MatrixScaling().fit(as_log_probs)
    torch.testing.assert_close(dirichlet.weight_, matrix.weight_, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(dirichlet.transform(val).probs(), matrix.transform(as_log_probs).probs())


def test_a_constant_added_to_a_samples_logits_changes_nothing():
    val = sampled_predictions(400, 4, 2.0)
    shifted = val.with_values(val.values + torch.linspace(-9, 9, 400).double()[:, None], "logits")
    fitted = DirichletCalibration().fit(val)
    torch.testing.assert_close(fitted.transform(shifted).probs(), fitted.transform(val).probs())
    torch.testing.assert_close(DirichletCalibration().fit(shifted).weight_, fitted.weight_, rtol=1e-4, atol=1e-5)


def test_it_recovers_the_posterior_of_dirichlet_distributed_probabilities():
    """Where class k gives p ~ Dirichlet(α_k), the posterior is the softmax of (α_k − 1) · log p + constant."""
    generator = np.random.default_rng(0)
    alpha = np.array([[6.0, 2.0, 1.5], [1.0, 5.0, 2.0], [2.0, 1.0, 4.0]])
    labels = generator.integers(0, 3, 20000)
    preds = Predictions.from_probs(np.array([generator.dirichlet(alpha[y]) for y in labels]), labels)
    from scipy.special import gammaln

    constant = gammaln(alpha.sum(axis=1)) - gammaln(alpha).sum(axis=1)
    posterior = preds.log_probs() @ torch.tensor(alpha - 1).T + torch.tensor(constant)
    truth = preds.with_values(posterior, "logits")
    options = {"off_diagonal_penalty": 0.0, "intercept_penalty": 0.0, "diagonal_penalty": 0.0}
    calibrated = DirichletCalibration(**options).fit_transform(preds)
    assert nll(calibrated) == pytest.approx(nll(truth), abs=1e-3)
    assert (calibrated.probs() - truth.probs()).abs().mean() < 0.01


def test_probabilities_of_zero_are_taken_as_the_smallest_float32():
    preds = Predictions.from_probs(torch.tensor([[1.0, 0.0], [0.2, 0.8], [0.7, 0.3]]), [0, 1, 1])
    assert DirichletCalibration().fit_transform(preds).values.isfinite().all()


def test_soft_labels_and_weights():
    val = sampled_predictions(200, 3, 2.0)
    soft = torch.nn.functional.one_hot(val.labels, 3).double()
    weights = torch.linspace(0.1, 2.0, 200).double()
    hard = DirichletCalibration().fit(Predictions.from_logits(val.values, val.labels, weights=weights))
    same = DirichletCalibration().fit(Predictions.from_logits(val.values, soft, weights=weights))
    torch.testing.assert_close(hard.weight_, same.weight_, rtol=1e-5, atol=1e-6)
