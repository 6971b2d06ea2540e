import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from focalcal.metrics.bootstrap.counts import bootstrap_counts, drawable, jackknife_counts
from focalcal.metrics.bootstrap.replicates import RESAMPLED_METRICS, resample_samples
from focalcal.predictions import Predictions
from oracles.intervals import METRICS, written_out

# Smooth ECE is taken on a coarser grid here; debiased ECE is a root, which makes 1e-8 of a rounding of 1e-16.
TOLERANCE = dict.fromkeys(RESAMPLED_METRICS, 1e-11) | {"smooth_ece": 5e-5, "debiased_ece": 1e-7}


@st.composite
def predictions(draw: st.DrawFn, max_samples: int = 40) -> Predictions:
    """Few or many samples and classes, ties, saturated and masked logits, soft labels, weights with zeros."""
    n = draw(st.integers(1, max_samples))
    classes = draw(st.sampled_from([2, 3, 7, 40]))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**20)))
    logits = torch.randn(n, classes, generator=generator, dtype=draw(st.sampled_from([torch.float32, torch.float64])))
    logits *= draw(st.sampled_from([0.0, 1.0, 3.0, 40.0]))
    if draw(st.booleans()):
        logits = logits.round()
    labels = torch.randint(classes, (n,), generator=generator)
    logits[torch.arange(n), labels] += draw(st.sampled_from([0.0, 2.0, 100.0]))
    if draw(st.booleans()):
        labels = torch.nn.functional.one_hot(labels, classes) + torch.rand(n, classes, generator=generator).double()
        labels /= labels.sum(dim=1, keepdim=True)
    weights = None
    if draw(st.booleans()):
        weights = torch.rand(n, generator=generator).double() + 0.1
        weights[1:][torch.rand(n - 1, generator=generator) < 0.2] = 0
    if draw(st.booleans()):
        return Predictions.from_probs(torch.softmax(logits, dim=1), labels, weights=weights)
    return Predictions.from_logits(logits, labels, weights=weights)


def metrics_for(*sets: Predictions) -> list[str]:
    left_out = {"top_5_accuracy"} if sets[0].num_classes <= 5 else set()
    return [name for name in RESAMPLED_METRICS if name not in left_out]


def assert_is_metric_of_resamples(preds: Predictions, counts: np.ndarray, bins: int) -> None:
    values = resample_samples([preds], metrics_for(preds), bins).values(counts)
    assert all(replicates.shape == counts.shape[1:] for replicates in values.values())
    for place, column in enumerate(counts.T):
        resample = written_out(preds, column)
        # The exact smooth ECE takes its time: the first replicate of it must do.
        for name in [name for name in values if name != "smooth_ece" or place == 0]:
            expected = METRICS[name](resample, bins)
            tolerance = 0.0026 if name == "smooth_ece" and expected < 0.02 else TOLERANCE[name]
            assert values[name][place] == pytest.approx(expected, abs=tolerance, nan_ok=True), name


def test_every_resampled_metric_has_an_oracle():
    assert set(RESAMPLED_METRICS) == set(METRICS)


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(predictions(), st.integers(1, 20), st.integers(0, 2**32))
def test_replicates_are_the_metrics_of_the_resample_written_out(preds, bins, seed):
    (counts,) = bootstrap_counts(drawable(preds.weights, len(preds)), samples=2, seed=seed)
    assert_is_metric_of_resamples(preds, counts, bins)


@settings(deadline=None, max_examples=10)
@given(predictions(), st.integers(1, 20))
def test_jackknife_values_are_the_metrics_without_the_group(preds, bins):
    drawn = drawable(preds.weights, len(preds))
    if drawn.sum() < 2:
        return
    (counts,) = jackknife_counts(drawn, groups=min(int(drawn.sum()), 3), seed=0)
    assert_is_metric_of_resamples(preds, counts, bins)


@pytest.mark.parametrize("classes", [2, 1000])
@pytest.mark.parametrize("kind", ["logits", "probs"])
def test_few_and_many_classes(classes, kind):
    generator = torch.Generator().manual_seed(classes)
    logits = 3 * torch.randn(300, classes, generator=generator)
    labels = torch.randint(classes, (300,), generator=generator)
    logits[torch.arange(300), labels] += 6
    make = Predictions.from_logits if kind == "logits" else Predictions.from_probs
    preds = make(logits if kind == "logits" else torch.softmax(logits, 1), labels)
    (counts,) = bootstrap_counts(drawable(None, 300), samples=2, seed=5)
    assert_is_metric_of_resamples(preds, counts, bins=15)


def test_an_infinite_loss_counts_only_where_it_was_drawn():
    preds = Predictions.from_probs([[1.0, 0.0], [0.5, 0.5]], [1, 0])
    values = resample_samples([preds], ["nll"]).values(np.array([[1, 0, 2], [1, 2, 0]], dtype=np.uint8))["nll"]
    assert values.tolist() == [math.inf, pytest.approx(math.log(2)), math.inf]


def test_nothing_wrong_leaves_the_confidence_of_wrong_samples_undefined():
    preds = Predictions.from_probs([[0.9, 0.1], [0.3, 0.7]], [0, 0], weights=[0.1, 0.7])
    values = resample_samples([preds], ["mean_confidence_wrong", "error"]).values(
        np.array([[2, 1], [0, 1]], dtype=np.uint8)
    )
    assert math.isnan(values["mean_confidence_wrong"][0])
    assert values["mean_confidence_wrong"][1] == pytest.approx(0.7)
    assert values["error"][0] == 0


@pytest.mark.slow
@settings(deadline=None, max_examples=10)
@given(predictions(), st.integers(1, 5), st.integers(0, 100))
def test_another_block_size_gives_the_same_replicates(preds, block, seed):
    resampler = resample_samples([preds], metrics_for(preds))
    drawn = drawable(preds.weights, len(preds))
    whole = resampler.values_of_blocks(bootstrap_counts(drawn, 7, seed))
    parts = resampler.values_of_blocks(bootstrap_counts(drawn, 7, seed, block))
    for name in whole:
        np.testing.assert_allclose(parts[name], whole[name], rtol=0, atol=TOLERANCE[name])


def test_samples_of_weight_zero_are_as_if_absent():
    generator = torch.Generator().manual_seed(0)
    preds = Predictions.from_logits(
        torch.randn(30, 6, generator=generator), torch.arange(30) % 6, weights=(torch.arange(30) % 3 > 0).double()
    )
    present = preds.select(preds.weights > 0)
    with_absent, without = (
        resample_samples([p], RESAMPLED_METRICS).values_of_blocks(bootstrap_counts(drawable(p.weights, len(p)), 5, 0))
        for p in (preds, present)
    )
    for name in RESAMPLED_METRICS:
        np.testing.assert_allclose(with_absent[name], without[name], rtol=0, atol=TOLERANCE[name])


@pytest.mark.slow
@settings(deadline=None, max_examples=15)
@given(st.integers(1, 12), st.sampled_from([2, 6, 30]), st.integers(0, 1000), st.booleans(), st.integers(1, 16))
def test_two_models_side_by_side_are_the_swapped_predictions(n, classes, seed, weighted, bins):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(classes, (n,), generator=generator)
    weights = torch.rand(n, generator=generator) + 0.1 if weighted else None
    logits = torch.randn(2, n, classes, generator=generator).double().mul(4).round()
    a = Predictions.from_logits(logits[0], labels, weights=weights)
    b = Predictions.from_probs(torch.softmax(logits[1], 1), labels, weights=weights)
    swap = torch.rand(n, generator=generator) < 0.5
    mixed = Predictions.from_probs(torch.where(swap[:, None], b.probs(), a.probs()), labels, weights=weights)
    other = Predictions.from_probs(torch.where(swap[:, None], a.probs(), b.probs()), labels, weights=weights)
    counts = torch.stack([~swap, swap], dim=1).reshape(-1, 1).numpy().astype(np.uint8)
    metrics = metrics_for(a, b)
    kept, taken = resample_samples([a, b], metrics, bins).values_of_swaps(counts, 1 - counts)
    for name in metrics:
        tolerance = {"smooth_ece": 0.0026, "debiased_ece": 1e-7}.get(
            name, 1e-6 if "nll" in name or "entropy" in name else 1e-11
        )
        assert kept[name][0] == pytest.approx(METRICS[name](mixed, bins), abs=tolerance, nan_ok=True), name
        assert taken[name][0] == pytest.approx(METRICS[name](other, bins), abs=tolerance, nan_ok=True), name
