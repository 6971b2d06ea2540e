"""Differences of groups from the rest, against the obvious computation."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from focalcal.metrics.group_moments import GroupMoments, cluster_contrast
from focalcal.metrics.samples import SampleStatistics, sample_statistics
from focalcal.predictions import Predictions


@st.composite
def grouped(draw):
    n = draw(st.integers(2, 60))
    groups = draw(st.integers(1, 4))
    codes = draw(st.lists(st.integers(0, groups - 1), min_size=n, max_size=n))
    seed = draw(st.integers(0, 1000))
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(n, 3, generator=generator, dtype=torch.float64)
    labels = torch.randint(3, (n,), generator=generator)
    weights = draw(st.none() | st.lists(st.sampled_from([0.5, 1.0, 3.0]), min_size=n, max_size=n))
    preds = Predictions.from_logits(logits, labels, weights=weights)
    return sample_statistics(preds), torch.tensor(codes), groups


def _mean_and_variance(x, w, floor):
    """Of a weighted mean, with Bessel's correction, no less than chance gives."""
    mean = (w * x).sum() / w.sum()
    variance = (w**2 * (x - mean) ** 2).sum() / w.sum() ** 2
    effective = w.sum() ** 2 / (w**2).sum()
    return mean, max(variance * effective / (effective - 1), floor)


@settings(deadline=None, max_examples=60)
@given(grouped())
def test_contrasts_are_those_of_the_samples(case):
    stats, codes, groups = case
    moments = GroupMoments.of(stats, codes, groups)
    w, c = stats.mass.numpy(), stats.confidence.numpy()
    wrong = (~stats.right).numpy().astype(float)
    pooled = (w * wrong).sum() / w.sum()
    gap = c - stats.correct.numpy()
    for contrast, x, chance in (
        (moments.gap_contrast(), gap, c * (1 - c)),
        (moments.error_contrast(), wrong, np.full_like(c, pooled * (1 - pooled))),
    ):
        for group in range(groups):
            inside = codes.numpy() == group
            if inside.sum() < 10 or (~inside).sum() < 10:
                assert math.isnan(contrast.p_value[group])
                continue
            parts = []
            for part in (inside, ~inside):
                floor = (w[part] ** 2 * chance[part]).sum() / w[part].sum() ** 2
                parts.append(_mean_and_variance(x[part], w[part], floor))
            (a, var_a), (b, var_b) = parts
            assert contrast.difference[group] == pytest.approx(a - b, abs=1e-12)
            expected = math.erfc(abs(a - b) / math.sqrt(2 * (var_a + var_b))) if var_a + var_b > 0 else 1.0
            assert contrast.p_value[group] == pytest.approx(expected, abs=1e-9)


@settings(deadline=None, max_examples=40)
@given(grouped(), st.integers(1, 30), st.integers(0, 100))
def test_clusters_are_added_up_before_they_are_squared(case, clusters, seed):
    stats, codes, groups = case
    numbers = torch.from_numpy(np.random.default_rng(seed).integers(0, clusters, len(codes)))
    w, x = stats.mass.numpy(), (stats.confidence - stats.correct.double()).numpy()
    found = cluster_contrast(x, w, codes, groups, numbers)
    for group in range(groups):
        inside = codes.numpy() == group
        present = len(set(numbers.numpy()[inside].tolist()))
        if present < 10 or inside.all():
            assert math.isnan(found.p_value[group])
            continue
        means = [(w[part] * x[part]).sum() / w[part].sum() for part in (inside, ~inside)]
        influence = np.where(inside, w * (x - means[0]) / w[inside].sum(), -w * (x - means[1]) / w[~inside].sum())
        sums = [influence[numbers.numpy() == cluster].sum() for cluster in range(clusters)]
        error = math.sqrt(sum(one**2 for one in sums) * present / (present - 1))
        score = -abs(means[0] - means[1]) / error
        from scipy.stats import t

        assert found.difference[group] == pytest.approx(means[0] - means[1])
        assert found.p_value[group] == pytest.approx(2 * t.cdf(score, present - 1), abs=1e-9)


def test_rare_errors_are_no_discovery():
    """Where confidence is 0.999 and errors are as rare, no more groups differ than the level says."""
    generator = np.random.default_rng(0)
    found = 0
    for _ in range(100):
        n, groups = 3000, 30
        codes = torch.from_numpy(generator.integers(0, groups, n))
        correct = torch.from_numpy(generator.random(n) < 0.999)
        number = torch.zeros(n, dtype=torch.int64)
        loss = torch.zeros(n, dtype=torch.float64)
        confidence = torch.full((n,), 0.999, dtype=torch.float64)
        stats = SampleStatistics(
            confidence=confidence,
            correct=correct,
            weight=None,
            prediction=number,
            label=(~correct).long(),
            nll=loss,
            brier=loss,
            entropy=loss,
            rank=number,
        )
        moments = GroupMoments.of(stats, codes, groups)
        for contrast in (moments.gap_contrast(), moments.error_contrast()):
            found += int((np.nan_to_num(contrast.p_value, nan=1.0) * groups <= 0.05).any())
    assert found <= 10
