import numpy as np
import pytest
import torch

from focalcal.metrics.bootstrap import sample_groups
from focalcal.metrics.bootstrap.counts import bootstrap_counts, count_once
from focalcal.metrics.bootstrap.intervals import Replicates, bootstrap
from focalcal.metrics.bootstrap.permutation import p_values
from focalcal.metrics.bootstrap.replicates import RESAMPLED_METRICS, resample_samples
from focalcal.metrics.bootstrap.sample_groups import (
    GROUPS,
    resample_groups,
    resampler_of,
)
from focalcal.metrics.samples import SampleStatistics, sample_statistics
from focalcal.metrics.streaming.large_files import STREAMED_METRICS, StreamedBootstrap
from focalcal.predictions import Predictions

# MCE is decided by the emptiest bin, of which a few groups have all samples: its spread is not compared.
SMOOTH_IN_THE_SUMS = [name for name in RESAMPLED_METRICS if name != "mce"]
# These are known up to the width of a cell.
OF_CELLS = {"ada_ece": 2e-3, "ks_error": 1e-3, "smooth_ece": 2e-3, "debiased_ece": 3e-3}


def over_confident(n: int, seed: int = 0, weights: torch.Tensor | None = None, classes: int = 8) -> Predictions:
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(n, classes, generator=generator, dtype=torch.float64)
    labels = torch.multinomial(torch.softmax(logits / 1.5, 1), 1, generator=generator)[:, 0]
    return Predictions.from_logits(logits, labels, weights=weights)


EVERY_GROUP = np.ones(GROUPS, dtype=np.bool_)


@pytest.mark.parametrize("weighted", [False, True])
def test_all_groups_together_are_the_data(weighted):
    weights = torch.rand(3000, generator=torch.Generator().manual_seed(1)) if weighted else None
    preds = over_confident(3000, weights=weights)
    stats = [sample_statistics(preds)]
    of_groups = resample_groups([preds], RESAMPLED_METRICS, 15, stats, seed=0).values(count_once(EVERY_GROUP))
    exact = resample_samples([preds], RESAMPLED_METRICS, 15, stats).values(np.ones((3000, 1), dtype=np.uint8))
    for name in RESAMPLED_METRICS:
        assert of_groups[name][0] == pytest.approx(exact[name][0], abs=OF_CELLS.get(name, 1e-11)), name


def test_a_resample_of_groups_is_the_resample_of_their_samples():
    preds = over_confident(2000)
    stats = [sample_statistics(preds)]
    (counts,) = bootstrap_counts(EVERY_GROUP, samples=4, seed=3)
    group = sample_groups.deal(2000, GROUPS, torch.Generator().manual_seed(5)).numpy()
    of_groups = resample_groups([preds], RESAMPLED_METRICS, 15, stats, seed=5).values(counts)
    exact = resample_samples([preds], RESAMPLED_METRICS, 15, stats).values(counts[group])
    for name in RESAMPLED_METRICS:
        np.testing.assert_allclose(of_groups[name], exact[name], rtol=0, atol=OF_CELLS.get(name, 1e-11), err_msg=name)


@pytest.mark.slow
def test_groups_spread_as_samples_do():
    preds = over_confident(20_000)
    stats = [sample_statistics(preds)]
    of_groups = resample_groups([preds], SMOOTH_IN_THE_SUMS, 15, stats, seed=0).values_of_blocks(
        bootstrap_counts(EVERY_GROUP, samples=600, seed=0)
    )
    exact = resample_samples([preds], SMOOTH_IN_THE_SUMS, 15, stats).values_of_blocks(
        bootstrap_counts(np.ones(20_000, dtype=np.bool_), samples=600, seed=0)
    )
    for name in SMOOTH_IN_THE_SUMS:
        # Known to 1/√(2·512) from the dealing and 1/√(2·600) from each of the two sets of resamples: 5% in all.
        assert of_groups[name].std() == pytest.approx(exact[name].std(), rel=0.15), name
        assert of_groups[name].mean() == pytest.approx(exact[name].mean(), abs=exact[name].std() / 3), name


def test_two_models_are_dealt_alike_and_swapped_by_groups():
    a, b = over_confident(1500, seed=0), over_confident(1500, seed=0)
    b = b.with_values(b.values + torch.randn(1500, 8, generator=torch.Generator().manual_seed(9)), "logits")
    stats = [sample_statistics(a), sample_statistics(b)]
    swap = np.random.default_rng(0).integers(0, 2, GROUPS)
    group = sample_groups.deal(1500, GROUPS, torch.Generator().manual_seed(2)).numpy()
    counts, exact_counts = (
        np.stack([1 - swaps, swaps], axis=1).reshape(-1, 1).astype(np.uint8) for swaps in (swap, swap[group])
    )
    of_groups = resample_groups([a, b], RESAMPLED_METRICS, 15, stats, seed=2).values_of_swaps(counts, 1 - counts)
    exact = resample_samples([a, b], RESAMPLED_METRICS, 15, stats).values_of_swaps(exact_counts, 1 - exact_counts)
    for side in (0, 1):
        for name in RESAMPLED_METRICS:
            expected = pytest.approx(exact[side][name][0], abs=OF_CELLS.get(name, 1e-11))
            assert of_groups[side][name][0] == expected, name


def test_many_samples_are_resampled_in_groups_around_the_exact_estimate():
    few, many = (
        over_confident(sample_groups.ONE_BY_ONE, classes=2),
        over_confident(sample_groups.ONE_BY_ONE + 1, classes=2),
    )
    assert len(resampler_of([few], ["ece"], 15, [sample_statistics(few)], seed=0)[1]) == len(few)
    result = bootstrap(many, bootstrap=200)
    stats = sample_statistics(many)
    for name in ("ada_ece", "smooth_ece", "debiased_ece", "ece", "nll", "classwise_ece"):
        exact = resample_samples([many], [name], 15, [stats]).values(np.ones((len(many), 1), dtype=np.uint8))[name][0]
        assert result.estimates[name] == pytest.approx(exact, abs=1e-12)
        low, high = result.intervals[name]
        assert low < exact < high
    expected = 1.645 * float(stats.nll.std()) / len(many) ** 0.5
    low, high = result.intervals["nll"]
    assert (high - low) / 2 == pytest.approx(expected, rel=0.25)


@pytest.mark.slow
def test_swapping_groups_finds_what_there_is_and_not_more():
    generator = torch.Generator().manual_seed(4)
    n = 20_000
    p = 0.5 + 0.4 * torch.rand(n, generator=generator, dtype=torch.float64)
    labels = torch.rand(n, generator=generator) < p

    def p_of_pair(shift: float) -> dict[str, float]:
        a, b = (
            Predictions.from_probs((p + s + 0.05 * torch.randn(n, generator=generator)).clamp(0.01, 0.99), labels)
            for s in (0.0, shift)
        )
        return p_values(a, b, ["nll", "ece"], 99, 0, 15, (sample_statistics(a), sample_statistics(b)))

    assert p_of_pair(0.05) == {"nll": 1 / 100, "ece": 1 / 100}
    alike = np.array([list(p_of_pair(0.0).values()) for _ in range(12)])
    # Of 12 uniform numbers more than 5 are below 0.2 in 2% of cases; the seed is fixed.
    assert ((alike <= 0.2).sum(axis=0) <= 5).all()
    assert ((alike >= 0.5).sum(axis=0) >= 2).all()


def in_blocks(stats: SampleStatistics, rows: int) -> list[SampleStatistics]:
    fields = vars(stats)
    return [
        SampleStatistics(**{k: None if v is None else v[start : start + rows] for k, v in fields.items()})
        for start in range(0, len(stats), rows)
    ]


def test_streamed_data_give_the_intervals_of_data_at_hand():
    preds = over_confident(30_000)
    stats = sample_statistics(preds)
    streamed = StreamedBootstrap(bins=15, seed=0)
    for block in in_blocks(stats, 7000):
        streamed.add(block)
    found: Replicates = streamed.replicates(STREAMED_METRICS, 500)
    at_hand = bootstrap(preds, metrics=STREAMED_METRICS, bootstrap=500, statistics=stats)
    for name in set(STREAMED_METRICS) - {"mce"}:
        low, high = at_hand.intervals[name]
        assert found.estimates[name] == pytest.approx(at_hand.estimates[name], abs=OF_CELLS.get(name, 1e-11)), name
        assert found.interval(name, "basic", 0.9) == pytest.approx((low, high), abs=0.25 * (high - low)), name


def test_streams_are_seeded():
    stats = sample_statistics(over_confident(1000))

    def interval(seed):
        streamed = StreamedBootstrap(seed=seed)
        streamed.add(stats)
        return streamed.replicates(["nll"], 50).interval("nll", "basic", 0.9)

    assert interval(1) == interval(1) != interval(2)
