"""Predictions of three classes of which one is never the answer, and their figures from the definition."""

import numpy as np
import torch

from focalcal.predictions import Predictions

MASKED = (1,)


def three_classes(n=400, seed=0, **options):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(2, (n,), generator=generator) * 2
    logits = torch.randn(n, 3, generator=generator, dtype=torch.float64) * 2
    logits[torch.arange(n), labels] += 2
    names = ["negative", "neutral", "positive"]
    return Predictions.from_logits(logits, labels, class_names=names, masked_classes=MASKED, **options)


def oracle(preds, temperature=1.0):
    """Error, NLL, ECE and classwise-ECE by loops, from the definition."""
    probs = torch.softmax(preds.values.double() / temperature, dim=1).numpy()[:, [0, 2]]
    labels = preds.labels.numpy() // 2
    confidence, predicted = probs.max(1), probs.argmax(1)

    def binned(p, hit):
        place = np.clip(np.ceil(p * 15) - 1, 0, 14)
        return sum(abs((p - hit)[place == m].sum()) for m in range(15)) / len(p)

    return {
        "error": np.mean(predicted != labels),
        "nll": -np.mean(np.log(probs[np.arange(len(labels)), labels])),
        "ece": binned(confidence, predicted == labels),
        "classwise_ece": np.mean([binned(probs[:, k], labels == k) for k in range(2)]),
    }
