"""What ``focalcal evaluate`` finds out about a file, before any of it is printed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

from focalcal.cli.gates import Gate
from focalcal.cli.output import progress
from focalcal.cli.sources import opened, shown_names
from focalcal.report.verdict import verdict

if TYPE_CHECKING:
    from focalcal.metrics.conventions import Convention
    from focalcal.metrics.differences import Comparison
    from focalcal.metrics.evaluation import Evaluation
    from focalcal.predictions import PredictionsFile


@dataclass(frozen=True)
class Request:
    """The options of the command: ``metrics`` None for all, ``convention`` "focalcal" for no other one."""

    metrics: tuple[str, ...] | None
    bins: int
    bootstrap: int
    level: float
    seed: int
    convention: str

    def check(self, comparing: bool) -> None:
        """Refuse, before anything is read, what would fail only after minutes of work."""
        from focalcal.metrics.conventions import Convention

        if self.convention not in (known := get_args(Convention)):
            raise ValueError(f"--convention must be one of {', '.join(known)}, not {self.convention!r}.")
        if not 0 < self.level < 1:
            raise ValueError(f"--level must lie between 0 and 1, not {self.level:g}; 0.9 gives 90% intervals.")
        if comparing and not self.bootstrap:
            raise ValueError("--compare needs resamples; leave out --bootstrap 0.")


@dataclass(frozen=True)
class ByConvention:
    """ECE and MCE as another library bins, and as focalcal does."""

    name: str
    values: dict[str, float]
    ours: dict[str, float]

    def to_dict(self) -> dict[str, Any]:
        """For JSON; ``moved`` is theirs less ours."""
        moved = {metric: value - self.ours[metric] for metric, value in self.values.items()}
        return {"name": self.name, "values": self.values, "moved": moved}


@dataclass(frozen=True)
class Measured:
    """Everything about one file."""

    name: str
    file: PredictionsFile
    request: Request
    evaluation: Evaluation
    gates: list[Gate]
    convention: ByConvention | None
    comparison: Comparison | None

    @property
    def failures(self) -> list[str]:
        """A sentence for each bound that is not kept."""
        values = self.evaluation.values
        return [gate.failure(values[gate.metric]) for gate in self.gates if not gate.is_met(values[gate.metric])]

    def to_dict(self) -> dict[str, Any]:
        """For JSON: no path of the machine, only the file's name."""
        values = self.evaluation.values
        content: dict[str, Any] = {
            "file": Path(self.file.path).name,
            "kind": self.file.kind,
            "split": self.file.split,
            **self.evaluation.to_dict(),
            "bootstrap": self.request.bootstrap,
            "seed": self.request.seed,
            "verdict": verdict(self.evaluation),
            "gates": [gate.to_dict(values[gate.metric]) for gate in self.gates],
            "gates_met": not self.failures,
        }
        if self.convention is not None:
            content["convention"] = self.convention.to_dict()
        if self.comparison is not None:
            content["comparison"] = self.comparison.to_dict()
        return content


def measure(
    path: Path, other: Path | None, reading: Mapping[str, Any], request: Request, gates: list[Gate]
) -> Measured:
    """Evaluate a file, and compare it with another one where there is one."""
    from focalcal.metrics.evaluate import evaluate

    request.check(comparing=other is not None)
    file = opened(path, reading)
    rival = None if other is None else opened(other, reading)
    with progress(f"evaluating {path.name}"):
        names = _with_gated(request.metrics, gates)
        evaluation = evaluate(file, names, request.bins, request.bootstrap, request.level, request.seed)
        _check_gates(gates, evaluation)
        convention = None if request.convention == "focalcal" else by_convention(file, request.bins, request.convention)
    comparison = None
    if other is not None and rival is not None:
        with progress(f"comparing with {other.name}"):
            comparison = _compared(file, rival, shown_names(path, other), request)
    return Measured(path.resolve().name, file, request, evaluation, gates, convention, comparison)


def by_convention(file: PredictionsFile, bins: int, convention: str) -> ByConvention:
    """ECE and MCE in another library's bins and in ours, in one pass over the file."""
    from focalcal.metrics.binning import BinSums
    from focalcal.metrics.calibration_error import largest_gap, mean_gap
    from focalcal.metrics.conventions import bins_by_convention

    names = (convention, "focalcal")
    totals: list[BinSums | None] = [None, None]
    for block in file.blocks():
        for place, name in enumerate(names):
            sums, total = bins_by_convention(block, bins, cast("Convention", name)), totals[place]
            totals[place] = sums if total is None else _added(total, sums)
    theirs, ours = ({"ece": mean_gap(total), "mce": largest_gap(total)} for total in totals if total is not None)
    return ByConvention(convention, theirs, ours)


def _added(a: Any, b: Any) -> Any:
    return type(a)(a.count + b.count, a.confidence + b.confidence, a.correct + b.correct)


def _with_gated(metrics: tuple[str, ...] | None, gates: list[Gate]) -> list[str] | None:
    """What was asked for, and what a bound is about."""
    return None if metrics is None else list(dict.fromkeys([*metrics, *(gate.metric for gate in gates)]))


def _check_gates(gates: list[Gate], evaluation: Evaluation) -> None:
    """Refuse a bound on what such data does not give: top-5 of three classes, or what a file in blocks leaves out."""
    for gate in gates:
        if gate.metric not in evaluation.values:
            raise ValueError(f"{gate.metric} cannot be had from these predictions, so leave out {gate.option}.")


def _compared(file: PredictionsFile, rival: PredictionsFile, names: tuple[str, str], request: Request) -> Comparison:
    from focalcal.metrics.comparison import compare
    from focalcal.metrics.intervals import INTERVAL_METRICS

    metrics = None if request.metrics is None else [name for name in request.metrics if name in INTERVAL_METRICS]
    return compare(
        file.read(),
        rival.read(),
        metrics or None,
        samples=request.bootstrap,
        permutations=request.bootstrap,
        level=request.level,
        seed=request.seed,
        bins=request.bins,
        names=names,
    )
