"""The qualitative figure: test images with label, prediction and confidence before and after temperature scaling."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from focalcal.data import load_data
from focalcal.data.images import ImageSamples
from focalcal.metrics.samples import sample_statistics
from focalcal.paper.figures.figure import PaperFigure
from focalcal.paper.figures.panels import Panel
from focalcal.paper.result_folders import KeptRun, load_scaled
from focalcal.paper.run_groups import RunGroup, choose_runs, need_predictions
from focalcal.paper.table_names import METHOD_TITLES

_WANTED = ("cross-entropy", "brier", "mmce", "fl-3", "flsd-53")
_EACH = 4
_IMAGES = ("digits", "fashion_mnist", "cifar10", "cifar100", "tiny_imagenet")


def qualitative(groups: Sequence[RunGroup], seed: int = 0) -> PaperFigure:
    """Four test images that every loss gets right and four that every loss gets wrong, drawn at random.

    Needs the data set itself, for its images.

    Args:
        groups: Runs to choose from.
        seed: Seed for the draw.
    """
    group, runs = choose_runs(groups, _WANTED, _need_images)
    images, labels, names = _test_images(runs)
    answers = [_answers(run, labels) for run in runs]
    right = np.stack([one["correct"] for one in answers])
    width = max(len(name) for name in names)
    source = np.random.default_rng(seed)
    panels: list[Panel] = []
    pictures, records = {}, []
    for kind, chosen in (("right", right.all(0)), ("wrong", ~right.any(0))):
        candidates = np.flatnonzero(chosen)
        if len(candidates) < _EACH:
            raise ValueError(f"Only {len(candidates)} test images of {group.title} are {kind} with every loss.")
        for sample in source.choice(candidates, _EACH, replace=False):
            lines = []
            for run, one in zip(runs, answers, strict=True):
                said = names[one["prediction"][sample]]
                before, after = one["before"][sample], one["after"][sample]
                lines.append(f"{METHOD_TITLES[run.loss]:<13} {said:<{width}} {before:.2f} > {after:.2f}")
                records.append(
                    {
                        "image": int(sample),
                        "label": names[labels[sample]],
                        "loss": run.loss,
                        "prediction": said,
                        "confidence_before": float(before),
                        "confidence_after": float(after),
                    }
                )
            pictures[len(panels)] = images[sample]
            panels.append(Panel(f"{names[labels[sample]]} ({kind} by all)", "\n".join(lines), "", []))
    title = f"{group.title}: prediction and confidence before > after temperature scaling"
    return PaperFigure("qualitative", title, panels, columns=_EACH, images=pictures, records=records)


def _need_images(run: KeptRun) -> str | None:
    """Need predictions for a data set of images."""
    if run.finished is not None and run.finished.data not in _IMAGES:
        return f"The figure qualitative shows images, and {run.dataset} has none."
    return need_predictions("val", "test")(run)


def _answers(run: KeptRun, labels: np.ndarray) -> dict[str, Any]:
    test, scaled = load_scaled(run, "test")[1]["test"]
    if not np.array_equal(test.labels.numpy(), labels):
        raise ValueError(f"The test predictions of {run.name} are not of the data set at hand: their labels differ.")
    before, after = sample_statistics(test), sample_statistics(scaled)
    return {
        "prediction": test.probs().argmax(1).numpy(),
        "correct": before.correct.numpy().astype(bool),
        "before": before.confidence.numpy(),
        "after": after.confidence.numpy(),
    }


def _test_images(runs: Sequence[KeptRun]) -> tuple[np.ndarray, np.ndarray, Sequence[str]]:
    """Return test images (N, H, W, C) as numbers of 0 to 255, labels and names of the classes."""
    kept = runs[0].finished
    if kept is None:
        raise ValueError(f"The run {runs[0].name} has no predictions.")
    data = load_data(kept.data)
    test = data.evaluation["test"]
    if not isinstance(test, ImageSamples) or not isinstance(test.images, Tensor):
        raise TypeError(f"{runs[0].dataset} has no images.")
    return test.images.permute(0, 2, 3, 1).squeeze(-1).numpy(), test.labels.numpy(), data.class_names
