"""Records of epochs: a line of ``history.jsonl`` each, and files of their own after the epochs that a recipe names."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from focalcal.base.files import null_for_nan
from focalcal.gamma import GammaPolicy
from focalcal.metrics.samples import SampleStatistics
from focalcal.recipes import Recipe
from focalcal.training.devices import gather_rows, sum_over_processes
from focalcal.training.evaluating import Evaluator, summarize
from focalcal.training.gradient_norms import gradient_norm_histograms
from focalcal.training.run_directory import RunDirectory, read_history, write_history
from focalcal.training.state import TrainerState, statistics_from

Loss = Callable[[Tensor, Tensor], Tensor]


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
