"""The runs that a sweep is made of, and the folder of each."""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from focalcal.recipes import Recipe, load_recipe
from focalcal.training import RunDirectory

# The losses that the paper's main tables compare.
PAPER_LOSSES = ("cross-entropy", "brier", "mmce", "ls-0.05", "fl-3", "flsd-53")


@dataclass(frozen=True, eq=False)
class PlannedRun:
    """One loss with one seed; ``group`` is the name of its plan where a sweep has several."""

    loss: str
    seed: int
    path: Path
    recipe: Recipe
    group: str = ""

    @property
    def name(self) -> str:
        """The name for messages: ``fl-3, seed 0``, after the plan's where there are several."""
        own = f"{self.loss}, seed {self.seed}"
        return f"{self.group}, {own}" if self.group else own

    @property
    def files(self) -> RunDirectory:
        """The names of the run's files."""
        return RunDirectory(self.path)

    @property
    def is_finished(self) -> bool:
        """True if nothing is left to be trained."""
        return self.files.is_finished

    def resources(self, cpus: int | None, gpus: float | None) -> tuple[int, float]:
        """Return cores and GPUs: those asked for, else the recipe's threads, and one GPU if it asks for CUDA."""
        hardware = self.recipe.hardware
        usual = 1.0 if hardware.accelerator == "cuda" else 0.0
        return cpus or hardware.threads or 1, usual if gpus is None else gpus


@dataclass(frozen=True)
class Plan:
    """The same recipe with several losses and seeds; every run has a folder ``LOSS/seed-N`` of its own.

    Attributes:
        recipe: The name or file of the recipe.
        overrides: ``key=value`` texts that hold for every run.
        losses: Names for ``build_loss``.
        seeds: Seeds for the weights and the order of samples; the split is the same for all.
        out: The folder of the runs and of their table.
        name: Tells the plan from others of the same sweep: ``digits/mlp, optimizer.lr=0.05``; empty for the only one.
    """

    recipe: str
    overrides: tuple[str, ...]
    losses: tuple[str, ...]
    seeds: tuple[int, ...]
    out: Path
    name: str = ""

    def __post_init__(self) -> None:
        for what, given in (("loss", self.losses), ("seed", self.seeds)):
            if not given:
                raise ValueError(f"There is no {what} to train with; give at least one.")
            repeated = sorted({str(one) for one in given if list(given).count(one) > 1})
            if repeated:
                raise ValueError(f"The {what} {repeated[0]} is given twice; give each once.")
        fixed = [change for change in self.overrides if change.partition("=")[0] in ("loss", "seed")]
        if fixed:
            raise ValueError(f"{fixed[0]} does not belong here: the sweep sets losses and seeds itself.")

    def runs(self) -> Iterator[PlannedRun]:
        """Yield every run, the first seed of all losses first: a sweep that is cut short compares like with like."""
        for seed in self.seeds:
            for loss in self.losses:
                # Loaded for each loss: a recipe may differ by loss.
                recipe = load_recipe(self.recipe, [*self.overrides, f"loss={loss}", f"seed={seed}"])
                yield PlannedRun(loss, seed, self.out / loss / f"seed-{seed}", recipe, self.name)


def plan_grid(
    recipes: Sequence[str],
    overrides: tuple[str, ...],
    grid: Mapping[str, Sequence[str]],
    losses: tuple[str, ...],
    seeds: tuple[int, ...],
    out: Path,
) -> list[Plan]:
    """Make one plan per recipe and point of a grid, each with a folder and a table of its own.

    Args:
        recipes: Names or files.
        overrides: ``key=value`` texts that hold for every run.
        grid: The values of settings, as texts: every combination is trained.
        losses: Names for ``build_loss``.
        seeds: Seeds of every loss.
        out: The folder of the sweep; of a single recipe without a grid, the plan's own.

    Examples:
        >>> plans = plan_grid(["digits/mlp"], (), {"optimizer.lr": ["0.05", "0.1"]}, ("fl-3",), (0,), Path("runs"))
        >>> [(plan.name, plan.out.as_posix()) for plan in plans]
        [('optimizer.lr=0.05', 'runs/optimizer.lr=0.05'), ('optimizer.lr=0.1', 'runs/optimizer.lr=0.1')]
    """
    for key, values in grid.items():
        if any(change.partition("=")[0] == key for change in overrides):
            raise ValueError(f"{key} is both in the grid and a change for all runs; give it once.")
        if not values or len(set(values)) < len(values):
            raise ValueError(f"The grid of {key} is empty or names a value twice; give each value once.")
    plans = []
    for recipe in recipes:
        for values in itertools.product(*grid.values()):
            point = tuple(f"{key}={value}" for key, value in zip(grid, values, strict=True))
            parts = [*([recipe] if len(recipes) > 1 else []), *([", ".join(point)] if point else [])]
            folder = out.joinpath(*map(_folder_name, parts))
            plans.append(Plan(recipe, (*overrides, *point), losses, seeds, folder, ", ".join(parts)))
    folders = [plan.out for plan in plans]
    repeated = next((plan for plan in plans if folders.count(plan.out) > 1), None)
    if repeated is not None:
        raise ValueError(f"{repeated.name} is given twice, or another has the same folder {repeated.out}; rename one.")
    if not plans:
        raise ValueError("There is no recipe to train; `focalcal recipes` lists them.")
    return plans


def _folder_name(name: str) -> str:
    """Name a folder after a recipe or a point of a grid.

    Examples:
        >>> _folder_name("digits/mlp"), _folder_name("my/own.yaml"), _folder_name("optimizer.lr=0.05, epochs=3")
        ('digits_mlp', 'my_own', 'optimizer.lr=0.05,epochs=3')
    """
    plain = re.sub(r"[^\w.,=+\[\]-]", "_", re.sub(r"\.ya?ml$", "", name.replace(", ", ",")))
    return plain.strip("._") or "_"


def parse_grid(text: str) -> tuple[str, list[str]]:
    """Read ``optimizer.lr=0.05,0.1``; a comma in brackets belongs to a value.

    Examples:
        >>> parse_grid("optimizer.lr=0.05,0.1")
        ('optimizer.lr', ['0.05', '0.1'])
        >>> parse_grid("model.hidden=[8,16],[32]")
        ('model.hidden', ['[8,16]', '[32]'])
    """
    key, sign, values = text.partition("=")
    found = [value.strip() for value in re.findall(r"(?:\[[^\]]*\]|\{[^}]*\}|[^,\[{])+", values)]
    if not sign or not key.strip() or not any(found):
        raise ValueError(f"{text!r} is not a grid; write key=value,value, such as optimizer.lr=0.05,0.1.")
    return key.strip(), [value for value in found if value]
