"""Figures of the paper, by name."""

from collections.abc import Callable, Sequence
from pathlib import Path

from focalcal.base.suggestions import did_you_mean
from focalcal.paper.figures.bars import bars
from focalcal.paper.figures.bleu_temperature import bleu_temperature
from focalcal.paper.figures.figure import PaperFigure, check_format
from focalcal.paper.figures.gradients import gradient_factor_figure
from focalcal.paper.figures.histories import feature_norms, focal_training, training
from focalcal.paper.figures.linear import linear_model
from focalcal.paper.figures.ood_roc import ood_roc
from focalcal.paper.figures.optimum import optimum
from focalcal.paper.figures.qualitative import qualitative
from focalcal.paper.figures.reliability_training import reliability_training
from focalcal.paper.result_folders import find_results
from focalcal.paper.run_groups import RunGroup, group_runs, join_runs

Groups = Sequence[RunGroup]


# Figures that need no run take no group.
FIGURES: dict[str, Callable[[Groups], PaperFigure]] = {
    "training": training,
    "focal-training": focal_training,
    "gradient-factor": gradient_factor_figure,
    "bars": bars,
    "ood-roc": ood_roc,
    "reliability-training": reliability_training,
    "optimum": lambda groups: optimum(),
    "linear-model": lambda groups: linear_model(),
    "qualitative": qualitative,
    "feature-norms": feature_norms,
    "bleu-temperature": bleu_temperature,
}
WITHOUT_RUNS = ("optimum", "linear-model")


def run_groups(runs: Sequence[Path] | None) -> list[RunGroup]:
    """Read the runs: all that are given as one group, or each folder of ``results`` as a group of its own."""
    return join_runs(find_results(runs)) if runs else group_runs(find_results())


def build_figure(name: str, runs: Sequence[Path] | None = None, *, papers_bootstrap: bool = False) -> PaperFigure:
    """Prepare a figure.

    Args:
        name: One of ``FIGURES``.
        runs: Folders of runs, of one data set and network; by default the folder of ``results`` that suits best.
        papers_bootstrap: For ``bars``: intervals as in the paper, from the kept predictions.
    """
    if name not in FIGURES:
        raise ValueError(f"There is no figure {name!r}{did_you_mean(name, FIGURES)}")
    if papers_bootstrap:
        if name != "bars":
            raise ValueError(f"The figure {name} has no bootstrap intervals; bars has.")
        return bars(run_groups(runs), papers_bootstrap=True)
    return FIGURES[name]([] if name in WITHOUT_RUNS else run_groups(runs))


__all__ = ["FIGURES", "WITHOUT_RUNS", "PaperFigure", "build_figure", "check_format", "run_groups"]
