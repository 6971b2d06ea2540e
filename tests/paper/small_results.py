"""Figures and histories as sweeps have them, small."""

from focalcal.sweeps.result_rows import Row


def sweep_rows(dataset="SST Binary", model="Tree-LSTM", losses=("cross-entropy", "fl-3"), seeds=2, selection="best"):
    """Figures of a sweep: ECE of cross-entropy 7 and 8, and so on."""
    rows = []
    for loss in losses:
        for seed in range(seeds):
            head = (dataset, model, loss, seed, selection)
            rows += [
                Row(*head, "epoch", "", 3.0),
                Row(*head, "error", "", 13.0 + seed, 12.0, 15.0, "basic"),
                Row(*head, "ece", "pre", 7.0 + seed, 6.0, 8.0, "basic"),
                Row(*head, "ece", "post", 2.0, 1.0, 2.5, "basic", 1.5 + seed),
            ]
    return rows


def history_epochs(epochs=4, test=True):
    """A run whose validation ECE is least after epoch 2, NLL after 3, error after 4, scaled NLL after 1."""
    ece, nll, error, scaled = (0.3, 0.1, 0.2, 0.4), (0.9, 0.8, 0.6, 0.7), (0.5, 0.4, 0.3, 0.2), (0.1, 0.2, 0.3, 0.4)
    lines = []
    for epoch in range(epochs):
        measured = {"ece": ece[epoch], "nll": nll[epoch], "error": error[epoch], "scaled_nll": scaled[epoch]}
        measured |= dict.fromkeys(("nll_right", "nll_wrong", "entropy"), 0.5 + epoch)
        measured |= dict.fromkeys(("entropy_right", "entropy_wrong"), 0.4 + epoch)
        line = {"epoch": epoch, "val": measured, "train": {**measured, "feature_norm": 2.0}, "weight_norm": 1.0 + epoch}
        lines.append({**line, "test": measured} if test else line)
    return lines
