"""``train``: from a recipe to a run directory."""

import importlib.metadata
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from focalcal.base.files import atomic_writer, write_json
from focalcal.data import DataSet
from focalcal.data.sentence_pairs import SentencePairs
from focalcal.recipes import Recipe, load_recipe
from focalcal.recipes.merging import merge, nest
from focalcal.training.building import build_criterion, build_data, build_loggers, build_network
from focalcal.training.devices import build_fabric
from focalcal.training.epoch_progress import ProgressDisplay, progress_display
from focalcal.training.evaluator import build_evaluator
from focalcal.training.preconditions import (
    check_free,
    check_loss,
    check_model,
    check_same_data,
    check_splits,
    data_facts,
    hold,
)
from focalcal.training.randomness import derived_seed, seed_everything
from focalcal.training.run_directory import Run, RunDirectory, prediction_file
from focalcal.training.trainer import Trainer

Loss = Callable[[Tensor, Tensor], Tensor]
_PACKAGES = ("focalcal", "torch", "numpy", "scipy", "scikit-learn", "safetensors", "lightning-fabric", "pillow")


def train(
    recipe: Recipe | str | os.PathLike[str],
    *,
    out: str | os.PathLike[str],
    overrides: Mapping[str, Any] | None = None,
    model: nn.Module | None = None,
    data: DataSet | Mapping[str, Any] | None = None,
    loss: Loss | str | None = None,
    resume: bool = False,
    progress: bool = True,
) -> Run:
    """Train a network, and write a run directory with its history, predictions and evaluation.

    Args:
        recipe: A recipe, the name of one, or a file.
        out: The run directory; it must not hold a run yet, unless ``resume``.
        overrides: Changes to the recipe, such as ``{"loss": "flsd-53", "optimizer.lr": 0.05}``.
        model: A network of your own instead of the recipe's: it maps a batch of inputs to logits (N, K).
        data: Data of your own: a ``DataSet``, or the splits by name, ``{"train": (x, y), "val": (x, y), …}``, each a
            pair of tensors, a data set of (input, label) pairs, or an iterable of them.
        loss: A loss of your own, called with logits and targets, that returns the mean over a batch (the sum, if that
            is the recipe's reduction); or the name of one, instead of the recipe's.
        resume: Resume from the last checkpoint in ``out``; the results are bit for bit those of a run that was never
            interrupted.
        progress: Show a bar (or lines, if stderr is not a terminal).

    Returns:
        The run; its ``predictions("test")`` are ready to be evaluated and calibrated.

    Raises:
        Interrupted: After SIGTERM or Ctrl-C, with the state saved.
        Diverged: The loss became infinite or NaN.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     run = train("digits/mlp", out=folder + "/a", overrides={"epochs": 2}, progress=False)
        ...     run.predictions("test").split, len(run.history)
        ('test', 2)
    """
    if model is not None:
        check_model(model)
    if loss is not None:
        check_loss(loss)
    by_name = {"loss": loss} if isinstance(loss, str) else {}
    chosen = _recipe(recipe, {**(overrides or {}), **by_name}, model, data)
    # An unknown loss is found before anything begins.
    criterion = build_criterion(chosen) if loss is None or isinstance(loss, str) else loss
    files = RunDirectory(Path(out))
    check_free(files, chosen, resume)
    if chosen.hardware.threads is not None:
        torch.set_num_threads(chosen.hardware.threads)
    torch.use_deterministic_algorithms(chosen.hardware.deterministic)
    fabric = build_fabric(chosen.hardware, build_loggers(chosen.logging, files))
    fabric.launch()
    display = progress_display(progress and fabric.is_global_zero, chosen.name)
    try:
        with hold(files) if fabric.is_global_zero else nullcontext():
            return _run(fabric, chosen, files, model, data, criterion, resume, display)
    finally:
        display.close()
        for logger in fabric.loggers:
            logger.finalize("finished")


def _recipe(
    recipe: Recipe | str | os.PathLike[str], overrides: Mapping[str, Any] | None, model: object, data: object
) -> Recipe:
    changes = dict(overrides or {})
    if model is not None:
        changes["model"] = "own"
    if data is not None:
        changes["data"] = "own"
    if isinstance(recipe, Recipe):
        return Recipe.check(merge(recipe.model_dump(), nest(changes)), recipe.name) if changes else recipe
    return load_recipe(recipe, changes)


def _run(
    fabric: Fabric,
    recipe: Recipe,
    files: RunDirectory,
    model: nn.Module | None,
    data: DataSet | Mapping[str, Any] | None,
    criterion: Loss,
    resume: bool,
    display: ProgressDisplay,
) -> Run:
    run = Run(files.path, recipe)
    if resume and files.is_finished:
        display.note("This run is finished; there is nothing left to do.")
        return run
    samples = _samples(recipe, data)
    check_splits(samples)
    facts = data_facts(samples)
    if resume:
        check_same_data(files, facts)
    for fact in ("coverage", "announcement"):
        if fact in samples.facts:
            display.note(samples.facts[fact])
    seed_everything(derived_seed(recipe.seed, "weights"))
    network = build_network(recipe, samples) if model is None else model
    trainer = Trainer(fabric, recipe, network, criterion, build_evaluator(fabric, recipe, samples), files, display)
    fabric.barrier()  # nobody writes before everybody has looked whether the folder is free
    if resume and not trainer.restore():
        display.note("There is no checkpoint yet; the run starts from the beginning.")
    _write_settings(fabric, recipe, samples, facts, files)
    trainer.fit()
    _write_results(trainer)
    return run


def _samples(recipe: Recipe, data: DataSet | Mapping[str, Any] | None) -> DataSet:
    if data is None:
        return build_data(recipe)
    if isinstance(data, DataSet):
        return data
    from focalcal.data.own import data_from_splits

    return data_from_splits(data)


def _write_settings(
    fabric: Fabric, recipe: Recipe, data: DataSet, facts: Mapping[str, Any], files: RunDirectory
) -> None:
    if fabric.is_global_zero:
        write_json(files.environment, {**describe_environment(fabric), "data": dict(facts)})
        with atomic_writer(files.config) as file:
            file.write(recipe.to_yaml().encode())
        if isinstance(data.train, SentencePairs) and data.train.vocabulary is not None:
            data.train.vocabulary.save(files.vocabulary)
    fabric.barrier()


def _write_results(trainer: Trainer) -> None:
    """Write the predictions of the last epoch, and of the selected one if that is another; then the evaluation."""
    recipe, files, evaluator, best = trainer.recipe, trainer.files, trainer.evaluator, trainer.state.best
    folder = files.predictions_folder
    for last in [True, False] if recipe.select != "last" else [False]:
        if not last:
            trainer.restore_best()
        for split in evaluator.data.evaluation:
            evaluator.save(trainer.state.evaluated, split, prediction_file(folder, split, last=last))
    if trainer.fabric.is_global_zero:
        about = {
            "recipe": recipe.name,
            "loss": recipe.loss,
            "seed": recipe.seed,
            "selection": recipe.select,
            "epoch": recipe.epochs - 1 if best is None else best["epoch"],
        }
        write_json(files.evaluation, {**about, **evaluator.results(files)})
    trainer.fabric.barrier()


def describe_environment(fabric: Fabric) -> dict[str, Any]:
    """Collect versions, device, threads, the git commit if there is one, the command and the time."""
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: _version(name) for name in _PACKAGES},
        "device": str(fabric.device),
        "device_name": torch.cuda.get_device_name() if fabric.device.type == "cuda" else platform.processor(),
        "processes": fabric.world_size,
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "git_commit": _git_commit(),
        "command": " ".join([os.path.basename(sys.argv[0]), *sys.argv[1:]]) if sys.argv else "",
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _git_commit() -> str | None:
    """Return the commit of the folder that the run was started in."""
    try:
        asked = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return asked.stdout.strip() or None
