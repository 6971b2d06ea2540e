"""Results of a sweep of translators: calibration of tokens and BLEU, before and after temperature scaling."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from focalcal.base.progress import note
from focalcal.calibrators.temperature_scaling import Objective
from focalcal.metrics.bootstrap.differences import holm
from focalcal.sweeps.bleu_differences import BleuDifference, find_difference, measure_differences
from focalcal.sweeps.loss_table import Cell, Figures, average_figures, figure_cell
from focalcal.sweeps.plan import PlannedRun
from focalcal.sweeps.result_rows import Row
from focalcal.sweeps.translated_run import CURVE, OBJECTIVES, CurvePoint, TranslatedRun


@dataclass(frozen=True)
class TranslationResult:
    """Figures of translators, and what they say.

    Attributes:
        rows: Every figure, by the objective of T.
        curves: BLEU and ECE by temperature.
        differences: Differences of BLEU, by the paired bootstrap.
        losses: In the table's order.
    """

    rows: Mapping[Objective, Sequence[Row]]
    curves: Sequence[CurvePoint]
    differences: Sequence[BleuDifference]
    losses: tuple[str, ...]

    @cached_property
    def _found(self) -> Figures:
        return average_figures(self.rows["ece"])

    @property
    def lines(self) -> dict[str, dict[str, Cell]]:
        """The table, one line per loss."""
        return {loss: self._line(loss) for loss in self.losses}

    @property
    def verdict(self) -> tuple[str, ...]:
        """Sentences, the most important first."""
        return tuple(self._sentences())

    def _line(self, loss: str) -> dict[str, Cell]:
        line = {"error": figure_cell(self._found, loss, "error", ("",))}
        line |= {metric: figure_cell(self._found, loss, metric, ("pre", "post")) for metric in ("ece", "nll", "bleu")}
        temperature = self._found[loss, "temperature", ""]
        return line | {"temperature": Cell(((f"{temperature.value:.2f}", ""),), temperature.uncertainty)}

    def _sentences(self) -> Iterator[str]:
        if len(self.losses) > 1:
            for scaling, when in (("pre", "before"), ("post", "after")):
                best = min(self.losses, key=lambda loss: self._found[loss, "ece", scaling].value)
                value = self._found[best, "ece", scaling].value
                yield f"{best} has the lowest ECE of tokens {when} scaling ({value:.2f}%)."
            best = max(self.losses, key=lambda loss: self._found[loss, "bleu", "pre"].value)
            yield f"{best} has the highest BLEU ({self._found[best, 'bleu', 'pre'].value:.2f}){self._beside(best)}"
        for loss in self.losses:
            yield self._effect_of_scaling(loss)

    def _seeds(self, loss: str) -> list[int]:
        return list(dict.fromkeys(row.seed for row in self.rows["ece"] if row.method == loss))

    def _beside(self, best: str) -> str:
        """Compare the best loss with the others by the paired bootstrap, with its first seed."""
        seed = self._seeds(best)[0]
        found = {
            loss: one
            for loss in self.losses
            if (one := find_difference(self.differences, (loss, 1.0), (best, 1.0), seed)) is not None
        }
        if not found:
            return "."
        adjusted = holm([one.p_value for one in found.values()])
        shown = [f"{loss} {one.text(p_value)}" for (loss, one), p_value in zip(found.items(), adjusted, strict=True)]
        correction = ", corrected by Holm" if len(found) > 1 else ""
        return f"; paired bootstrap against {best}, seed {seed}{correction}: {', '.join(shown)}."

    def _effect_of_scaling(self, loss: str) -> str:
        seeds = self._seeds(loss)
        bleu = {
            (row.seed, row.temperature_scaling): row
            for row in self.rows["ece"]
            if (row.method, row.metric) == (loss, "bleu")
        }
        change = statistics.fmean(bleu[seed, "post"].value - bleu[seed, "pre"].value for seed in seeds)
        temperature = self._found[loss, "temperature", ""].value
        scaled = bleu[seeds[0], "post"].temperature or 1.0
        start = f"{loss}: temperature scaling (T = {temperature:.2f}, by validation ECE)"
        one = find_difference(self.differences, (loss, scaled), (loss, 1.0), seeds[0])
        if one is None:
            return f"{start} leaves BLEU unchanged." if scaled == 1.0 else f"{start} changes BLEU by {change:+.2f}."
        if len(seeds) == 1:
            return f"{start} changes BLEU by {one.text()}, by the paired bootstrap."
        return f"{start} changes BLEU by {change:+.2f}; paired bootstrap, seed {seeds[0]}: {one.text()}."


def is_translator(run: PlannedRun) -> bool:
    """Return whether a finished run is one on sentence pairs."""
    return run.files.vocabulary.is_file()


def measure_translators(runs: Sequence[PlannedRun], order: Sequence[str]) -> TranslationResult:
    """Measure finished runs on sentence pairs, and compare them; translating takes minutes per run."""
    translated = [TranslatedRun(run) for run in runs]
    curves: list[CurvePoint] = []
    rows: dict[Objective, list[Row]] = {objective: [] for objective in OBJECTIVES}
    for number, one in enumerate(translated, 1):
        note(f"Translating the test set with {one.run.name} at {len(CURVE)} temperatures ({number} of {len(runs)}).")
        curves += one.curve
        for objective in OBJECTIVES:
            rows[objective] += list(one.rows(objective))
    differences = measure_differences([one.pick_translations() for one in translated], translated[0].references)
    losses = tuple(loss for loss in order if any(run.loss == loss for run in runs))
    return TranslationResult(rows, curves, differences, losses)
