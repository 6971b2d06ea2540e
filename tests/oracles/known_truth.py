"""Predictions of which one knows how well they are calibrated, because the labels were drawn from them."""

import torch

from focalcal.predictions import Predictions


def logits_and_labels(n=600, classes=10, sharpness=1.0, seed=0):
    """Logits whose softmax is the truth, if the sharpness is 1; over-confident ones if it is more."""
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(n, classes, generator=generator)
    labels = torch.multinomial(logits.softmax(1), 1, generator=generator)[:, 0]
    return sharpness * logits, labels


def predictions(n=600, classes=10, sharpness=1.0, seed=0, **others):
    return Predictions.from_logits(*logits_and_labels(n, classes, sharpness, seed), **others)
