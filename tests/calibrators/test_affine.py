"""Vector, matrix and Dirichlet calibration."""

import warnings

import numpy as np
import pytest
import torch
from scipy.special import gammaln

from focalcal.calibrators import DirichletCalibration, MatrixScaling, TemperatureScaling, VectorScaling
from focalcal.metrics.scores import nll
from focalcal.predictions import Predictions
from oracles.real_files import REAL_FILES, real_arrays
from oracles.temperature import sampled_predictions


def test_vector_scaling_undoes_a_scale_and_shift_of_each_class():
    good = sampled_predictions(20000, 3, 1.0)
    factors, shifts = torch.tensor([0.5, 2.0, 1.0]).double(), torch.tensor([1.0, 0.0, -1.0]).double()
    spoilt = good.with_values(good.values * factors + shifts, "logits")
    scaler = VectorScaling(intercept_penalty=0.0, diagonal_penalty=0.0).fit(spoilt)
    torch.testing.assert_close(scaler.weight_, 1 / factors, rtol=0.05, atol=0.02)
    expected = -shifts / factors
    torch.testing.assert_close(scaler.bias_, expected - expected.mean(), rtol=0.1, atol=0.05)
    torch.testing.assert_close(scaler.transform(spoilt).values, spoilt.values * scaler.weight_ + scaler.bias_)


def test_matrix_scaling_undoes_a_mixture():
    good = sampled_predictions(20000, 3, 1.0)
    mixture = torch.tensor([[1.0, 0.5, 0.0], [0.0, 1.0, 0.5], [0.2, 0.0, 1.0]]).double()
    spoilt = good.with_values(good.values @ mixture.T, "logits")
    calibrated = MatrixScaling(off_diagonal_penalty=0, intercept_penalty=0, diagonal_penalty=0).fit_transform(spoilt)
    assert nll(calibrated) <= nll(good)
    assert (calibrated.probs() - good.probs()).abs().mean() < 0.02


@pytest.mark.slow
@pytest.mark.parametrize("scaler", [VectorScaling(), MatrixScaling()])
def test_fitting_lowers_the_nll_below_that_of_temperature_scaling(scaler):
    val = sampled_predictions(500, 4, 2.0)
    assert nll(scaler.fit_transform(val)) <= nll(TemperatureScaling().fit_transform(val)) + 1e-9


@pytest.mark.parametrize("kind", [VectorScaling, MatrixScaling])
def test_a_negative_penalty_is_an_error(kind):
    with pytest.raises(ValueError, match="intercept_penalty must be a number of at least 0"):
        kind(intercept_penalty=-1.0).fit(sampled_predictions(10, 2))


def test_masked_classes_stay_masked_in_vector_scaling_and_are_refused_by_matrix_scaling():
    masked = Predictions.from_logits(torch.tensor([[2.0, -torch.inf, 0.0]] * 3), [0, 0, 2])
    assert torch.isneginf(VectorScaling().fit_transform(masked).values[:, 1]).all()
    with pytest.raises(ValueError, match=r"MatrixScaling mixes .* cannot take −inf"):
        MatrixScaling().fit(masked)
    fitted = MatrixScaling().fit(sampled_predictions(50, 3))
    with pytest.raises(ValueError, match="cannot take −inf"):
        fitted.transform(masked)


@pytest.mark.slow
@pytest.mark.parametrize("name", REAL_FILES[:1])
def test_nll_is_no_worse_than_probmetrics_vector_scaling(name):
    pytest.importorskip("numba", reason="probmetrics cannot be imported without numba.")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        calibrators = pytest.importorskip("probmetrics.calibrators")
        distributions = pytest.importorskip("probmetrics.distributions")
        probs, labels = (torch.tensor(array) for array in real_arrays(name))
        reference = calibrators.VectorScalingCalibrator()
        reference.fit_torch(distributions.CategoricalProbs(probs), labels)
        theirs = reference.predict_proba_torch(distributions.CategoricalProbs(probs)).get_probs().detach()
    ours = VectorScaling(intercept_penalty=0, diagonal_penalty=0).fit_transform(Predictions.from_probs(probs, labels))
    expected = nll(Predictions.from_probs(theirs, labels))
    assert nll(ours) <= expected + 1e-7
    assert nll(ours) == pytest.approx(expected, abs=1e-4)


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
    constant = gammaln(alpha.sum(axis=1)) - gammaln(alpha).sum(axis=1)
    posterior = preds.log_probs() @ torch.tensor(alpha - 1).T + torch.tensor(constant)
    truth = preds.with_values(posterior, "logits")
    options = {"off_diagonal_penalty": 0.0, "intercept_penalty": 0.0, "diagonal_penalty": 0.0}
    calibrated = DirichletCalibration(**options).fit_transform(preds)
    assert nll(calibrated) == pytest.approx(nll(truth), abs=1e-3)
    assert (calibrated.probs() - truth.probs()).abs().mean() < 0.01


def test_probabilities_of_zero_give_finite_logits():
    preds = Predictions.from_probs(torch.tensor([[1.0, 0.0], [0.2, 0.8], [0.7, 0.3]]), [0, 1, 1])
    assert DirichletCalibration().fit_transform(preds).values.isfinite().all()


def test_soft_labels_and_weights():
    val = sampled_predictions(200, 3, 2.0)
    soft = torch.nn.functional.one_hot(val.labels, 3).double()
    weights = torch.linspace(0.1, 2.0, 200).double()
    hard = DirichletCalibration().fit(Predictions.from_logits(val.values, val.labels, weights=weights))
    same = DirichletCalibration().fit(Predictions.from_logits(val.values, soft, weights=weights))
    torch.testing.assert_close(hard.weight_, same.weight_, rtol=1e-5, atol=1e-6)
