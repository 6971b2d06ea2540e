"""The runs that a sweep is made of, and the folder of each."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from focalcal.recipes import Recipe, load_recipe
from focalcal.training import RunDirectory

# The losses that the paper's main tables compare.
PAPER_LOSSES = ("cross-entropy", "brier", "mmce", "ls-0.05", "fl-3", "flsd-53")


@dataclass(frozen=True, eq=False)
class PlannedRun:
    """One loss with one seed."""

    loss: str
    seed: int
    path: Path
    recipe: Recipe

    @property
    def name(self) -> str:
        """The name for messages: ``fl-3, seed 0``."""
        return f"{self.loss}, seed {self.seed}"

    @property
    def files(self) -> RunDirectory:
        """The names of the run's files."""
        return RunDirectory(self.path)

    @property
    def is_finished(self) -> bool:
        """True if nothing is left to be trained."""
        return self.files.is_finished


@dataclass(frozen=True)
class Plan:
    """The same recipe with several losses and seeds; every run has a folder ``LOSS/seed-N`` of its own.

    Attributes:
        recipe: The name or file of the recipe.
        changes: ``key=value`` texts that hold for every run.
        losses: Names for ``build_loss``.
        seeds: Seeds for the weights and the order of samples; the split is the same for all.
        out: The folder of the sweep.
    """

    recipe: str
    changes: tuple[str, ...]
    losses: tuple[str, ...]
    seeds: tuple[int, ...]
    out: Path

    def __post_init__(self) -> None:
        for what, given in (("loss", self.losses), ("seed", self.seeds)):
            if not given:
                raise ValueError(f"There is no {what} to train with; give at least one.")
            repeated = sorted({str(one) for one in given if list(given).count(one) > 1})
            if repeated:
                raise ValueError(f"The {what} {repeated[0]} is given twice; give each once.")
        fixed = [change for change in self.changes if change.partition("=")[0] in ("loss", "seed")]
        if fixed:
            raise ValueError(f"{fixed[0]} does not belong here: the sweep sets losses and seeds itself.")

    def runs(self) -> Iterator[PlannedRun]:
        """Yield every run, the first seed of all losses first: a sweep that is cut short compares like with like."""
        for seed in self.seeds:
            for loss in self.losses:
                # Loaded for each loss: a recipe may differ by loss.
                recipe = load_recipe(self.recipe, [*self.changes, f"loss={loss}", f"seed={seed}"])
                yield PlannedRun(loss, seed, self.out / loss / f"seed-{seed}", recipe)
