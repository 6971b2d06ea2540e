"""The record of an epoch: a line of ``history.jsonl``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from focalcal.base.files import null_for_nan
from focalcal.training.gathering import gather_rows, sum_over_processes
from focalcal.training.history import read_history, write_history
from focalcal.training.measuring import (
    RunningOutputs,
    gamma_shares,
    scaled_summary,
    summary,
    weight_norm,
)
from focalcal.training.run_directory import gradient_norms_path, snapshot_path

if TYPE_CHECKING:
    from focalcal.training.trainer import Trainer


def epoch_record(trainer: Trainer) -> dict[str, Any]:
    """What the epoch that has just been trained looks like, measured on every process and the same on all."""
    fabric, epoch = trainer.fabric, trainer.epoch
    columns = {name: torch.cat(gather_rows(fabric, column)) for name, column in trainer.outputs.tensors().items()}
    trained = RunningOutputs.joined(columns)
    objective = sum_over_processes(fabric, [float(torch.stack(trainer.losses).double().sum())])[0]
    total, count = sum_over_processes(fabric, trainer.feature_norms.sums)
    record: dict[str, Any] = {
        "epoch": epoch,
        "learning_rate": trainer.optimizers[0].param_groups[0]["lr"],
        "seconds": round(trainer.seconds, 3),
        "samples_per_second": round(len(trainer.data.train) / max(trainer.seconds, 1e-9), 1),
        "train": {
            "loss": objective / len(trainer.losses),
            "feature_norm": total / count if count else None,
            **summary(trained),
        },
        "val": scaled_summary(trainer.predictions("val")),
        "weight_norm": weight_norm(trainer.evaluated),
        "gammas": gamma_shares(trainer.loss, trained, epoch),
    }
    wanted = trainer.recipe.record
    if _is_due(trainer, wanted.test_every) and "test" in trainer.data.evaluation:
        record["test"] = scaled_summary(trainer.predictions("test"))
    if _is_due(trainer, wanted.train_every):
        record["train_eval"] = scaled_summary(trainer.predictions("train"))
    finite: dict[str, Any] = null_for_nan(record)
    return finite


def record_files(trainer: Trainer) -> None:
    """Write what is recorded in files of its own after some epochs: gradient norms and training-set predictions.

    A run that is resumed from an earlier epoch writes the same again.
    """
    wanted, done, zero = trainer.recipe.record, trainer.epoch + 1, trainer.fabric.is_global_zero
    if done in wanted.in_run(wanted.gradient_norms_at, trainer.recipe.epochs):
        record = {"after_epochs": done, **trainer.gradient_norms()}
        path = gradient_norms_path(trainer.folder)
        earlier = [one for one in read_history(path) if one["after_epochs"] < done] if zero else []
        if zero:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_history(path, [*earlier, record])
    if done in wanted.in_run(wanted.snapshots_at, trainer.recipe.epochs):
        predictions = trainer.predictions("train")
        path = snapshot_path(trainer.folder, done)
        if zero:
            path.parent.mkdir(parents=True, exist_ok=True)
            predictions.save(path)


def _is_due(trainer: Trainer, every: int | None) -> bool:
    """Every so many epochs, and after the last."""
    done = trainer.epoch + 1
    return every is not None and (done % every == 0 or done == trainer.recipe.epochs)
