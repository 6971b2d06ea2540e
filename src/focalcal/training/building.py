"""Parts of a run built from its recipe: data, network, loss, optimizers, learning rates, loggers."""

from __future__ import annotations

import importlib
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from focalcal.base.files import make_folder
from focalcal.base.named_functions import call_function, is_function_name
from focalcal.data import DataSet, load_data
from focalcal.data.subwords import SubwordVocabulary
from focalcal.gamma import EpochGamma, SampleGamma
from focalcal.losses import FocalLoss, build_loss
from focalcal.models import MODEL_NAMES, build_model, model_options
from focalcal.models.transformer import Transformer
from focalcal.recipes import Recipe
from focalcal.recipes.settings import LoggingSettings, OptimizerSettings, ScheduleSettings
from focalcal.training.checkpoints import Checkpoint, CheckpointFolder, read_checkpoint, restore_module
from focalcal.training.preconditions import check_model, recorded_data

if TYPE_CHECKING:
    from focalcal.training.run_directory import Run, RunDirectory

Loss = Callable[[Tensor, Tensor], Tensor]

# Name in recipes -> module, class, packages to install, and the arguments that put its files into the run directory.
_LOGGERS: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "tensorboard": (
        "lightning_fabric.loggers",
        "TensorBoardLogger",
        "focalcal[tensorboard]",
        {"name": "", "version": ""},
    ),
    "csv": (
        "lightning_fabric.loggers",
        "CSVLogger",
        "lightning-fabric",
        {"name": "", "version": "", "flush_logs_every_n_steps": 1},
    ),
    "mlflow": ("lightning.pytorch.loggers", "MLFlowLogger", "lightning mlflow", {}),
    "wandb": ("lightning.pytorch.loggers", "WandbLogger", "lightning wandb", {}),
}


def build_data(recipe: Recipe) -> DataSet:
    """Load the data set of a recipe."""
    settings = recipe.data
    if settings.name == "own":
        raise ValueError(f"Recipe {recipe.name} is for data of your own: pass it as focalcal.train(…, data=…).")
    options = settings.options()
    return load_data(settings.name, seed=options.pop("split_seed"), **options)


def build_network(recipe: Recipe, data: DataSet) -> nn.Module:
    """Build the network of a recipe, with fresh weights from torch's global generator."""
    if recipe.model.name == "own":
        raise ValueError(f"Recipe {recipe.name} is for a network of your own: pass it as focalcal.train(…, model=…).")
    name, options, needs = recipe.model.name, recipe.model.options(), data.model_options
    if is_function_name(name):
        network = call_function(name, options, needs)
        check_model(network)
        return network  # type: ignore[no-any-return]
    taken = model_options(name)
    missing = [need for need in needs if need not in taken and need != "num_classes"]
    if missing:
        what = {"num_features": "features, not images", "image_size": "images"}.get(missing[0], missing[0])
        fitting = [other for other in MODEL_NAMES if all(need in model_options(other) for need in missing)]
        raise ValueError(f"The network {name} does not take {what}; networks for them are {', '.join(fitting)}.")
    try:
        return build_model(name, **needs, **options)
    except (RuntimeError, MemoryError, OverflowError) as error:  # so torch says that it lacks memory for the weights
        reason = str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
        raise ValueError(f"Recipe {recipe.name}: the network cannot be built ({reason}); make it smaller.") from error


def load_network(
    run: Run, model: nn.Module | None = None, data: DataSet | None = None, checkpoint: Path | None = None
) -> nn.Module:
    """Load the weights of a run's selected epoch into its network, in evaluation mode; see :meth:`Run.network`."""
    for what, given in (("model", model), ("data", data)):
        if given is None and getattr(run.recipe, what).name == "own" and model is None:
            raise ValueError(f"The run was trained with {what} of your own: pass it, as in network({what}=…).")
    if model is None:
        data = build_data(run.recipe) if data is None else data
        _check_words(run, data)
        model = build_network(run.recipe, data)
    weights = _load_selected_weights(run) if checkpoint is None else _weights_of(read_checkpoint(checkpoint))
    # A compiled network calls its parts by another name.
    plain = getattr(model, "_orig_mod", model)
    restore_module(plain, {name.removeprefix("_orig_mod."): weight for name, weight in weights.items()})
    return model.cpu().eval()


def _load_selected_weights(run: Run) -> dict[str, Tensor]:
    checkpoints = CheckpointFolder(run.files.checkpoints)
    newest, _ = checkpoints.newest()
    if newest is None:
        raise ValueError(f"{run.path} holds no undamaged checkpoint, so there are no weights to load.")
    best = newest.values["best"]
    return _weights_of(newest if best is None else read_checkpoint(checkpoints.path / best["file"]))


def _weights_of(checkpoint: Checkpoint) -> dict[str, Tensor]:
    """Return the network's weights: averaged ones where there are, and all that a file of the best epoch has."""
    averaged = checkpoint.tensors.get("average/n_averaged")
    if averaged is not None and int(averaged) > 0:
        return checkpoint.part("average/module.")
    return checkpoint.part("model") or dict(checkpoint.tensors)


def load_translator(run: Run) -> tuple[Transformer, SubwordVocabulary]:
    """Load a run's network for sentence pairs and its vocabulary, without the data that it was trained with."""
    settings = run.recipe.data
    if not run.files.vocabulary.is_file():
        raise ValueError(f"{run.path} has no {run.files.vocabulary.name}: only runs on sentence pairs can translate.")
    vocabulary = SubwordVocabulary.load(run.files.vocabulary)
    recorded = (recorded_data(run.files) or {}).get("vocabulary_sha256", vocabulary.sha256)
    if recorded != vocabulary.sha256:
        raise ValueError(f"{run.files.vocabulary} is not the vocabulary that the run was trained with; restore it.")
    sizes = {"num_classes": len(vocabulary), "max_length": settings.options()["max_tokens"]}
    model = load_network(run, build_model(run.recipe.model.name, **sizes, **run.recipe.model.options()))
    if not isinstance(model, Transformer):
        raise ValueError(f"The network {run.recipe.model.name} of {run.path} cannot translate.")
    return model, vocabulary


def _check_words(run: Run, data: DataSet) -> None:
    """Refuse texts whose words have other numbers than in training: the weights would fit, the outputs be wrong."""
    before = recorded_data(run.files) or {}
    for fact, what in (("vocabulary_sha256", "other words"), ("tokens", "another number of tokens")):
        if fact in before and before[fact] != data.facts.get(fact):
            raise ValueError(
                f"The data has {what} than the run in {run.path} was trained with: load it with the same settings from "
                "the same files, as run.data() does."
            )


def build_criterion(recipe: Recipe) -> nn.Module:
    """Build the loss of a recipe; ``per_sample`` is a sum, which the loop divides."""
    options: dict[str, Any] = {"reduction": "mean" if recipe.reduction == "mean" else "sum"}
    penalty = {"penalty": recipe.mmce_penalty} if recipe.loss.startswith("mmce") else {}
    loss = build_loss(recipe.loss, epochs=recipe.epochs, **options, **penalty)
    policy = _own_gamma(recipe)
    if policy is None:
        return loss
    if not isinstance(loss, FocalLoss):
        field = "gamma_schedule" if isinstance(policy, EpochGamma) else "gamma_by_sample"
        raise ValueError(f"{field} is for focal losses, and {recipe.loss} is not one; leave it out.")
    return FocalLoss(policy, **options)


def _own_gamma(recipe: Recipe) -> EpochGamma | SampleGamma | None:
    """Return the γ that a recipe sets instead of the loss's own."""
    if recipe.gamma_schedule is not None:
        return EpochGamma(dict(sorted(recipe.gamma_schedule.items())))
    chosen = recipe.gamma_by_sample
    return None if chosen is None else SampleGamma(chosen.thresholds, chosen.gammas)


def build_optimizers(recipe: Recipe, model: nn.Module) -> list[torch.optim.Optimizer]:
    """Build one optimizer, or two if the network's embedding has its own."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not parameters:
        raise ValueError("The network has no weights that can be trained.")
    embedding = getattr(model, "embedding", None)
    if recipe.embedding_optimizer is None or embedding is None:
        return [_optimizer(recipe.optimizer, parameters)]
    # torch warns that it does not check what sparse gradients look like; nobody asks it to.
    torch.sparse.check_sparse_tensor_invariants.disable()  # type: ignore[no-untyped-call]
    own = [parameter for parameter in embedding.parameters() if parameter.requires_grad]
    if not own:
        return [_optimizer(recipe.optimizer, parameters)]
    others = [parameter for parameter in parameters if all(parameter is not one for one in own)]
    return [_optimizer(recipe.optimizer, others), _optimizer(recipe.embedding_optimizer, own)]


def _optimizer(settings: OptimizerSettings, parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
    options: dict[str, Any] = {"lr": settings.lr, "weight_decay": settings.weight_decay}
    if settings.name == "sgd":
        return torch.optim.SGD(parameters, momentum=settings.momentum, nesterov=settings.nesterov, **options)
    if settings.name == "adagrad":
        return torch.optim.Adagrad(parameters, **options)
    kind = torch.optim.Adam if settings.name == "adam" else torch.optim.AdamW
    return kind(parameters, betas=settings.betas, **options)


def learning_rate_factor(schedule: ScheduleSettings, *, epochs: int, epoch: int, progress: float) -> float:
    """Compute the factor of the learning rate from the place in the run, so that there is no state to save.

    - constant: 1.
    - steps: the factor of the last epoch in ``factors`` that has been reached.
    - cosine: from 1 to 0 over the run, step by step.
    - inverse_sqrt: √(``warmup_epochs`` / epochs that have passed), step by step, after the warm-up.
    - warm-up: during the first ``warmup_epochs``, times the share of them that has passed, step by step.

    Args:
        schedule: The recipe's schedule.
        epochs: Number of epochs in the run.
        epoch: The epoch, counted from 0.
        progress: The share of the epoch's steps that are done when this one is, in (0, 1].

    Examples:
        >>> steps = ScheduleSettings(name="steps", factors={150: 0.1, 250: 0.01})
        >>> [learning_rate_factor(steps, epochs=350, epoch=epoch, progress=0.5) for epoch in (0, 149, 150, 300)]
        [1.0, 1.0, 0.1, 0.01]
        >>> learning_rate_factor(ScheduleSettings(name="cosine"), epochs=10, epoch=4, progress=1.0)
        0.5
    """
    passed = epoch + progress
    factor = 1.0
    if schedule.name == "steps":
        reached = [start for start in schedule.factors if start <= epoch]
        factor = schedule.factors[max(reached)] if reached else 1.0
    elif schedule.name == "cosine":
        factor = round((1 + math.cos(math.pi * passed / epochs)) / 2, 15)
    elif schedule.name == "inverse_sqrt":
        factor = math.sqrt(schedule.warmup_epochs / max(passed, schedule.warmup_epochs))
    if passed < schedule.warmup_epochs:
        factor *= passed / schedule.warmup_epochs
    return factor


def build_loggers(settings: LoggingSettings, files: RunDirectory) -> list[Any]:
    """Build the loggers that a recipe asks for; those that write files write them to ``logs/`` in the run directory."""
    return [_logger(name, files) for name in settings.to]


def _logger(name: str, files: RunDirectory) -> Any:
    module, kind, package, options = _LOGGERS[name]
    try:
        make = getattr(importlib.import_module(module), kind)
        return make(**logger_place(name, files.logs / name), **options)
    except ImportError as error:
        raise ValueError(f"logging.to={name} needs packages that are not installed: pip install {package}.") from error


def logger_place(name: str, folder: Path) -> dict[str, Any]:
    """Return a logger's arguments that put its files into the folder, or those of MLflow on its server."""
    if name in ("tensorboard", "csv"):
        return {"root_dir": str(folder)}
    if name == "mlflow":
        if address := os.environ.get("MLFLOW_TRACKING_URI"):
            return {"tracking_uri": address}
        for package in ("mlflow", "sqlalchemy"):  # mlflow-skinny lacks the latter; asked before there is a folder
            importlib.import_module(package)
        make_folder(folder)
        folder = folder.resolve()
        # MLflow 3 no longer writes plain files, which the logger chooses by itself.
        return {"tracking_uri": f"sqlite:///{folder / 'mlflow.db'}", "artifact_location": (folder / "files").as_uri()}
    return {"save_dir": str(folder)}
