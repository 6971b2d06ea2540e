"""A callback for Lightning, as ``lightning.pytorch`` or as ``pytorch_lightning``.

Needs ``pip install 'focalcal[lightning]'``.
"""

from __future__ import annotations

import importlib.util
import math
import os
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn

from focalcal.base.files import check_destination, make_folder
from focalcal.base.optional import import_optional
from focalcal.calibrators import build_calibrator
from focalcal.calibrators.base import Calibrator
from focalcal.integrations.gamma_schedules import focal_losses, set_epoch, warn_of_unreached_phases
from focalcal.metrics.streaming.fixed_sums import FixedSums, batch_predictions, choose_metrics
from focalcal.predictions import Predictions
from focalcal.predictions.container import concatenate

_PACKAGES = ("lightning.pytorch", "pytorch_lightning")


def _callback_class() -> type:
    """Return the base class of callbacks: of both packages where both are in use, else of the one that is installed."""
    loaded = [name for name in _PACKAGES if sys.modules.get(name) is not None]
    there = [name for name in _PACKAGES if importlib.util.find_spec(name.partition(".")[0]) is not None]
    names = loaded or there[:1] or _PACKAGES[:1]
    what = "Callbacks for Lightning"
    modules = [import_optional(name, extra="lightning", what=what, at_least="2.5.3") for name in names]
    return type("Callback", tuple(module.Callback for module in modules), {})


if TYPE_CHECKING:
    from lightning.pytorch import Callback, LightningModule, Trainer
else:
    Callback = _callback_class()

__all__ = ["CalibrationCallback"]

Stage = Literal["val", "test"]


class CalibrationCallback(Callback):
    """Measures calibration in validation and testing, moves γ schedules, and fits and saves a calibrator at the end.

    ``validation_step`` (and ``test_step``) must return a dictionary with ``labels`` and either ``logits`` or ``probs``.
    Every metric is logged as ``val/ece`` and so on; ``val/scaled_nll``, the NLL after temperature scaling, is the one
    for ``ModelCheckpoint(monitor="val/scaled_nll")``. Sanity checking is left out. γ of every focal loss that is a
    part of the module follows the epoch.

    Args:
        metrics: Names of metrics; None for all, ``scaled_nll`` and ``temperature`` among them.
        bins: Number of bins of binned metrics.
        calibrator: What is fitted on the validation outputs when training ends: a name such as "temperature" or "auto",
            a calibrator, or None for none, in which case outputs are not kept in memory.
        path: Where the calibrator is saved; None for ``calibrator.json`` in the folder of the logger, or in
            ``default_root_dir`` without one.
        keep: Outputs that the calibrator is fitted on: those of the "last" validation, or of the "best" by
            ``scaled_nll``, which are those of the weights that ``ModelCheckpoint(monitor="val/scaled_nll")`` keeps.
        loss: A focal loss that is not a part of the module, for its γ schedule.
        ignore_index: Positions with this label are left out.
        read: Function of a step's result and its batch that returns such a dictionary, for modules whose steps return
            something else.

    Attributes:
        calibrator_: The fitted calibrator, after training.
    """

    def __init__(
        self,
        metrics: Sequence[str] | None = None,
        *,
        bins: int = 15,
        calibrator: str | Calibrator | None = "temperature",
        path: str | os.PathLike[str] | None = None,
        keep: Literal["last", "best"] = "last",
        loss: nn.Module | None = None,
        ignore_index: int | None = -100,
        read: Callable[[Any, Any], Mapping[str, Any]] | None = None,
    ) -> None:
        super().__init__()
        if keep not in ("last", "best"):
            raise ValueError(f"keep must be 'last' or 'best', got {keep!r}.")
        if path is not None:
            check_destination(path)
        self.metrics = None if metrics is None else choose_metrics(metrics, num_classes=sys.maxsize)
        self.bins, self.path, self.keep, self.ignore_index = bins, path, keep, ignore_index
        self.calibrator = build_calibrator(calibrator) if isinstance(calibrator, str) else calibrator
        self.calibrator_: Calibrator | None = None
        self._loss, self._read = loss, read
        self._sums: dict[int, FixedSums] = {}
        self._outputs: list[Predictions] = []
        self._num_classes = 2
        self._kept: tuple[float, Predictions] | None = None

    # ---------------------------------------------------------------- γ

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Warn of a γ schedule that is longer than the run."""
        if trainer.max_epochs is not None and trainer.max_epochs > 0:
            warn_of_unreached_phases(self._focal_losses(pl_module), trainer.max_epochs)

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Tell γ schedules the epoch."""
        set_epoch(self._focal_losses(pl_module), trainer.current_epoch)

    def _focal_losses(self, module: nn.Module) -> list[Any]:
        return focal_losses([module] if self._loss is None else [module, self._loss])

    # ---------------------------------------------------------------- metrics

    def on_validation_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Begin with nothing."""
        self._sums, self._outputs = {}, []

    def on_validation_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Add a batch, and keep its outputs if a calibrator will be fitted on them."""
        if trainer.sanity_checking:
            return
        preds = self._add(outputs, batch, dataloader_idx, "validation_step")
        if self._fits(trainer) and dataloader_idx == 0:
            self._outputs.append(preds)

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Log the metrics of everything, over all processes."""
        if trainer.sanity_checking:
            return
        scaled_nll = self._log(trainer, pl_module, "val")
        if self._fits(trainer) and (self.keep == "last" or self._kept is None or scaled_nll < self._kept[0]):
            self._kept = scaled_nll, _gather(trainer, self._outputs, self._num_classes)
        self._outputs = []

    def _fits(self, trainer: Trainer) -> bool:
        return self.calibrator is not None and trainer.state.fn == "fit"

    def on_test_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Begin with nothing."""
        self._sums = {}

    def on_test_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Add a batch."""
        self._add(outputs, batch, dataloader_idx, "test_step")

    def on_test_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Log the metrics of everything, over all processes."""
        self._log(trainer, pl_module, "test")

    def _add(self, outputs: Any, batch: Any, loader: int, step: str) -> Predictions:
        found = outputs if self._read is None else self._read(outputs, batch)
        if not isinstance(found, Mapping) or "labels" not in found or ("logits" in found) == ("probs" in found):
            given = f"the keys {', '.join(map(str, found))}" if isinstance(found, Mapping) else type(found).__name__
            raise ValueError(
                f'{step} must return a dictionary with "labels" and either "logits" or "probs", got {given}; or pass '
                "read=, a function of its result and the batch that makes one."
            )
        outputs = found["logits"] if "logits" in found else found["probs"]
        preds = batch_predictions(
            outputs.detach(), found["labels"], logits="logits" in found, ignore_index=self.ignore_index
        )
        if loader not in self._sums:
            self._sums[loader] = _new_sums(preds.num_classes, self.bins, self.metrics)
        self._sums[loader].add(preds)
        return preds

    def _log(self, trainer: Trainer, pl_module: LightningModule, stage: Stage) -> float:
        """Log every metric, and return NLL after scaling of the first set of data."""
        loaders = trainer.num_val_batches if stage == "val" else trainer.num_test_batches
        scaled = math.nan
        for loader in range(len(loaders)):
            sums = _reduce(trainer, self._sums.get(loader), self.bins, self.metrics)
            if sums is None:
                continue
            found = sums.compute(choose_metrics(self.metrics, sums.num_classes, sums.of))
            suffix = "" if len(loaders) == 1 else f"/dataloader_idx_{loader}"  # as Lightning's own
            named = {f"{stage}/{name}{suffix}": value for name, value in found.items()}
            # The same everywhere already; without sync_dist Lightning would warn that it might not be.
            pl_module.log_dict(
                named, on_step=False, on_epoch=True, sync_dist=True, add_dataloader_idx=False, batch_size=1
            )
            if loader == 0:
                scaled, self._num_classes = sums.compute(["scaled_nll"])["scaled_nll"], sums.num_classes
        return scaled

    # ---------------------------------------------------------------- calibrator

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Fit the calibrator on the outputs kept, and save it."""
        if self.calibrator is None or getattr(trainer, "fast_dev_run", False):
            return
        if self._kept is None:
            warnings.warn("There was no validation, so no calibrator was fitted: pass validation data.", stacklevel=2)
            return
        folder = Path(trainer.log_dir or trainer.default_root_dir)
        self.calibrator_ = self.calibrator.fit(self._kept[1])
        if trainer.is_global_zero:
            if self.path is None:
                make_folder(folder)
            self.calibrator_.save(folder / "calibrator.json" if self.path is None else self.path)


def _new_sums(num_classes: int, bins: int, metrics: Sequence[str] | None) -> FixedSums:
    return FixedSums.for_metrics(metrics or (), num_classes, bins)


def _reduce(trainer: Trainer, sums: FixedSums | None, bins: int, metrics: Sequence[str] | None) -> FixedSums | None:
    """Add up the sums of all processes; a process without a batch takes part with zeros."""
    if trainer.world_size == 1:
        return sums
    device = trainer.strategy.root_device
    classes = torch.tensor(0 if sums is None else sums.num_classes, device=device)
    classes = trainer.strategy.reduce(classes, reduce_op="max")
    if int(classes) == 0:
        return None
    sums = _new_sums(int(classes), bins, metrics) if sums is None else sums
    joined = {
        name: trainer.strategy.reduce(tensor.to(device), reduce_op="sum") for name, tensor in sums.tensors().items()
    }
    return sums.load(joined)


def _gather(trainer: Trainer, parts: list[Predictions], num_classes: int) -> Predictions:
    """Join the outputs of all batches, and of all processes."""
    nothing = Predictions(torch.zeros(0, num_classes), "logits", torch.zeros(0, dtype=torch.int64))
    own = replace(concatenate(parts) if parts else nothing, split="val")
    if trainer.world_size == 1:
        return own
    device = trainer.strategy.root_device
    sizes: Tensor = trainer.strategy.all_gather(torch.tensor(len(own), device=device))
    columns = []
    for column in (own.values, own.labels):
        padded = column.new_zeros(int(sizes.max()), *column.shape[1:])
        padded[: len(own)] = column
        everybody: Tensor = trainer.strategy.all_gather(padded.to(device)).cpu()
        columns.append(torch.cat([part[:size] for part, size in zip(everybody, sizes.tolist(), strict=True)]))
    return replace(own, values=columns[0], labels_or_none=columns[1])
