"""The state of a run: everything that changes while it trains. Saved and restored, it continues bit for bit."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from focalcal.metrics.samples import SampleStatistics, sample_statistics
from focalcal.predictions import Predictions
from focalcal.training.checkpoints import Checkpoint, module_tensors, restore_module
from focalcal.training.devices import gather_rows
from focalcal.training.randomness import random_state, restore_random_state
from focalcal.training.run_directory import read_history

IGNORED = -100


class RunningOutputs:
    """The outputs of an epoch's training steps: logits up to a size, numbers per supervised row beyond it."""

    # 64 MB of float32: enough for CIFAR's whole epoch; more is turned into eight numbers per row as it fills.
    _MOST_VALUES = 2**24

    def __init__(self) -> None:
        self._logits: list[Tensor] = []
        self._targets: list[Tensor] = []
        self._values = 0
        self._done: list[SampleStatistics] = []

    def add(self, logits: Tensor, targets: Tensor) -> None:
        """Keep the outputs of a step; rows that are not supervised are left out in the end."""
        self._logits.append(logits.detach().float().cpu())
        self._targets.append(targets.detach().cpu())
        self._values += logits.numel()
        if self._values > self._MOST_VALUES:
            self._done.append(self._take())

    def _take(self) -> SampleStatistics:
        logits, targets = torch.cat(self._logits), torch.cat(self._targets)
        self._logits, self._targets, self._values = [], [], 0
        if targets.ndim == 1 and not bool((targets != IGNORED).any()):
            return _empty_statistics()
        return sample_statistics(Predictions.from_logits(logits, targets))

    def tensors(self) -> dict[str, Tensor]:
        """Return the statistics of everything that was added, as columns (n,); empty before the first step."""
        if self._logits:
            self._done.append(self._take())
        if not self._done:
            return {}
        return dict(zip(_COLUMNS, map(torch.cat, zip(*map(_columns, self._done), strict=True)), strict=True))

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Continue from columns that `tensors` returned."""
        self._done = [statistics_from(tensors)] if tensors else []


def statistics_from(columns: dict[str, Tensor]) -> SampleStatistics:
    """Rebuild the statistics whose columns `RunningOutputs.tensors` returned."""
    return SampleStatistics(weight=None, **columns)


_COLUMNS = ("confidence", "correct", "prediction", "label", "nll", "brier", "entropy", "rank")


def _empty_statistics() -> SampleStatistics:
    """Return the statistics of no row: a part of a batch may have no target at all."""
    one = sample_statistics(Predictions.from_logits(torch.zeros(1, 2), torch.zeros(1, dtype=torch.int64)))
    return SampleStatistics(weight=None, **{name: getattr(one, name)[:0] for name in _COLUMNS})


def _columns(stats: SampleStatistics) -> tuple[Tensor, ...]:
    return tuple(getattr(stats, name) for name in _COLUMNS)


class FeatureNorms:
    """Norms of the last layer's inputs, added up inside the context; none for a network without a ``classifier``.

    Used around training steps: they cost no forward pass of their own.
    """

    def __init__(self, model: nn.Module) -> None:
        self._layer = getattr(model, "classifier", None)
        self._total, self._count = torch.zeros((), dtype=torch.float64), 0

    def __enter__(self) -> "FeatureNorms":
        if isinstance(self._layer, nn.Module):
            self._hook = self._layer.register_forward_pre_hook(self._add)
        return self

    def __exit__(self, *reason: object) -> None:
        if isinstance(self._layer, nn.Module):
            self._hook.remove()

    def _add(self, _: nn.Module, inputs: tuple[Any, ...]) -> None:
        if not inputs or not isinstance(inputs[0], Tensor) or inputs[0].ndim < 2:
            return  # a layer of the user's own that takes something else
        norms = torch.linalg.vector_norm(inputs[0].detach().flatten(0, -2).float(), dim=-1)
        # Not a number of Python: asking an accelerator for one would make it wait at every step.
        self._total = self._total.to(norms.device) + norms.sum(dtype=torch.float64)
        self._count += len(norms)

    @property
    def sums(self) -> list[float]:
        """The sum of the norms and their number."""
        return [float(self._total), float(self._count)]

    def restore(self, sums: list[float]) -> None:
        """Continue from `sums`."""
        self._total, self._count = torch.tensor(sums[0], dtype=torch.float64), int(sums[1])


@dataclass
class TrainerState:
    """Everything that changes while a run trains, and nothing else.

    Attributes:
        network: The network itself, without wrappers.
        optimizers: One, or two if the embedding has its own.
        average: The average of the weights, moving or over the last epochs, if one is kept.
        epoch: Number of finished epochs.
        step: Number of finished steps of the current epoch.
        seconds: Training time of the current epoch.
        history: One record per finished epoch.
        best: The epoch selected so far, its value and the file of its weights; None before the first.
        losses: The objective of each step of the current epoch.
        outputs: The outputs of the steps of the current epoch.
        feature_norms: Norms of the last layer's inputs in the current epoch.
    """

    network: nn.Module
    optimizers: list[torch.optim.Optimizer]
    average: AveragedModel | None = None
    epoch: int = 0
    step: int = 0
    seconds: float = 0.0
    history: list[dict[str, Any]] = field(default_factory=list)
    best: dict[str, Any] | None = None
    losses: list[Tensor] = field(default_factory=list)
    outputs: RunningOutputs = field(default_factory=RunningOutputs)
    feature_norms: FeatureNorms = field(init=False)

    def __post_init__(self) -> None:
        self.feature_norms = FeatureNorms(self.network)

    @property
    def evaluated(self) -> nn.Module:
        """The network that is evaluated: the average, if there is one and anything has been averaged yet."""
        return self.network if self.average is None or not int(self.average.n_averaged) else self.average.module

    def finish_epoch(self, record: dict[str, Any]) -> None:
        """Add the record of the epoch to the history, and begin the next one."""
        self.history.append(record)
        self.epoch, self.step, self.seconds = self.epoch + 1, 0, 0.0
        self.losses, self.outputs, self.feature_norms = [], RunningOutputs(), FeatureNorms(self.network)

    def to_checkpoint(self, fabric: Fabric, about: Mapping[str, Any]) -> Checkpoint:
        """Collect weights, optimizers, the place in the run, and every process's generators and running outputs.

        Args:
            fabric: The processes; all of them call this.
            about: JSON values that describe the run, for people who look into the file.
        """
        tensors = _prefix("model", module_tensors(self.network))
        if self.average is not None:
            tensors |= _prefix("average", self.average.state_dict())
        memory, plain_memory = _optimizer_memory(self.optimizers)
        tensors |= _prefix("optimizer", memory)
        own = {"random": random_state(), **_prefix("outputs", self.outputs.tensors())}
        own["feature_norms"] = torch.tensor(self.feature_norms.sums, dtype=torch.float64)
        if self.losses:
            own["losses"] = torch.stack(self.losses)
        for name, rows in own.items():
            tensors |= {f"process/{rank}/{name}": part for rank, part in enumerate(gather_rows(fabric, rows))}
        values: dict[str, Any] = {
            "epoch": self.epoch,
            "step": self.step,
            "seconds": self.seconds,
            "best": self.best,
            "epochs_in_history": len(self.history),
            "processes": fabric.world_size,
            "optimizer": plain_memory,
            "scaler": fabric.strategy.precision.state_dict(),
            **about,
        }
        return Checkpoint(tensors, values)

    def restore(self, fabric: Fabric, checkpoint: Checkpoint, history: Path) -> None:
        """Continue from a checkpoint that `to_checkpoint` collected, and the file of the history."""
        values = checkpoint.values
        if values["processes"] != fabric.world_size:
            had, has = values["processes"], fabric.world_size
            raise ValueError(f"The run was trained by {had} processes and cannot resume with {has}: use {had} again.")
        self.history = read_history(history)[: values["epochs_in_history"]]
        if len(self.history) < values["epochs_in_history"]:
            raise ValueError(f"{history} lacks epochs that the checkpoint has; start a new run.")
        self.epoch, self.step, self.seconds = values["epoch"], values["step"], values["seconds"]
        self.best = values["best"]
        restore_module(self.network, checkpoint.part("model"))
        if self.average is not None:
            restore_module(self.average, checkpoint.part("average"))
        _restore_optimizers(self.optimizers, checkpoint.part("optimizer"), values["optimizer"])
        fabric.strategy.precision.load_state_dict(values["scaler"])
        own = checkpoint.part(f"process/{fabric.global_rank}")
        restore_random_state(own.pop("random"))
        self.feature_norms.restore(own.pop("feature_norms", torch.zeros(2)).tolist())
        self.losses = list(own.pop("losses", torch.empty(0)).to(fabric.device))
        self.outputs.restore({name.removeprefix("outputs/"): column for name, column in own.items()})


def _prefix(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {f"{prefix}/{name}": tensor for name, tensor in tensors.items()}


def _optimizer_memory(optimizers: list[torch.optim.Optimizer]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return what optimizers remember: tensors by ``optimizer/weight/what``, and plain values by the same names."""
    tensors: dict[str, Tensor] = {}
    values: dict[str, Any] = {}
    for number, optimizer in enumerate(optimizers):
        for weight, memory in optimizer.state_dict()["state"].items():
            for what, value in memory.items():
                name = f"{number}/{weight}/{what}"
                if isinstance(value, Tensor):
                    tensors[name] = value
                elif value is not None:
                    values[name] = value
    return tensors, values


def _restore_optimizers(
    optimizers: list[torch.optim.Optimizer], tensors: Mapping[str, Tensor], values: Mapping[str, Any]
) -> None:
    """Load into optimizers what `_optimizer_memory` returned; learning rates are the schedule's."""
    memories: list[dict[int, dict[str, Any]]] = [{} for _ in optimizers]
    for name, value in {**tensors, **values}.items():
        number, weight, what = name.split("/", 2)
        memories[int(number)].setdefault(int(weight), {})[what] = value
    for optimizer, memory in zip(optimizers, memories, strict=True):
        optimizer.load_state_dict({"state": memory, "param_groups": optimizer.state_dict()["param_groups"]})
