"""What a checkpoint holds of a trainer, and how a trainer goes on from it: bit for bit as if nothing had happened."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from focalcal.training.checkpoints import Checkpoint
from focalcal.training.gathering import gather_rows
from focalcal.training.history import read_history
from focalcal.training.randomness import random_state, restore_random_state
from focalcal.training.states import module_tensors, optimizer_tensors, restore_module, restore_optimizers

if TYPE_CHECKING:
    from focalcal.training.trainer import Trainer


def current_state(trainer: Trainer) -> Checkpoint:
    """Weights, moving average, optimizers, every process's generators and running outputs, and the place in the run."""
    fabric = trainer.fabric
    tensors = _named("model", module_tensors(trainer.network))
    if trainer.average is not None:
        tensors |= _named("average", trainer.average.state_dict())
    memory, plain_memory = optimizer_tensors(trainer.optimizers)
    tensors |= _named("optimizer", memory)
    own = {"random": random_state(), **_named("outputs", trainer.outputs.tensors())}
    own["feature_norms"] = torch.tensor(trainer.feature_norms.sums, dtype=torch.float64)
    if trainer.losses:
        own["losses"] = torch.stack(trainer.losses)
    for name, rows in own.items():
        tensors |= {f"process/{rank}/{name}": part for rank, part in enumerate(gather_rows(fabric, rows))}
    values: dict[str, Any] = {
        "epoch": trainer.epoch,
        "step": trainer.step,
        "seconds": trainer.seconds,
        "best": trainer.best,
        "epochs_in_history": len(trainer.history),
        "processes": fabric.world_size,
        "loss": trainer.recipe.loss,
        "gamma": repr(getattr(trainer.loss, "gamma", None)),
        "optimizer": plain_memory,
        "scaler": fabric.strategy.precision.state_dict(),
    }
    return Checkpoint(tensors, values)


def continue_from(trainer: Trainer, checkpoint: Checkpoint) -> None:
    """Set a fresh trainer to a state that `current_state` gave."""
    values, fabric = checkpoint.values, trainer.fabric
    if values["processes"] != fabric.world_size:
        had, has = values["processes"], fabric.world_size
        raise ValueError(f"The run was made by {had} processes and cannot go on with {has}: use as many as before.")
    trainer.history = read_history(trainer.folder / "history.jsonl")[: values["epochs_in_history"]]
    if len(trainer.history) < values["epochs_in_history"]:
        raise ValueError(f"{trainer.folder / 'history.jsonl'} lacks epochs that the checkpoint has; begin a new run.")
    trainer.epoch, trainer.step, trainer.seconds = values["epoch"], values["step"], values["seconds"]
    trainer.best = values["best"]
    restore_module(trainer.network, checkpoint.part("model"))
    if trainer.average is not None:
        restore_module(trainer.average, checkpoint.part("average"))
    restore_optimizers(trainer.optimizers, checkpoint.part("optimizer"), values["optimizer"])
    fabric.strategy.precision.load_state_dict(values["scaler"])
    own = checkpoint.part(f"process/{fabric.global_rank}")
    restore_random_state(own.pop("random"))
    trainer.feature_norms.restore(own.pop("feature_norms", torch.zeros(2)).tolist())
    trainer.losses = list(own.pop("losses", torch.empty(0)).to(fabric.device))
    trainer.outputs.restore({name.removeprefix("outputs/"): column for name, column in own.items()})


def _named(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {f"{prefix}/{name}": tensor for name, tensor in tensors.items()}
