"""The training loop. Every run goes through it: any kind of sample, one process or many, fresh or resumed."""

import time
from collections.abc import Callable
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from focalcal.base.files import remove_leftovers
from focalcal.base.named_functions import is_function_name
from focalcal.data.data_types import Batch
from focalcal.recipes import Recipe
from focalcal.training.batches import epoch_batches, load_batch, prefetch, process_share
from focalcal.training.building import build_optimizers, learning_rate_factor
from focalcal.training.checkpoints import CheckpointFolder, module_tensors, read_checkpoint, restore_module
from focalcal.training.devices import largest_over_processes, sum_over_processes
from focalcal.training.epoch_progress import ProgressDisplay
from focalcal.training.evaluator import Evaluator
from focalcal.training.randomness import derived_seed, generator, seed_everything
from focalcal.training.recording import Recorder, flatten_record
from focalcal.training.run_directory import RunDirectory, write_history
from focalcal.training.state import IGNORED, TrainerState
from focalcal.training.stopping import Diverged, Interrupted, Interruption

Loss = Callable[[Tensor, Tensor], Tensor]

# On a GPU, looking at the loss makes the host wait; it is enough to look now and then, and before anything is saved.
_STEPS_BETWEEN_LOOKS_AT_GPU = 20


class Trainer:
    """Trains one network by one recipe.

    Args:
        fabric: The processes, launched.
        recipe: The settings.
        model: The network, on the CPU.
        loss: Called with logits and targets; a mean over the batch if the recipe's reduction is ``mean``.
        evaluator: The data, and how networks are measured on it.
        files: The run directory, where checkpoints and history are written.
        display: Shows the progress.

    Attributes:
        state: Everything that changes.
    """

    def __init__(
        self,
        fabric: Fabric,
        recipe: Recipe,
        model: nn.Module,
        loss: Loss,
        evaluator: Evaluator,
        files: RunDirectory,
        display: ProgressDisplay,
    ) -> None:
        self.fabric, self.recipe, self.evaluator, self.files, self.display = fabric, recipe, evaluator, files, display
        self.samples = evaluator.data.train
        self.loss: Loss = fabric.to_device(loss) if isinstance(loss, nn.Module) else loss
        network = _in_channels_last(model) if recipe.channels_last else model
        optimizers = build_optimizers(recipe, network)
        self.learning_rates = [[group["lr"] for group in optimizer.param_groups] for optimizer in optimizers]
        compiled: Any = torch.compile(network) if recipe.compile else network
        self.model, *self.steppers = fabric.setup(compiled, *optimizers)
        self.state = TrainerState(network, optimizers, _average(recipe, network))
        self.recorder = Recorder(fabric, recipe, self.loss, evaluator, files)
        self.checkpoints = CheckpointFolder(files.checkpoints)
        self._looked_at = 0
        self._saved_at = time.monotonic()
        seed_everything(derived_seed(recipe.seed, "steps", fabric.global_rank))

    def fit(self) -> None:
        """Train to the end, from wherever the state is."""
        state, epochs = self.state, self.recipe.epochs
        with Interruption() as interruption:
            self.display.start(epochs, len(self._batches(state.epoch)), state.epoch)
            while state.epoch < epochs:
                self._train_epoch(interruption)
                self._finish_epoch()
                interruption.settle(sum_over_processes(self.fabric, interruption.votes()))
                if interruption.agreed and state.epoch < epochs:
                    raise Interrupted(interruption.agreed, f"the end of epoch {state.epoch}")

    def _batches(self, epoch: int) -> list[Tensor]:
        recipe = self.recipe
        return epoch_batches(
            self.samples,
            recipe.batch_size,
            seed=recipe.seed,
            epoch=epoch,
            parts=self.fabric.world_size * recipe.accumulate,
            by_length=recipe.group_by_length,
            drop_last=recipe.drop_last,
            batch_tokens=recipe.batch_tokens,
        )

    def _train_epoch(self, interruption: Interruption) -> None:
        state = self.state
        set_epoch = getattr(self.loss, "set_epoch", None)
        if set_epoch is not None:
            set_epoch(state.epoch)
        self.model.train()
        batches = self._batches(state.epoch)
        began = time.monotonic() - state.seconds
        while state.step < len(batches):
            self._set_learning_rate((state.step + 1) / len(batches))
            following = batches[state.step + 1] if state.step + 1 < len(batches) else None
            self._take_step(batches[state.step], following, interruption)
            state.step += 1
            state.seconds = time.monotonic() - began
            is_last = state.step == len(batches)
            self._check_losses(batches, now=is_last)
            if not is_last and (interruption.agreed or self._is_checkpoint_due()):
                self._check_losses(batches, now=True)
                self.save()
            if not is_last and interruption.agreed:
                raise Interrupted(interruption.agreed, f"epoch {state.epoch + 1}, step {state.step}")

    def _take_step(self, batch: Tensor, following: Tensor | None, interruption: Interruption) -> None:
        fabric, state = self.fabric, self.state
        parts = self._load_parts(batch)
        if following is not None:
            (ahead,) = process_share(following, rank=fabric.global_rank, world=fabric.world_size, accumulate=1)
            prefetch(self.samples, ahead)
        supervised = [_count_supervised(part.targets) for part in parts]
        total, *votes = sum_over_processes(fabric, [float(sum(supervised)), *interruption.votes()])
        interruption.settle(votes)
        objective = torch.zeros((), device=fabric.device)
        for number, (part, count) in enumerate(zip(parts, supervised, strict=True)):
            with fabric.no_backward_sync(self.model, enabled=fabric.world_size > 1 and number < len(parts) - 1):
                with state.feature_norms:
                    logits = self._compute_logits(part.inputs)
                if state.step == 0:
                    self.evaluator.check_outputs(logits, part.targets)
                loss = self._share_of_objective(logits, part.targets, count / total if total else 0.0, len(batch))
                # Processes average their gradients; the objective needs the sum.
                fabric.backward(loss * fabric.world_size if fabric.world_size > 1 else loss)
            objective += loss.detach()
            if self.recipe.record.outputs:
                state.outputs.add(logits, part.targets)
        self._update_weights()
        state.losses.append(objective)
        if fabric.world_size == 1:
            interruption.settle(interruption.votes())  # a slow step is not followed by another

    def _compute_logits(self, inputs: Any) -> Any:
        """Run the network; one that a recipe names by its function may not take these inputs at all."""
        try:
            return self.model(inputs)
        except (RuntimeError, TypeError, LookupError, AttributeError) as error:
            name = self.recipe.model.name
            is_memory = "allocate memory" in str(error) or isinstance(error, torch.OutOfMemoryError)
            if self.state.step or is_memory or not is_function_name(name):
                raise
            given = f"of shape {tuple(inputs.shape)}" if isinstance(inputs, Tensor) else type(inputs).__name__
            said = f"{type(error).__name__}: {error}".rstrip(".")
            raise ValueError(f"{name}: its network fails on inputs {given}: {said}.") from error

    def _load_parts(self, batch: Tensor) -> list[Batch]:
        """Load this process's micro-batches of a batch."""
        fabric, recipe, state = self.fabric, self.recipe, self.state
        own = process_share(batch, rank=fabric.global_rank, world=fabric.world_size, accumulate=recipe.accumulate)
        source = generator(recipe.seed, "samples", state.epoch, state.step, fabric.global_rank)
        channels_last = recipe.channels_last
        return [
            load_batch(self.samples, part, device=fabric.device, source=source, channels_last=channels_last)
            for part in own
        ]

    def _share_of_objective(self, logits: Tensor, targets: Tensor, portion: float, samples: int) -> Tensor:
        """Compute what a part of a batch adds to the objective of the whole batch, over all parts and processes.

        A mean over the part's supervised outputs counts by its portion of them, so that the parts add up to the mean
        over the batch; a sum is added unchanged, or divided by the number of samples in the batch.
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
        if self.state.average is not None and self.recipe.ema_decay is not None:
            self.state.average.update_parameters(self.state.network)

    def _set_learning_rate(self, progress: float) -> None:
        recipe, state = self.recipe, self.state
        factor = learning_rate_factor(recipe.schedule, epochs=recipe.epochs, epoch=state.epoch, progress=progress)
        for optimizer, rates in zip(state.optimizers, self.learning_rates, strict=True):
            for group, rate in zip(optimizer.param_groups, rates, strict=True):
                group["lr"] = rate * factor

    def _check_losses(self, batches: list[Tensor], now: bool) -> None:
        """Stop as soon as a loss is not finite: nothing that follows it is of use."""
        fabric, state = self.fabric, self.state
        waits = fabric.device.type != "cpu" and not now and state.step % _STEPS_BETWEEN_LOOKS_AT_GPU
        if waits or self._looked_at == len(state.losses):
            return
        new = torch.stack(state.losses[self._looked_at :])
        finite = new.isfinite().tolist()
        first_bad = state.step if all(finite) else self._looked_at + finite.index(False)
        # All processes stop if one of them must: the others would wait for it for ever.
        is_bad, last = sum_over_processes(fabric, [float(first_bad < state.step), float(new[-1])])
        if is_bad:
            step = -largest_over_processes(fabric, -first_bad)
            raise Diverged.in_loss(state.epoch, step, self.samples.ids[batches[step]].tolist())
        self._looked_at = len(state.losses)
        self.display.step(state.epoch, state.step, last)

    def _finish_epoch(self) -> None:
        last = self.recipe.average_last
        if self.state.average is not None and last is not None and self.state.epoch >= self.recipe.epochs - last:
            self.state.average.update_parameters(self.state.network)
        record = self.recorder.record(self.state)
        self.recorder.write_files(self.state)
        self._select(record)
        self.state.finish_epoch(record)
        self._looked_at = 0
        if self.fabric.is_global_zero:
            write_history(self.files.history, self.state.history)
        self.save()
        self.display.epoch(record)
        self.fabric.log_dict(flatten_record(record), step=record["epoch"])

    def _select(self, record: dict[str, Any]) -> None:
        """Keep the weights of the epoch if it is the best so far: of equal ones, the earliest."""
        state = self.state
        if self.recipe.select == "last":
            return
        value = record["val"][self.recipe.select]
        if value is None or (state.best is not None and value >= state.best["value"]):
            return
        state.best = {"epoch": state.epoch, "value": value, "file": f"best-{state.epoch:05d}.safetensors"}
        weights = module_tensors(state.evaluated)
        if self.fabric.is_global_zero:
            self.checkpoints.write_weights(state.best["file"], state.epoch, weights)

    def restore_best(self) -> None:
        """Load the weights of the selected epoch into the network that is evaluated."""
        best = self.state.best
        if best is not None:
            restore_module(self.state.evaluated, read_checkpoint(self.checkpoints.path / best["file"]).tensors)

    def _is_checkpoint_due(self) -> bool:
        every = self.recipe.checkpoint
        if every.every_steps is not None and self.state.step % every.every_steps == 0:
            return True
        if every.every_seconds is None:
            return False
        due = time.monotonic() - self._saved_at > every.every_seconds
        # The first process's clock decides for all: they save together.
        return bool(self.fabric.broadcast(due, src=0)) if self.fabric.world_size > 1 else due

    def save(self) -> None:
        """Write a checkpoint of the state."""
        about = {"loss": self.recipe.loss, "gamma": repr(getattr(self.loss, "gamma", None))}
        checkpoint = self.state.to_checkpoint(self.fabric, about)
        if self.fabric.is_global_zero:
            self.checkpoints.write(self.state.epoch, self.state.step, checkpoint)
        self.fabric.barrier()
        self._saved_at = time.monotonic()

    def restore(self) -> bool:
        """Resume from the newest undamaged checkpoint; return False if there is none."""
        if self.fabric.is_global_zero:
            remove_leftovers(self.files.path)
        checkpoint, damaged = self.checkpoints.newest()
        for sentence in damaged:
            self.display.note(sentence)
        if checkpoint is not None:
            self.state.restore(self.fabric, checkpoint, self.files.history)
            if self.fabric.is_global_zero and not damaged:
                self.checkpoints.remove_older(checkpoint)
        return checkpoint is not None


def _in_channels_last(model: nn.Module) -> nn.Module:
    moved: nn.Module = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return moved


def _average(recipe: Recipe, network: nn.Module) -> AveragedModel | None:
    """Build the average of the weights that a recipe asks for: a moving one, or of the last epochs."""
    if recipe.ema_decay is None and recipe.average_last is None:
        return None
    if recipe.hardware.strategy == "fsdp":
        raise ValueError("An average of the weights is not supported under FSDP; leave ema_decay and average_last out.")
    if recipe.ema_decay is None:
        return AveragedModel(network, use_buffers=True)
    moving: Any = get_ema_multi_avg_fn(recipe.ema_decay)  # type: ignore[no-untyped-call]
    return AveragedModel(network, multi_avg_fn=moving, use_buffers=True)


def _count_supervised(targets: Tensor) -> int:
    """Count the outputs that have a target."""
    return len(targets) if targets.ndim > 1 else int((targets != IGNORED).sum())
