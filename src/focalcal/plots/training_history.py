"""Training curves: loss, error, calibration and entropy by epoch on each split, and shares of γ."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from focalcal.base.files import parse_json, read_bytes
from focalcal.metrics.catalogue import METRICS
from focalcal.plots.axes import axis_or_new

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = npt.NDArray[np.float64]

SPLITS = ("train", "train_eval", "val", "test")
# What a curve may show: a title and a unit by the key in the history.
CURVES: Mapping[str, tuple[str, str]] = {
    **{name: (METRICS[name].title, "%" if METRICS[name].is_share else "nats") for name in ("nll", "error")},
    **{name: (METRICS[name].title, "%") for name in ("ece", "ada_ece")},
    "entropy_right": (METRICS["mean_entropy_right"].title, "nats"),
    "entropy_wrong": (METRICS["mean_entropy_wrong"].title, "nats"),
    "temperature": ("best temperature, by NLL", "T"),
}


@dataclass(frozen=True)
class TrainingCurves:
    """The curves of a history.

    Attributes:
        epochs: (E,) int64.
        values: (E,) float64 by split and key, NaN in an epoch in which it was not measured.
        gammas: (E,) float64 by γ: the share of samples that had it; empty where the loss has no γ by sample.
        notes: Sentences about what could not be read.
    """

    epochs: npt.NDArray[np.int64]
    values: Mapping[str, Mapping[str, Array]]
    gammas: Mapping[str, Array]
    notes: tuple[str, ...] = ()


def training_curves(history: str | os.PathLike[str] | Iterable[Mapping[str, Any]]) -> TrainingCurves:
    """Read the curves of a run.

    Args:
        history: A run's ``history.jsonl``, or its lines as dictionaries.

    Examples:
        >>> curves = training_curves([{"epoch": 0, "val": {"nll": 1.2}}, {"epoch": 1, "val": {"nll": 0.9}}])
        >>> curves.epochs.tolist(), curves.values["val"]["nll"].tolist()
        ([0, 1], [1.2, 0.9])
    """
    if isinstance(history, str | os.PathLike):
        name, (lines, notes) = os.fspath(history), _read(Path(history))
    else:
        name, lines, notes = "The history", list(history), ()
    if not lines:
        raise ValueError(f"{name} has no epoch yet; train for at least one.")
    epochs = np.array([int(line["epoch"]) for line in lines], dtype=np.int64)
    values = {split: _columns([line.get(split) or {} for line in lines], tuple(CURVES)) for split in SPLITS}
    shares = [line.get("gammas") or {} for line in lines]
    names = sorted({name for share in shares for name in share}, key=_as_number)
    return TrainingCurves(epochs, {split: of for split, of in values.items() if of}, _columns(shares, names), notes)


def _read(path: Path) -> tuple[list[Mapping[str, Any]], tuple[str, ...]]:
    """Return the epochs, and a note if the last line was cut off: still being written, or the run was killed."""
    content = read_bytes(path)
    whole, newline, torn = content.rpartition(b"\n")
    found = [_epoch(line, path, i) for i, line in enumerate(whole.split(b"\n"), start=1) if line.strip()]
    if torn.strip():
        number = whole.count(b"\n") + len(newline) + 1
        try:
            found.append(_epoch(torn, path, number))
        except ValueError:
            if not found:
                raise
            return found, (f"The last line of {path.name} (line {number}) is not complete, and was left out.",)
    return found, ()


def _epoch(line: bytes, path: Path, number: int) -> Mapping[str, Any]:
    wrong = f"{path}, line {number}, is not an epoch of a history; expected a JSON object with an 'epoch'."
    try:
        content = parse_json(line)
    except ValueError:
        raise ValueError(wrong) from None
    if not isinstance(content, dict) or not isinstance(content.get("epoch"), int):
        raise ValueError(wrong)
    return content


def _columns(rows: list[Mapping[str, Any]], names: Iterable[str]) -> dict[str, Array]:
    """Return (E,) by name, of the names that some row has."""
    return {
        name: np.array([_number(row.get(name)) for row in rows])
        for name in names
        if any(row.get(name) is not None for row in rows)
    }


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else math.nan


def _as_number(name: str) -> tuple[float, str]:
    try:
        return float(name), name
    except ValueError:
        return math.inf, name


def draw_training_curves(curves: TrainingCurves, key: str = "nll", ax: Axes | None = None) -> Axes:
    """Draw one quantity, one line per split; return the axis.

    Args:
        curves: The curves of a run.
        key: One of ``CURVES``, or "gammas" for the shares of γ.
        ax: The axis to draw on; None for a new figure.
    """
    if key != "gammas" and key not in CURVES:
        raise ValueError(f"There is no curve {key!r}; known are {', '.join(CURVES)} and gammas.")
    ax = axis_or_new(ax)
    ax.set_xlabel("epoch")
    if key == "gammas":
        _draw_gammas(curves, ax)
    else:
        title, unit = CURVES[key]
        for split, of in curves.values.items():
            if key in of:
                drawn = ~np.isnan(of[key])
                ax.plot(curves.epochs[drawn], of[key][drawn] * (100 if unit == "%" else 1), label=split)
        ax.set_ylabel(f"{title} ({unit})")
    if ax.get_legend_handles_labels()[0]:
        ax.legend()
    return ax


def _draw_gammas(curves: TrainingCurves, ax: Axes) -> None:
    shares = [100 * np.nan_to_num(share) for share in curves.gammas.values()]
    if shares:
        ax.stackplot(curves.epochs, *shares, labels=[f"γ = {name}" for name in curves.gammas])
    ax.set_ylabel("samples (%)")
