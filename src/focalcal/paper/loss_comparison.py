"""Comparisons of losses within one result: which is lower, and is it more than chance."""

import math
from collections.abc import Iterator, Sequence
from typing import Literal

from focalcal.paper.cells import Measured, join_rows
from focalcal.paper.claims import Case
from focalcal.paper.result_folders import ResultSet
from focalcal.paper.table_names import METHOD_TITLES
from focalcal.sweeps.result_rows import Row

_LEVEL = 0.90


def figure(
    result: ResultSet, loss: str, metric: str, scaling: str = "", *, data: str = "", by_nll: bool = False
) -> Measured | None:
    """Find a figure of a loss, over its seeds, of the epoch that the recipe selects; None where there is none.

    Args:
        result: Where to look.
        loss: The loss.
        metric: Its name in the table.
        scaling: ``pre``, ``post`` or empty.
        data: An out-of-distribution set, by the paper's name.
        by_nll: Take T by validation NLL.
    """
    rows = selected_rows(result.rows_by_nll if by_nll else result.rows)
    own = [row for row in rows if (row.method, row.metric, row.temperature_scaling) == (loss, metric, scaling)]
    return join_rows([row for row in own if row.dataset.partition("/")[2] == data])


def selected_rows(rows: Sequence[Row]) -> list[Row]:
    """Keep the best epoch where the recipe selects it, and the last otherwise."""
    wanted = "best" if any(row.selection == "best" for row in rows) else "last"
    return [row for row in rows if row.selection == wanted]


def is_lower(first: Measured, second: Measured) -> bool | None:
    """Say whether the first is lower (True) or higher (False), and None where the difference may be chance.

    With several seeds on both sides by Welch's t-test at 90%; otherwise by the intervals, where their middles are
    further apart than the root of the sum of their squared half-widths: a test at 90%, too. (That intervals overlap
    is not enough to call a difference chance.)

    Examples:
        >>> is_lower(Measured(1.0, interval=(0.5, 1.5)), Measured(1.8, interval=(1.3, 2.3)))
        True
        >>> is_lower(Measured(1.0, interval=(0.5, 1.5)), Measured(1.2, interval=(0.7, 1.7))) is None
        True
    """
    if first.spread is not None and second.spread is not None:
        from scipy.stats import ttest_ind_from_stats  # importing it takes a while

        parts = [(one.value, max(one.spread or 0.0, 1e-9), one.seeds) for one in (first, second)]
        p_value = float(ttest_ind_from_stats(*parts[0], *parts[1], equal_var=False).pvalue)
        return first.value < second.value if p_value < 1 - _LEVEL else None
    ranges = [one.interval or one.expected_range() for one in (first, second)]
    if ranges[0] is None or ranges[1] is None:
        return None
    (low, high), (other_low, other_high) = ranges[0], ranges[1]
    distance = (other_low + other_high - low - high) / 2
    reach = math.hypot(high - low, other_high - other_low) / 2
    return distance > 0 if abs(distance) > reach else None


def against(
    results: Sequence[ResultSet],
    first: str,
    second: str,
    metric: str,
    scaling: str = "",
    *,
    claim: Literal["lower", "higher", "not higher"] = "lower",
) -> Iterator[Case]:
    """Compare two losses in every result that has both: whether the claim holds, and the numbers.

    Args:
        results: Where to look.
        first: The loss that the claim is about.
        second: The other one.
        metric: Its name in the table.
        scaling: ``pre``, ``post`` or empty.
        claim: What the first is claimed to be. A difference that may be chance decides nothing, but for ``not higher``,
            which holds unless the first is significantly higher.
    """
    for result in results:
        figures = [figure(result, loss, metric, scaling) for loss in (first, second)]
        if figures[0] is None or figures[1] is None:
            continue
        lower = is_lower(figures[0], figures[1])
        text = f"{result.name}: {figures[0].text()} against {figures[1].text()}"
        if claim == "not higher":
            yield lower is not False, text + (" (not significant)" if lower is None else "")
        else:
            yield None if lower is None else lower == (claim == "lower"), text


def short(loss: str) -> str:
    """Return the title of a loss."""
    return METHOD_TITLES.get(loss, loss)
