"""BLEU by sacrebleu, cased and lower-cased, and its paired bootstrap between systems."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from focalcal.base.optional import import_optional


@dataclass(frozen=True)
class BleuScore:
    """BLEU of a corpus.

    Attributes:
        score: Cased, in percent; what the signature says.
        signature: sacrebleu's signature: references, case, tokenisation, smoothing, version.
        lower_cased: The same of lower-cased text, to compare with papers that report that.
    """

    score: float
    signature: str
    lower_cased: float

    def __str__(self) -> str:
        return f"BLEU {self.score:.2f} ({self.signature}); lower-cased {self.lower_cased:.2f}"


@dataclass(frozen=True)
class BleuComparison:
    """A system beside the first one, both resampled with the same sentences.

    Attributes:
        system: Its name.
        score: Cased BLEU.
        mean: Mean over the resamples.
        half_width: Half the width of the 95% confidence interval around the mean.
        p_value: sacrebleu's, of the size of the difference to the first system; None for the first itself. Of two
            equally good systems about one pair in four has one below 0.10: it is not a two-sided p-value.
        difference: The difference to the first system, which has none itself.
    """

    system: str
    score: float
    mean: float
    half_width: float
    p_value: float | None
    difference: BleuChange | None = None


@dataclass(frozen=True)
class BleuChange:
    """BLEU of one system minus that of another on the same sentences.

    Attributes:
        value: The difference.
        interval: Percentile interval of the paired bootstrap.
        p_value: Two-sided, of the same draws: below 1 − level where the interval excludes 0.
    """

    value: float
    interval: tuple[float, float]
    p_value: float


def measure_bleu(translations: Sequence[str], references: Sequence[str]) -> BleuScore:
    """Measure BLEU with one reference per sentence.

    Args:
        translations: Translations by a system.
        references: Translations by people.

    Examples:
        >>> score = measure_bleu(["The dog runs through the Snow."], ["The dog runs through the snow."])
        >>> round(score.score, 1), round(score.lower_cased, 1), score.signature.rpartition("|")[0]
        (64.3, 100.0, 'nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp')
    """
    _check_counts({"translations": translations}, references)
    metrics = _sacrebleu().metrics
    cased, lower = metrics.BLEU(), metrics.BLEU(lowercase=True)
    score = cased.corpus_score(list(translations), [list(references)]).score
    lower_score = lower.corpus_score(list(translations), [list(references)]).score
    return BleuScore(float(score), str(cased.get_signature()), float(lower_score))


def bleu_interval(
    translations: Sequence[str],
    references: Sequence[str],
    *,
    level: float = 0.90,
    bootstrap: int = 1000,
    seed: int = 0,
) -> tuple[float, float]:
    """Compute a percentile bootstrap interval of cased BLEU: sentences are drawn, their counts of n-grams added up.

    Args:
        translations: Translations by a system.
        references: Translations by people.
        level: Level of the interval.
        bootstrap: Number of resamples.
        seed: Seed for the draws.
    """
    _check_counts({"translations": translations}, references)
    return _interval(_resampled_scores([translations], references, bootstrap, seed)[:, 0], level)


def measure_change(
    translations: Sequence[str],
    baseline: Sequence[str],
    references: Sequence[str],
    *,
    level: float = 0.90,
    bootstrap: int = 10_000,
    seed: int = 0,
) -> BleuChange:
    """Measure by how much BLEU differs from that of a baseline, with the same sentences drawn for both.

    Args:
        translations: Translations by a system.
        baseline: Translations by another system.
        references: Translations by people.
        level: Level of the interval.
        bootstrap: Number of resamples.
        seed: Seed for the draws.
    """
    _check_counts({"translations": translations, "baseline": baseline}, references)
    scores = _resampled_scores([translations, baseline], references, bootstrap, seed)
    changes = scores[:, 0] - scores[:, 1]
    value = measure_bleu(translations, references).score - measure_bleu(baseline, references).score
    tail = min(int((changes <= 0).sum()), int((changes >= 0).sum()))
    return BleuChange(value, _interval(changes, level), min(1.0, 2 * (tail + 1) / (bootstrap + 1)))


def _interval(values: npt.NDArray[np.float64], level: float) -> tuple[float, float]:
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def _resampled_scores(
    systems: Sequence[Sequence[str]], references: Sequence[str], bootstrap: int, seed: int
) -> npt.NDArray[np.float64]:
    """Compute BLEU (resamples, systems) of resampled test sets, the same sentences for every system."""
    metrics = _sacrebleu().metrics
    # The counts of a sentence do not depend on the effective order, which sacrebleu wants for single sentences.
    per_sentence = metrics.BLEU(effective_order=True)
    scores = [
        [per_sentence.sentence_score(text, [reference]) for text, reference in zip(texts, references, strict=True)]
        for texts in systems
    ]
    counts = np.array(
        [[[one.sys_len, one.ref_len, *one.counts, *one.totals] for one in each] for each in scores], dtype=np.int64
    )
    generator, shares = np.random.default_rng(seed), np.full(len(references), 1 / len(references))
    found = np.empty((bootstrap, len(systems)))
    for row in range(bootstrap):
        draw = generator.multinomial(len(references), shares)
        found[row] = [_bleu_of(metrics.BLEU, draw @ each) for each in counts]
    return found


def _bleu_of(bleu: Any, sums: npt.NDArray[np.int64]) -> float:
    """Compute BLEU with sacrebleu's defaults from summed lengths and counts."""
    system, reference, *counts = (int(one) for one in sums)
    half = len(counts) // 2
    return float(bleu.compute_bleu(counts[:half], counts[half:], system, reference, smooth_method="exp").score)


def compare_bleu(
    systems: Mapping[str, Sequence[str]], references: Sequence[str], *, bootstrap: int = 1000, seed: int = 12345
) -> list[BleuComparison]:
    """Compare systems with the first one by sacrebleu's paired bootstrap, and measure the differences.

    Args:
        systems: Translations of the same sentences by the name of the system; the first is the baseline.
        references: Translations by people.
        bootstrap: Number of resamples; `measure_change` takes ten times as many, as its interval needs them.
        seed: Seed for the draws.

    Returns:
        One comparison per system, the baseline first.
    """
    _check_counts(systems, references)
    if len(systems) < 2:
        raise ValueError("A comparison needs at least two systems.")
    sacrebleu = _sacrebleu()
    from sacrebleu.significance import PairedTest

    named: list[tuple[str, Sequence[str]]] = [(name, list(texts)) for name, texts in systems.items()]
    metric = {"BLEU": sacrebleu.metrics.BLEU(references=[list(references)])}
    with _seed(seed):
        test = PairedTest(named, metric, references=None, test_type="bs", n_samples=bootstrap)
        found: Any = test()[1]
    first = named[0][1]
    return [
        BleuComparison(
            name,
            float(one.score),
            float(one.mean),
            float(one.ci),
            _p_value(one.p_value, texts, first),
            None
            if one.p_value is None
            else measure_change(texts, first, references, bootstrap=10 * bootstrap, seed=seed),
        )
        for (name, texts), one in zip(named, found["BLEU"], strict=True)
    ]


def _p_value(found: float | None, texts: Sequence[str], baseline: Sequence[str]) -> float | None:
    """Return 1 for the very translations of the baseline, of which sacrebleu says 1 / (resamples + 1)."""
    if found is None:
        return None
    return 1.0 if texts == baseline else float(found)


def _check_counts(systems: Mapping[str, Sequence[str]], references: Sequence[str]) -> None:
    if not references:
        raise ValueError("There are no references, so there is no BLEU.")
    for name, texts in systems.items():
        if isinstance(texts, str) or len(texts) != len(references):
            raise ValueError(
                f"{name}: {len(texts):,} translations for {len(references):,} references; one each is due."
            )


@contextmanager
def _seed(seed: int) -> Iterator[None]:
    """Set the seed where sacrebleu looks for it: in the environment."""
    name = "SACREBLEU_SEED"
    before = os.environ.get(name)
    os.environ[name] = str(seed)
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def _sacrebleu() -> Any:
    return import_optional("sacrebleu", extra="translation", what="BLEU scores")
