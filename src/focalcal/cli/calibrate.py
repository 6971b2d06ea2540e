"""``focalcal calibrate``: fit a calibrator on validation predictions, apply it to others, and show what changed."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from focalcal.base.files import check_destination, distinct_names
from focalcal.base.progress import note, spinner
from focalcal.cli.inputs import open_input, predictions_file
from focalcal.cli.options import READ_MANY_OPTIONS, Json, option, pack_fields, pack_options
from focalcal.cli.output import print_json, results
from focalcal.cli.sharding import ShardOptions, are_shards
from focalcal.metrics.catalogue import describe_metric, names_for
from focalcal.report.readings import data_size, describe_measure, format_change, format_value

if TYPE_CHECKING:
    from rich.table import Table

    from focalcal.calibrators import Calibrator, Candidate
    from focalcal.metrics import Evaluation
    from focalcal.predictions import Predictions, PredictionsFile
    from focalcal.predictions.read_options import ReadOptions

COMPARED = ("error", "nll", "brier", "ece", "ece_floor", "ada_ece", "classwise_ece")
_PANEL = "Options of methods"
METHOD_OPTIONS = [
    option("objective", str | None, "temperature: nll (the default) or ece (the paper's grid).", panel=_PANEL),
    option("grid", str | None, "temperature by ece: the temperatures to try, separated by commas.", panel=_PANEL),
    option("gamma", float | None, "focal-inverse: the γ that the network was trained with.", panel=_PANEL),
    option("off_diagonal_penalty", float | None, "matrix, dirichlet: penalty for mixing classes.", panel=_PANEL),
    option("intercept_penalty", float | None, "vector, matrix, dirichlet: penalty on the offsets.", panel=_PANEL),
    option("smoothing", float | None, "isotonic, histogram: share of the uniform distribution in a row.", panel=_PANEL),
    option("strength", str | None, "structured-*: strength of the penalty, or cv.", panel=_PANEL),
    option("combine", str | None, "auto: mix (the default) or choose.", panel=_PANEL),
    option("keep_argmax", bool, "auto: only methods that never change the predicted class.", panel=_PANEL),
    option("diagonal_penalty", float | None, "vector, matrix, dirichlet: penalty on the factors.", panel=_PANEL),
]
# Methods that bin; the others have no use for the number, which the metrics have.
_BINNED = (None, "temperature", "temperature-ece", "histogram")
# What the table calls the learned numbers; the identity's value stands before the fit.
_LEARNED = {"temperature": ("temperature T", 1.0), "gamma": ("focal γ", 0.0)}


@pack_options("options", METHOD_OPTIONS)
@pack_options("reading", READ_MANY_OPTIONS)
@pack_fields("sharded", ShardOptions)
def calibrate(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="VAL TEST",
            help="Two predictions files; a run directory; or two patterns of shards, 'val/*.parquet' 'test/*.parquet'.",
            show_default=False,
        ),
    ],
    method: Annotated[
        str | None,
        typer.Option(
            help="temperature (the default), auto (by cross-validation), temperature-ece, ensemble-temperature, "
            "structured-vector, structured-matrix, vector, matrix, dirichlet, isotonic, histogram, focal-inverse, "
            "focal-temperature, identity; for two classes platt, beta, quadratic.",
            show_default=False,
        ),
    ] = None,
    calibrator: Annotated[Path | None, typer.Option(hidden=True)] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Where the calibrated predictions go: .safetensors, .npz, .parquet, .csv; a folder for shards."
        ),
    ] = None,
    save_calibrator: Annotated[Path | None, typer.Option(help="Where the fitted calibrator goes, as JSON.")] = None,
    bins: Annotated[int, typer.Option(min=1, help="Number of bins of ECE, and of the method if it bins.")] = 15,
    allow_test: Annotated[
        bool, typer.Option("--allow-test", help="Fit on test data, or on the samples that are measured, anyway.")
    ] = False,
    json: Json = False,
    *,
    options: dict[str, Any],
    reading: dict[str, Any],
    sharded: ShardOptions,
) -> None:
    """Repair the confidence of a classifier: fit on validation predictions, apply to test predictions.

    Prints error, NLL, Brier score and calibration errors of the test predictions, uncalibrated and calibrated, and PHI,
    the relative gain in NLL: compare methods by it, not by ECE. Refuses validation data whose split is "test", and
    files that share their samples, unless --allow-test is given.

    On shards, a temperature is fitted by NLL and applied file by file into the folder --out, here or (--on ray) on a
    Ray cluster; the same command again skips files that are finished.

    Examples:
      focalcal calibrate val.npz test.npz --out calibrated.safetensors
      focalcal calibrate val.npz test.npz --objective ece --save-calibrator t.json
      focalcal calibrate val.npz test.npz --method auto
      focalcal calibrate runs/a --method focal-temperature --json
      focalcal calibrate test.npz --method focal-inverse --gamma 3
      focalcal calibrate 'val/*.parquet' 'preds/*.parquet' --save-calibrator t.json
    """
    if calibrator is not None:
        raise ValueError(
            "--calibrator is a command of its own: to apply a saved calibrator, use "
            f"`focalcal apply {calibrator} {files[0]} --out FILE`."
        )
    chosen = _build(method, options, bins)
    if any(are_shards([file], sharded) for file in files):
        done = _calibrate_shards(files, chosen, bins, sharded, reading, allow_test, out, save_calibrator)
        written_paths = [path for path in (out, save_calibrator) if path is not None]
        print_json(done.to_dict()) if json else done.print(written_paths)
        return
    val_path, test_path = _paths([Path(file) for file in files], chosen)
    _check_destinations(out, save_calibrator, [path for path in (val_path, test_path) if path is not None])
    opened = open_input(test_path, reading)
    opened.check_labels()
    test, said = opened.read(), []
    if val_path is not None:
        val = open_input(val_path, reading).read()
        test_name, val_name = distinct_names([test_path, val_path])
        said = [*_check_pair(test, val, (test_name, val_name), allow_test), *fit_calibrator(chosen, val, allow_test)]
    result, before, after = _apply(chosen, test, bins)
    if math.isfinite(before.values["nll"]) and math.isinf(after.values["nll"]):
        said.append(_infinite_nll(chosen))
    source = None if val_path is None else val_path.name
    done = _Calibration(chosen, source, test_path.name, before, after)
    _write(done, result, opened, out, save_calibrator)
    for warning in said:
        note(f"warning: {warning}")
    written_files = {"out": out, "saved_calibrator": save_calibrator}
    if json:
        names = {key: None if path is None else path.name for key, path in written_files.items()}
        print_json({**done.to_dict(), **names, "warnings": said})
    else:
        done.print([path for path in written_files.values() if path is not None])


def _calibrate_shards(
    files: Sequence[str],
    chosen: Calibrator,
    bins: int,
    sharded: ShardOptions,
    reading: dict[str, Any],
    allow_test: bool,
    out: Path | None,
    save_calibrator: Path | None,
) -> _Calibration:
    """Fit a temperature on shards, measure what it does to others, and apply it to them."""
    from focalcal.calibrators import TemperatureScaling, calibrate_shards
    from focalcal.calibrators.sharded_calibration import fit_on_shards
    from focalcal.metrics.streaming.sharded_evaluation import accumulate, open_shards
    from focalcal.metrics.streaming.workers import start_workers
    from focalcal.predictions.shards import find_shards

    if not isinstance(chosen, TemperatureScaling) or chosen.objective != "nll" or chosen.mix_uniform:
        raise ValueError(
            f"On shards a temperature is fitted by NLL, and nothing else: {chosen.method} with these options needs all "
            "validation predictions in one file."
        )
    if len(files) != 2:
        raise ValueError("Give two patterns of shards, VAL and TEST, in quotes: 'val/*.parquet' 'test/*.parquet'.")
    val, test = (find_shards(file) for file in files)
    common = sorted({*val} & {*test})
    if common and not allow_test:
        raise ValueError(f"{common[0]} is among both; fit on other samples, or pass --allow-test to do it anyway.")
    if save_calibrator is not None:
        _check_destinations(None, save_calibrator, [])
    arguments, how = sharded.arguments(), cast("ReadOptions", reading)
    with (
        spinner("fitting and measuring on shards"),
        start_workers(sharded.engine, workers=sharded.workers, address=sharded.address) as pool,
    ):
        fitted = fit_on_shards(open_shards(val, pool, sharded.engine, how), allow_test=allow_test)
        skip = sharded.skip_bad_shards
        shards = open_shards(test, pool, sharded.engine, how, skip_bad_shards=skip)
        totals = [accumulate(shards, bins, transform=change) for change in (None, fitted.transform)]
    before, after = (total.compute(COMPARED, intervals=False) for total, _ in totals)
    for failure in totals[0][1]:
        note(f"skipped: {failure.reason}")
    if save_calibrator is not None:
        fitted.save(save_calibrator)
    if out is not None:
        applied = calibrate_shards(fitted, test, out, **arguments, **reading)
        note(f"{len(applied.written)} files written to {out}, {len(applied.finished)} were finished already.")
    return _Calibration(fitted, files[0], files[1], before, after)


def _build(method: str | None, options: Mapping[str, Any], bins: int) -> Calibrator:
    """Make a calibrator with the options that were given."""
    from focalcal.calibrators import build_calibrator

    parameters = dict(options)
    if "grid" in parameters:
        parameters["grid"] = _numbers(parameters["grid"])
    if parameters.get("strength", "cv") != "cv":
        parameters["strength"] = _strength(parameters["strength"])
    if method in _BINNED:
        parameters["bins"] = bins
    return build_calibrator(method or "temperature", **parameters)


def _numbers(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"--grid must be numbers separated by commas, such as 0.5,1,2, not {text!r}.") from None


def _strength(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"--strength must be a number or cv, not {text!r}.") from None


def _paths(files: list[Path], calibrator: Calibrator) -> tuple[Path | None, Path]:
    """Return validation (None where nothing is fitted) and test predictions."""
    if len(files) == 2:
        return predictions_file(files[0], "val"), predictions_file(files[1])
    if len(files) == 1:
        only = files[0]
        if not calibrator.needs_fit:
            return None, predictions_file(only)
        if only.is_dir():
            return predictions_file(only, "val"), predictions_file(only)
    raise ValueError("Give two predictions files, VAL and TEST; or a run directory.")


def _check_destinations(predictions: Path | None, calibrator: Path | None, sources: list[Path]) -> None:
    """Refuse, before the work, a file that could not be written at its end."""
    from focalcal.predictions.formats import find_format

    if predictions is not None:
        if predictions.suffix.lower() == ".npy":
            raise ValueError(f"{predictions} cannot be written: an npy has no place for labels; write to .npz.")
        find_format(predictions)
        check_destination(predictions, sources)
    if calibrator is not None:
        if calibrator.suffix.lower() != ".json":
            raise ValueError(f"{calibrator} should end in .json: calibrators are saved as JSON.")
        check_destination(calibrator, sources)


def _check_pair(test: Predictions, val: Predictions, names: tuple[str, str], allow_test: bool) -> list[str]:
    """Refuse files that do not go together; return sentences about what may be refused but was allowed."""
    from focalcal.diagnosis.pairs import common_samples, different_classes, wrong_splits

    for finding in different_classes(test, val, names):
        raise ValueError(f"{finding.what[:-1]}; use predictions of one and the same network.")
    said = []
    for finding in (*wrong_splits(test, val, names), *common_samples(test, val, names)):
        if finding.severity == "problem" and not allow_test:
            raise ValueError(f"{finding.what[:-1]}; fit on other samples, or pass --allow-test to do it anyway.")
        said.append(finding.what)
    return said


def fit_calibrator(calibrator: Calibrator, val: Predictions, allow_test: bool) -> list[str]:
    """Fit, and return what the fit warned of."""
    from focalcal.calibrators import CalibrationWarning

    with spinner(f"fitting {calibrator.method}"), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        calibrator.fit(val, allow_test=allow_test)
    return [str(item.message) for item in caught if issubclass(item.category, CalibrationWarning)]


def _apply(calibrator: Calibrator, test: Predictions, bins: int) -> tuple[Predictions, Evaluation, Evaluation]:
    from focalcal.metrics import evaluate

    with spinner("applying"):
        result = calibrator.transform(test)
        names = names_for(COMPARED, test.num_classes, test.of)
        before, after = (evaluate(preds, metrics=names, bins=bins, bootstrap=0) for preds in (test, result))
    return result, before, after


def _infinite_nll(calibrator: Calibrator) -> str:
    """Explain that frequencies of validation may be exactly 0, which makes the NLL of other data infinite."""
    what = "The NLL is now infinite: a true class got the probability 0"
    if not hasattr(calibrator, "smoothing"):
        return f"{what}."
    return f"{what}; --smoothing 0.01 avoids that."


def _write(
    done: _Calibration, result: Predictions, test: PredictionsFile, out: Path | None, save_calibrator: Path | None
) -> None:
    if save_calibrator is not None:
        done.calibrator.save(save_calibrator)
    if out is not None:
        save_calibrated(done.calibrator, result, test, out)


def save_calibrated(calibrator: Calibrator, result: Predictions, source: PredictionsFile, out: Path) -> bool:
    """Write calibrated predictions, as a table like the one that was read where that has other columns."""
    from focalcal.calibrators.sharded_calibration import calibrated_by
    from focalcal.predictions.formats.rewriting import save_like

    provenance = {**result.provenance, "calibrated_by": calibrated_by(calibrator)}
    return save_like(source, replace(result, provenance=provenance), out)


def learned_numbers(calibrator: Calibrator) -> dict[str, float]:
    """Return the numbers that a calibrator learned, where they are single ones: temperature, gamma."""
    found = {name: getattr(calibrator, f"{name}_", None) for name in _LEARNED}
    return {name: float(value) for name, value in found.items() if value is not None}


@dataclass(frozen=True)
class _Calibration:
    """A calibrator that was applied, and the metrics before and after."""

    calibrator: Calibrator
    val: str | None
    test: str
    before: Evaluation
    after: Evaluation

    @property
    def learned(self) -> dict[str, float]:
        """The numbers that were learned, where they are single ones."""
        return learned_numbers(self.calibrator)

    @property
    def objective(self) -> str:
        """The name of what the temperature minimises on validation data, for people."""
        return "ECE" if getattr(self.calibrator, "objective", "nll") == "ece" else "NLL"

    def to_dict(self) -> dict[str, Any]:
        """Return everything for JSON: no path of the machine, only the files' names."""
        record = self.calibrator.record_
        return {
            "method": self.calibrator.method,
            "parameters": self.calibrator.get_params(),
            **self.learned,
            "fitted_on": None if record is None else record.to_dict(),
            "val": self.val,
            "test": self.test,
            "n": self.before.n,
            "num_classes": self.before.num_classes,
            "bins": self.before.bins,
            "before": dict(self.before.values),
            "after": dict(self.after.values),
            "phi": self.phi,
            "description": self.calibrator.describe(),
            **self._candidates(),
        }

    @property
    def phi(self) -> float | None:
        """The relative gain in NLL over the uncalibrated model; None where that is infinite or 0."""
        before, after = (found.values["nll"] for found in (self.before, self.after))
        return None if not math.isfinite(before) or before == 0 else 1.0 - after / before

    def _candidates(self) -> dict[str, Any]:
        found = getattr(self.calibrator, "candidates_", None)
        return {} if found is None else {"candidates": [asdict(one) for one in found]}

    def print(self, written_files: list[Path]) -> None:
        """Print what was fitted, the metrics before and after, and what was written."""
        console, found = results(), self.before
        console.print(f"{self.test}: {data_size(found)}")
        console.print(describe_measure(found.of, found.event))
        console.print(self._table())
        if candidates := getattr(self.calibrator, "candidates_", None):
            console.print(_candidate_table(candidates))
        console.print(self._summary())
        if candidates or self._is_of_score or getattr(self.calibrator, "uniform_share_", None):
            learned = self.calibrator.describe()
            console.print(f"{learned[0].upper()}{learned[1:]}.")
        for path in written_files:
            console.print(f"Wrote {path}.", soft_wrap=True)

    def _table(self) -> Table:
        from rich.table import Table

        table = Table("metric")
        for heading in ("uncalibrated", "calibrated", "change"):
            table.add_column(heading, justify="right", no_wrap=True)
        for name in self.before.values:
            before, after = self.before.values[name], self.after.values[name]
            cells = (format_value(name, before), format_value(name, after), format_change(name, after - before))
            table.add_row(describe_metric(name, self.before.of, self.before.event).heading, *cells)
        # A temperature that a regression on a score divides by first says nothing alone: its description has all.
        for name, value in ({} if self._is_of_score else self.learned).items():
            title, neutral = _LEARNED[name]
            how = f", by validation {self.objective}" if name == "temperature" else ""
            table.add_row(f"{title}{how}", f"{neutral:g}", f"{value:.4g}".replace("-", "−"), "")
        return table

    @property
    def _is_of_score(self) -> bool:
        from focalcal.calibrators.binary import ScoreCalibrator

        return isinstance(self.calibrator, ScoreCalibrator)

    def _summary(self) -> str:
        """Say what was done, and what became of NLL and ECE."""
        source = "not fitted" if self.val is None else f"fitted on {self.val}"
        gain = "" if self.phi is None else f" (PHI {100 * self.phi:.1f}%)".replace("-", "−")
        moves = f"NLL {self._move('nll')}{gain}, ECE {self._move('ece')}"
        test = self.after.calibration_test
        chance = "" if test is None else f" {test}"
        return f"{self.calibrator.method}, {source}: {moves}.{chance}"

    def _move(self, name: str) -> str:
        before, after = (format_value(name, found.values[name]) for found in (self.before, self.after))
        if before == after:
            return f"stays {after}"
        return f"{'falls' if self.after.values[name] < self.before.values[name] else 'rises'} from {before} to {after}"


def _candidate_table(candidates: Sequence[Candidate]) -> Table:
    """Print what cross-validation found about each method that ``auto`` tried."""
    from rich.table import Table

    table = Table("candidate", "held-out log-loss", "weight", "seconds", "note")
    for one in candidates:
        seconds = "" if one.seconds is None else f"{one.seconds:.2f}"
        table.add_row(one.name, f"{one.log_loss:.4f} ± {one.error:.4f}", f"{one.weight:.2f}", seconds, one.note)
    return table
