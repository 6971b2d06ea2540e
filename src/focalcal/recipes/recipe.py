"""A recipe: everything that decides how a run comes out, typed and checked."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import BeforeValidator, PositiveFloat, ValidationError, model_validator

from focalcal.recipes.data_settings import Data
from focalcal.recipes.loss_settings import GammaSchedule, LossName, Penalty, SampleGammaSettings
from focalcal.recipes.model_settings import Model, networks_for
from focalcal.recipes.problems import described
from focalcal.recipes.settings import (
    About,
    CheckpointSettings,
    Count,
    Epochs,
    HardwareSettings,
    LoggingSettings,
    OptimizerSettings,
    RecordSettings,
    ScheduleSettings,
    Seed,
    Settings,
    Share,
    Whole,
    named,
)

# ``optimizer: adam`` for ``optimizer: {name: adam}``.
_Optimizer = Annotated[OptimizerSettings, BeforeValidator(named)]
_Schedule = Annotated[ScheduleSettings, BeforeValidator(named)]


class Recipe(Settings):
    """One run.

    Attributes:
        name: where it came from.
        about: what the list of recipes shows.
        protocol: the name of the variant that was chosen (``authors``), if any.
        data: the data set and its options.
        model: the network and its options.
        loss: a name for ``build_loss``.
        reduction: ``mean`` over the supervised outputs of a batch, their ``sum``, or the sum ``per_sample`` (divided
            by the number of samples: another thing than the mean where a sample has several outputs).
        gamma_schedule: γ from an epoch on, for a focal loss, in place of the loss's own.
        gamma_by_sample: γ by the probability of the sample's class, for a focal loss, in place of the loss's own.
        mmce_penalty: λ of the losses ``mmce`` and ``mmce-formula``.
        epochs: length of the run.
        batch_size: samples of one step of the optimizer, over all processes.
        accumulate: in how many parts a process takes its share of a batch.
        clip_norm: the gradient's norm is cut to this.
        optimizer: of all weights, or of all but the embedding's.
        embedding_optimizer: of the network's ``embedding``, if it has another.
        schedule: of the learning rate.
        select: the epoch whose predictions count: the ``last``, or the one with the best validation ``error``,
            ``nll``, ``ece``, or ``scaled_nll``: NLL after temperature scaling (refine first, then calibrate).
        ema_decay: of the moving average of the weights that is evaluated in their place; none by default.
        compile: whether the network goes through ``torch.compile``.
        channels_last: memory format of images and convolutions.
        group_by_length: batches of samples of like length, for texts.
        drop_last: whether every batch of an epoch is full: a few samples, others each epoch, are left out.
        evaluation_batch_size: samples at a time where no gradient is needed.
        record: what is measured beside validation.
        checkpoint: when checkpoints are written.
        hardware: devices, precision, threads.
        logging: where the history goes, too.
        seed: of the weights, the order and the augmentation; the split has its own, ``data.split_seed``.
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
    accumulate: Whole = 1
    clip_norm: PositiveFloat | None = None
    optimizer: _Optimizer = OptimizerSettings()
    embedding_optimizer: _Optimizer | None = None
    schedule: _Schedule = ScheduleSettings()
    select: Literal["last", "error", "nll", "ece", "scaled_nll"] = "last"
    ema_decay: Share | None = None
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
    def _fields_fit_together(self) -> Self:
        problems = [*self._problems_of_task(), *self._problems_of_schedules(), *self._problems_of_sparse_gradients()]
        if problems:
            raise ValueError("\n".join(problems))
        return self

    def _problems_of_task(self) -> Iterator[str]:
        known = networks_for(self.data.name)
        if self.model.name not in known:
            fitting = ", ".join(known)
            yield f"model.name: {self.model.name} does not take {self.data.name}; networks for it are {fitting}"
        if self.accumulate * self.hardware.devices * self.hardware.nodes > self.batch_size:
            yield "batch_size must be at least accumulate × devices × nodes, one sample for each part"

    def _problems_of_schedules(self) -> Iterator[str]:
        if self.gamma_schedule is not None and 0 not in self.gamma_schedule:
            yield "gamma_schedule must begin at epoch 0"
        if self.gamma_schedule is not None and self.gamma_by_sample is not None:
            yield "gamma_schedule and gamma_by_sample cannot both choose γ; leave one of them out"
        if self.schedule.name == "steps" and not self.schedule.factors:
            yield "schedule.factors must say from which epoch on the learning rate is multiplied by what"
        if self.schedule.name != "steps" and self.schedule.factors:
            yield f"schedule.factors belongs to schedule.name=steps, not to {self.schedule.name}"
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

    def _problems_of_sparse_gradients(self) -> Iterator[str]:
        """What PyTorch cannot do with the gradient of word vectors that touches only the words of a batch."""
        if not getattr(self.model, "sparse", False) or self.model.name not in networks_for(self.data.name):
            return
        group = "optimizer" if self.embedding_optimizer is None else "embedding_optimizer"
        optimizer = self.embedding_optimizer or self.optimizer
        has_momentum = optimizer.name == "sgd" and optimizer.momentum > 0
        if optimizer.weight_decay or has_momentum or optimizer.name in ("adam", "adamw"):
            yield (
                "the word vectors' gradient is sparse, which only adagrad, and sgd with momentum 0, take, both without "
                "weight decay; set embedding_optimizer={name: adagrad, lr: 0.05} or model.sparse=false in place of "
                f"{group}"
            )
        if self.clip_norm is not None:
            yield "clip_norm cannot be used with sparse gradients; set model.sparse=false"

    @classmethod
    def checked(cls, content: Mapping[str, Any], name: str) -> "Recipe":
        """The recipe with these fields.

        Raises:
            ValueError: that names ``name`` and has a line for each thing that is wrong.
        """
        try:
            return cls.model_validate(dict(content))
        except ValidationError as error:
            raise ValueError(described(name, error, cls)) from None

    def with_changes(self, **changes: Any) -> "Recipe":
        """The same recipe with other values of some fields, checked again.

        Examples:
            >>> recipe = Recipe(data="digits", model="mlp", epochs=3)
            >>> recipe.with_changes(loss="flsd-53").loss
            'flsd-53'
        """
        return Recipe.checked({**self.model_dump(), **changes}, self.name)

    def to_yaml(self) -> str:
        """Every field, in the form in which recipes are written; ``load_recipe`` reads it back as it was.

        Examples:
            >>> Recipe(data="digits", model="mlp", epochs=3).to_yaml().splitlines()[0]
            'name: own'
        """
        return str(yaml.safe_dump(_plain(self.model_dump()), sort_keys=False, allow_unicode=True, width=120))


def _plain(value: Any) -> Any:
    """The same in lists and dicts; unlike in JSON, keys may stay numbers."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, tuple) else value
