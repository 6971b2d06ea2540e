"""The record of an epoch: a line of ``history.jsonl``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

from focalcal.training.gathering import gather_rows, sum_over_processes
from focalcal.training.measuring import (
    FeatureNorms,
    RunningOutputs,
    gamma_shares,
    scaled_summary,
    summary,
    weight_norm,
)

if TYPE_CHECKING:
    from focalcal.training.trainer import Trainer


def epoch_record(trainer: Trainer) -> dict[str, Any]:
    """What the epoch that has just been trained looks like, measured on every process and the same on all."""
    fabric, epoch = trainer.fabric, trainer.epoch
    columns = {name: torch.cat(gather_rows(fabric, column)) for name, column in trainer.outputs.tensors().items()}
    trained = RunningOutputs.joined(columns)
    objective = sum_over_processes(fabric, [float(torch.stack(trainer.losses).double().sum())])[0]
    with FeatureNorms(trainer.evaluated) as norms:
        val = scaled_summary(trainer.predictions("val"))
    total, count = sum_over_processes(fabric, norms.sums)
    record: dict[str, Any] = {
        "epoch": epoch,
        "learning_rate": trainer.optimizers[0].param_groups[0]["lr"],
        "seconds": round(trainer.seconds, 3),
        "samples_per_second": round(len(trainer.data.train) / max(trainer.seconds, 1e-9), 1),
        "train": {"loss": objective / len(trainer.losses), **summary(trained)},
        "val": val,
        "weight_norm": weight_norm(trainer.evaluated),
        "feature_norm": total / count if count else None,
        "gammas": gamma_shares(trainer.loss, trained, epoch),
    }
    wanted = trainer.recipe.record
    if _is_due(trainer, wanted.test_every) and "test" in trainer.data.evaluation:
        record["test"] = scaled_summary(trainer.predictions("test"))
    if _is_due(trainer, wanted.train_every):
        record["train_eval"] = scaled_summary(trainer.predictions("train"))
    finite: dict[str, Any] = finite_or_null(record)
    return finite


def finite_or_null(value: Any) -> Any:
    """The same with null for NaN and infinite numbers, which JSON does not have.

    Examples:
        >>> finite_or_null({"a": float("inf"), "b": {"c": 1.5}})
        {'a': None, 'b': {'c': 1.5}}
    """
    if isinstance(value, Mapping):
        return {name: finite_or_null(item) for name, item in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _is_due(trainer: Trainer, every: int | None) -> bool:
    """Every so many epochs, and after the last."""
    done = trainer.epoch + 1
    return every is not None and (done % every == 0 or done == trainer.recipe.epochs)
