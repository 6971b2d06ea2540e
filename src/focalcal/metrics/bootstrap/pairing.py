"""Two sets of predictions of the same samples: matched by id where both have ids, else by position, and checked."""

import torch
from torch import Tensor

from focalcal.predictions import Predictions


def match_samples(a: Predictions, b: Predictions, names: tuple[str, str] = ("a", "b")) -> Predictions:
    """Return ``b`` with its samples in the order of ``a``'s; raises unless both are of the same samples.

    Args:
        a: N predictions of K classes.
        b: Predictions of the same samples, in any order if both have ids, in the same order if not.
        names: Names of the two in messages.

    Examples:
        >>> a = Predictions.from_probs([0.9, 0.2], [1, 0], ids=["x", "y"])
        >>> b = Predictions.from_probs([0.4, 0.7], [0, 1], ids=["y", "x"])
        >>> match_samples(a, b).values[:, 1].tolist()
        [0.7, 0.4]
    """
    if a.num_classes != b.num_classes:
        raise ValueError(
            f"{names[0]} has {a.num_classes} classes and {names[1]} {b.num_classes}: compare like with like."
        )
    if a.ids is not None and b.ids is not None:
        b = b.select(_places(a.ids, b.ids, names))
    elif len(a) != len(b):
        raise ValueError(
            f"{names[0]} has {len(a)} samples and {names[1]} {len(b)}: give both the same samples, or ids to match by."
        )
    _check_same(a.labels, b.labels, "label", names)
    _check_same(_weights(a), _weights(b), "weight", names)
    return b


def _places(wanted: tuple[str, ...], given: tuple[str, ...], names: tuple[str, str]) -> list[int]:
    """Return the place of each wanted id among the given ones."""
    place = {name: number for number, name in enumerate(given)}
    for ids, name in ((wanted, names[0]), (given, names[1])):
        if len(set(ids)) != len(ids):
            raise ValueError(
                f"{name} has an id more than once, so samples cannot be matched by id: make its ids unique."
            )
    lacking = sorted(set(wanted) ^ place.keys())
    if lacking:
        first, second = names if lacking[0] in wanted else names[::-1]
        raise ValueError(
            f"{len(lacking)} ids are in only one of {names[0]} and {names[1]}, for example {lacking[0]!r}, which "
            f"{first} has and {second} lacks: give both the same samples."
        )
    return [place[name] for name in wanted]


def _weights(preds: Predictions) -> Tensor:
    return torch.ones(len(preds), dtype=torch.float64) if preds.weights is None else preds.weights


def _check_same(a: Tensor, b: Tensor, what: str, names: tuple[str, str]) -> None:
    if a.shape != b.shape:
        raise ValueError(f"one of {names[0]} and {names[1]} has soft labels and the other has not: give both the same.")
    different = (a != b).reshape(len(a), -1).any(dim=1).nonzero()
    if len(different):
        raise ValueError(
            f"{names[0]} and {names[1]} have different {what}s at sample {int(different[0])}: "
            "give both the same samples in the same order, or ids to match by."
        )
