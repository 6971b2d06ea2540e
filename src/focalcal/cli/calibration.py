"""What ``focalcal calibrate`` does, before any of it is printed."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from focalcal.calibrators import CalibrationWarning, Calibrator, build_calibrator, load_calibrator
from focalcal.cli.destinations import check_destinations
from focalcal.cli.examination.pairs import common_samples, different_classes, wrong_splits
from focalcal.cli.output import progress
from focalcal.cli.sources import opened, predictions_file, shown_names
from focalcal.metrics import Evaluation, evaluate
from focalcal.predictions import Predictions

COMPARED = ("error", "nll", "brier", "ece", "ece_floor", "ada_ece", "classwise_ece")


@dataclass(frozen=True)
class Request:
    """The arguments of the command."""

    files: tuple[Path, ...]
    method: str | None
    options: Mapping[str, Any]
    calibrator: Path | None
    out: Path | None
    save_calibrator: Path | None
    bins: int
    allow_test: bool

    def built(self) -> Calibrator:
        """The saved calibrator, or a new one with the options that were given."""
        if self.calibrator is None:
            return build_calibrator(self.method or "temperature", **self._parameters())
        given = [] if self.method is None else ["method"]
        given += [name.replace("_", "-") for name in self.options]
        if given:
            raise ValueError(f"--calibrator brings its method and options with it; leave out --{given[0]}.")
        return load_calibrator(self.calibrator)

    def paths(self, calibrator: Calibrator) -> tuple[Path | None, Path]:
        """Validation (None where nothing is fitted) and test predictions."""
        fitted = self.calibrator is not None
        if len(self.files) == 2 and not fitted:
            return predictions_file(self.files[0], "val"), predictions_file(self.files[1])
        if len(self.files) == 1:
            only = self.files[0]
            if fitted or not calibrator.needs_fit:
                return None, predictions_file(only)
            if only.is_dir():
                return predictions_file(only, "val"), predictions_file(only)
        if fitted:
            raise ValueError("Give one predictions file with --calibrator: the one to apply it to.")
        raise ValueError("Give two predictions files, VAL and TEST; or a run directory; or TEST with --calibrator.")

    def _parameters(self) -> dict[str, Any]:
        parameters = dict(self.options)
        if "grid" in parameters:
            parameters["grid"] = _numbers(parameters["grid"])
        # Only some methods bin; the others have no use for the number, which the metrics have.
        if self.method in (None, "temperature", "temperature-ece", "histogram"):
            parameters["bins"] = self.bins
        return parameters


@dataclass(frozen=True)
class Calibrated:
    """What was done, and what came of it."""

    names: tuple[str | None, str]
    request: Request
    calibrator: Calibrator
    before: Evaluation
    after: Evaluation
    warnings: list[str]

    @property
    def learned(self) -> dict[str, float]:
        """The numbers that were learned, where they are single ones: temperature, gamma."""
        names = ("temperature", "gamma")
        found = {name: getattr(self.calibrator, f"{name}_", None) for name in names}
        return {name: float(value) for name, value in found.items() if value is not None}

    def to_dict(self) -> dict[str, Any]:
        """For JSON: no path of the machine, only the files' names."""
        record, request = self.calibrator.record_, self.request
        return {
            "method": self.calibrator.method,
            "parameters": self.calibrator.get_params(),
            **self.learned,
            "fitted_on": None if record is None else record.to_dict(),
            "val": self.names[0],
            "test": self.names[1],
            "n": self.before.n,
            "num_classes": self.before.num_classes,
            "bins": request.bins,
            "before": dict(self.before.values),
            "after": dict(self.after.values),
            "out": None if request.out is None else request.out.name,
            "saved_calibrator": None if request.save_calibrator is None else request.save_calibrator.name,
            "warnings": self.warnings,
        }


def calibrated(request: Request, reading: Mapping[str, Any]) -> Calibrated:
    """Fit (or load), apply, measure, and write what is to be written: all of it or, on an error, nothing."""
    calibrator = request.built()
    val_path, test_path = request.paths(calibrator)
    sources = [path for path in (val_path, test_path, request.calibrator) if path is not None]
    check_destinations(request.out, request.save_calibrator, sources)
    test, said = opened(test_path, reading).read(), []
    if val_path is not None:
        val = opened(val_path, reading).read()
        said += _checked_pair(test, val, shown_names(test_path, val_path), request.allow_test)
        with progress(f"fitting {calibrator.method}"):
            said += _fitted(calibrator, val, request.allow_test)
    with progress("applying"):
        result = calibrator.transform(test)
        before, after = (evaluate(preds, COMPARED, request.bins, bootstrap=0) for preds in (test, result))
    if math.isfinite(before.values["nll"]) and math.isinf(after.values["nll"]):
        said.append(_lost_certainty(calibrator, was_saved=request.calibrator is not None))
    names = (None if val_path is None else val_path.name, test_path.name)
    done = Calibrated(names, request, calibrator, before, after, said)
    _write(done, result)
    return done


def _checked_pair(test: Predictions, val: Predictions, names: tuple[str, str], allow_test: bool) -> list[str]:
    """Refuse files that do not go together; return sentences about what may be refused but was allowed."""
    for finding in different_classes(test, val, names):
        raise ValueError(f"{finding.what[:-1]}; use predictions of one and the same network.")
    said = []
    for finding in (*wrong_splits(test, val, names), *common_samples(test, val, names)):
        if finding.severity == "problem" and not allow_test:
            raise ValueError(f"{finding.what[:-1]}; fit on other samples, or pass --allow-test to do it all the same.")
        said.append(finding.what)
    return said


def _fitted(calibrator: Calibrator, val: Predictions, allow_test: bool) -> list[str]:
    """Fit, and return what the fit warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        calibrator.fit(val, allow_test=allow_test)
    return [str(item.message) for item in caught if issubclass(item.category, CalibrationWarning)]


def _lost_certainty(calibrator: Calibrator, *, was_saved: bool) -> str:
    """Frequencies of validation may be exactly 0, which makes the NLL of other data infinite."""
    what = "The NLL is now infinite: a true class got the probability 0"
    if not hasattr(calibrator, "smoothing"):
        return f"{what}."
    return f"{what}; {'a fit with ' if was_saved else ''}--smoothing 0.01 avoids that."


def _write(done: Calibrated, result: Predictions) -> None:
    request = done.request
    if request.save_calibrator is not None:
        done.calibrator.save(request.save_calibrator)
    if request.out is not None:
        learned = ", ".join(f"{name} {value:.6g}" for name, value in done.learned.items())
        how = f"{done.calibrator.method}{f' ({learned})' if learned else ''}"
        replace(result, provenance={**result.provenance, "calibrated_by": how}).save(request.out)


def _numbers(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"--grid must be numbers separated by commas, such as 0.5,1,2, not {text!r}.") from None
