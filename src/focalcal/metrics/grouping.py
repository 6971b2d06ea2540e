"""Evaluation of every group of a column, such as region: metrics, intervals, and which groups stand out.

Every group is compared with all other samples in mean confidence − accuracy and in error, and tested for calibration;
the p-values of each of the three questions are corrected for the number of groups (Holm).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from focalcal.base.measures import name_event
from focalcal.base.suggestions import did_you_mean
from focalcal.metrics.bootstrap.differences import holm
from focalcal.metrics.clusters import cluster_numbers
from focalcal.metrics.evaluation import Evaluation, EvaluationRequest
from focalcal.metrics.gap_intervals import AbsoluteGaps
from focalcal.metrics.group_moments import FEWEST_SAMPLES, Contrast, GroupMoments, cluster_contrast
from focalcal.metrics.group_results import GroupResult, GroupTable, GroupTest
from focalcal.metrics.honest_intervals import SampledGaps
from focalcal.metrics.independent_units import Bins, Units
from focalcal.metrics.samples import ConfidenceSamples, SampleStatistics, sample_statistics
from focalcal.metrics.sums import RowsOfSums, names_from, values
from focalcal.predictions import Predictions
from focalcal.predictions.groups import GroupColumn

# This many groups get every metric with its interval; beyond them, the others get what one pass gives to all at once.
MOST_EVALUATED = 100
# Draws of what a calibrated model would show: more of them where few are as large as what was found.
_DRAWS, _QUICK_DRAWS, _MOST_DRAWS, _ENOUGH_HITS = 4000, 400, 100_000, 10
_MANY_GROUPS = 500


def check_columns(by: str | Sequence[str] | None, known: Sequence[str]) -> tuple[str, ...]:
    """Return the columns asked for; raises for one that predictions do not have.

    Examples:
        >>> check_columns("region", ["region", "month"])
        ('region',)
    """
    if by is None:
        return ()
    columns = (by,) if isinstance(by, str) else tuple(dict.fromkeys(by))
    for column in columns:
        if column not in known:
            hint = did_you_mean(column, known) if known else "; these predictions have none."
            raise ValueError(
                f"There is no column of groups {column!r}{hint} Give groups={{{column!r}: [...]}} to Predictions, or "
                "name a column of the file by groups_key."
            )
    return columns


def label_notes(preds: Predictions, columns: Sequence[str]) -> list[str]:
    """Warn of columns that are the label itself, as ``--by truth``.

    Among the samples of one true class even a perfectly calibrated model is right more often, or less, than it says.
    """
    found = []
    for column in columns:
        codes, labels = preds.groups[column].codes, preds.hard_labels
        names, classes = (len(torch.unique(one)) for one in (codes, labels))
        pairs = len(torch.unique(torch.stack([codes, labels]), dim=1).T)
        if classes > 1 and pairs == names == classes < len(preds):
            found.append(
                f"The groups of {column} are the labels: within one true class even a perfectly calibrated model looks "
                "miscalibrated, so group by something that is known before the label, such as the predicted class."
            )
    return found


@dataclass(frozen=True)
class NumberedGroups:
    """Groups that have samples of positive weight, numbered from 0 on.

    Attributes:
        names: G names.
        codes: (N,) int64; those of samples that do not count are −1.
    """

    names: tuple[str, ...]
    codes: Tensor

    @classmethod
    def of(cls, column: GroupColumn, weights: Tensor | None) -> "NumberedGroups":
        """Leave out groups without samples."""
        counted = torch.ones(len(column), dtype=torch.bool) if weights is None else weights > 0
        held = torch.bincount(column.codes[counted], minlength=len(column.names)) > 0
        number = torch.full((len(column.names),), -1, dtype=torch.int64)
        number[held] = torch.arange(int(held.sum()))
        codes = torch.where(counted, number[column.codes], -1)
        return cls(tuple(name for name, there in zip(column.names, held.tolist(), strict=True) if there), codes)

    def rows(self) -> list[Tensor]:
        """Return the rows of each group, in their order."""
        order = torch.argsort(self.codes, stable=True)
        counts = torch.bincount(self.codes[self.codes >= 0], minlength=len(self.names))
        return list(torch.split(order[len(order) - int(counts.sum()) :], counts.tolist()))


def evaluate_groups(
    preds: Predictions,
    column: str,
    request: EvaluationRequest,
    evaluate: Callable[[Predictions], Evaluation],
) -> GroupTable:
    """Evaluate every group of a column.

    Args:
        preds: Predictions with that column, as `measured` gives them.
        column: Its name.
        request: What is wanted.
        evaluate: Evaluates the predictions of one group.
    """
    groups = NumberedGroups.of(preds.groups[column], preds.weights)
    stats, rows, clusters = sample_statistics(preds), groups.rows(), cluster_numbers(preds)
    gap, error = _contrasts(stats, groups, clusters)
    p_values = [
        calibration_p_value(_units(stats, clusters, part, request.bins), request.bins, request.seed, len(rows))
        for part in rows
    ]
    tests = make_tests(gap, error, p_values)
    chosen = choose_evaluated(tests, [len(part) for part in rows])
    simple = _simple_evaluations(stats, groups, request, preds) if len(chosen) < len(rows) else []
    results = {}
    for number, name in enumerate(groups.names):
        found = evaluate(preds.select(rows[number])) if number in chosen else simple[number]
        results[name] = GroupResult(name, found, *tests[number])
    return GroupTable(column, results, group_notes(len(rows), len(chosen), [len(part) for part in rows]))


def _contrasts(stats: SampleStatistics, groups: NumberedGroups, clusters: Tensor | None) -> tuple[Contrast, Contrast]:
    counted = groups.codes >= 0
    codes, number = groups.codes.clamp(min=0), len(groups.names)
    if clusters is None:
        moments = GroupMoments.of(stats, codes, number)
        return moments.gap_contrast(), moments.error_contrast()
    weight = (stats.mass * counted).numpy()
    gap, wrong = (stats.confidence - stats.correct.double()).numpy(), (~stats.right).double().numpy()
    of_gap, of_error = (cluster_contrast(x, weight, codes, number, clusters) for x in (gap, wrong))
    return of_gap, of_error


def _units(stats: ConfidenceSamples, clusters: Tensor | None, rows: Tensor, bins: int) -> Units:
    """Return what the test of calibration needs of some samples."""
    weight = None if stats.weight is None else stats.weight[rows]
    samples = ConfidenceSamples(stats.confidence[rows], stats.correct[rows], weight)
    numbers = None if clusters is None else torch.unique(clusters[rows], return_inverse=True)[1]
    return SampledGaps(samples, bins, numbers).binned


def calibration_p_value(units: Units, bins: int, seed: int, groups: int) -> float:
    """Return the p-value of "perfectly calibrated", from enough draws for that number of groups.

    That of `focalcal.metrics.calibration_test`, unless hardly any of its draws is as large as what was found, or
    groups are very many. NaN for fewer than 10 samples or clusters.

    Args:
        units: Units of one group, in bins of equal width.
        bins: Number of bins.
        seed: Seed for the draws.
        groups: Number of groups that are tested.
    """
    if units.effective < FEWEST_SAMPLES - 1e-9:
        return float("nan")
    of_width = Bins.of_width(bins)
    observed, p_value = AbsoluteGaps(units, of_width, seed).value, 1.0
    for draws in (_DRAWS if groups <= _MANY_GROUPS else _QUICK_DRAWS, _MOST_DRAWS):
        null = np.abs(units.noise(of_width, draws, seed)).sum(0) / float(units.mass.sum())
        hits = int((null >= observed - 1e-12).sum())
        p_value = (1 + hits) / (1 + draws)
        if hits >= _ENOUGH_HITS:
            break
    return p_value


Tests = tuple[GroupTest, GroupTest, GroupTest]


def make_tests(gap: Contrast, error: Contrast, p_values: Sequence[float]) -> list[Tests]:
    """Correct the p-values of each question for the number of groups: tests of gap, error and calibration by group."""

    def compare(contrast: Contrast) -> list[GroupTest]:
        p, means, differences = (part.tolist() for part in (contrast.p_value, contrast.mean, contrast.difference))
        return [GroupTest(*each) for each in zip(p, holm(p), differences, means, strict=True)]

    calibration = [GroupTest(*each) for each in zip(p_values, holm(p_values), strict=True)]
    return list(zip(compare(gap), compare(error), calibration, strict=True))


def choose_evaluated(tests: Sequence[Tests], sizes: Sequence[int]) -> set[int]:
    """Choose the groups that get every metric: those that stand out, then the largest."""

    def importance(number: int) -> tuple[int, int]:
        return sum(test.is_significant for test in tests[number]), sizes[number]

    return set(sorted(range(len(sizes)), key=importance, reverse=True)[:MOST_EVALUATED])


def _simple_evaluations(
    stats: SampleStatistics, groups: NumberedGroups, request: EvaluationRequest, preds: Predictions
) -> list[Evaluation]:
    """Evaluate all groups at once, in what sums over samples and bins can give, without intervals."""
    rows, number = RowsOfSums(request.bins), len(groups.names)
    total = torch.zeros(number, rows.width, dtype=torch.float64)
    counted = stats if stats.weight is None else _only(stats, groups.codes >= 0)
    codes = groups.codes[groups.codes >= 0]
    rows.add_to_groups(total, counted, codes)
    names = names_from(request.names, ["means", "bins"])
    found: Mapping[str, np.ndarray] = values(rows.sums(total), names)
    sizes = torch.bincount(codes, minlength=number).tolist()
    each = [{name: float(found[name][i]) for name in names} for i in range(number)]
    shape = preds.num_classes, request.bins
    event = name_event(preds.of, preds.class_names)
    return [Evaluation(one, size, *shape, of=preds.of, event=event) for one, size in zip(each, sizes, strict=True)]


def _only(stats: SampleStatistics, chosen: Tensor) -> SampleStatistics:
    columns: dict[str, Any] = {name: getattr(stats, name) for name in SampleStatistics.__dataclass_fields__}
    chosen_columns: dict[str, Any] = {k: None if part is None else part[chosen] for k, part in columns.items()}
    return SampleStatistics(**chosen_columns)


def group_notes(groups: int, evaluated: int, sizes: Sequence[int]) -> tuple[str, ...]:
    """Say which groups are not evaluated in full, and how many are too small to be tested."""
    notes = []
    if evaluated < groups:
        notes.append(
            f"Of {groups:,} groups, {evaluated} have every metric and intervals: those that stand out, then the "
            "largest; the others have what sums over samples and bins give."
        )
    few = sum(size < FEWEST_SAMPLES for size in sizes)
    if few:
        which = "1 group has" if few == 1 else f"{few:,} groups have"
        notes.append(f"{which} fewer than {FEWEST_SAMPLES} samples: shown, not tested.")
    return tuple(notes)
