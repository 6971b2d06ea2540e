"""Which losses are no worse than the best one, as far as the test samples can tell."""

from collections.abc import Iterable, Mapping, Sequence

from focalcal.comparison.scoring import Scored
from focalcal.metrics import compare_many
from focalcal.predictions import Predictions

# The figures of the table, by the library's names.
COMPARED = ("error", "ece", "ada_ece", "classwise_ece", "nll")
# (metric, scaling) -> the losses that a difference to the best is not shown for, the best one included.
Ties = Mapping[tuple[str, str], frozenset[str]]


def ties(scored: Sequence[Scored], best: Mapping[tuple[str, str], str], *, samples: int, level: float) -> Ties:
    """For each figure, the best loss and those that cannot be told from it.

    A loss differs from the best if the paired comparison of their test predictions, corrected for the number of
    losses, shows it for every seed that both were trained with.

    Args:
        scored: one for each loss and seed; a loss may have fewer seeds than another.
        best: the best loss of each (metric, scaling).
        samples: of the bootstrap and of the permutation test.
        level: of both.
    """
    everyone = {one.method for one in scored}
    found: dict[tuple[str, str], frozenset[str]] = {}
    for key, reference in best.items():
        by_seed = [models for models in _by_seed(scored, key[1]) if reference in models]
        worse = [_worse(key, reference, models, samples, level) for models in by_seed]
        verdicts = {
            loss: [loss in losers for models, losers in zip(by_seed, worse, strict=True) if loss in models]
            for loss in everyone
        }
        found[key] = frozenset(loss for loss, seeds in verdicts.items() if not seeds or not all(seeds))
    return found


def _by_seed(scored: Iterable[Scored], scaling: str) -> list[dict[str, Predictions]]:
    """The test predictions of all losses, for each seed."""
    models: dict[int, dict[str, Predictions]] = {}
    for one in scored:
        models.setdefault(one.seed, {})[one.method] = one.test[1 if scaling == "post" else 0]
    return list(models.values())


def _worse(
    key: tuple[str, str], reference: str, models: Mapping[str, Predictions], samples: int, level: float
) -> set[str]:
    if len(models) < 2:
        return set()
    found = compare_many(models, reference, [key[0]], samples=samples, permutations=samples, level=level)
    return {one.names[0] for one in found if one[key[0]].is_shown and one[key[0]].difference > 0}
