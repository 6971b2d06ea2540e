"""Batches: every sample once, another order each epoch, the same for the same seed."""

from itertools import chain

import pytest
import torch

from focalcal.training.batches import epoch_batches, evaluation_batches, process_share
from tiny_runs import data


class Lengths:
    def __init__(self, count):
        self.lengths = torch.randint(1, 100, (count,), generator=torch.Generator().manual_seed(0))
        self.ids = self.labels = torch.zeros(count, dtype=torch.int64)

    def __len__(self):
        return len(self.lengths)


def orders(epoch=0, seed=0, **options):
    return [batch.tolist() for batch in epoch_batches(data().train, 16, seed=seed, epoch=epoch, **options)]


def test_every_sample_once():
    batches = orders()
    assert sorted(chain(*batches)) == list(range(100))
    assert [len(batch) for batch in batches] == [16] * 6 + [4]


def test_order_follows_from_seed_and_epoch():
    assert orders() == orders()
    assert orders() != orders(epoch=1)
    assert orders() != orders(seed=1)


@pytest.mark.parametrize(("parts", "batches"), [(1, 7), (2, 7), (3, 6)])
def test_last_batch_that_is_too_small_is_left_out(parts, batches):
    assert len(orders(parts=parts)) == batches


def test_a_single_small_batch_stays():
    assert [len(batch) for batch in epoch_batches(data(train=4).train, 16, seed=0, epoch=0, parts=4)] == [4]


def test_every_batch_is_full_where_the_last_is_dropped():
    batches, kept = orders(drop_last=True), list(chain(*orders()))
    assert [len(batch) for batch in batches] == [16] * 6
    assert list(chain(*batches)) == kept[:96]
    for count, sizes in ((32, [16, 16]), (9, [9])):
        batches = epoch_batches(data(train=count).train, 16, seed=0, epoch=0, drop_last=True)
        assert [len(batch) for batch in batches] == sizes


def test_what_is_dropped_does_not_depend_on_its_length():
    samples = Lengths(1000)
    dropped = []
    for epoch in range(60):
        batches = epoch_batches(samples, 16, seed=0, epoch=epoch, by_length=True, drop_last=True)
        assert all(len(batch) == 16 for batch in batches)
        dropped += sorted(set(range(1000)) - set(torch.cat(batches).tolist()))
    assert len(dropped) == 60 * 8
    assert abs(float(samples.lengths[dropped].double().mean() - samples.lengths.double().mean())) < 5


def test_like_lengths_together():
    samples = Lengths(3000)
    batches = epoch_batches(samples, 16, seed=0, epoch=0, by_length=True)
    assert torch.cat(batches).sort().values.tolist() == list(range(3000))
    spread = [int(samples.lengths[batch].max() - samples.lengths[batch].min()) for batch in batches]
    assert sum(spread) / len(spread) < 10
    means = [float(samples.lengths[batch].double().mean()) for batch in batches]
    assert means != sorted(means)


def test_lengths_are_needed():
    with pytest.raises(ValueError, match="need samples that have lengths"):
        orders(by_length=True)


@pytest.mark.parametrize("samples", [Lengths(103), data(train=103).train])
def test_evaluation_takes_every_sample_once(samples):
    assert torch.cat(evaluation_batches(samples, 10)).sort().values.tolist() == list(range(103))


@pytest.mark.parametrize("size", [2, 7, 16])
def test_shares_make_the_batch(size):
    batch = torch.randperm(size)
    parts = [part for rank in range(2) for part in process_share(batch, rank=rank, world=2, accumulate=3)]
    assert torch.equal(torch.cat(parts), batch)
    assert len(parts) == 6


@pytest.mark.parametrize("tokens", [1, 30, 100, 10_000])
def test_batches_by_tokens_hold_every_sample_once_and_no_more_tokens(tokens):
    samples = Lengths(500)
    lengths = samples.lengths.tolist()
    batches = epoch_batches(samples, 8, seed=0, epoch=1, batch_tokens=tokens)
    assert sorted(torch.cat(batches).tolist()) == list(range(500))
    for batch in batches:
        own = [lengths[place] for place in batch.tolist()]
        assert len(own) == 1 or len(own) * max(own) <= tokens


def test_batches_by_tokens_are_full_and_of_similar_length():
    samples = Lengths(2000)
    batches = epoch_batches(samples, 8, seed=0, epoch=0, batch_tokens=1000)
    assert len(batches) < 1.25 * int(samples.lengths.sum()) / 1000
    other = epoch_batches(samples, 8, seed=0, epoch=1, batch_tokens=1000)
    assert [batch.tolist() for batch in batches] != [batch.tolist() for batch in other]
