"""Every metric of the catalogue by its slow, obvious version, with how far the fast one may be from it."""

from oracles import debiased, metrics, refinement, smooth


def oracle_values(preds, bins):
    """``{name: (value, tolerance)}`` of unweighted predictions of more than 5 classes, from float64 logits."""
    samples = metrics.samples_of(preds)
    confidence, correct = [metrics.confidence(s) for s in samples], [metrics.is_right(s) for s in samples]
    found = {name: (value, 1e-12) for name, value in metrics.all_metrics(preds, bins).items()}
    found["ece_floor"] = (debiased.ece_floor(confidence, bins), 6e-4)
    found["debiased_ece"] = (debiased.debiased_ece(confidence, correct, bins), 1e-7)
    found["smooth_ece"] = (smooth.smooth_ece(confidence, correct), 1e-4)
    targets = [metrics.soft(s[2], preds.num_classes) for s in samples]
    best = refinement.smallest_losses(preds.values.tolist(), targets, [1.0] * len(samples))
    for loss, (smallest, _) in zip(("nll", "brier"), best, strict=True):
        # The grid of temperatures misses the best one by a percent or so.
        found[f"{loss}_refinement"] = (smallest, 1e-4)
        found[f"{loss}_calibration"] = (found[loss][0] - smallest, 1e-4)
    return found
