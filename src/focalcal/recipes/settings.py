"""What every part of a recipe is made of: named fields with types and bounds, and no others."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PositiveFloat, model_validator

# Strict: YAML's "yes" is no number of epochs, and neither is 2.0.
Whole = Annotated[int, Field(gt=0, lt=2**31, strict=True)]
# Longer than any run; beyond it a number is a slip of the pen.
Epochs = Annotated[int, Field(gt=0, le=1_000_000, strict=True)]
# A number of samples or epochs that may be left open.
Count = Whole | None
Share = Annotated[float, Field(ge=0, lt=1)]
Seed = Annotated[int, Field(ge=0, lt=2**31, strict=True)]
# More than any machine has cores; so many that the system refuses to start them would end the process.
_MOST_THREADS = 1024
# Between checkpoints: little is lost with a run that is killed, and writing them costs next to nothing.
_CHECKPOINT_SECONDS = 300.0
# The learning rate of an optimizer where a recipe gives none.
_USUAL_LR = {"sgd": 0.1, "adam": 1e-3, "adamw": 1e-3, "adagrad": 0.05}


class Settings(BaseModel):
    """A group of fields; unknown ones are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, protected_namespaces=())

    def options(self) -> dict[str, Any]:
        """All fields but the name: what the builder of that name is called with."""
        return {name: value for name, value in self.model_dump().items() if name != "name"}


def named(value: Any) -> Any:
    """``{name: resnet50}`` for ``resnet50``."""
    return {"name": value} if isinstance(value, str) else value


def listed(value: Any) -> Any:
    """``[svhn]`` for ``svhn``, ``[10]`` for ``10``."""
    return [value] if isinstance(value, str | int) and not isinstance(value, bool) else value


def without_repeats(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """The same; what is named twice is an error."""
    repeated = [value for value in values if values.count(value) > 1]
    if repeated:
        raise ValueError(f"{repeated[0]} is named twice; name it once")
    return values


def _text_of_number(value: Any) -> Any:
    """``"32"`` for 32, which is what YAML makes of it."""
    return str(value) if type(value) is int else value


class About(Settings):
    """What a reader of the list of recipes wants to know."""

    summary: str = ""
    hardware: str = ""
    time: str = ""
    result: str = ""


class OptimizerSettings(Settings):
    """How weights move; what does not belong to the named optimizer is left alone.

    Examples:
        >>> OptimizerSettings().lr, OptimizerSettings(name="adam").lr
        (0.1, 0.001)
    """

    name: Literal["sgd", "adam", "adamw", "adagrad"] = "sgd"
    lr: PositiveFloat = _USUAL_LR["sgd"]
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    momentum: Share = 0.9
    nesterov: bool = False
    betas: tuple[Share, Share] = (0.9, 0.999)

    @model_validator(mode="before")
    @classmethod
    def _with_usual_lr(cls, given: Any) -> Any:
        name = given.get("name") if isinstance(given, dict) else None
        if not isinstance(name, str) or name not in _USUAL_LR:
            return given
        return {"lr": _USUAL_LR[name], **given}


class ScheduleSettings(Settings):
    """How the learning rate changes: by the epoch for steps, by the step for cosine and warm-up."""

    name: Literal["constant", "steps", "cosine"] = "constant"
    factors: dict[Annotated[int, Field(ge=0)], PositiveFloat] = {}
    warmup_epochs: Annotated[float, Field(ge=0)] = 0.0


_Epochs = Annotated[tuple[Whole, ...], BeforeValidator(listed), AfterValidator(without_repeats)]


class RecordSettings(Settings):
    """What is recorded beside validation.

    Attributes:
        test_every: measure the test set every N epochs and after the last; never where null.
        train_every: the same for the training set without augmentation.
        gradient_norms_at: epochs after which histograms of per-sample gradient norms of the last layer are made.
        snapshots_at: epochs after which the predictions for the training set are kept.
        full_length: length of the run that the two lists of epochs are given for; a shorter run does the same in
            proportion. Null: the lists are epochs of the run itself.
    """

    test_every: Count = None
    train_every: Count = None
    gradient_norms_at: _Epochs = ()
    snapshots_at: _Epochs = ()
    full_length: Count = None

    def in_run(self, wanted: tuple[int, ...], epochs: int) -> set[int]:
        """The epochs of a run of ``epochs`` epochs, counted from 1, that a list stands for.

        Examples:
            >>> sorted(RecordSettings(full_length=350).in_run((10, 100, 200), epochs=60))
            [2, 17, 34]
        """
        if self.full_length is None or epochs >= self.full_length:
            return set(wanted)
        return {max(1, round(epoch * epochs / self.full_length)) for epoch in wanted}


class CheckpointSettings(Settings):
    """When a checkpoint is written, beside the end of each epoch."""

    every_steps: Count = None
    every_seconds: PositiveFloat | None = _CHECKPOINT_SECONDS


class HardwareSettings(Settings):
    """Where the run computes."""

    accelerator: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    devices: Whole = 1
    nodes: Whole = 1
    strategy: Literal["auto", "ddp", "fsdp"] = "auto"
    precision: Annotated[Literal["32", "bf16-mixed", "16-mixed"], BeforeValidator(_text_of_number)] = "32"
    threads: Annotated[int, Field(gt=0, le=_MOST_THREADS, strict=True)] | None = None
    deterministic: bool = False


class LoggingSettings(Settings):
    """Where the history goes beside ``history.jsonl``."""

    to: Annotated[
        tuple[Literal["tensorboard", "csv", "mlflow", "wandb"], ...],
        BeforeValidator(listed),
        AfterValidator(without_repeats),
    ] = ()
