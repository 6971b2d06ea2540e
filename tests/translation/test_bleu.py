"""BLEU: sacrebleu's own figures, its signature, and the paired bootstrap."""

import os
import sys

import numpy as np
import pytest
import sacrebleu

from focalcal.translation import compare_bleu, measure_bleu
from focalcal.translation.bleu import bleu_interval, measure_change

REFERENCES = [f"the {animal} runs through the {place} ." for animal in ("dog", "Cat", "horse") for place in "ABCDEFGH"]
MIXED = [line.replace("through", "across") if number % 3 else line for number, line in enumerate(REFERENCES)]
WORSE = [line.replace("runs", "walks") if number % 2 else line for number, line in enumerate(REFERENCES)]


def test_figures_are_those_of_sacrebleu():
    found = measure_bleu(WORSE, REFERENCES)
    assert found.score == sacrebleu.corpus_bleu(WORSE, [REFERENCES]).score
    assert found.lower_cased == sacrebleu.corpus_bleu(WORSE, [REFERENCES], lowercase=True).score
    assert found.signature.startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    assert str(found).startswith(f"BLEU {found.score:.2f} (nrefs:1")


def test_case_counts_only_in_the_cased_figure():
    lower = [line.lower() for line in REFERENCES]
    found = measure_bleu(lower, REFERENCES)
    assert found.lower_cased == pytest.approx(100.0)
    assert found.score < 100


def test_the_paired_bootstrap_tells_a_worse_system_from_the_baseline():
    same, worse = compare_bleu({"a": REFERENCES, "b": list(REFERENCES), "c": WORSE}, REFERENCES, bootstrap=200)[1:]
    assert same.p_value == 1.0
    assert worse.p_value < 0.05
    assert worse.score < same.score == pytest.approx(100.0)


def test_the_baseline_comes_first_and_the_seed_decides_the_draws():
    systems = {"a": WORSE, "b": REFERENCES}
    first, again = (compare_bleu(systems, REFERENCES, bootstrap=100, seed=7) for _ in range(2))
    other = compare_bleu(systems, REFERENCES, bootstrap=100, seed=8)
    assert first == again
    assert first[0].system == "a"
    assert first[0].p_value is None
    assert first[0].half_width != other[0].half_width
    assert "SACREBLEU_SEED" not in os.environ


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: measure_bleu(["a"], []), "no references"),
        (lambda: measure_bleu(["a"], ["a", "b"]), "1 translations for 2 references"),
        (lambda: compare_bleu({"a": ["x"]}, ["x"]), "at least two systems"),
        (lambda: compare_bleu({"a": ["x"], "b": ["x", "y"]}, ["x"]), "b: 2 translations for 1 references"),
    ],
)
def test_what_does_not_fit_is_named(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()


def test_without_sacrebleu_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    with pytest.raises(ImportError, match=r"pip install 'focalcal\[translation\]'"):
        measure_bleu(["a"], ["a"])


def test_the_interval_is_that_of_resampled_corpora():
    words = ["the dog runs", "a cat sleeps on the mat", "two men walk home", "children play in the snow today"]
    references = [f"{words[i % 4]} {words[(i * 3 + 1) % 4]} ." for i in range(40)]
    texts = [text if i % 3 else text.replace("the", "a") for i, text in enumerate(references)]
    low, high = bleu_interval(texts, references, level=0.8, bootstrap=300, seed=3)
    assert low < measure_bleu(texts, references).score < high
    # The slow way: BLEU of whole corpora, drawn with the same counts.
    draws = np.random.default_rng(3).multinomial(40, np.full(40, 1 / 40), 300)
    scores = []
    for counts in draws[:20]:
        rows = np.repeat(np.arange(40), counts)
        scores.append(measure_bleu([texts[i] for i in rows], [references[i] for i in rows]).score)
    few_low, few_high = bleu_interval(texts, references, level=1.0, bootstrap=20, seed=3)
    again = np.random.default_rng(3).multinomial(40, np.full(40, 1 / 40), 20)
    assert (again == draws[:20]).all()
    assert (few_low, few_high) == pytest.approx((min(scores), max(scores)))


def test_a_difference_has_the_interval_of_corpora_drawn_alike_for_both():
    change = measure_change(WORSE, MIXED, REFERENCES, level=1.0, bootstrap=20, seed=3)
    draws = np.random.default_rng(3).multinomial(24, np.full(24, 1 / 24), 20)
    found = []
    for counts in draws:
        rows = np.repeat(np.arange(24), counts)
        ours, theirs, references = ([texts[i] for i in rows] for texts in (WORSE, MIXED, REFERENCES))
        found.append(measure_bleu(ours, references).score - measure_bleu(theirs, references).score)
    assert change.interval == pytest.approx((min(found), max(found)))
    assert change.value == pytest.approx(measure_bleu(WORSE, REFERENCES).score - measure_bleu(MIXED, REFERENCES).score)
    assert change.p_value == pytest.approx(
        min(1, 2 * (min(sum(x <= 0 for x in found), sum(x >= 0 for x in found)) + 1) / 21)
    )


def test_a_p_value_is_below_a_tenth_where_the_interval_excludes_0():
    worse, same = (
        measure_change(WORSE, REFERENCES, REFERENCES, bootstrap=400),
        measure_change(MIXED, MIXED, REFERENCES, bootstrap=50),
    )
    assert worse.interval[1] < 0
    assert worse.p_value < 0.1
    assert (same.value, same.interval, same.p_value) == (0, (0, 0), 1)


def test_of_equally_good_systems_one_in_ten_differs_by_the_interval_and_more_by_sacrebleu():
    generator, wrong, right = np.random.default_rng(0), [], []
    for _ in range(40):  # of each sentence, either system has the better translation
        swap = generator.random(24) < 0.5
        ours, theirs = (
            [a if swapped is way else b for a, b, swapped in zip(WORSE, REFERENCES, swap.tolist(), strict=True)]
            for way in (True, False)
        )
        one = compare_bleu({"a": ours, "b": theirs}, REFERENCES, bootstrap=40)[1]
        right.append(one.difference.p_value < 0.1)
        wrong.append(one.p_value < 0.1)
    assert np.mean(right) < np.mean(wrong)
    assert np.mean(right) < 0.2


def test_one_perfect_sentence_has_no_spread():
    assert bleu_interval(["a b c d e"], ["a b c d e"]) == pytest.approx((100, 100))
