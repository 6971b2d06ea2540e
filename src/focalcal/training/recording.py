"""Records of epochs: a line of ``history.jsonl`` each, and files of their own after the epochs that a recipe names.

Histograms of the norms of per-sample gradients in the last linear layer are as in the paper's study of focal loss. The
layer maps features f to logits z = Wf + b, so a sample's gradient is δ fᵀ for W and δ for b, with δ = ∂loss/∂z: its
norm is ‖δ‖ · ‖(f, 1)‖. One backward pass through the loss alone gives every δ of a batch.
"""

import copy
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from lightning_fabric import Fabric
from torch import Tensor, nn
from torch.nn import functional

from focalcal.base.files import null_for_nan
from focalcal.data.data_types import Batch
from focalcal.gamma import GammaPolicy
from focalcal.losses import MMCELoss
from focalcal.metrics.samples import SampleStatistics
from focalcal.recipes import Recipe
from focalcal.training.batches import evaluation_batches, load_batch
from focalcal.training.devices import broadcast_buffers, gather_rows, sum_over_processes
from focalcal.training.evaluator import Evaluator, evaluation_mode, summarize
from focalcal.training.run_directory import RunDirectory, read_history, write_history
from focalcal.training.state import IGNORED, TrainerState, statistics_from

Loss = Callable[[Tensor, Tensor], Tensor]

# The same cells for every loss and epoch, so that histograms can be laid over each other.
_SMALLEST, _DECADES, _CELLS_PER_DECADE = -8, 12, 40
_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


class Recorder:
    """Measures and records the epoch that has just been trained.

    Args:
        fabric: The processes; all of them call every method.
        recipe: What is to be recorded, and when.
        loss: The loss that is trained.
        evaluator: Measures the network on the splits of the data.
        files: The run directory.
    """

    def __init__(self, fabric: Fabric, recipe: Recipe, loss: Loss, evaluator: Evaluator, files: RunDirectory) -> None:
        self._fabric, self._recipe, self._loss = fabric, recipe, loss
        self._evaluator, self._files = evaluator, files

    def record(self, state: TrainerState) -> dict[str, Any]:
        """Measure the epoch; the record is the same on every process."""
        fabric, evaluator = self._fabric, self._evaluator
        columns = {name: torch.cat(gather_rows(fabric, column)) for name, column in state.outputs.tensors().items()}
        trained = statistics_from(columns) if columns else None
        objective = sum_over_processes(fabric, [float(torch.stack(state.losses).double().sum())])[0]
        total, count = sum_over_processes(fabric, state.feature_norms.sums)
        record: dict[str, Any] = {
            "epoch": state.epoch,
            "learning_rate": state.optimizers[0].param_groups[0]["lr"],
            "seconds": round(state.seconds, 3),
            "samples_per_second": round(len(evaluator.data.train) / max(state.seconds, 1e-9), 1),
            "train": {
                "loss": objective / len(state.losses),
                "feature_norm": total / count if count else None,
                **({} if trained is None else summarize(trained)),
            },
            "val": evaluator.measure(state.evaluated, "val"),
            "weight_norm": weight_norm(state.evaluated),
            "gammas": {} if trained is None else gamma_shares(self._loss, trained, state.epoch),
        }
        wanted = self._recipe.record
        if self._is_due(state, wanted.test_every) and "test" in evaluator.data.evaluation:
            record["test"] = evaluator.measure(state.evaluated, "test")
        if self._is_due(state, wanted.train_every):
            record["train_eval"] = evaluator.measure(state.evaluated, "train")
        finite: dict[str, Any] = null_for_nan(record)
        return finite

    def _is_due(self, state: TrainerState, every: int | None) -> bool:
        """Return whether a record is due that is made every few epochs, and after the last."""
        done = state.epoch + 1
        return every is not None and (done % every == 0 or done == self._recipe.epochs)

    def write_files(self, state: TrainerState) -> None:
        """Write gradient norms and training-set predictions after the epochs that the recipe names.

        A run that is resumed from an earlier epoch writes the same again.
        """
        wanted, done, epochs = self._recipe.record, state.epoch + 1, self._recipe.epochs
        if done in wanted.in_run(wanted.gradient_norms_at, epochs):
            self._write_gradient_norms(state, done)
        if done in wanted.in_run(wanted.snapshots_at, epochs):
            self._evaluator.save(state.evaluated, "train", self._files.snapshot(done))

    def _write_gradient_norms(self, state: TrainerState, done: int) -> None:
        is_mean = self._recipe.reduction == "mean"
        norms = gradient_norm_histograms(self._evaluator, state.evaluated, self._loss, is_mean=is_mean)
        if self._fabric.is_global_zero:
            path = self._files.gradient_norms
            earlier = [one for one in read_history(path) if one["after_epochs"] < done]
            write_history(path, [*earlier, {"after_epochs": done, **norms}])


def gamma_shares(loss: Any, stats: SampleStatistics, epoch: int) -> dict[str, float]:
    """Compute the share of rows that was trained with each γ; empty for losses without γ."""
    policy = getattr(loss, "gamma", None)
    if not isinstance(policy, GammaPolicy):
        return {}
    gammas = torch.as_tensor(policy.at_epoch(epoch).for_nll(stats.nll), dtype=torch.float64)
    values, counts = torch.unique(gammas.reshape(-1), return_counts=True)
    return {f"{value:g}": count / gammas.numel() for value, count in zip(values.tolist(), counts.tolist(), strict=True)}


def weight_norm(model: nn.Module) -> float | None:
    """Compute the Frobenius norm of the last layer's weights; null for a network without a ``classifier``."""
    weight = getattr(getattr(model, "classifier", None), "weight", None)
    return float(weight.detach().double().norm()) if isinstance(weight, Tensor) else None


def flatten_record(record: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    """Name numbers as loggers take them, such as ``val/ece``.

    Examples:
        >>> flatten_record({"epoch": 3, "val": {"ece": 0.1, "nll_wrong": None}})
        {'epoch': 3.0, 'val/ece': 0.1}
    """
    flat: dict[str, float] = {}
    for name, value in record.items():
        if isinstance(value, Mapping):
            flat |= flatten_record(value, f"{prefix}{name}/")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            flat[prefix + name] = float(value)
    return flat


def gradient_norm_histograms(evaluator: Evaluator, model: nn.Module, loss: Loss, *, is_mean: bool) -> dict[str, Any]:
    """Compute histograms for the loss that is trained and for cross-entropy with the same weights, in one pass.

    The penalty of MMCE belongs to a batch, not to a sample: for it only the cross-entropy part counts.

    Args:
        evaluator: The training set, used without augmentation, and the processes that share the work.
        model: A network with a ``classifier``, an ``nn.Linear``.
        loss: Called with logits and targets.
        is_mean: Whether the loss is a mean over the batch, not a sum.

    Returns:
        ``samples``, ``cells`` (how the histograms are cut), ``loss`` and ``cross_entropy``: each with ``mean``,
        ``quantiles`` and ``counts``.
    """
    fabric, samples = evaluator.fabric, evaluator.data.train
    layer = getattr(model, "classifier", None)
    if not isinstance(layer, nn.Linear):
        raise ValueError(
            "record.gradient_norms_at needs a network whose last nn.Linear is its attribute `classifier`; "
            "leave it out for this network."
        )
    broadcast_buffers(fabric, model)
    trained = _sum_over_batch(loss, is_mean)
    norms: dict[str, list[Tensor]] = {"loss": [], "cross_entropy": []}
    for positions in evaluation_batches(samples, evaluator.batch_size)[fabric.global_rank :: fabric.world_size]:
        batch = load_batch(samples, positions, device=fabric.device, channels_last=evaluator.channels_last)
        features, logits, targets = _select_supervised(_features(model, layer, batch), layer, batch.targets)
        scale = torch.linalg.vector_norm(functional.pad(features.double(), (0, 1), value=1.0), dim=1)
        for name, objective in (("loss", trained), ("cross_entropy", _cross_entropy)):
            norms[name].append(_logit_gradient_norms(objective, logits, targets) * scale)
    empty = torch.empty(0, dtype=torch.float64)
    gathered = {name: torch.cat(gather_rows(fabric, torch.cat([empty, *parts]))) for name, parts in norms.items()}
    cells = {"smallest": 10.0**_SMALLEST, "decades": _DECADES, "per_decade": _CELLS_PER_DECADE}
    histograms = {name: _histogram(values) for name, values in gathered.items()}
    return {"samples": len(gathered["loss"]), "cells": cells, **histograms}


def _features(model: nn.Module, layer: nn.Linear, batch: Batch) -> Tensor:
    """Return the inputs of the last layer in evaluation mode, caught by a hook."""
    caught: list[Tensor] = []
    hook = layer.register_forward_pre_hook(lambda _, inputs: caught.append(inputs[0].detach().float()))
    try:
        with evaluation_mode(model), torch.no_grad():
            model(batch.inputs)
    finally:
        hook.remove()
    return caught[-1]


def _select_supervised(features: Tensor, layer: nn.Linear, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return features, logits and targets of the outputs that have a target."""
    if targets.ndim == 1:
        kept = targets != IGNORED
        features, targets = features[kept], targets[kept]
    with torch.no_grad():
        return features, layer(features), targets


def _sum_over_batch(loss: Loss, is_mean: bool) -> Loss:
    """Turn a loss into its sum over a batch, in float64 if it is a module."""
    if isinstance(loss, MMCELoss):
        return _cross_entropy
    exact = copy.deepcopy(loss).double() if isinstance(loss, nn.Module) else loss

    def objective(logits: Tensor, targets: Tensor) -> Tensor:
        value = exact(logits if isinstance(exact, nn.Module) else logits.float(), targets)
        return value * len(targets) if is_mean else value

    return objective


def _cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    return functional.cross_entropy(logits, targets, reduction="sum")


def _logit_gradient_norms(objective: Loss, logits: Tensor, targets: Tensor) -> Tensor:
    if len(targets) == 0:
        return logits.new_empty(0, dtype=torch.float64)
    own = logits.detach().double().requires_grad_()
    (gradient,) = torch.autograd.grad(objective(own, targets), own)
    norms: Tensor = torch.linalg.vector_norm(gradient, dim=1)
    return norms


def histogram_edges() -> Tensor:
    """Return the edges of the cells, evenly spaced in the logarithm; counts have one cell below them and one above.

    Examples:
        >>> edges = histogram_edges()
        >>> len(edges), float(edges[0]), round(float(edges[-1]))
        (481, 1e-08, 10000)
    """
    steps = torch.arange(_DECADES * _CELLS_PER_DECADE + 1, dtype=torch.float64)
    return 10.0 ** (_SMALLEST + steps / _CELLS_PER_DECADE)


def _histogram(norms: Tensor) -> dict[str, Any]:
    edges = histogram_edges()
    counts = torch.bincount(torch.bucketize(norms, edges), minlength=len(edges) + 1)
    values = np.quantile(norms.numpy(), _QUANTILES).tolist() if len(norms) else [None] * len(_QUANTILES)
    return {
        "mean": float(norms.mean()) if len(norms) else None,
        "quantiles": {f"{share:g}": value for share, value in zip(_QUANTILES, values, strict=True)},
        "counts": counts.tolist(),
    }
