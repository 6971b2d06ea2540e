"""One finished run on sentence pairs: calibration of its tokens, its translations, and BLEU, at any temperature."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from focalcal.base.files import atomic_writer, make_folder
from focalcal.calibrators.temperature_scaling import Objective
from focalcal.data.parallel_text import read_lines
from focalcal.data.sentence_pairs import SentencePairs
from focalcal.metrics.streaming.token_calibration import (
    evaluate_tokens,
    fit_token_temperature,
    temperature_curve,
    token_samples,
)
from focalcal.predictions.token_predictions import TokenPredictions
from focalcal.sweeps.bleu_differences import LEVEL, Translated
from focalcal.sweeps.plan import PlannedRun
from focalcal.sweeps.records import read_records, write_records
from focalcal.sweeps.result_rows import Row, Selection, title
from focalcal.training import open_run
from focalcal.training.building import load_translator
from focalcal.translation import measure_bleu, translate
from focalcal.translation.bleu import bleu_interval

BEAM, LENGTH_PENALTY = 5, 0.6
# The temperatures of the paper's figure.
CURVE = tuple(tenth / 10 for tenth in range(5, 21))
OBJECTIVES: tuple[Objective, ...] = ("ece", "nll")
_METRICS = {"error": "error", "ece": "ece", "ada_ece": "ada_ece", "mce": "mce", "nll": "nll"}


@dataclass(frozen=True)
class CurvePoint:
    """One temperature of one run.

    Attributes:
        method, seed: Loss and seed of the run.
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
        return {objective: fit_token_temperature(self.tokens["val"], objective) for objective in OBJECTIVES}

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
        make_folder(file.parent)
        with atomic_writer(file) as out:
            out.write("".join(f"{text}\n" for text in found.texts).encode())
        return found.texts

    @cached_property
    def curve(self) -> list[CurvePoint]:
        """BLEU and ECE at the temperatures of the paper's figure."""
        points = []
        curves = (temperature_curve(self.tokens[split], CURVE) for split in ("val", "test"))
        for val, test in zip(*curves, strict=True):
            bleu = measure_bleu(self.translations(val.temperature), self.references)
            scores = (bleu.score, bleu.lower_cased, 100 * val.ece, 100 * test.ece, 100 * val.nll)
            points.append(CurvePoint(self.run.loss, self.run.seed, val.temperature, *scores))
        return points

    def pick_translations(self) -> Translated:
        """Return the translations at T = 1, at T of the lowest validation ECE and at T of the highest BLEU."""
        calibrated = float(f"{self.temperatures['ece']:.6g}")
        peak = peak_of(self.curve)
        texts = {temperature: self.translations(temperature) for temperature in {1.0, calibrated, peak}}
        return Translated(self.run.loss, self.run.seed, calibrated, peak, texts)

    def rows(self, objective: Objective) -> Iterator[Row]:
        """Measure every figure of the test set, uncalibrated and scaled."""
        scaled = self.temperatures[objective]
        samples = token_samples(self.tokens["test"], [1.0, scaled])
        for scaling, temperature, each in zip(("pre", "post"), (1.0, scaled), samples, strict=True):
            values = evaluate_tokens(self.tokens["test"], temperature=temperature).values
            intervals = each.intervals({name: values[name] for name in _METRICS}, level=LEVEL)
            for name, metric in _METRICS.items():
                if name != "error" or scaling == "pre":
                    low, high = (100 * end for end in intervals[name]) if name in intervals else (None, None)
                    shown = "" if name == "error" else scaling
                    method = "" if low is None else "honest" if name in ("ece", "ada_ece") else "clusters"
                    yield self._row(metric, shown, 100 * values[name], low, high, method, temperature)
            texts = self.translations(temperature)
            low, high = bleu_interval(texts, self.references, level=LEVEL)
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


def peak_of(curve: Sequence[CurvePoint]) -> float:
    """Return the temperature of the highest BLEU of a run's curve, in the digits that files keep."""
    return max(curve, key=lambda point: float(f"{point.bleu:.6g}")).temperature


def write_curves(path: Path, curves: Sequence[CurvePoint]) -> None:
    """Write the curves as csv, one temperature of one run per line."""
    write_records(path, CurvePoint, curves)


def read_curves(path: Path) -> list[CurvePoint]:
    """Read what `write_curves` wrote; nothing where there is no such file."""
    return read_records(path, CurvePoint, "curves of translators")
