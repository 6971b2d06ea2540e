import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from focalcal.metrics.bootstrap.permutation import every_swap, p_values, random_swaps, sign_test
from focalcal.metrics.samples import sample_statistics
from focalcal.predictions import Predictions
from oracles.intervals import exact_p_value

TESTED = ("error", "nll", "brier", "ece", "mce", "ada_ece", "classwise_ece", "confident_share", "mean_confidence_wrong")


def two_models(n: int, seed: int, classes: int = 3, weights=None) -> tuple[Predictions, Predictions]:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(classes, (n,), generator=generator)
    logits = 3 * torch.randn(2, n, classes, generator=generator, dtype=torch.float64)
    a, b = (Predictions.from_logits(z, labels, weights=weights) for z in logits)
    return a, b


def p_of(a, b, metrics=TESTED, permutations=1000, seed=0, bins=5):
    return p_values(a, b, metrics, permutations, seed, bins, (sample_statistics(a), sample_statistics(b)))


@settings(deadline=None, max_examples=8)
@given(st.integers(1, 4), st.integers(0, 1000), st.booleans())
def test_few_samples_are_swapped_in_every_way(n, seed, weighted):
    weights = torch.rand(n, generator=torch.Generator().manual_seed(seed)) + 0.1 if weighted else None
    a, b = two_models(n, seed, weights=weights)
    found = p_of(a, b)
    for name in TESTED:
        assert found[name] == pytest.approx(exact_p_value(name, a, b, 5), nan_ok=True), name


def test_random_swaps_come_near_the_exact_p_value():
    a, b = two_models(8, seed=3)
    exact, sampled = p_of(a, b, permutations=256), p_of(a, b, permutations=255)
    for name in ("nll", "ece", "ada_ece", "classwise_ece"):
        # 255 permutations know a share to within 1 / (2 √255) = 0.03.
        assert sampled[name] == pytest.approx(exact[name], abs=0.1)
    many = p_of(a, b, permutations=255, seed=1)
    assert many["nll"] != sampled["nll"]


def test_the_smallest_sampled_p_value_is_one_in_permutations_plus_one():
    labels = torch.zeros(200, dtype=torch.int64)
    good, bad = (Predictions.from_probs(torch.full((200,), p) + torch.rand(200) / 100, labels) for p in (0.1, 0.8))
    assert p_of(good, bad, permutations=99)["nll"] == 1 / 100


def test_samples_with_equal_predictions_need_no_swap():
    a, b = two_models(30, seed=5)
    values = a.values.clone()
    values[:3] = b.values[:3]
    mixed = a.with_values(values, "logits")
    found = p_of(a, mixed, permutations=8)
    same = [exact_p_value(name, a.select(range(3)), mixed.select(range(3)), 5) for name in ("nll", "brier")]
    assert [found["nll"], found["brier"]] == same


def test_identical_models_differ_with_p_one():
    a, _ = two_models(50, seed=0)
    assert {p for name, p in p_of(a, a).items()} == {1.0}


def test_shares_are_tested_exactly():
    a, b = two_models(60, seed=9)
    right_a, right_b = sample_statistics(a).correct, sample_statistics(b).correct
    only_a, only_b = int((right_a & ~right_b).sum()), int((right_b & ~right_a).sum())
    tail = binom.cdf(min(only_a, only_b), only_a + only_b, 0.5)
    assert p_of(a, b)["error"] == pytest.approx(min(1.0, 2 * tail))


def test_shares_of_unequal_weights_are_permuted():
    weights = torch.arange(1.0, 41.0)
    a, b = two_models(40, seed=2, weights=weights)
    assert p_of(a, b, ["error"], permutations=199)["error"] * 200 == pytest.approx(
        round(p_of(a, b, ["error"], permutations=199)["error"] * 200)
    )


def test_weights_of_zero_and_one_leave_the_sign_test_exact():
    weights = torch.tensor([1.0] * 20 + [0.0] * 20)
    a, b = two_models(40, seed=2, weights=weights)
    kept = torch.arange(20)
    unweighted = two_models(40, seed=2)
    assert p_of(a, b, ["error"]) == p_of(*(p.select(kept) for p in unweighted), ["error"])


def test_an_undefined_difference_has_no_p_value():
    a = Predictions.from_probs([[0.9, 0.1], [0.8, 0.2]], [0, 0])
    b = Predictions.from_probs([[0.9, 0.1], [0.2, 0.8]], [0, 0])
    assert math.isnan(p_of(a, b, ["mean_confidence_wrong"])["mean_confidence_wrong"])


def test_swaps_depend_on_the_seed_alone():
    whole = next(random_swaps(11, 9, seed=4))
    parts = np.concatenate(list(random_swaps(11, 9, seed=4, block=2)), axis=1)
    assert whole.shape == (11, 9)
    assert (whole == parts).all()
    assert whole.any()
    assert not whole.all()


def test_every_swap_is_there_once():
    swaps = every_swap(np.array([True, True, False, True]))
    assert len({tuple(column) for column in swaps.T}) == swaps.shape[1] == 8
    assert not swaps[2].any()


def test_sign_test_without_disagreement():
    assert sign_test(torch.tensor([True, False]), torch.tensor([True, False])) == 1.0


@pytest.mark.slow
def test_p_values_are_uniform_where_the_models_are_interchangeable():
    """150 pairs of equally good models: the share of p-values below x is x, up to what 150 draws leave open."""
    metrics = ["nll", "ece", "ada_ece", "classwise_ece"]
    each = [p_of(*two_models(40, seed, classes=2), metrics, permutations=99, seed=seed) for seed in range(150)]
    for metric in metrics:
        found = np.array([p[metric] for p in each])
        for x in (0.1, 0.25, 0.5, 0.75):
            assert np.mean(found <= x) == pytest.approx(x, abs=3 * math.sqrt(x * (1 - x) / 150)), (metric, x)
