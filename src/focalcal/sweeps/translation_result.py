"""Results of a sweep of translators: calibration of tokens and BLEU, before and after temperature scaling."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from focalcal.base.files import atomic_writer, read_text
from focalcal.base.progress import note
from focalcal.calibrators.temperature import Objective
from focalcal.data.parallel_text import read_lines
from focalcal.data.sentence_pairs import SentencePairs
from focalcal.metrics.streaming.token_calibration import (
    evaluate_tokens,
    fit_token_temperature,
    temperature_curve,
    token_samples,
)
from focalcal.predictions.token_predictions import TokenPredictions
from focalcal.sweeps.loss_table import Cell, Figures, average_figures, figure_cell
from focalcal.sweeps.plan import PlannedRun
from focalcal.sweeps.result_rows import Row, Selection, title
from focalcal.training import open_run
from focalcal.training.building import load_translator
from focalcal.translation import compare_bleu, measure_bleu, translate
from focalcal.translation.bleu import bleu_interval

BEAM, LENGTH_PENALTY = 5, 0.6
# The temperatures of the paper's figure.
CURVE = tuple(tenth / 10 for tenth in range(5, 21))
_METRICS = {"error": "error", "ece": "ece", "ada_ece": "ada_ece", "mce": "mce", "nll": "nll"}
_OBJECTIVES: tuple[Objective, ...] = ("ece", "nll")
_LEVEL = 0.90


@dataclass(frozen=True)
class CurvePoint:
    """One temperature of one run.

    Attributes:
        method, seed: Of the run.
        temperature: What logits are divided by.
        bleu: Cased sacreBLEU of the test set.
        bleu_lower_cased: The same of lower-cased text.
        val_ece, test_ece: ECE of tokens in percent.
        val_nll: Mean NLL of validation tokens times 100.
    """

    method: str
    seed: int
    temperature: float
    bleu: float
    bleu_lower_cased: float
    val_ece: float
    test_ece: float
    val_nll: float


class TranslatedRun:
    """A finished run on sentence pairs, with translations of its test set at any temperature.

    Args:
        run: The run; translations are kept in its folder, so that they are made once.
    """

    def __init__(self, run: PlannedRun) -> None:
        self.run = run
        self._loaded = open_run(run.path)

    @cached_property
    def tokens(self) -> dict[str, TokenPredictions]:
        """Token predictions of validation and test set."""
        return {split: TokenPredictions.load(self.run.files.predictions(split)) for split in ("val", "test")}

    @cached_property
    def temperatures(self) -> dict[Objective, float]:
        """T of lowest validation ECE on the paper's grid, and of lowest validation NLL."""
        return {objective: fit_token_temperature(self.tokens["val"], objective) for objective in _OBJECTIVES}

    @cached_property
    def _pairs(self) -> SentencePairs:
        samples = self._loaded.data().evaluation["test"]
        assert isinstance(samples, SentencePairs)
        return samples

    @property
    def references(self) -> list[str]:
        """Translations of the test set by people."""
        return list(self._pairs.references)

    def translations(self, temperature: float) -> list[str]:
        """Translate the test set with a beam of 5, or read what was made before."""
        file = self.run.files.translation("test", temperature)
        if file.is_file():
            return read_lines(file)
        model, vocabulary = load_translator(self._loaded)
        found = translate(
            model,
            vocabulary,
            list(self._pairs.sources),
            beam=BEAM,
            length_penalty=LENGTH_PENALTY,
            temperature=temperature,
        )
        file.parent.mkdir(parents=True, exist_ok=True)
        with atomic_writer(file) as out:
            out.write("".join(f"{text}\n" for text in found.texts).encode())
        return found.texts

    def curve(self) -> Iterator[CurvePoint]:
        """Measure BLEU and ECE at the temperatures of the paper's figure."""
        curves = (temperature_curve(self.tokens[split], CURVE) for split in ("val", "test"))
        for val, test in zip(*curves, strict=True):
            bleu = measure_bleu(self.translations(val.temperature), self.references)
            scores = (bleu.score, bleu.lower_cased, 100 * val.ece, 100 * test.ece, 100 * val.nll)
            yield CurvePoint(self.run.loss, self.run.seed, val.temperature, *scores)

    def rows(self, objective: Objective) -> Iterator[Row]:
        """Measure every figure of the test set, uncalibrated and scaled."""
        scaled = self.temperatures[objective]
        samples = token_samples(self.tokens["test"], [1.0, scaled])
        for scaling, temperature, each in zip(("pre", "post"), (1.0, scaled), samples, strict=True):
            values = evaluate_tokens(self.tokens["test"], temperature=temperature).values
            intervals = each.intervals({name: values[name] for name in _METRICS}, level=_LEVEL)
            for name, metric in _METRICS.items():
                if name != "error" or scaling == "pre":
                    low, high = (100 * end for end in intervals[name]) if name in intervals else (None, None)
                    shown = "" if name == "error" else scaling
                    method = "" if low is None else "honest" if name in ("ece", "ada_ece") else "clusters"
                    yield self._row(metric, shown, 100 * values[name], low, high, method, temperature)
            texts = self.translations(temperature)
            low, high = bleu_interval(texts, self.references, level=_LEVEL)
            value = measure_bleu(texts, self.references).score
            yield self._row("bleu", scaling, value, low, high, "percentile", temperature)

    def _row(
        self,
        metric: str,
        scaling: str,
        value: float,
        low: float | None,
        high: float | None,
        method: str,
        temperature: float,
    ) -> Row:
        run = self.run
        selection: Selection = "last" if run.recipe.select == "last" else "best"
        names = (title(run.recipe.data.name), title(run.recipe.model.name), run.loss, run.seed, selection)
        shown = temperature if scaling == "post" else None
        return Row(*names, metric, scaling, value, low, high, method, shown)


@dataclass(frozen=True)
class TranslationResult:
    """Figures of translators: rows by the objective of T, the curves, the table and a verdict."""

    rows: Mapping[Objective, list[Row]]
    curves: list[CurvePoint]
    lines: Mapping[str, Mapping[str, Cell]]
    verdict: tuple[str, ...]


def is_translator(run: PlannedRun) -> bool:
    """Return whether a finished run is one on sentence pairs."""
    return run.files.vocabulary.is_file()


def measure_translators(runs: Sequence[PlannedRun], order: Sequence[str]) -> TranslationResult:
    """Measure finished runs on sentence pairs, and compare them; translating takes minutes per run."""
    translated = [TranslatedRun(run) for run in runs]
    curves, rows = [], {objective: [] for objective in _OBJECTIVES}  # type: ignore[var-annotated]
    for number, one in enumerate(translated, 1):
        note(f"Translating the test set with {one.run.name} at {len(CURVE)} temperatures ({number} of {len(runs)}).")
        curves += list(one.curve())
        for objective in _OBJECTIVES:
            rows[objective] += list(one.rows(objective))
    found = average_figures(rows["ece"])
    losses = [loss for loss in order if any(run.loss == loss for run in runs)]
    lines = {loss: _line(found, loss) for loss in losses}
    return TranslationResult(rows, curves, lines, tuple(_verdict(translated, found, losses)))


def write_curves(path: Path, curves: Sequence[CurvePoint]) -> None:
    """Write the curves as csv, one temperature of one run per line."""
    names = list(CurvePoint.__dataclass_fields__)
    lines = [",".join(names)]
    lines += [
        ",".join(f"{value:.6g}" if isinstance(value, float) else str(value) for value in vars(one).values())
        for one in curves
    ]
    with atomic_writer(path) as file:
        file.write(("\n".join(lines) + "\n").encode())


def read_curves(path: Path) -> list[CurvePoint]:
    """Read what `write_curves` wrote; nothing where there is no such file."""
    if not path.is_file():
        return []
    head, *lines = read_text(path).splitlines() or [""]
    if head.split(",") != list(CurvePoint.__dataclass_fields__):
        raise ValueError(f"{path} does not hold curves of translators: its columns are {head}.")
    try:
        cells = [line.split(",") for line in lines]
        return [CurvePoint(method, int(seed), *map(float, rest)) for method, seed, *rest in cells]
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path} is damaged ({error}).") from None


def _line(found: Figures, loss: str) -> dict[str, Cell]:
    line = {"error": figure_cell(found, loss, "error", ("",))}
    line |= {metric: figure_cell(found, loss, metric, ("pre", "post")) for metric in ("ece", "nll", "bleu")}
    temperature = found[loss, "temperature", ""]
    return line | {"temperature": Cell(((f"{temperature.value:.2f}", ""),), temperature.uncertainty)}


def _verdict(translated: Sequence[TranslatedRun], found: Figures, losses: Sequence[str]) -> Iterator[str]:
    for scaling, when in (("pre", "before"), ("post", "after")) if len(losses) > 1 else ():
        best = min(losses, key=lambda loss: found[loss, "ece", scaling].value)
        yield f"{best} has the lowest ECE of tokens {when} scaling ({found[best, 'ece', scaling].value:.2f}%)."
    if len(losses) > 1:
        best = max(losses, key=lambda loss: found[loss, "bleu", "pre"].value)
        yield f"{best} has the highest BLEU ({found[best, 'bleu', 'pre'].value:.2f}); {_compare(translated, losses)}"
    for loss in losses:
        yield _scaling_and_bleu([one for one in translated if one.run.loss == loss], found, loss)


def _compare(translated: Sequence[TranslatedRun], losses: Sequence[str]) -> str:
    """Compare the losses of the first seed with the first of them by the paired bootstrap."""
    first = {one.run.loss: one for one in reversed(translated)}
    systems = {loss: first[loss].translations(1.0) for loss in losses}
    baseline, *others = compare_bleu(systems, first[losses[0]].references)
    shown = [f"{one.system} {one.score - baseline.score:+.2f} (p = {one.p_value:.2f})" for one in others]
    return f"paired bootstrap against {baseline.system}, seed {first[losses[0]].run.seed}: {', '.join(shown)}."


def _scaling_and_bleu(runs: Sequence[TranslatedRun], found: Figures, loss: str) -> str:
    change = statistics.fmean(
        measure_bleu(one.translations(one.temperatures["ece"]), one.references).score
        - measure_bleu(one.translations(1.0), one.references).score
        for one in runs
    )
    first = runs[0]
    systems = {"before": first.translations(1.0), "after": first.translations(first.temperatures["ece"])}
    p_value = compare_bleu(systems, first.references)[1].p_value
    temperature = f"T = {found[loss, 'temperature', ''].value:.2f}, by validation ECE"
    return (
        f"{loss}: temperature scaling ({temperature}) changes BLEU by {change:+.2f} "
        f"(paired bootstrap, seed {first.run.seed}: p = {p_value:.2f})."
    )
