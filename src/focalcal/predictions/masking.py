"""Classes that take a share of the probability but are never the answer.

A network may be trained with more classes than it is asked about: a sentiment network of three classes that has to say
positive or negative. Its predictions keep every logit, because a temperature acts on all of them, and name the masked
classes in their provenance; what is measured are the probabilities of the others as they are.
"""

from collections.abc import Collection

import torch

from focalcal.predictions.container import Predictions

_KEY = "masked_classes"


def masking(masked: Collection[int]) -> dict[str, str]:
    """What the provenance of predictions says about masked classes; nothing if there are none."""
    return {_KEY: ",".join(map(str, masked))} if masked else {}


def answers(preds: Predictions) -> Predictions:
    """The predictions that are measured: without the classes that their provenance calls masked.

    Examples:
        >>> preds = Predictions.from_probs([[0.3, 0.5, 0.2]], [0], provenance={"masked_classes": "1"})
        >>> answers(preds).values
        tensor([[0.3000, 0.2000]], dtype=torch.float64)
    """
    named = preds.provenance.get(_KEY, "")
    return without_classes(preds, [int(one) for one in named.split(",")]) if named else preds


def without_classes(preds: Predictions, masked: Collection[int]) -> Predictions:
    """The probabilities of the other classes, not renormalised: rows sum to at most 1."""
    kept = [number for number in range(preds.num_classes) if number not in masked]
    new_number = torch.full((preds.num_classes,), -1)
    new_number[kept] = torch.arange(len(kept))
    return Predictions.from_probs(
        preds.probs()[:, kept],
        new_number[preds.labels],  # a masked label becomes −1, which is refused with its row
        class_names=None if preds.class_names is None else [preds.class_names[number] for number in kept],
        ids=preds.ids,
        split=preds.split,
        weights=preds.weights,
        provenance={key: value for key, value in preds.provenance.items() if key != _KEY},
        tolerance=1.0,
    )
