"""Histograms of the norms of per-sample gradients in the last linear layer, as in the paper's study of focal loss.

The layer maps features f to logits z = Wf + b, so a sample's gradient is δ fᵀ for W and δ for b, with δ = ∂loss/∂z: its
norm is ‖δ‖ · ‖(f, 1)‖. One backward pass through the loss alone gives every δ of a batch.
"""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from focalcal.data.samples import Batch
from focalcal.losses import MMCELoss
from focalcal.training.batches import evaluation_batches, load_batch
from focalcal.training.devices import broadcast_buffers, gather_rows
from focalcal.training.evaluating import Evaluator, evaluation_mode
from focalcal.training.state import IGNORED

Loss = Callable[[Tensor, Tensor], Tensor]

# The same cells for every loss and epoch, so that histograms can be laid over each other.
_SMALLEST, _DECADES, _CELLS_PER_DECADE = -8, 12, 40
_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


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
        features, logits, targets = _supervised(_features(model, layer, batch), layer, batch.targets)
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


def _supervised(features: Tensor, layer: nn.Linear, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
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
