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


class PublishedRow(NamedTuple):
    """One printed figure with its place in the paper."""

    table: str
    dataset: str
    model: str
    method: str
    metric: str
    temperature_scaling: str
    figure: Published

    @property
    def key(self) -> tuple[str, str, str, str, str]:
        """Key of the quantity, whichever table prints it."""
        return self.dataset, self.model, self.method, self.metric, self.temperature_scaling


# (method, metric, scaling) -> figure.
PublishedFigures = Mapping[tuple[str, str, str], Published]
_EARLY_STOPPING = "early_stopping"


@cache
def published_rows() -> tuple[PublishedRow, ...]:
    """Return every printed figure, in the order of the file."""
    with resources.files("focalcal.paper").joinpath("published.csv").open(encoding="utf-8") as file:
        return tuple(_row(row) for row in csv.DictReader(file))


def _row(row: Mapping[str, str]) -> PublishedRow:
    figure = Published(float(row["value"]), float(row["temperature"]) if row["temperature"] else None)
    place = (row["dataset"], row["model"], row["method"])
    return PublishedRow(row["table"], *place, row["metric"], row["temperature_scaling"], figure)


@cache
def published_table(printed: str) -> Mapping[tuple[str, str, str, str, str], Published]:
    """Return one table of the paper by data set, network, method, metric and scaling.

    Examples:
        >>> published_table("ada_ece_tab2")["CIFAR-100", "ResNet-50", "flsd-53", "ada_ece", "pre"].value
        4.39
    """
    return {row.key: row.figure for row in published_rows() if row.table == printed}


@cache
def published_figures(dataset: str, model: str) -> PublishedFigures:
    """Return what the paper's tables of results say of a network on a data set, by method, metric and scaling.

    The first table that has a figure counts: two tables print some of them, and they do not always agree. Tables on
    early stopping are left out.

    Examples:
        >>> published_figures("SST Binary", "Tree-LSTM")["fl-3", "ece", "post"]
        Published(value=1.78, temperature=0.5)
    """
    found: dict[tuple[str, str, str], Published] = {}
    for row in published_rows():
        if (row.dataset, row.model) == (dataset, model) and not row.table.startswith(_EARLY_STOPPING):
            found.setdefault((row.method, row.metric, row.temperature_scaling), row.figure)
    return found
