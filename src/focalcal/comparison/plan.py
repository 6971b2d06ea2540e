"""Which runs a comparison of losses is made of, and where each is."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from focalcal.recipes import Recipe, load_recipe
from focalcal.training.run_directory import is_finished


@dataclass(frozen=True, eq=False)
class PlannedRun:
    """One loss with one seed."""

    loss: str
    seed: int
    path: Path
    recipe: Recipe

    @property
    def is_finished(self) -> bool:
        """Whether nothing is left to be trained."""
        return is_finished(self.path)


@dataclass(frozen=True)
class Plan:
    """The same recipe with several losses and seeds; every run has a folder ``LOSS/seed-N`` of its own.

    Attributes:
        recipe: the name or file of the recipe.
        changes: ``key=value`` texts that hold for every run.
        losses: names for ``build_loss``.
        seeds: of the weights and the order; the split is the same for all.
        out: the folder of the comparison.
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
            raise ValueError(f"{fixed[0]} does not belong here: the comparison sets losses and seeds itself.")

    def runs(self) -> Iterator[PlannedRun]:
        """Every run, the first seed of all losses first: a comparison that is cut short compares like with like."""
        for seed in self.seeds:
            for loss in self.losses:
                # Loaded for each loss: a recipe may differ by loss.
                recipe = load_recipe(self.recipe, [*self.changes, f"loss={loss}", f"seed={seed}"])
                yield PlannedRun(loss, seed, self.out / loss / f"seed-{seed}", recipe)


def chosen_losses(text: str) -> tuple[str, ...]:
    """``"fl-3, brier"`` as names.

    Examples:
        >>> chosen_losses("cross-entropy, fl-3")
        ('cross-entropy', 'fl-3')
    """
    return tuple(name.strip() for name in text.split(",") if name.strip())


def first_seeds(count: int) -> Sequence[int]:
    """The seeds 0 … count − 1."""
    return tuple(range(count))
