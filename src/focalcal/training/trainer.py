"""The loop. Every run goes through it: images and texts, one process or many, fresh or resumed."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from focalcal.data.samples import Batch, DataSet, Samples
from focalcal.predictions import Predictions
from focalcal.recipes import Recipe
from focalcal.training.building import build_optimizers
from focalcal.training.checkpoints import Checkpoint, CheckpointFolder, read_checkpoint, write_checkpoint
from focalcal.training.divergence import Diverged, diverged_loss
from focalcal.training.evaluating import check_classes, check_outputs, split_predictions
from focalcal.training.gathering import largest_over_processes, sum_over_processes
from focalcal.training.gradient_norms import gradient_norm_histograms
from focalcal.training.history import flattened, write_history
from focalcal.training.interruption import Interrupted, Interruption
from focalcal.training.measuring import FeatureNorms, RunningOutputs
from focalcal.training.order import epoch_batches, share
from focalcal.training.progress import Reporter
from focalcal.training.randomness import derived_seed, generator, seed_everything
from focalcal.training.recording import epoch_record, record_files
from focalcal.training.resuming import continue_from, current_state
from focalcal.training.schedule import learning_rate_factor
from focalcal.training.states import module_tensors, restore_module

Loss = Callable[[Tensor, Tensor], Tensor]
__all__ = ["Diverged", "Trainer"]

_IGNORED = -100
# On a GPU, looking at the loss makes the host wait; it is enough to look now and then, and before anything is saved.
_STEPS_BETWEEN_LOOKS_AT_GPU = 20


class Trainer:
    """Trains one network by one recipe.

    Args:
        fabric: launched.
        recipe: what to do.
        data: the samples.
        model: the network, on the CPU.
        loss: called with logits and targets; a mean over the batch where the recipe's reduction is ``mean``.
        folder: the run directory, where checkpoints and history go.
        reporter: what is shown.

    Attributes:
        network: the network itself, without wrappers.
        epoch, step: how many epochs are done, and how many steps of the next one.
        history: a record of each epoch that is done.
        best: the epoch that was selected so far, its value and the file of its weights; None before the first.
    """

    def __init__(
        self,
        fabric: Fabric,
        recipe: Recipe,
        data: DataSet,
        model: nn.Module,
        loss: Loss,
        folder: Path,
        reporter: Reporter,
    ) -> None:
        self.fabric, self.recipe, self.data, self.folder, self.reporter = fabric, recipe, data, folder, reporter
        self.loss: Loss = fabric.to_device(loss) if isinstance(loss, nn.Module) else loss
        self.network: nn.Module = _in_channels_last(model) if recipe.channels_last else model
        self.optimizers = build_optimizers(recipe, self.network)
        self.learning_rates = [[group["lr"] for group in optimizer.param_groups] for optimizer in self.optimizers]
        compiled: Any = torch.compile(self.network) if recipe.compile else self.network
        self.model, *self.steppers = fabric.setup(compiled, *self.optimizers)
        self.average = self._moving_average()
        self.checkpoints = CheckpointFolder(folder / "checkpoints")
        self.epoch, self.step, self.seconds = 0, 0, 0.0
        self.history: list[dict[str, Any]] = []
        self.best: dict[str, Any] | None = None
        self.outputs, self.feature_norms = RunningOutputs(), FeatureNorms(self.network)
        self.losses: list[Tensor] = []
        self._looked_at = 0
        self._saved_at = time.monotonic()
        seed_everything(derived_seed(recipe.seed, "steps", fabric.global_rank))

    def _moving_average(self) -> AveragedModel | None:
        decay = self.recipe.ema_decay
        if decay is None:
            return None
        if self.recipe.hardware.strategy == "fsdp":
            raise ValueError("A moving average of the weights is not kept under FSDP; leave ema_decay out.")
        average: Any = get_ema_multi_avg_fn(decay)  # type: ignore[no-untyped-call]
        return AveragedModel(self.network, multi_avg_fn=average, use_buffers=True)

    @property
    def evaluated(self) -> nn.Module:
        """The network whose predictions count: the moving average, if there is one."""
        return self.network if self.average is None else self.average.module

    def fit(self) -> None:
        """Train to the end, from wherever the trainer stands."""
        with Interruption() as interruption:
            self.reporter.start(self.recipe.epochs, len(self._batches(self.epoch)), self.epoch)
            while self.epoch < self.recipe.epochs:
                self._train_epoch(interruption)
                self._finish_epoch()
                interruption.settle(sum_over_processes(self.fabric, interruption.votes()))
                if interruption.agreed and self.epoch < self.recipe.epochs:
                    raise Interrupted(interruption.agreed, f"the end of epoch {self.epoch}")

    def _batches(self, epoch: int) -> list[Tensor]:
        recipe = self.recipe
        return epoch_batches(
            self.data.train,
            recipe.batch_size,
            seed=recipe.seed,
            epoch=epoch,
            parts=self.fabric.world_size * recipe.accumulate,
            by_length=recipe.group_by_length,
            drop_last=recipe.drop_last,
        )

    def _train_epoch(self, interruption: Interruption) -> None:
        set_epoch = getattr(self.loss, "set_epoch", None)
        if set_epoch is not None:
            set_epoch(self.epoch)
        self.model.train()
        batches = self._batches(self.epoch)
        began = time.monotonic() - self.seconds
        while self.step < len(batches):
            self._set_learning_rate((self.step + 1) / len(batches))
            self._take_step(batches[self.step], interruption)
            self.step += 1
            self.seconds = time.monotonic() - began
            is_last = self.step == len(batches)
            self._look_at_losses(batches, now=is_last)
            if not is_last and (interruption.agreed or self._is_checkpoint_due()):
                self._look_at_losses(batches, now=True)
                self.save()
            if not is_last and interruption.agreed:
                raise Interrupted(interruption.agreed, f"epoch {self.epoch + 1}, step {self.step}")

    def _take_step(self, batch: Tensor, interruption: Interruption) -> None:
        fabric, recipe = self.fabric, self.recipe
        own = share(batch, rank=fabric.global_rank, world=fabric.world_size, accumulate=recipe.accumulate)
        source = generator(recipe.seed, "samples", self.epoch, self.step, fabric.global_rank)
        parts = [self._prepared(self.data.train.batch(part, device=fabric.device, generator=source)) for part in own]
        supervised = [_supervised(part.targets) for part in parts]
        total, *votes = sum_over_processes(fabric, [float(sum(supervised)), *interruption.votes()])
        interruption.settle(votes)
        objective = torch.zeros((), device=fabric.device)
        for number, (part, count) in enumerate(zip(parts, supervised, strict=True)):
            with fabric.no_backward_sync(self.model, enabled=fabric.world_size > 1 and number < len(parts) - 1):
                with self.feature_norms:
                    logits = self.model(part.inputs)
                if self.step == 0:
                    check_outputs(logits, part.targets, self.data.train)
                    check_classes(logits.shape[1], self.data)
                loss = self._share_of_objective(logits, part.targets, count / total if total else 0.0, len(batch))
                # Processes average their gradients; the objective needs the sum.
                fabric.backward(loss * fabric.world_size if fabric.world_size > 1 else loss)
            objective += loss.detach()
            self.outputs.add(logits, part.targets)
        self._update_weights()
        self.losses.append(objective)
        if fabric.world_size == 1:
            interruption.settle(interruption.votes())  # a slow step is not followed by another

    def _prepared(self, batch: Batch) -> Batch:
        if self.recipe.channels_last and isinstance(batch.inputs, Tensor) and batch.inputs.ndim == 4:
            return batch._replace(inputs=batch.inputs.contiguous(memory_format=torch.channels_last))
        return batch

    def _share_of_objective(self, logits: Tensor, targets: Tensor, portion: float, samples: int) -> Tensor:
        """What a part of a batch adds to the objective of the whole batch, over all parts and processes.

        A mean over the part's supervised outputs counts by its portion of them, so that the parts add up to the mean
        over the batch; a sum is added as it is, or divided by the number of samples in the batch.
        """
        if portion == 0:
            return logits.sum() * 0.0
        loss = self.loss(logits, targets)
        if not isinstance(loss, Tensor) or loss.ndim or not loss.requires_grad:
            got = f"{type(loss).__name__}" + (f" of shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else "")
            raise TypeError(f"The loss must give one number that depends on the logits, got a {got}: take its mean.")
        if self.recipe.reduction == "mean":
            return loss * portion if portion < 1 else loss
        return loss / samples if self.recipe.reduction == "per_sample" else loss

    def _update_weights(self) -> None:
        limit = self.recipe.clip_norm
        if limit is not None:
            for stepper in self.steppers:
                self.fabric.clip_gradients(self.model, stepper, max_norm=limit, error_if_nonfinite=False)
        for stepper in self.steppers:
            stepper.step()
            stepper.zero_grad(set_to_none=True)
        if self.average is not None:
            self.average.update_parameters(self.network)

    def _set_learning_rate(self, progress: float) -> None:
        recipe = self.recipe
        factor = learning_rate_factor(recipe.schedule, epochs=recipe.epochs, epoch=self.epoch, progress=progress)
        for optimizer, rates in zip(self.optimizers, self.learning_rates, strict=True):
            for group, rate in zip(optimizer.param_groups, rates, strict=True):
                group["lr"] = rate * factor

    def _look_at_losses(self, batches: list[Tensor], now: bool) -> None:
        """Stop as soon as a loss is not finite: nothing that follows it is of use."""
        waits = self.fabric.device.type != "cpu" and not now and self.step % _STEPS_BETWEEN_LOOKS_AT_GPU
        if waits or self._looked_at == len(self.losses):
            return
        new = torch.stack(self.losses[self._looked_at :])
        finite = new.isfinite().tolist()
        first_bad = self.step if all(finite) else self._looked_at + finite.index(False)
        # All processes stop if one of them must: the others would wait for it for ever.
        is_bad, last = sum_over_processes(self.fabric, [float(first_bad < self.step), float(new[-1])])
        if is_bad:
            step = -largest_over_processes(self.fabric, -first_bad)
            raise diverged_loss(self.epoch, step, self.data.train.ids[batches[step]].tolist())
        self._looked_at = len(self.losses)
        self.reporter.step(self.epoch, self.step, last)

    def _finish_epoch(self) -> None:
        record = epoch_record(self)
        record_files(self)
        self._select(record)
        self.history.append(record)
        self.epoch, self.step, self.seconds = self.epoch + 1, 0, 0.0
        self.outputs, self.losses, self._looked_at = RunningOutputs(), [], 0
        self.feature_norms = FeatureNorms(self.network)
        if self.fabric.is_global_zero:
            write_history(self.folder / "history.jsonl", self.history)
        self.save()
        self.reporter.epoch(record)
        self.fabric.log_dict(flattened(record), step=record["epoch"])

    def _select(self, record: dict[str, Any]) -> None:
        """Keep the weights of the epoch if it is the best so far: the earliest one of equals."""
        if self.recipe.select == "last":
            return
        value = record["val"][self.recipe.select]
        if value is None or (self.best is not None and value >= self.best["value"]):
            return
        self.best = {"epoch": self.epoch, "value": value, "file": f"best-{self.epoch:05d}.safetensors"}
        tensors = module_tensors(self.evaluated)
        if self.fabric.is_global_zero:
            self.checkpoints.path.mkdir(parents=True, exist_ok=True)
            write_checkpoint(self.checkpoints.path / self.best["file"], Checkpoint(tensors, {"epoch": self.epoch}))

    def restore_best(self) -> None:
        """Put the weights of the selected epoch into the network that is evaluated."""
        if self.best is not None:
            restore_module(self.evaluated, read_checkpoint(self.checkpoints.path / self.best["file"]).tensors)

    def predictions(self, split: str) -> Predictions:
        """Of the network as it is now, for a split of the data; ``train`` is the training set without augmentation."""
        samples: Samples = self.data.train if split == "train" else self.data.evaluation[split]
        as_evaluated = getattr(samples, "for_evaluation", None)
        return split_predictions(
            self.fabric,
            self.evaluated,
            as_evaluated() if as_evaluated is not None else samples,
            split=split,
            class_names=self.data.class_names,
            masked_classes=self.data.facts.get("masked_classes", ()),
            batch_size=self._evaluation_batch_size,
            prepare=self._prepared,
        )

    def gradient_norms(self) -> dict[str, Any]:
        """Histograms of the training samples' gradient norms in the last layer, with the weights as they are now."""
        return gradient_norm_histograms(
            self.fabric,
            self.evaluated,
            self.loss,
            self.data.train,
            batch_size=self._evaluation_batch_size,
            prepare=self._prepared,
            is_mean=self.recipe.reduction == "mean",
        )

    @property
    def _evaluation_batch_size(self) -> int:
        return self.recipe.evaluation_batch_size or max(256, self.recipe.batch_size)

    def _is_checkpoint_due(self) -> bool:
        every = self.recipe.checkpoint
        if every.every_steps is not None and self.step % every.every_steps == 0:
            return True
        if every.every_seconds is None:
            return False
        due = time.monotonic() - self._saved_at > every.every_seconds
        # The first process's clock decides for all: they save together.
        return bool(self.fabric.broadcast(due, src=0)) if self.fabric.world_size > 1 else due

    def save(self) -> None:
        """Write a checkpoint of everything that decides how the run goes on."""
        state = current_state(self)
        if self.fabric.is_global_zero:
            self.checkpoints.write(self.epoch, self.step, state)
        self.fabric.barrier()
        self._saved_at = time.monotonic()

    def restore(self) -> bool:
        """Go on from the newest whole checkpoint; False if there is none."""
        if self.fabric.is_global_zero:
            self.checkpoints.tidy()
        checkpoint, damaged = self.checkpoints.newest()
        for sentence in damaged:
            self.reporter.note(sentence)
        if checkpoint is not None:
            continue_from(self, checkpoint)
        return checkpoint is not None


def _in_channels_last(model: nn.Module) -> nn.Module:
    moved: nn.Module = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return moved


def _supervised(targets: Tensor) -> int:
    """How many outputs of a part have a target."""
    return len(targets) if targets.ndim > 1 else int((targets != _IGNORED).sum())
