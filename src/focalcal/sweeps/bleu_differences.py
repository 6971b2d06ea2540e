"""Differences of BLEU by the paired bootstrap: between losses, and between temperatures of one loss."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from focalcal.sweeps.records import read_records, write_records
from focalcal.translation import compare_bleu

LEVEL = 0.90  # of the intervals
_System = tuple[str, float]  # loss and temperature


@dataclass(frozen=True)
class Translated:
    """One run's translations of the test set.

    Attributes:
        method, seed: Loss and seed of the run.
        calibrated: T of the lowest validation ECE.
        peak: T of the highest BLEU of the test set.
        texts: The translations by temperature: at 1, ``calibrated`` and ``peak``.
    """

    method: str
    seed: int
    calibrated: float
    peak: float
    texts: Mapping[float, Sequence[str]]


@dataclass(frozen=True)
class BleuDifference:
    """BLEU of one system minus that of another, both on the same test set.

    Attributes:
        seed: Seed of both runs.
        method, temperature: The first system.
        baseline, baseline_temperature: The second.
        difference: BLEU of the first minus that of the second.
        low, high: Its 90% interval by the paired bootstrap over sentences.
        p_value: Two-sided, by the same draws.
        sacrebleu_p_value: By sacrebleu's paired bootstrap, which is too small by half or more.
    """

    seed: int
    method: str
    temperature: float
    baseline: str
    baseline_temperature: float
    difference: float
    low: float
    high: float
    p_value: float
    sacrebleu_p_value: float

    @property
    def is_significant(self) -> bool:
        """Return whether the interval excludes 0."""
        return not self.low <= 0 <= self.high

    def text(self, adjusted: float | None = None) -> str:
        """Return the difference, its interval, and whether it is significant.

        Args:
            adjusted: p-value after a correction for several comparisons.

        Examples:
            >>> BleuDifference(0, "fl-1", 1.0, "cross-entropy", 1.0, -0.3, -0.62, 0.01, 0.11, 0.05).text()
            '-0.30 [-0.62, 0.01] (p = 0.11, not significant)'
        """
        p_value = self.p_value if adjusted is None else adjusted
        note = "" if self.is_significant and p_value < 1 - LEVEL else ", not significant"
        return f"{self.difference:+.2f} [{self.low:.2f}, {self.high:.2f}] (p = {p_value:.2g}{note})"


def measure_differences(runs: Sequence[Translated], references: Sequence[str]) -> list[BleuDifference]:
    """Compare losses of the same seed, uncalibrated and calibrated, and each run with itself at other temperatures.

    Args:
        runs: Translations of the same test set.
        references: Translations by people.
    """
    found = []
    for first, second in itertools.combinations(runs, 2):
        if first.seed == second.seed:
            for ours, theirs in dict.fromkeys([(1.0, 1.0), (second.calibrated, first.calibrated)]):
                found.append(_measure((second, ours), (first, theirs), references))
    for run in runs:
        for changed, start in _own_pairs(run):
            found.append(_measure((run, changed), (run, start), references))
    return found


def find_difference(
    found: Iterable[BleuDifference], first: _System, second: _System, seed: int
) -> BleuDifference | None:
    """Find the first system minus the second, whichever way round it was measured; None where it was not.

    Args:
        found: Differences.
        first: Loss and temperature.
        second: Those of the other.
        seed: Seed of both runs.
    """
    wanted = [_key(first), _key(second)]
    for one in found:
        systems = [_key((one.method, one.temperature)), _key((one.baseline, one.baseline_temperature))]
        if one.seed == seed and systems == wanted:
            return one
        if one.seed == seed and systems == wanted[::-1]:
            return replace(
                one,
                method=first[0],
                temperature=first[1],
                baseline=second[0],
                baseline_temperature=second[1],
                difference=-one.difference,
                low=-one.high,
                high=-one.low,
            )
    return None


def write_differences(path: Path, differences: Iterable[BleuDifference]) -> None:
    """Write differences as csv, one per line."""
    write_records(path, BleuDifference, differences)


def read_differences(path: Path) -> list[BleuDifference]:
    """Read what `write_differences` wrote; nothing where there is no such file."""
    return read_records(path, BleuDifference, "differences of BLEU")


def _own_pairs(run: Translated) -> list[tuple[float, float]]:
    """List scaled against not scaled, and T of the highest BLEU against each of them."""
    pairs = [(run.calibrated, 1.0), (run.peak, 1.0), (run.peak, run.calibrated)]
    kept: dict[frozenset[float], tuple[float, float]] = {}
    for pair in pairs:
        if pair[0] != pair[1]:
            kept.setdefault(frozenset(pair), pair)
    return list(kept.values())


def _measure(
    ours: tuple[Translated, float], theirs: tuple[Translated, float], references: Sequence[str]
) -> BleuDifference:
    (run, temperature), (other, start) = ours, theirs
    systems = {"baseline": other.texts[start], "system": run.texts[temperature]}
    system = compare_bleu(systems, references)[1]
    change = system.difference
    assert change is not None
    assert system.p_value is not None
    names = (run.seed, run.method, temperature, other.method, start)
    return BleuDifference(*names, change.value, *change.interval, change.p_value, system.p_value)


def _key(system: _System) -> tuple[str, str]:
    """Compare temperatures as files write them, with six digits."""
    return system[0], f"{system[1]:.6g}"
