"""Other libraries' values, from the libraries themselves."""

import importlib.util
import warnings

import numpy as np
import pytest
import torch

from focalcal.metrics.calibration_error import bins_by_convention, ece, mce
from focalcal.predictions import Predictions
from oracles.real_files import REAL_FILES, real_arrays


def need(package):
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed: it comes with focalcal[references].")


def torchmetrics_errors(probs, labels, bins):
    need("torchmetrics")
    from torchmetrics.functional.classification import multiclass_calibration_error

    norms = ("l1", "max")
    found = (multiclass_calibration_error(probs, labels, probs.shape[1], n_bins=bins, norm=norm) for norm in norms)
    return [float(value) for value in found]


def netcal_errors(probs, labels, bins):
    need("netcal")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its import, not its numbers
        from netcal.metrics import ECE, MCE

        # Given float32 it would bin counts and means differently.
        doubles, labels = probs.double().numpy(), labels.numpy()
        return [float(metric(bins).measure(doubles, labels)) for metric in (ECE, MCE)]


def random_data(seed, dtype, num_classes=4, n=400):
    """Random predictions of which many lie on edges of 10 or 15 bins, some at 1 and some at equal probabilities."""
    generator = np.random.default_rng(seed)
    top = generator.choice([0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 6 / 15, 11 / 15, 14 / 15], size=n)
    top = np.where(generator.random(n) < 0.3, generator.uniform(0.4, 1, n), top)
    probs = np.tile(((1 - top) / (num_classes - 1))[:, None], num_classes)
    probs[np.arange(n), generator.integers(0, num_classes, n)] = top
    return torch.from_numpy(probs).to(dtype), torch.from_numpy(generator.integers(0, num_classes, n))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("bins", [1, 7, 10, 15])
@pytest.mark.parametrize(("convention", "theirs"), [("torchmetrics", torchmetrics_errors), ("netcal", netcal_errors)])
def test_values_of_other_libraries_on_random_data_with_edges(convention, theirs, bins, dtype):
    for seed in range(3):
        probs, labels = random_data(seed, dtype)
        preds = Predictions.from_probs(probs, labels)
        ours = [metric(preds, bins=bins, convention=convention) for metric in (ece, mce)]
        # torchmetrics adds up in float32 whatever it is given.
        tolerance = 1e-6 if convention == "torchmetrics" else 1e-12
        assert ours == pytest.approx(theirs(probs, labels, bins), abs=tolerance)


def test_two_classes_of_netcal_are_one_probability():
    generator = torch.Generator().manual_seed(0)
    probs = torch.rand(300, 2, generator=generator, dtype=torch.float64)
    probs /= probs.sum(dim=1, keepdim=True)
    labels = torch.randint(0, 2, (300,), generator=generator)
    ours = [metric(Predictions.from_probs(probs, labels), bins=10, convention="netcal") for metric in (ece, mce)]
    assert ours == pytest.approx(netcal_errors(probs, labels, 10), abs=1e-12)
    two = Predictions.from_probs([[0.4, 0.6], [0.6, 0.4]], [1, 1])
    assert ece(two) == pytest.approx(0.1)  # confidence 0.6 twice, right once
    assert ece(two, convention="netcal") == pytest.approx(0.5)  # class 1 at 0.6 and at 0.4, there both times


@pytest.mark.parametrize("name", REAL_FILES)
@pytest.mark.parametrize("bins", [10, 15])
def test_values_of_other_libraries_on_real_networks(name, bins):
    probs, labels = (torch.from_numpy(array) for array in real_arrays(name))
    preds = Predictions.from_probs(probs, labels)
    for convention, theirs, tolerance in (
        ("torchmetrics", torchmetrics_errors, 1e-5),  # 10,000 additions in float32
        ("netcal", netcal_errors, 1e-12),
    ):
        ours = [metric(preds, bins=bins, convention=convention) for metric in (ece, mce)]
        assert ours == pytest.approx(theirs(probs, labels, bins), abs=tolerance)


@pytest.mark.parametrize("name", REAL_FILES)
def test_on_real_networks_without_a_1_all_conventions_agree(name):
    """No confidence of a real network lies on an edge, except 1.0, which torchmetrics alone puts elsewhere."""
    probs, labels = (torch.from_numpy(array) for array in real_arrays(name))
    below_1 = probs.amax(dim=1) < 1
    preds = Predictions.from_probs(probs[below_1], labels[below_1])
    assert ece(preds) == pytest.approx(ece(preds, convention="netcal"), abs=1e-15)
    assert ece(preds) == pytest.approx(ece(preds, convention="torchmetrics"), abs=1e-8)


def test_the_libraries_do_differ_where_they_are_said_to():
    on_edge = Predictions.from_probs([[0.5, 0.25, 0.25], [0.75, 0.25, 0.0]], [0, 1])
    assert ece(on_edge, bins=2) == 0.625  # (0, 0.5] and (0.5, 1]: gaps 0.5 and 0.75
    assert ece(on_edge, bins=2, convention="netcal") == 0.125  # both in [0.5, 1]: 1.25 − 1
    saturated = Predictions.from_probs([[1.0, 0.0, 0.0], [0.875, 0.125, 0.0]], [1, 0])
    assert ece(saturated, bins=2) == pytest.approx(ece(saturated, bins=2, convention="netcal")) == 0.4375
    assert ece(saturated, bins=2, convention="torchmetrics") == 0.5625


def test_torchmetrics_has_a_bin_more():
    preds = Predictions.from_probs([[1.0, 0.0, 0.0], [0.9, 0.1, 0.0]], [0, 0])
    assert bins_by_convention(preds, bins=5, convention="torchmetrics").count.tolist() == [0, 0, 0, 0, 1, 1]
    assert bins_by_convention(preds, bins=5, convention="netcal").count.tolist() == [0, 0, 0, 0, 2]


def test_an_unknown_convention_is_refused():
    with pytest.raises(ValueError, match="'focalcal', 'torchmetrics' or 'netcal'"):
        ece(Predictions.from_probs([[0.5, 0.5]], [0]), convention="sklearn")
