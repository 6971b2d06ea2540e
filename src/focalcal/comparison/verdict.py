"""A comparison in words: who is over-confident, what scaling repairs, and whom the figures favour."""

from collections.abc import Mapping, Sequence

from focalcal.comparison.table import Figures
from focalcal.comparison.ties import Ties

_NEAR_ONE = 0.15
# A figure is called by these words; the error has no scaling.
_PHRASES = {
    ("error", ""): "error",
    ("ece", "pre"): "ECE before scaling",
    ("ece", "post"): "ECE after scaling",
    ("nll", "pre"): "NLL before scaling",
    ("nll", "post"): "NLL after scaling",
}


def verdict(
    found: Figures, losses: Sequence[str], best: Mapping[tuple[str, str], str], tied: Ties, gaps: Mapping[str, float]
) -> list[str]:
    """Sentences, the most important first.

    Args:
        found: the figures.
        losses: in the table's order.
        best: the best loss of each figure.
        tied: those that cannot be told from it.
        gaps: mean confidence less accuracy on the test set before scaling, for each loss, as a fraction.
    """
    if len(losses) == 1:
        return _confidence(found, losses, gaps)
    return [
        *_confidence(found, losses, gaps),
        *(_winner(key, phrase, found, best, tied) for key, phrase in _PHRASES.items() if key in best),
    ]


def _confidence(found: Figures, losses: Sequence[str], gaps: Mapping[str, float]) -> list[str]:
    """Which networks say more, or less, than they know."""
    groups: dict[str, list[str]] = {"over-confident": [], "under-confident": []}
    for loss in losses:
        if loss in gaps and abs(gaps[loss]) >= 0.005:
            points = f"{loss} by {100 * abs(gaps[loss]):.1f} points{_temperature(found, loss)}"
            groups["over-confident" if gaps[loss] > 0 else "under-confident"].append(points)
    sentences = [f"{title.capitalize()}: {', '.join(names)}." for title, names in groups.items() if names]
    near = [loss for loss in losses if _is_near_one(found, loss)]
    if near:
        sentences.append(f"The best temperature is near 1 for {_joined(near)}: scaling has little to repair there.")
    return sentences


def _temperature(found: Figures, loss: str) -> str:
    figure = found.get((loss, "temperature", ""))
    return "" if figure is None else f" (T = {figure.value:.2g})"


def _is_near_one(found: Figures, loss: str) -> bool:
    figure = found.get((loss, "temperature", ""))
    return figure is not None and abs(figure.value - 1) <= _NEAR_ONE


def _winner(key: tuple[str, str], phrase: str, found: Figures, best: Mapping[tuple[str, str], str], tied: Ties) -> str:
    leader = best[key]
    value = f"{leader} has the lowest {phrase} ({found[leader, *key].value:.2f})"
    others = sorted(tied.get(key, frozenset()) - {leader})
    if not others:
        return f"{value}, and the difference to every other loss is shown."
    return f"{value}; no difference to {_joined(others)} is shown."


def _joined(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
