"""Differences of BLEU by the paired bootstrap: between losses, and between temperatures of one loss."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from focalcal.sweeps.records import read_records, write_records
from focalcal.translation import compare_bleu

_System = tuple[str, float]  # loss and temperature


@dataclass(frozen=True)
class Translated:
    """One run's translations of the test set.

    Attributes:
        method, seed: Of the run.
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
        seed: Of both runs.
        method, temperature: The first system.
        baseline, baseline_temperature: The second.
        difference: BLEU of the first minus that of the second.
        p_value: By the paired bootstrap over sentences.
    """

    seed: int
    method: str
    temperature: float
    baseline: str
    baseline_temperature: float
    difference: float
    p_value: float


def measure_differences(runs: Sequence[Translated], references: Sequence[str]) -> list[BleuDifference]:
    """Compare losses of the same seed, uncalibrated and calibrated, and each run with itself at other temperatures.

    Args:
        runs: Translations of the same test set.
        references: Of people.
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
        seed: Of both runs.
    """
    wanted = [_key(first), _key(second)]
    for one in found:
        systems = [_key((one.method, one.temperature)), _key((one.baseline, one.baseline_temperature))]
        if one.seed == seed and systems == wanted:
            return one
        if one.seed == seed and systems == wanted[::-1]:
            return BleuDifference(seed, *first, *second, -one.difference, one.p_value)
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
    baseline, system = compare_bleu(systems, references)
    assert system.p_value is not None
    difference = system.score - baseline.score
    return BleuDifference(run.seed, run.method, temperature, other.method, start, difference, system.p_value)


def _key(system: _System) -> tuple[str, str]:
    """Compare temperatures as files write them, with six digits."""
    return system[0], f"{system[1]:.6g}"
