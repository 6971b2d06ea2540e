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
        signature: Of sacrebleu: references, case, tokenisation, smoothing, version.
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
        mean: Mean over the samples.
        half_width: Of the 95% confidence interval around the mean.
        p_value: Of the difference to the first system; None for the first itself.
    """

    system: str
    score: float
    mean: float
    half_width: float
    p_value: float | None


def measure_bleu(translations: Sequence[str], references: Sequence[str]) -> BleuScore:
    """Measure BLEU with one reference per sentence.

    Args:
        translations: Of a system.
        references: Of people.

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
    samples: int = 1000,
    seed: int = 0,
) -> tuple[float, float]:
    """Compute a percentile bootstrap interval of cased BLEU: sentences are drawn, their counts of n-grams added up.

    Args:
        translations: Of a system.
        references: Of people.
        level: Level of the interval.
        samples: Bootstrap samples.
        seed: Seed for the draws.
    """
    _check_counts({"translations": translations}, references)
    metrics = _sacrebleu().metrics
    # The counts of a sentence do not depend on the effective order, which sacrebleu wants for single sentences.
    per_sentence = metrics.BLEU(effective_order=True)
    pairs = zip(translations, references, strict=True)
    scores = [per_sentence.sentence_score(text, [reference]) for text, reference in pairs]
    counts = np.array([[one.sys_len, one.ref_len, *one.counts, *one.totals] for one in scores], dtype=np.int64)
    draws = np.random.default_rng(seed).multinomial(len(counts), np.full(len(counts), 1 / len(counts)), samples)
    found = [_bleu_of(metrics.BLEU, sums) for sums in draws @ counts]
    low, high = np.quantile(found, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def _bleu_of(bleu: Any, sums: npt.NDArray[np.int64]) -> float:
    """Compute BLEU with sacrebleu's defaults from summed lengths and counts."""
    system, reference, *counts = (int(one) for one in sums)
    half = len(counts) // 2
    return float(bleu.compute_bleu(counts[:half], counts[half:], system, reference, smooth_method="exp").score)


def compare_bleu(
    systems: Mapping[str, Sequence[str]], references: Sequence[str], *, samples: int = 1000, seed: int = 12345
) -> list[BleuComparison]:
    """Compare systems with the first one by sacrebleu's paired bootstrap.

    Args:
        systems: Translations of the same sentences by the name of the system; the first is the baseline.
        references: Of people.
        samples: Bootstrap samples.
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
        test = PairedTest(named, metric, references=None, test_type="bs", n_samples=samples)
        found: Any = test()[1]
    results = zip(named, found["BLEU"], strict=True)
    return [
        BleuComparison(
            name, float(one.score), float(one.mean), float(one.ci), _p_value(one.p_value, texts, named[0][1])
        )
        for (name, texts), one in results
    ]


def _p_value(found: float | None, texts: Sequence[str], baseline: Sequence[str]) -> float | None:
    """Return 1 for the very translations of the baseline, of which sacrebleu says 1 / (samples + 1)."""
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
