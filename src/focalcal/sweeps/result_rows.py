"""Figures, one per row, in the columns of the paper's published numbers, with seed, epoch's choice and interval."""

import csv
import io
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Literal

from focalcal.base.files import atomic_writer, regular_file

Selection = Literal["best", "last"]
# The paper's names of data sets and networks.
_TITLES = {
    "digits": "Digits",
    "fashion_mnist": "Fashion-MNIST",
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "tiny_imagenet": "Tiny-ImageNet",
    "newsgroups": "20 Newsgroups",
    "sst": "SST Binary",
    "svhn": "SVHN",
    "cifar10_c": "CIFAR-10-C",  # severity 5, the paper's
    "cifar10_c_1": "CIFAR-10-C severity 1",
    "cifar10_c_2": "CIFAR-10-C severity 2",
    "cifar10_c_3": "CIFAR-10-C severity 3",
    "cifar10_c_4": "CIFAR-10-C severity 4",
    "mlp": "MLP",
    "cnn": "CNN",
    "resnet8": "ResNet-8",
    "resnet20": "ResNet-20",
    "resnet50": "ResNet-50",
    "resnet110": "ResNet-110",
    "wide_resnet_26_10": "Wide-ResNet-26-10",
    "densenet121": "DenseNet-121",
    "gp_cnn": "Global Pooling CNN",
    "tree_lstm": "Tree-LSTM",
    "multi30k": "Multi30k En-De",
    "wmt14": "WMT14 En-De",
    "transformer_tiny": "Transformer (tiny)",
    "transformer_base": "Transformer",
}


def title(name: str) -> str:
    """Return the paper's name of a data set or network; the name itself if the paper has none."""
    return _TITLES.get(name, name)


@dataclass(frozen=True)
class Row:
    """One figure.

    Attributes:
        dataset, model, method: The paper's names.
        seed: Seed of the run.
        selection: The epoch: ``best`` by the recipe's rule, or ``last``.
        metric: Name of the metric.
        temperature_scaling: ``pre``, ``post``, or empty for what scaling cannot change.
        value, low, high: The figure and its confidence interval, if any, in percent (NLL times 100, as in the paper).
        interval_method: Method of the interval; empty if there is none.
        temperature: T, for ``post``.
    """

    dataset: str
    model: str
    method: str
    seed: int
    selection: Selection
    metric: str
    temperature_scaling: str
    value: float
    low: float | None = None
    high: float | None = None
    interval_method: str = ""
    temperature: float | None = None

    @property
    def is_out_of_distribution(self) -> bool:
        """True if the figure is of other data than the run was trained for: ``CIFAR-10/SVHN``."""
        return "/" in self.dataset


COLUMNS = tuple(field.name for field in fields(Row))


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Write a csv file, atomically."""
    text = io.StringIO()
    table = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    table.writeheader()
    for row in rows:
        table.writerow({name: write_value(value) for name, value in asdict(row).items()})
    with atomic_writer(path) as file:
        file.write(text.getvalue().encode())


def write_value(value: object) -> object:
    """Write a value as the csv file has it: numbers with six digits, nothing for None."""
    if isinstance(value, float):
        return f"{value:.6g}"
    return "" if value is None else value


def read_rows(path: Path) -> list[Row]:
    """Read what `write_rows` wrote."""
    try:
        with open(regular_file(path), encoding="utf-8", newline="") as file:
            table = csv.DictReader(file)
            missing = [name for name in COLUMNS if name not in (*(table.fieldnames or ()), "interval_method")]
            if missing:
                raise ValueError(f"{path} is not a table of a sweep: it has no column {missing[0]}.")
            return [_read(path, number, row) for number, row in enumerate(table, 2)]
    except FileNotFoundError as error:
        raise ValueError(str(error)) from error
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path} cannot be read: {error}.") from error


def _read(path: Path, number: int, row: dict[str, str]) -> Row:
    selection: Selection = "last" if row["selection"] == "last" else "best"
    try:
        low, high, temperature = (float(row[name]) if row[name] else None for name in ("low", "high", "temperature"))
        seed, value = int(row["seed"]), float(row["value"])
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}, line {number}, holds something that is not a number ({error}).") from error
    return Row(
        dataset=row["dataset"],
        model=row["model"],
        method=row["method"],
        seed=seed,
        selection=selection,
        metric=row["metric"],
        temperature_scaling=row["temperature_scaling"],
        value=value,
        low=low,
        high=high,
        # Tables had no such column while there was one method.
        interval_method=row.get("interval_method", "" if low is None else "basic") or "",
        temperature=temperature,
    )
