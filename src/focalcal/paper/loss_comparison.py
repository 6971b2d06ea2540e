"""Comparisons of losses within one result: which is lower, and is it more than chance."""

from collections.abc import Sequence

from focalcal.paper.cells import Measured, measured_rows
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
    return measured_rows([row for row in own if row.dataset.partition("/")[2] == data])


def selected_rows(rows: Sequence[Row]) -> list[Row]:
    """Keep the best epoch where the recipe selects it, and the last otherwise."""
    wanted = "best" if any(row.selection == "best" for row in rows) else "last"
    return [row for row in rows if row.selection == wanted]


def is_lower(first: Measured, second: Measured) -> bool | None:
    """Say whether the first is lower (True) or higher (False), and None where the difference may be chance.

    With several seeds on both sides by Welch's t-test at 90%; otherwise, as in the paper, where the intervals do not
    overlap.

    Examples:
        >>> is_lower(Measured(1.0, interval=(0.5, 1.5)), Measured(3.0, interval=(2.0, 4.0)))
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
    if ranges[0][1] < ranges[1][0]:
        return True
    return False if ranges[1][1] < ranges[0][0] else None


def against(
    result: ResultSet, first: str, second: str, metric: str, scaling: str, *, strict: bool = True
) -> tuple[bool, str] | None:
    """Compare two losses of a result: whether the first is lower, and the numbers.

    Args:
        result: Where to look.
        first: The loss that is claimed to be lower.
        second: The other one.
        metric: Its name in the table.
        scaling: ``pre``, ``post`` or empty.
        strict: Ask for a difference that is more than chance; otherwise ask that it is not significantly higher.

    Returns:
        None where one of the figures is missing.
    """
    figures = [figure(result, loss, metric, scaling) for loss in (first, second)]
    if figures[0] is None or figures[1] is None:
        return None
    lower = is_lower(figures[0], figures[1])
    holds = lower is True if strict else lower is not False
    note = " (not significant)" if lower is None else ""
    return holds, f"{result.name}: {figures[0].text()} against {figures[1].text()}{note}"


def short(loss: str) -> str:
    """Return the title of a loss."""
    return METHOD_TITLES.get(loss, loss)
