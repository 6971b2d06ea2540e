"""BLEU of the test set and ECE of validation tokens by temperature."""

from collections.abc import Sequence

from focalcal.paper.figures.figure import PaperFigure
from focalcal.paper.figures.panels import Panel, Series
from focalcal.paper.run_groups import RunGroup


def bleu_temperature(groups: Sequence[RunGroup]) -> PaperFigure:
    """Draw the curves of every loss, first seed, of the group with the most of them."""
    translators = [group for group in groups if group.curves]
    if not translators:
        raise ValueError(
            "The figure bleu-temperature needs results of a sweep with a translation model, and there are none here: "
            "focalcal paper run translation trains them, focalcal paper show translation prints the published figures."
        )
    group = max(translators, key=lambda one: len(one.runs))
    panels = []
    for name, y, key in (
        ("BLEU of the test set", "BLEU", "bleu"),
        ("ECE of validation tokens", "ECE (%)", "val_ece"),
    ):
        series = []
        for loss, run in group.runs.items():
            points = [one for one in group.curves if (one.method, one.seed) == (loss, run.seed)]
            series.append(Series(loss, [one.temperature for one in points], [getattr(one, key) for one in points]))
        panels.append(Panel(name, "temperature", y, series, marks=[1.0]))
    return PaperFigure("bleu-temperature", f"{group.title}: BLEU and ECE by temperature", panels, columns=2)
