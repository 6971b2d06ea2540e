"""Cached, batched beam search against the slow one that computes every prefix again."""

import math

import pytest
import torch

from focalcal.models.transformer import Transformer
from focalcal.translation import search_beams
from oracles.translation import greedy, slow_beam_search

SUBWORDS = 13


def network(norm="pre", seed=0, scale=3.0, kind=Transformer, **options):
    torch.manual_seed(seed)
    net = kind(SUBWORDS, layers=2, width=16, feedforward=32, heads=2, norm=norm, **options).double().eval()
    with torch.no_grad():
        net.embedding.weight *= scale  # so that some continuations are much likelier than others
    return net


def sentences(count, longest, seed=0):
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, longest + 1, (count,), generator=generator).tolist()
    return [[*torch.randint(4, SUBWORDS, (n,), generator=generator).tolist(), 3] for n in lengths]


def batch(rows):
    longest = max(map(len, rows))
    return torch.tensor([row + [0] * (longest - len(row)) for row in rows])


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize(("beam", "alpha", "temperature"), [(1, 0.6, 1.0), (3, 0.6, 1.0), (5, 1.0, 0.7), (4, 0.0, 1.6)])
def test_it_finds_what_the_slow_search_finds(norm, beam, alpha, temperature):
    net, rows = network(norm), sentences(7, 6)
    found = search_beams(net, batch(rows), beam=beam, length_penalty=alpha, temperature=temperature)
    for row, one in zip(rows, found, strict=True):
        tokens, log_p, score = slow_beam_search(net, row, beam, alpha, temperature)
        assert list(one.tokens) == tokens
        assert one.log_probability == pytest.approx(log_p, abs=1e-9)
        assert one.score == pytest.approx(score, abs=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_a_beam_of_one_is_greedy(seed):
    net, rows = network(seed=seed), sentences(5, 8, seed)
    found = search_beams(net, batch(rows), beam=1, length_penalty=0.0)
    assert [list(one.tokens) for one in found] == [greedy(net, row) for row in rows]


class Coarse(Transformer):
    """A network whose outputs are multiples of ½, so that many are equal."""

    def forward(self, inputs):
        return super().forward(inputs).mul(2).round() / 2

    def step(self, tokens, state):
        return super().step(tokens, state).mul(2).round() / 2


@pytest.mark.parametrize("beam", [1, 2, 5])
@pytest.mark.parametrize("seed", range(4))
def test_of_equally_likely_subwords_the_first_goes_on(beam, seed):
    net, rows = network(seed=seed, scale=2.0, kind=Coarse), sentences(4, 6, seed)
    found = search_beams(net, batch(rows), beam=beam)
    assert [list(one.tokens) for one in found] == [slow_beam_search(net, row, beam)[0] for row in rows]
    if beam == 1:
        assert [list(one.tokens) for one in found] == [greedy(net, row) for row in rows]


def test_outputs_that_are_not_finite_are_named():
    net, source = network(), batch(sentences(2, 3))
    with pytest.raises(ValueError, match="divided by a temperature of 1e-310, are not finite: take a higher"):
        search_beams(net, source, temperature=1e-310)
    with torch.no_grad():
        net.embedding.weight[5] = math.nan
    with pytest.raises(ValueError, match="a network whose training did not diverge"):
        search_beams(net, source)


def test_a_sentence_is_translated_alike_alone_and_beside_others():
    net, rows = network(), sentences(9, 10)
    together = search_beams(net, batch(rows), beam=4)
    alone = [search_beams(net, batch([row]), beam=4)[0] for row in rows]
    assert [one.tokens for one in together] == [one.tokens for one in alone]


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_a_translation_ends_at_the_limit(limit):
    net, rows = network(), sentences(4, 6)
    found = search_beams(net, batch(rows), beam=3, max_length=limit)
    assert all(len(one.tokens) < limit for one in found)
    assert [list(one.tokens) for one in found] == [slow_beam_search(net, row, 3, limit=limit)[0] for row in rows]


def test_a_beam_wider_than_the_vocabulary_is_no_problem():
    net, rows = network(), sentences(2, 3)
    found = search_beams(net, batch(rows), beam=20, max_length=4)
    assert [list(one.tokens) for one in found] == [slow_beam_search(net, row, 20, limit=4)[0] for row in rows]


def test_special_subwords_are_never_written():
    found = search_beams(network(scale=0.01), batch(sentences(20, 9)), beam=5)
    assert all(token > 3 for one in found for token in one.tokens)


def test_the_model_cannot_be_run_past_its_longest_sentence():
    net = network(max_length=7)
    assert all(len(one.tokens) < 7 for one in search_beams(net, batch(sentences(5, 6)), beam=3))


def test_a_wide_beam_finds_no_less_likely_translation_than_a_greedy_one():
    net, rows = network(), sentences(12, 6)
    wide = search_beams(net, batch(rows), beam=30, length_penalty=0.0)
    narrow = search_beams(net, batch(rows), beam=1, length_penalty=0.0)
    assert all(a.score >= b.score - 1e-9 for a, b in zip(wide, narrow, strict=True))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"beam": 0}, "beam must be a whole number of at least 1, got 0"),
        ({"beam": True}, "beam must be a whole number"),
        ({"temperature": 0.0}, "temperature must be a number above 0"),
        ({"temperature": math.nan}, "temperature must be a number above 0"),
        ({"length_penalty": -1.0}, "length_penalty must be a number from 0 to 20"),
        ({"length_penalty": 1000.0}, "length_penalty must be a number from 0 to 20, got 1000"),
        ({"max_length": 0}, "max_length must be at least 1"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        search_beams(network(), batch(sentences(1, 2)), **options)
