"""Clusters of samples that depend on each other, such as the pixels of an image: numbered, counted, mentioned."""

import torch
from torch import Tensor

from focalcal.predictions import Predictions

# Of fewer clusters than this the spread is not known well.
FEW_CLUSTERS = 30


def cluster_numbers(preds: Predictions) -> Tensor | None:
    """Number the clusters that samples belong to, (N,) from 0 on; None where every sample stands for itself.

    Examples:
        >>> preds = Predictions.from_probs([[0.75, 0.25], [0.5, 0.5], [0.25, 0.75]], [0, 1, 1], clusters=[7, 7, 3])
        >>> cluster_numbers(preds).tolist()
        [1, 1, 0]
    """
    if preds.clusters is None:
        return None
    names, numbers = torch.unique(preds.clusters, return_inverse=True)
    return numbers if len(names) < len(preds) else None


def count_clusters(clusters: Tensor, weights: Tensor | None) -> int:
    """Count the clusters (N,) that have samples of positive weight."""
    return len(torch.unique(clusters if weights is None else clusters[weights > 0]))


def note_on_clusters(number: int) -> str:
    """Say that samples depend on each other within this many clusters, and whether those are few.

    Examples:
        >>> note_on_clusters(40)
        'Samples of one cluster depend on each other: intervals and tests are those of 40 clusters.'
    """
    few = "" if number >= FEW_CLUSTERS else f", and rough, because these are fewer than {FEW_CLUSTERS}"
    return f"Samples of one cluster depend on each other: intervals and tests are those of {number:,} clusters{few}."
