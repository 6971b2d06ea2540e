"""Figures of training: what happens to NLL, entropy, error, ECE and norms from epoch to epoch."""

import math
from collections.abc import Sequence

from focalcal.paper.figures.figure import PaperFigure
from focalcal.paper.figures.panels import Panel, Series
from focalcal.paper.result_folders import KeptRun
from focalcal.paper.run_groups import RunGroup, choose_runs, need_features, need_test

FIXED_GAMMAS = ("cross-entropy", "fl-1", "fl-2", "fl-3")


def _curve(run: KeptRun, split: str | None, key: str, name: str, scale: float = 1.0, look: int | None = None) -> Series:
    """Take one quantity of a history, from the epochs in which it was measured."""
    found = []
    for epoch in run.history:
        value = (epoch.get(split) or {}).get(key) if split else epoch.get(key)
        if value is not None and math.isfinite(value):
            found.append((epoch["epoch"] + 1, scale * float(value)))
    return Series(name, [x for x, _ in found], [y for _, y in found], look=look)


def training(groups: Sequence[RunGroup], loss: str = "cross-entropy") -> PaperFigure:
    """Causes of miscalibration: NLL and entropy of right and wrong samples, error and ECE, by epoch."""
    group, (run,) = choose_runs(groups, [loss], need_test, required=[loss])
    panels = []
    for split in ("train", "test"):
        for key, what in (("nll", "NLL"), ("entropy", "entropy")):
            parts = (("all", key), ("right", f"{key}_right"), ("wrong", f"{key}_wrong"))
            series = [_curve(run, split, name, label) for label, name in parts]
            panels.append(Panel(f"{split}: {what}", "epoch", f"{what} (nats)", series))
    errors = [_curve(run, split, "error", split, 100) for split in ("train", "test")]
    panels.insert(2, Panel("error", "epoch", "error (%)", errors))
    panels.append(Panel("test: ECE", "epoch", "ECE (%)", [_curve(run, "test", "ece", "test", 100)]))
    return PaperFigure("training", f"{group.title}, {run.name}: training", panels)


def focal_training(groups: Sequence[RunGroup], losses: Sequence[str] | None = None) -> PaperFigure:
    """Cross-entropy and focal losses with γ = 1, 2, 3, by epoch, on the test set."""
    group, runs = choose_runs(groups, losses or FIXED_GAMMAS, need_test, required=["cross-entropy"])
    quantities = (
        ("test", "nll", "test NLL", "nats", 1),
        ("test", "nll_right", "test NLL, right samples", "nats", 1),
        ("test", "nll_wrong", "test NLL, wrong samples", "nats", 1),
        ("test", "entropy_wrong", "test entropy, wrong samples", "nats", 1),
        (None, "weight_norm", "norm of the last layer's weights", "L2 norm", 1),
        ("test", "ece", "test ECE", "%", 100),
    )
    panels = [
        Panel(title, "epoch", unit, [_curve(run, split, key, run.loss, scale) for run in runs])
        for split, key, title, unit, scale in quantities
    ]
    missing = [loss for loss in losses or FIXED_GAMMAS if loss not in {run.loss for run in runs}]
    notes = (f"{group.name} has no run with {', '.join(missing)}.",) if missing else ()
    return PaperFigure("focal-training", f"{group.title}: cross-entropy and focal losses", panels, notes=notes)


def feature_norms(groups: Sequence[RunGroup], losses: Sequence[str] | None = None) -> PaperFigure:
    """Norms of the features of the training set, by epoch."""
    group, runs = choose_runs(groups, losses or FIXED_GAMMAS, need_features, required=["cross-entropy"])
    series = [_curve(run, "train", "feature_norm", run.loss) for run in runs]
    panel = Panel("training set", "epoch", "mean L2 norm of the features", series)
    missing = [loss for loss in losses or FIXED_GAMMAS if loss not in {run.loss for run in runs}]
    notes = (f"{group.name} has no run with {', '.join(missing)}.",) if missing else ()
    return PaperFigure("feature-norms", group.title, [panel], columns=1, notes=notes)
