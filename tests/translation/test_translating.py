"""Lines in, translations out: order, empty lines, long lines, unknown characters, a vocabulary that does not fit."""

import pytest
import torch

from focalcal.data import load_data
from focalcal.models.transformer import Transformer
from focalcal.translation import search_beams, translate


@pytest.fixture(scope="module")
def vocabulary():
    return load_data("multi30k", synthetic=3).train.vocabulary


@pytest.fixture(scope="module")
def model(vocabulary):
    torch.manual_seed(0)
    return Transformer(len(vocabulary), layers=1, width=16, feedforward=16, heads=2, max_length=12).double().eval()


LINES = ["ba de", "ki lo mu na", "fa", "gu ko bi"]


def test_translations_are_in_the_order_of_the_lines(model, vocabulary):
    whole = translate(model, vocabulary, LINES, beam=2)
    single = [translate(model, vocabulary, [line], beam=2).texts[0] for line in LINES]
    small = translate(model, vocabulary, LINES, beam=2, batch_tokens=1)
    assert whole.texts == single == small.texts
    assert whole.notes() == []


def test_texts_are_those_of_the_search(model, vocabulary):
    (numbers,) = vocabulary.encode(LINES[:1])
    (best,) = search_beams(model, torch.tensor([[*numbers, 3]]), beam=3, temperature=1.5, length_penalty=1.0)
    found = translate(model, vocabulary, LINES[:1], beam=3, temperature=1.5, length_penalty=1.0)
    assert found.texts == vocabulary.decode([best.tokens])
    assert found.hypotheses[0].tokens == best.tokens


def test_what_is_empty_long_or_unknown_is_counted(model, vocabulary):
    found = translate(model, vocabulary, ["ba de", "", "   ", "ba " * 40, "ba ß de"], beam=2)
    assert found.texts[1] == found.texts[2] == ""
    assert found.hypotheses[1] is None
    assert (found.empty_lines, found.cut_lines) == (2, 1)
    assert found.unknown_subwords >= 1
    assert found.notes()[:2] == [
        "Empty lines, whose translations are empty: 2.",
        "Lines longer than the network can read, which were cut: 1.",
    ]


def test_a_vocabulary_that_does_not_match_is_refused(vocabulary):
    other = Transformer(len(vocabulary) + 1, layers=1, width=16, feedforward=16, heads=2)
    with pytest.raises(ValueError, match="vocabulary has 48 subwords and the network 49"):
        translate(other, vocabulary, LINES)


def test_no_lines_are_no_problem(model, vocabulary):
    assert translate(model, vocabulary, []).texts == []


@pytest.mark.parametrize(
    ("lines", "error", "sentence"),
    [
        ("ba de", TypeError, "must be a sequence of texts"),
        (["ba", None], TypeError, "Sentence 2 is NoneType, not text"),
        (["ba", "d\udce9"], ValueError, "Sentence 2 holds half a character"),
    ],
)
def test_what_is_no_list_of_texts_is_refused(model, vocabulary, lines, error, sentence):
    with pytest.raises(error, match=sentence):
        translate(model, vocabulary, lines)
