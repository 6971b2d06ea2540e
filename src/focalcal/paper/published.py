"""The numbers that the paper printed: 1,643 of them, in ``published.csv``, as printed, slips included."""

import csv
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import NamedTuple


class Published(NamedTuple):
    """One printed figure: in percent (NLL times 100), with T where it was printed."""

    value: float
    temperature: float | None


# (method, metric, scaling) -> figure.
PublishedFigures = Mapping[tuple[str, str, str], Published]


@cache
def published(dataset: str, model: str) -> PublishedFigures:
    """What the paper's tables of results say of a network on a data set, by method, metric and scaling.

    The first table that has a figure counts: two tables print some of them, and they do not always agree. Tables on
    early stopping are left out.

    Examples:
        >>> published("SST Binary", "Tree-LSTM")["fl-3", "ece", "post"]
        Published(value=1.78, temperature=0.5)
    """
    found: dict[tuple[str, str, str], Published] = {}
    with resources.files("focalcal.paper").joinpath("published.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if (row["dataset"], row["model"]) == (dataset, model) and "early_stopping" not in row["table"]:
                key = (row["method"], row["metric"], row["temperature_scaling"])
                temperature = float(row["temperature"]) if row["temperature"] else None
                found.setdefault(key, Published(float(row["value"]), temperature))
    return found
