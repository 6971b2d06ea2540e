import numpy as np
import pytest
import torch

from focalcal.metrics.bootstrap.counts import bootstrap_counts, count_once
from focalcal.metrics.bootstrap.intervals import bootstrap
from focalcal.metrics.bootstrap.loss_replicates import LossReplicates, lowest
from focalcal.metrics.bootstrap.replicates import Resampler
from focalcal.metrics.samples import sample_statistics
from focalcal.predictions import Predictions
from oracles.intervals import LOSS_PARTS, written_out


def scaled(temperature: float, n: int = 600, weights=None, dtype=torch.float64) -> Predictions:
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(n, 5, generator=generator, dtype=torch.float64)
    labels = torch.multinomial(torch.softmax(logits, 1), 1, generator=generator)[:, 0]
    return Predictions.from_logits((logits / temperature).to(dtype), labels, weights=weights)


@pytest.mark.slow
@pytest.mark.parametrize("temperature", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_parabolas_give_what_refitting_each_resample_gives(temperature, weighted, dtype):
    weights = torch.rand(600, generator=torch.Generator().manual_seed(1)) if weighted else None
    preds = scaled(temperature, weights=weights, dtype=dtype)
    (counts,) = bootstrap_counts(np.ones(600, dtype=np.bool_), samples=8, seed=0)
    found = Resampler(list(LOSS_PARTS), [LossReplicates(preds, sample_statistics(preds))]).values(counts)
    for name, part in LOSS_PARTS.items():
        exact = np.array([part(written_out(preds, column)) for column in counts.T])
        # The replicates spread by about 0.03 (NLL) and 0.01 (Brier); the parabola is off by far less.
        np.testing.assert_allclose(found[name], exact, rtol=0, atol=5e-4, err_msg=name)


def test_on_the_data_they_are_the_metrics():
    preds = scaled(0.5)
    resampler = Resampler(list(LOSS_PARTS), [LossReplicates(preds, sample_statistics(preds))])
    found = resampler.values(count_once(np.ones(600, dtype=np.bool_)))
    for name, part in LOSS_PARTS.items():
        assert found[name][0] == pytest.approx(part(preds), abs=1e-7)


def test_parts_add_up_to_the_loss_and_none_is_negative():
    preds = scaled(1.0, n=50)
    result = bootstrap(preds, metrics=["nll", "brier", *LOSS_PARTS], bootstrap=100)
    for loss in ("nll", "brier"):
        parts = result.replicates[f"{loss}_calibration"] + result.replicates[f"{loss}_refinement"]
        np.testing.assert_allclose(parts, result.replicates[loss], rtol=0, atol=1e-12)
        assert (result.replicates[f"{loss}_calibration"] >= 0).all()
        assert result.intervals[f"{loss}_calibration"][0] >= 0


def test_a_masked_label_leaves_the_parts_of_nll_undefined():
    preds = Predictions.from_logits([[0.0, -np.inf], [1.0, 0.0], [0.0, 1.0]], [1, 0, 1])
    result = bootstrap(preds, metrics=LOSS_PARTS, bootstrap=20)
    assert np.isnan(result.intervals["nll_calibration"]).all()
    assert not np.isnan(result.intervals["brier_refinement"]).any()


def test_perfectly_separable_data():
    preds = Predictions.from_logits([[3.0, 0.0], [0.0, 2.0], [1.0, 0.0]], [0, 1, 0])
    result = bootstrap(preds, metrics=["nll_refinement"], bootstrap=20)
    assert result.replicates["nll_refinement"].max() < 1e-9


def test_groups_of_samples():
    preds = scaled(2.0)
    samples = LossReplicates(preds, sample_statistics(preds))
    group = torch.arange(600) % 7
    counts = np.array([[0], [2], [1], [1], [0], [3], [1]], dtype=np.uint8)
    by_group = Resampler(list(LOSS_PARTS), [samples.by_group(group, 7)]).values(counts)
    by_sample = Resampler(list(LOSS_PARTS), [samples]).values(counts[group.numpy()])
    for name in LOSS_PARTS:
        assert by_group[name][0] == pytest.approx(by_sample[name][0], abs=1e-12)


def test_a_parabola_without_a_lowest_point_is_taken_where_it_is_known():
    zero = np.zeros(1)
    assert lowest(zero, zero + 1, zero).tolist() == [1.0]
    assert lowest(zero, zero - 1, zero - 2).tolist() == [-1.0]
