import numpy as np
import pytest
import torch

from focalcal.metrics.bootstrap.counts import bootstrap_counts, counted_sums, drawable, jackknife_counts

EVERY = np.ones(6, dtype=bool)


def test_each_replicate_draws_as_many_samples_as_there_are():
    counts = np.concatenate(list(bootstrap_counts(EVERY, 100, seed=1, block=30)), axis=1)
    assert counts.shape == (6, 100)
    assert (counts.sum(axis=0) == 6).all()


def test_counts_have_the_mean_and_variance_of_draws_with_replacement():
    counts = np.concatenate(list(bootstrap_counts(np.ones(50, dtype=bool), 4000, seed=0)), axis=1).astype(float)
    # Binomial(50, 1/50), 200,000 of them: standard errors are 0.002 and 0.004.
    assert counts.mean() == 1
    assert counts.var() == pytest.approx(49 / 50, abs=0.02)
    assert abs(np.corrcoef(counts[0], counts[1])[0, 1] + 1 / 49) < 0.06


def test_the_seed_alone_decides():
    def draws(seed, block):
        return np.concatenate(list(bootstrap_counts(EVERY, 20, seed, block)), axis=1).tolist()

    assert draws(3, 1) == draws(3, 7) == draws(3, None)
    assert draws(3, None) != draws(4, None)


def test_samples_without_weight_are_never_drawn():
    drawn = drawable(torch.tensor([1.0, 0.0, 2.0]), 3)
    counts = np.concatenate(list(bootstrap_counts(drawn, 50, seed=0)), axis=1)
    assert (counts[1] == 0).all()
    assert (counts.sum(axis=0) == 2).all()


@pytest.mark.parametrize(("n", "groups"), [(6, 6), (7, 3), (10, 4)])
def test_the_jackknife_leaves_every_sample_out_once(n, groups):
    counts = np.concatenate(list(jackknife_counts(np.ones(n, dtype=bool), groups, seed=2, block=2)), axis=1)
    assert counts.shape == (n, groups)
    assert (counts.sum(axis=1) == groups - 1).all()
    left_out = n - counts.sum(axis=0)
    assert left_out.max() - left_out.min() <= 1


def test_counted_sums_need_one_row_of_values_a_sample():
    with pytest.raises(ValueError, match="counts for 3 samples but values for 2"):
        counted_sums(np.ones((3, 1), dtype=np.uint8), [torch.ones(2, 1).double()])
