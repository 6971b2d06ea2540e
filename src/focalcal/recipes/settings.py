"""Settings of a run: the fields that recipes are made of, with types and bounds."""

from itertools import pairwise
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PositiveFloat, model_validator

from focalcal.loss_names import problem_of_loss

# Strict: YAML's "yes" is not a number of epochs, and neither is 2.0.
Whole = Annotated[int, Field(gt=0, lt=2**31, strict=True)]
# Longer than any run; beyond it a number is a slip of the pen.
Epochs = Annotated[int, Field(gt=0, le=1_000_000, strict=True)]
# A number of samples or epochs that may be left open.
Count = Whole | None
Share = Annotated[float, Field(ge=0, lt=1)]
Seed = Annotated[int, Field(ge=0, lt=2**31, strict=True)]
# More than any machine has cores; a number that the system refuses to start would end the process.
_MOST_THREADS = 1024
# Between checkpoints: little is lost with a run that is killed, and writing them costs next to nothing.
_CHECKPOINT_SECONDS = 300.0
# The learning rate of an optimizer where a recipe gives none.
_USUAL_LR = {"sgd": 0.1, "adam": 1e-3, "adamw": 1e-3, "adagrad": 0.05}
_NotNegative = Annotated[float, Field(ge=0)]


class Settings(BaseModel):
    """A group of fields; unknown ones are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, protected_namespaces=())

    def options(self) -> dict[str, Any]:
        """Return all fields but the name: the arguments of the builder of that name."""
        return {name: value for name, value in self.model_dump().items() if name != "name"}


def name_group(value: Any) -> Any:
    """Turn ``resnet50`` into ``{name: resnet50}``."""
    return {"name": value} if isinstance(value, str) else value


def make_list(value: Any) -> Any:
    """Turn ``svhn`` into ``[svhn]`` and ``10`` into ``[10]``."""
    return [value] if isinstance(value, str | int) and not isinstance(value, bool) else value


def refuse_repeats(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Refuse a value that is named twice."""
    repeated = [value for value in values if values.count(value) > 1]
    if repeated:
        raise ValueError(f"{repeated[0]} is named twice; name it once")
    return values


def _text_of_number(value: Any) -> Any:
    """Turn 32, which is what YAML reads, into ``"32"``."""
    return str(value) if type(value) is int else value


class About(Settings):
    """Description for readers of the list of recipes."""

    summary: str = ""
    hardware: str = ""
    time: str = ""
    result: str = ""


class OptimizerSettings(Settings):
    """Optimizer of the weights; fields that the named optimizer does not have are ignored.

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
    def _add_usual_lr(cls, given: Any) -> Any:
        name = given.get("name") if isinstance(given, dict) else None
        if not isinstance(name, str) or name not in _USUAL_LR:
            return given
        return {"lr": _USUAL_LR[name], **given}


class ScheduleSettings(Settings):
    """Schedule of the learning rate: per epoch for steps, per step for cosine, inverse_sqrt and warm-up."""

    name: Literal["constant", "steps", "cosine", "inverse_sqrt"] = "constant"
    factors: dict[Annotated[int, Field(ge=0)], PositiveFloat] = {}
    warmup_epochs: Annotated[float, Field(ge=0)] = 0.0


_Epochs = Annotated[tuple[Whole, ...], BeforeValidator(make_list), AfterValidator(refuse_repeats)]


class RecordSettings(Settings):
    """Measurements and records besides validation.

    Attributes:
        test_every: Measure the test set every N epochs and after the last; null: never.
        train_every: The same for the training set without augmentation.
        gradient_norms_at: Epochs after which histograms of per-sample gradient norms of the last layer are made.
        snapshots_at: Epochs after which the predictions for the training set are kept.
        full_length: Length of the run that the two lists of epochs are given for; a shorter run does the same in
            proportion. Null: the lists are epochs of the run itself.
        outputs: Measure the outputs of the training steps (error, calibration, …); of large vocabularies this would
            take longer than training.
    """

    test_every: Count = None
    train_every: Count = None
    gradient_norms_at: _Epochs = ()
    snapshots_at: _Epochs = ()
    full_length: Count = None
    outputs: bool = True

    def in_run(self, wanted: tuple[int, ...], epochs: int) -> set[int]:
        """Convert a list of epochs to those of a run of ``epochs`` epochs, counted from 1.

        Examples:
            >>> sorted(RecordSettings(full_length=350).in_run((10, 100, 200), epochs=60))
            [2, 17, 34]
        """
        if self.full_length is None or epochs >= self.full_length:
            return set(wanted)
        return {max(1, round(epoch * epochs / self.full_length)) for epoch in wanted}


class CheckpointSettings(Settings):
    """Times at which a checkpoint is written, besides the end of each epoch."""

    every_steps: Count = None
    every_seconds: PositiveFloat | None = _CHECKPOINT_SECONDS


class HardwareSettings(Settings):
    """Devices, precision and threads of a run."""

    accelerator: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    devices: Whole = 1
    nodes: Whole = 1
    strategy: Literal["auto", "ddp", "fsdp"] = "auto"
    precision: Annotated[Literal["32", "bf16-mixed", "16-mixed"], BeforeValidator(_text_of_number)] = "32"
    threads: Annotated[int, Field(gt=0, le=_MOST_THREADS, strict=True)] | None = None
    deterministic: bool = False


class LoggingSettings(Settings):
    """Places for the history besides ``history.jsonl``."""

    to: Annotated[
        tuple[Literal["tensorboard", "csv", "mlflow", "wandb"], ...],
        BeforeValidator(make_list),
        AfterValidator(refuse_repeats),
    ] = ()


def _known_loss(name: str) -> str:
    problem = problem_of_loss(name)
    if problem is not None:
        raise ValueError(problem[0].lower() + problem[1:])
    return name


LossName = Annotated[str, AfterValidator(_known_loss)]
# γ from an epoch on.
GammaSchedule = dict[Annotated[int, Field(ge=0)], _NotNegative]
# λ of MMCE.
Penalty = _NotNegative


class SampleGammaSettings(Settings):
    """γ by the probability of the sample's class: ``gammas[i]`` below ``thresholds[i]``, the last one above them all.

    Examples:
        >>> SampleGammaSettings(thresholds=[0.2], gammas=[5, 3]).gammas
        (5.0, 3.0)
    """

    thresholds: tuple[float, ...]
    gammas: tuple[_NotNegative, ...]

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if not all(lower < upper for lower, upper in pairwise((0.0, *self.thresholds, 1.0))):
            raise ValueError("gamma_by_sample.thresholds must lie between 0 and 1 and increase")
        if len(self.gammas) != len(self.thresholds) + 1:
            needed, given = len(self.thresholds) + 1, len(self.gammas)
            raise ValueError(f"gamma_by_sample.gammas must be one more than the thresholds, {needed}, and are {given}")
        return self
