"""Two temperatures: by validation NLL and by the paper's grid on validation ECE, for every run."""

import statistics
from collections.abc import Sequence
from typing import Any

from focalcal.paper.claims import Claim, judge
from focalcal.paper.loss_comparison import selected_rows
from focalcal.paper.result_folders import ResultSet


def temperature_records(results: Sequence[ResultSet]) -> list[dict[str, Any]]:
    """Collect T, ECE and NLL on the test set of every run that has both, with T chosen by ECE and by NLL."""
    records = []
    for result in results:
        tables = [
            {
                (row.method, row.seed, row.metric): row
                for row in selected_rows(rows)
                if row.temperature_scaling == "post" and not row.is_out_of_distribution
            }
            for rows in (result.rows, result.rows_by_nll)
        ]
        for method, seed, metric in tables[0]:
            if metric != "ece" or any((method, seed, one) not in table for table in tables for one in ("ece", "nll")):
                continue
            by_ece, by_nll = ({m: table[method, seed, m] for m in ("ece", "nll")} for table in tables)
            records.append(
                {
                    "results": result.name,
                    "loss": method,
                    "seed": seed,
                    "temperature_by_ece": by_ece["ece"].temperature,
                    "temperature_by_nll": by_nll["ece"].temperature,
                    "ece_by_ece": by_ece["ece"].value,
                    "ece_by_nll": by_nll["ece"].value,
                    "nll_by_ece": by_ece["nll"].value,
                    "nll_by_nll": by_nll["nll"].value,
                }
            )
    return records


def temperature_claims(results: Sequence[ResultSet]) -> list[Claim]:
    """Judge the paper's claim that the grid gives stronger baselines."""
    records = temperature_records(results)
    cases = []
    for result in results:
        own = [one for one in records if one["results"] == result.name]
        if len(own) > 1:
            differences = [one["ece_by_ece"] - one["ece_by_nll"] for one in own]
            worse = [one["nll_by_ece"] - one["nll_by_nll"] for one in own]
            cases.append(
                (
                    _is_negative(differences),
                    f"{result.name}: {_interval(differences)} points of ECE and "
                    f"{_interval(worse)} of NLL × 100 over {len(own)} runs",
                )
            )
    return [
        judge(
            "T by the grid on validation ECE gives a lower test ECE than T by validation NLL.",
            cases,
        )
    ]


def _ends(values: Sequence[float]) -> tuple[float, float, float]:
    from scipy.stats import t

    mean, error = statistics.fmean(values), statistics.stdev(values) / len(values) ** 0.5
    reach = float(t.ppf(0.95, len(values) - 1)) * error
    return mean - reach, mean, mean + reach


def _is_negative(values: Sequence[float]) -> bool | None:
    low, _, high = _ends(values)
    return None if low <= 0 <= high else high < 0


def _interval(values: Sequence[float]) -> str:
    """Write the mean difference with its 90% interval over runs."""
    low, mean, high = _ends(values)
    return f"{mean:+.2f} [{low:+.2f}, {high:+.2f}]"
