"""Runs that a table or figure of the paper needs, what is left of them, and how long it takes."""

import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from focalcal.base.suggestions import did_you_mean
from focalcal.data.sentence_pairs import PairBatch
from focalcal.models import build_model
from focalcal.paper.figures import FIGURES
from focalcal.paper.figures.histories import FIXED_GAMMAS
from focalcal.paper.result_folders import ResultSet
from focalcal.paper.table_names import ALL_METHODS, COMMAND_NAMES, MAIN, TABLES, named_tables
from focalcal.recipes import Recipe, load_recipe, recipe_names
from focalcal.sweeps.plan import Plan, PlannedRun
from focalcal.sweeps.result_rows import title
from focalcal.training.run_directory import read_history

_NETWORKS = ("resnet50", "resnet110", "wide_resnet_26_10", "densenet121")
_IMAGES = (
    *(f"cifar100/{network}" for network in _NETWORKS),
    *(f"cifar10/{network}" for network in _NETWORKS),
    "tiny_imagenet/resnet50",
)
_ALL = (*_IMAGES, "newsgroups/gp_cnn", "sst/tree_lstm")
_TRANSLATORS = ("cross-entropy", "ls-0.1", "fl-1")
# What the paper shows of each figure; tables that are not here have all eleven rows.
_RECIPES: Mapping[str, tuple[str, ...]] = {
    "top5": tuple(name for name in _IMAGES if not name.startswith("cifar10/")),
    "ood-auroc": ("cifar10/resnet110", "cifar10/wide_resnet_26_10"),
    "s99": ("cifar10/resnet110", "cifar10/resnet50"),
    "early-stopping": ("cifar10/resnet50",),
    "bars": _IMAGES,
    "ood-roc": ("cifar10/resnet110", "cifar10/wide_resnet_26_10"),
    "translation": ("wmt14/transformer_base",),
    "bleu-temperature": ("wmt14/transformer_base",),
}
_FIGURE_LOSSES: Mapping[str, tuple[str, ...]] = {
    "training": ("cross-entropy",),
    "focal-training": FIXED_GAMMAS,
    "gradient-factor": ("cross-entropy", "fl-3"),
    "bars": MAIN,
    "ood-roc": MAIN,
    "reliability-training": ("cross-entropy",),
    "qualitative": ("cross-entropy", "brier", "mmce", "flsd-53"),
    "feature-norms": FIXED_GAMMAS,
    "bleu-temperature": _TRANSLATORS,
}
_SAMPLES = {"cifar10": 45_000, "cifar100": 45_000, "tiny_imagenet": 90_000, "wmt14": 4_508_785}
_TIMED_SAMPLES = 8
_PAIR_SUBWORDS = 33  # of a side of WMT14, about: 17 epochs are 100,000 updates of 25,000


@dataclass(frozen=True)
class NeededRuns:
    """Runs of one recipe.

    Attributes:
        recipe: Its name.
        losses: Those that are needed.
        plan: The runs, in their folders; losses that are there already belong to it.
        seconds: Estimated time of one epoch; None where it is unknown.
        source: Where the estimate comes from.
    """

    recipe: str
    losses: tuple[str, ...]
    plan: Plan
    seconds: float | None
    source: str

    def list_runs(self) -> list[PlannedRun]:
        """Return the runs that are needed, finished ones among them."""
        return [run for run in self.plan.runs() if run.loss in self.losses]


def needed_runs(
    name: str, out: Path, *, only: str | None = None, seeds: int = 1, results: Sequence[ResultSet] = ()
) -> list[NeededRuns]:
    """List the runs that a table or figure needs.

    Args:
        name: Name of a table (``ece-variants`` for the variants) or a figure.
        out: The folder of all runs; each recipe has its own in it, which all tables and figures share.
        only: One recipe: of the paper's, or another one that takes their place.
        seeds: Number of seeds.
        results: Results whose histories tell how fast a recipe trains here.
    """
    losses = _losses(name)
    recipes = _RECIPES.get(name, ("cifar10/resnet50",) if name in FIGURES else _ALL)
    if only is not None:
        if only not in recipe_names():
            raise ValueError(f"There is no recipe {only!r}{did_you_mean(only, recipe_names())}")
        recipes = (only,)
    return [_plan(recipe, losses, out, seeds, results) for recipe in recipes]


def _losses(name: str) -> tuple[str, ...]:
    known = dict.fromkeys([*COMMAND_NAMES, *TABLES, *FIGURES])
    if name not in known:
        raise ValueError(f"There is no table or figure {name!r}{did_you_mean(name, known)}")
    if name in ("optimum", "linear-model"):
        raise ValueError(f"The figure {name} needs no run: focalcal paper figure {name} --out {name}.png computes it.")
    if name in FIGURES:
        return _FIGURE_LOSSES[name]
    if name == "translation":
        return _TRANSLATORS
    wanted = {method for table in named_tables(name) for method in table.methods}
    return tuple(method for method in ALL_METHODS if method in wanted)


def _plan(recipe: str, losses: tuple[str, ...], out: Path, seeds: int, results: Sequence[ResultSet]) -> NeededRuns:
    folder = out / recipe.replace("/", "_")
    # A table of the folder is made of all its runs, also of those that another table of the paper needed.
    there = [loss for loss in ALL_METHODS if loss not in losses and (folder / loss).is_dir()]
    plan = Plan(recipe, (), (*losses, *there), tuple(range(seeds)), folder)
    loaded = load_recipe(recipe)
    seconds, source = _seconds_per_epoch(loaded, folder, results)
    return NeededRuns(recipe, losses, plan, seconds, source)


def _seconds_per_epoch(recipe: Recipe, folder: Path, results: Sequence[ResultSet]) -> tuple[float | None, str]:
    """Take the time from runs of the recipe, else from results of the same data and network, else from two steps."""
    own = sorted(folder.glob("*/seed-*/history.jsonl"))
    speeds = [float(epoch["seconds"]) for file in own for epoch in read_history(file)]
    if speeds:
        return statistics.median(speeds), "its own epochs"
    for result in results:
        runs = [
            run
            for run in result.runs
            if (run.dataset, run.model) == (title(recipe.data.name), title(recipe.model.name))
        ]
        speeds = [float(epoch["seconds"]) for run in runs for epoch in run.history]
        if speeds:
            return statistics.median(speeds), f"epochs of results/{result.name}"
    size = _SAMPLES.get(recipe.data.name)
    if size is None:
        return None, "unknown"
    per_second = measure_speed(recipe)
    return size / per_second, f"{per_second:.2g} samples per second, timed here"


def measure_speed(recipe: Recipe) -> float:
    """Time one step of training on a few random samples, after one to warm up; samples per second."""
    on_gpu = torch.cuda.is_available() and recipe.hardware.accelerator in ("auto", "cuda")
    device = torch.device("cuda" if on_gpu else "cpu")
    random = _random_pairs if recipe.data.name == "wmt14" else _random_images
    network, inputs, labels, samples = random(recipe, device)
    network.train()
    began = 0.0
    for step in range(2):
        began = time.perf_counter() if step else began
        loss = functional.cross_entropy(network(inputs), labels)
        torch.autograd.backward(loss)
        loss.item()  # waits for the device
    return samples / (time.perf_counter() - began)


def _random_images(recipe: Recipe, device: torch.device) -> tuple[nn.Module, Any, Tensor, int]:
    classes = {"cifar10": 10, "cifar100": 100, "tiny_imagenet": 200}[recipe.data.name]
    side = 64 if recipe.data.name == "tiny_imagenet" else 32
    samples = _TIMED_SAMPLES if device.type == "cpu" else recipe.batch_size
    network = build_model(recipe.model.name, num_classes=classes, image_size=side).to(device)
    images = torch.randn(samples, 3, side, side, device=device)
    return network, images, torch.arange(samples, device=device) % classes, samples


def _random_pairs(recipe: Recipe, device: torch.device) -> tuple[nn.Module, Any, Tensor, int]:
    subwords = 32_000
    samples = _TIMED_SAMPLES if device.type == "cpu" else 16 * _TIMED_SAMPLES
    network = build_model(recipe.model.name, num_classes=subwords).to(device)
    tokens = torch.randint(4, subwords, (samples, _PAIR_SUBWORDS), device=device)
    places = torch.arange(tokens.numel(), device=device)
    return network, PairBatch(tokens, tokens, places), tokens.flatten(), samples


def describe(needed: Sequence[NeededRuns]) -> Iterator[dict[str, str | int | float | None]]:
    """Describe each run: what is done of it, and the estimated hours of the rest."""
    for one in needed:
        for run in one.list_runs():
            done = run.recipe.epochs if run.is_finished else len(read_history(run.files.history))
            left = None if one.seconds is None else (run.recipe.epochs - done) * one.seconds / 3600
            state = "finished" if run.is_finished else f"{done} of {run.recipe.epochs} epochs" if done else "to be run"
            yield {
                "recipe": one.recipe,
                "loss": run.loss,
                "seed": run.seed,
                "state": state,
                "hours": 0.0 if run.is_finished else left,
                "estimate": one.source,
            }
