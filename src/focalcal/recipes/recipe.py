"""A recipe: everything that decides the result of a run, typed and checked."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import BeforeValidator, PositiveFloat, ValidationError, model_validator

from focalcal.recipes.problems import describe_problems
from focalcal.recipes.settings import (
    About,
    CheckpointSettings,
    Count,
    Epochs,
    GammaSchedule,
    HardwareSettings,
    LoggingSettings,
    LossName,
    OptimizerSettings,
    Penalty,
    RecordSettings,
    SampleGammaSettings,
    ScheduleSettings,
    Seed,
    Settings,
    Share,
    Whole,
    name_group,
)
from focalcal.recipes.task_settings import Data, FunctionModel, Model, list_networks

# ``optimizer: adam`` for ``optimizer: {name: adam}``.
_Optimizer = Annotated[OptimizerSettings, BeforeValidator(name_group)]
_Schedule = Annotated[ScheduleSettings, BeforeValidator(name_group)]


class Recipe(Settings):
    """One run.

    Attributes:
        name: Origin of the recipe.
        about: Text for the list of recipes.
        protocol: Name of the variant that was chosen (``authors``), if any.
        data: The data set and its options.
        model: The network and its options.
        loss: A name for ``build_loss``.
        reduction: ``mean`` over the supervised outputs of a batch, their ``sum``, or the sum ``per_sample`` (divided
            by the number of samples: which differs from the mean where a sample has several outputs).
        gamma_schedule: γ from an epoch on, for a focal loss, instead of the loss's own.
        gamma_by_sample: γ by the probability of the sample's class, for a focal loss, instead of the loss's own.
        mmce_penalty: λ of the losses ``mmce`` and ``mmce-formula``.
        epochs: Length of the run.
        batch_size: Samples per step of the optimizer, over all processes.
        batch_tokens: Tokens per step, padding included, instead of ``batch_size`` samples; for texts.
        accumulate: Number of parts in which a process takes its share of a batch.
        clip_norm: Largest norm of the gradient (gradient clipping).
        optimizer: Optimizer of all weights, or of all but the embedding's.
        embedding_optimizer: Optimizer of the network's ``embedding``, if it has another.
        schedule: Schedule of the learning rate.
        select: The epoch whose predictions count: the ``last``, or the one with the best validation ``error``,
            ``nll``, ``ece``, or ``scaled_nll``: NLL after temperature scaling (refine first, then calibrate).
        ema_decay: Decay of the moving average of the weights that is evaluated instead of them; none by default.
        average_last: Number of last epochs whose weights are averaged; the average is evaluated instead of them.
        compile: Whether the network goes through ``torch.compile``.
        channels_last: Memory format of images and convolutions.
        group_by_length: Batches of samples of similar length, for texts.
        drop_last: Whether every batch of an epoch is full: a few samples, others each epoch, are left out.
        evaluation_batch_size: Samples per batch where no gradient is needed.
        record: Measurements besides validation.
        checkpoint: Times at which checkpoints are written.
        hardware: Devices, precision, threads.
        logging: Further places for the history.
        seed: Seed for the weights, the order and the augmentation; the split has its own, ``data.split_seed``.
    """

    name: str = "own"
    about: About = About()
    protocol: str | None = None
    data: Data
    model: Model
    loss: LossName = "cross-entropy"
    reduction: Literal["mean", "sum", "per_sample"] = "mean"
    gamma_schedule: GammaSchedule | None = None
    gamma_by_sample: SampleGammaSettings | None = None
    mmce_penalty: Penalty = 2.0
    epochs: Epochs
    batch_size: Whole = 128
    batch_tokens: Count = None
    accumulate: Whole = 1
    clip_norm: PositiveFloat | None = None
    optimizer: _Optimizer = OptimizerSettings()
    embedding_optimizer: _Optimizer | None = None
    schedule: _Schedule = ScheduleSettings()
    select: Literal["last", "error", "nll", "ece", "scaled_nll"] = "last"
    ema_decay: Share | None = None
    average_last: Count = None
    compile: bool = False
    channels_last: bool = False
    group_by_length: bool = False
    drop_last: bool = False
    evaluation_batch_size: Count = None
    record: RecordSettings = RecordSettings()
    checkpoint: CheckpointSettings = CheckpointSettings()
    hardware: HardwareSettings = HardwareSettings()
    logging: LoggingSettings = LoggingSettings()
    seed: Seed = 0

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        problems = [*self._find_task_problems(), *self._find_schedule_problems(), *self._find_sparse_problems()]
        if problems:
            raise ValueError("\n".join(problems))
        return self

    def _find_task_problems(self) -> Iterator[str]:
        known = list_networks(self.data.name)
        if self.model.name not in known and not isinstance(self.model, FunctionModel):
            fitting = ", ".join(known)
            yield f"model.name: {self.model.name} does not take {self.data.name}; networks for it are {fitting}"
        if self.accumulate * self.hardware.devices * self.hardware.nodes > self.batch_size:
            yield "batch_size must be at least accumulate × devices × nodes, one sample for each part"

    def _find_schedule_problems(self) -> Iterator[str]:
        if self.gamma_schedule is not None and 0 not in self.gamma_schedule:
            yield "gamma_schedule must begin at epoch 0"
        if self.gamma_schedule is not None and self.gamma_by_sample is not None:
            yield "gamma_schedule and gamma_by_sample cannot both choose γ; leave one of them out"
        if self.schedule.name == "steps" and not self.schedule.factors:
            yield "schedule.factors must say from which epoch on the learning rate is multiplied by what"
        if self.schedule.name != "steps" and self.schedule.factors:
            yield f"schedule.factors belongs to schedule.name=steps, not to {self.schedule.name}"
        if self.schedule.name == "inverse_sqrt" and not self.schedule.warmup_epochs:
            yield "schedule.name=inverse_sqrt needs schedule.warmup_epochs, which it falls from"
        if self.ema_decay is not None and self.average_last is not None:
            yield "ema_decay and average_last are two averages of the weights; leave one of them out"
        if self.average_last is not None and self.average_last > self.epochs:
            yield f"average_last must be at most the run's {self.epochs} epochs"
        if self.schedule.warmup_epochs > self.epochs:
            yield f"schedule.warmup_epochs must be at most the run's {self.epochs} epochs"
        longest = self.record.full_length or self.epochs
        for field in ("gradient_norms_at", "snapshots_at"):
            late = [epoch for epoch in getattr(self.record, field) if epoch > longest]
            if late:
                yield f"record.{field}: epoch {late[0]} lies beyond the {longest} epochs that the list is given for"
        for group, optimizer in (("optimizer", self.optimizer), ("embedding_optimizer", self.embedding_optimizer)):
            if optimizer is not None and optimizer.nesterov and not optimizer.momentum:
                yield f"{group}.nesterov needs a momentum above 0"

    def _find_sparse_problems(self) -> Iterator[str]:
        """Find what PyTorch cannot do with the sparse gradient of word vectors."""
        if not getattr(self.model, "sparse", False) or self.model.name not in list_networks(self.data.name):
            return
        group = "optimizer" if self.embedding_optimizer is None else "embedding_optimizer"
        optimizer = self.embedding_optimizer or self.optimizer
        has_momentum = optimizer.name == "sgd" and optimizer.momentum > 0
        if optimizer.weight_decay or has_momentum or optimizer.name in ("adam", "adamw"):
            yield (
                "the word vectors' gradient is sparse, which only adagrad, and sgd with momentum 0, take, both without "
                "weight decay; set embedding_optimizer={name: adagrad, lr: 0.05} or model.sparse=false instead of "
                f"{group}"
            )
        if self.clip_norm is not None:
            yield "clip_norm cannot be used with sparse gradients; set model.sparse=false"

    @classmethod
    def check(cls, content: Mapping[str, Any], name: str) -> "Recipe":
        """Make the recipe with these fields.

        Raises:
            ValueError: The message begins with ``name`` and has one line per problem.
        """
        try:
            return cls.model_validate(dict(content))
        except ValidationError as error:
            raise ValueError(describe_problems(name, error, cls)) from None

    def with_changes(self, **changes: Any) -> "Recipe":
        """Return the same recipe with other values of some fields, checked again.

        Examples:
            >>> recipe = Recipe(data="digits", model="mlp", epochs=3)
            >>> recipe.with_changes(loss="flsd-53").loss
            'flsd-53'
        """
        return Recipe.check({**self.model_dump(), **changes}, self.name)

    def to_yaml(self) -> str:
        """Write every field in the form of recipes; ``load_recipe`` reads the same recipe again.

        Examples:
            >>> Recipe(data="digits", model="mlp", epochs=3).to_yaml().splitlines()[0]
            'name: own'
        """
        return str(yaml.safe_dump(_plain(self.model_dump()), sort_keys=False, allow_unicode=True, width=120))


def _plain(value: Any) -> Any:
    """Return the same in lists and dicts; unlike in JSON, keys may stay numbers."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, tuple) else value
