"""``train``: from a recipe to a run directory."""

import os
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from focalcal.base.files import atomic_writer, write_json
from focalcal.data import DataSet
from focalcal.recipes import Recipe, load_recipe
from focalcal.recipes.merging import merged, nested
from focalcal.training.building import build_criterion, build_data, build_fabric, build_network, check_loss, check_model
from focalcal.training.environment import environment
from focalcal.training.logging import build_loggers
from focalcal.training.outcome import run_evaluation
from focalcal.training.progress import Reporter, reporter
from focalcal.training.randomness import derived_seed, seed_everything
from focalcal.training.run_directory import Run, check_place, check_same_data, is_finished, sole_owner
from focalcal.training.trainer import Trainer

Loss = Callable[[Tensor, Tensor], Tensor]


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
        recipe: a recipe, the name of one, or a file.
        out: the run directory; it must not hold a run yet, unless ``resume``.
        overrides: changes to the recipe, such as ``{"loss": "flsd-53", "optimizer.lr": 0.05}``.
        model: a network of your own in place of the recipe's: it maps a batch of inputs to logits (N, K).
        data: data of your own: a ``DataSet``, or the splits by name, ``{"train": (x, y), "val": (x, y), …}``, each a
            pair of tensors, a data set of (input, label) pairs, or an iterable of them.
        loss: a loss of your own, called with logits and targets, that gives the mean over a batch (its sum, where the
            recipe's reduction is another); or the name of one, in place of the recipe's.
        resume: go on from the last checkpoint in ``out``; bit for bit as if there had been no interruption.
        progress: show a bar (or lines, where stderr is no terminal).

    Returns:
        The run; its ``predictions("test")`` are ready to be evaluated and calibrated.

    Raises:
        Interrupted: after SIGTERM or Ctrl-C, with the state saved.
        Diverged: the loss became infinite or NaN.

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
    folder = Path(out)
    check_place(folder, chosen, resume)
    if chosen.hardware.threads is not None:
        torch.set_num_threads(chosen.hardware.threads)
    torch.use_deterministic_algorithms(chosen.hardware.deterministic)
    fabric = build_fabric(chosen.hardware, build_loggers(chosen.logging, folder))
    fabric.launch()
    show = reporter(progress and fabric.is_global_zero, chosen.name)
    try:
        with sole_owner(folder) if fabric.is_global_zero else nullcontext():
            return _run(fabric, chosen, folder, model, data, criterion, resume, show)
    finally:
        show.close()
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
        return Recipe.checked(merged(recipe.model_dump(), nested(changes)), recipe.name) if changes else recipe
    return load_recipe(recipe, changes)


def _run(
    fabric: Fabric,
    recipe: Recipe,
    folder: Path,
    model: nn.Module | None,
    data: DataSet | Mapping[str, Any] | None,
    criterion: Loss,
    resume: bool,
    show: Reporter,
) -> Run:
    if resume and is_finished(folder):
        show.note("This run is finished; there is nothing left to do.")
        return Run(folder, recipe)
    samples = _samples(recipe, data)
    _check_splits(samples)
    if resume:
        check_same_data(folder, samples.facts)
    if "coverage" in samples.facts:
        show.note(samples.facts["coverage"])
    seed_everything(derived_seed(recipe.seed, "weights"))
    network = build_network(recipe, samples) if model is None else model
    trainer = Trainer(fabric, recipe, samples, network, criterion, folder, show)
    fabric.barrier()  # nobody writes before everybody has looked whether the folder is free
    if resume and not trainer.restore():
        show.note("There is no checkpoint yet; the run begins at the beginning.")
    _prepare(fabric, recipe, samples, folder)
    trainer.fit()
    _write_predictions(fabric, trainer, folder)
    if fabric.is_global_zero:
        write_json(folder / "evaluation.json", run_evaluation(folder / "predictions", trainer))
    fabric.barrier()
    return Run(folder, recipe)


def _check_splits(data: DataSet) -> None:
    if "val" not in data.evaluation:
        raise ValueError("The data has no split val, which every epoch is measured on; add one.")
    for split, samples in {"train": data.train, **data.evaluation}.items():
        if not len(samples):
            raise ValueError(f"The split {split} of the data has no sample; give it some.")


def _samples(recipe: Recipe, data: DataSet | Mapping[str, Any] | None) -> DataSet:
    if data is None:
        return build_data(recipe)
    if isinstance(data, DataSet):
        return data
    from focalcal.data.own import own_data

    if not isinstance(data, Mapping):
        raise TypeError(f"data must be a DataSet or splits by their names, got {type(data).__name__}.")
    if not all(isinstance(name, str) for name in data):
        raise TypeError("The names of splits are texts: data={'train': …, 'val': …}.")
    for split in ("train", "val"):
        if data.get(split) is None:
            raise ValueError(f"The data has no split {split}, and every run needs one: data={{'{split}': …}}.")
    return own_data(**data)


def _prepare(fabric: Fabric, recipe: Recipe, data: DataSet, folder: Path) -> None:
    if fabric.is_global_zero:
        write_json(folder / "environment.json", {**environment(fabric), "data": dict(data.facts)})
        with atomic_writer(folder / "config.yaml") as file:
            file.write(recipe.to_yaml().encode())
    fabric.barrier()


def _write_predictions(fabric: Fabric, trainer: Trainer, folder: Path) -> None:
    """The last epoch's, and the selected one's where that is another."""
    where = folder / "predictions"
    if trainer.recipe.select != "last":
        _write_splits(fabric, trainer, where / "last")
        trainer.restore_best()
    _write_splits(fabric, trainer, where)


def _write_splits(fabric: Fabric, trainer: Trainer, where: Path) -> None:
    if fabric.is_global_zero:
        where.mkdir(parents=True, exist_ok=True)
    for split in trainer.data.evaluation:
        predictions = trainer.predictions(split)
        if fabric.is_global_zero:
            predictions.save(where / f"{split}.safetensors")
