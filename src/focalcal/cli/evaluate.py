"""``focalcal evaluate``: every metric of a predictions file, with intervals, a verdict and an exit code."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from focalcal.base.files import check_destination
from focalcal.base.progress import note, spinner
from focalcal.base.remote import is_remote
from focalcal.cli.breakdowns import class_table, print_group_table
from focalcal.cli.gates import (
    GATE_OPTIONS,
    Gate,
    Judge,
    check_judge,
    choose_gates,
    group_failures,
    judge_groups,
    not_judged,
)
from focalcal.cli.inputs import open_input
from focalcal.cli.ood_detection import measure_ood, named_files, print_ood
from focalcal.cli.options import READ_OPTIONS, Bins, Bootstrap, Json, Level, Seed, names_in, pack_fields, pack_options
from focalcal.cli.output import command_line, print_json, results
from focalcal.cli.sharding import ShardOptions, are_shards
from focalcal.metrics.catalogue import METRICS, describe_metric
from focalcal.report.readings import data_size, describe_measure, format_interval, format_value
from focalcal.report.verdict import verdict

if TYPE_CHECKING:
    from rich.table import Table

    from focalcal.metrics import Evaluation
    from focalcal.metrics.binning import BinSums
    from focalcal.metrics.calibration_error import Convention
    from focalcal.predictions import PredictionsFile


@pack_options("gates", GATE_OPTIONS)
@pack_options("reading", READ_OPTIONS)
@pack_fields("sharded", ShardOptions)
def evaluate(
    predictions: Annotated[
        list[str],
        typer.Argument(
            metavar="PREDICTIONS...",
            help="A predictions file, a run directory (its test predictions), or shards: 'preds/*.parquet'.",
        ),
    ],
    bins: Bins = 15,
    bootstrap: Bootstrap = 1000,
    level: Level = 0.9,
    seed: Seed = 0,
    method: Annotated[
        str | None,
        typer.Option(help="Method of all intervals: honest, basic, percentile or bca; by default each metric's own."),
    ] = None,
    intervals: Annotated[bool, typer.Option(help="Whether to compute confidence intervals.")] = True,
    judge: Annotated[
        str, typer.Option(help="estimate or upper: what a threshold is compared with, the number or its worse end.")
    ] = "estimate",
    metrics: Annotated[str | None, typer.Option(help="Only these, separated by commas: ece,nll,error.")] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Also evaluate every group of this column; may be repeated."),
    ] = None,
    each_group: Annotated[
        bool, typer.Option("--each-group", help="Every group has to meet the thresholds, too; with --by.")
    ] = False,
    convention: Annotated[
        str, typer.Option(help="torchmetrics or netcal: show ECE and MCE as they bin, and how far they move.")
    ] = "focalcal",
    compare: Annotated[Path | None, typer.Option(hidden=True)] = None,
    ood: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=FILE", help="Predictions on out-of-distribution data; a run's own are found."),
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Also write a report, as HTML, to this file.")] = None,
    classes: Annotated[
        bool, typer.Option("--classes", help="Also print a table of classes, by prediction and by label.")
    ] = False,
    json: Json = False,
    *,
    reading: dict[str, Any],
    sharded: ShardOptions,
    gates: dict[str, float],
) -> None:
    """Measure how far a classifier's confidence can be trusted.

    Reads .safetensors, .npz, .parquet or .csv with labels and logits or probabilities. Prints every metric with its
    confidence interval, and a verdict in words.

    The intervals of calibration errors cover the truth whatever it is, and need no resampling; --bootstrap is for the
    others.

    There is a --max-METRIC and a --min-METRIC for every metric, which take fractions (0.02 is 2%). The exit code is 1
    if such a threshold is exceeded, and 2 for bad input. With --judge upper the whole interval has to meet it.

    Metrics: {metrics}.

    Several files, or a pattern in quotes, are shards of one model's predictions: they are read side by side, on this
    machine or (--on ray --address auto) on a Ray cluster, in memory that does not grow with them. Paths may be s3://,
    gs://, hdfs:// and others.

    With --by region every region is evaluated on its own, and compared with the rest; any column of a .csv or .parquet
    will do.

    Examples:
      focalcal evaluate test.safetensors
      focalcal evaluate test.npz --max-ece 0.02 --min-accuracy 0.9
      focalcal evaluate test.npz --max-ece 0.05 --judge upper
      focalcal evaluate test.npz --json --metrics ece,nll --bootstrap 0
      focalcal evaluate test.parquet --by region --by month
      focalcal evaluate test.parquet --by region --max-ece 0.05 --each-group
      focalcal evaluate test.npz --report report.html
      focalcal evaluate test.npz --ood other=new.npz
      focalcal evaluate fraud.csv --probs-key score --labels-key truth --positive-label fraud
      focalcal evaluate answers.csv --confidence-key conf --correct-key ok
      focalcal evaluate 'preds/*.parquet' --skip-bad-shards
    """
    thresholds = choose_gates(gates)
    if compare is not None:
        raise ValueError(f"--compare is a command of its own: use `focalcal compare {predictions[0]} {compare}`.")
    if each_group and not (by and thresholds):
        raise ValueError("--each-group needs --by COLUMN and a threshold such as --max-ece 0.05.")
    reading = reading | ({"groups_key": by} if by else {})
    settings = {"bins": bins, "bootstrap": bootstrap, "level": level, "seed": seed}
    if report is not None:
        if len(predictions) > 1:
            raise ValueError("A report of shards needs them as one pattern in quotes: 'preds/*.parquet'.")
        check_destination(report, [path for path in predictions if Path(path).is_file()])
    chosen, side = names_in(metrics, "--metrics"), check_judge(judge)
    if classes and (json or are_shards(predictions, sharded) or is_remote(predictions[0])):
        raise ValueError("--classes prints a table of one local file; leave it out, or --json.")
    outside: list[dict[str, Any]] = []
    if are_shards(predictions, sharded):
        sharded.check(
            {"--ood": ood, "--convention": convention != "focalcal", "--method": method not in (None, "honest")}
        )
        measured = {"bins": bins, "level": level, "seed": seed, "intervals": intervals, "by": by}
        measurement = _measure_shards(predictions, chosen, thresholds, measured, reading, side, sharded)
    else:
        only = predictions[0] if is_remote(predictions[0]) else Path(predictions[0])
        wanted = {"method": method, "intervals": intervals, "by": by}
        measurement = _measure(only, chosen, thresholds, convention, settings | wanted, reading, side)
        outside = measure_ood(Path(predictions[0]), named_files(ood or []), reading)
    measurement = replace(measurement, each_group=each_group, columns=chosen)
    if json:
        content = measurement.to_dict(settings)
        print_json({**content, "ood": outside} if outside else content)
    else:
        measurement.print()
        # Of pairs there is no other place that names classes.
        pairs = measurement.evaluation.of == "confidence" and not are_shards(predictions, sharded)
        if classes or (pairs and not is_remote(predictions[0]) and "predicted" not in (by or ())):
            table = class_table(open_input(Path(predictions[0]), reading), bins, level)
            if table is not None:
                results().print(table)
            elif classes:
                results().print("--classes: these pairs do not say which class each answer named.")
        if outside:
            print_ood(outside)
        measurement.print_gates()
    if report is not None:
        _write_report(predictions[0], report, settings | {"by": by}, reading)
    for failure in measurement.failures:
        note(failure)
    if measurement.failures:
        raise typer.Exit(1)


@dataclass(frozen=True)
class _InOtherBins:
    """ECE and MCE as another library bins, and as focalcal does."""

    name: str
    values: dict[str, float]
    ours: dict[str, float]

    def to_dict(self) -> dict[str, Any]:
        moved = {metric: value - self.ours[metric] for metric, value in self.values.items()}
        return {"name": self.name, "values": self.values, "moved": moved}

    def __str__(self) -> str:
        parts = []
        for name, value in self.values.items():
            moved = f"{100 * (value - self.ours[name]):+.4f}".replace("-", "−")
            parts.append(f"{METRICS[name].heading} is {format_value(name, value)} ({moved} points)")
        return f"In the bins of {self.name}, {' and '.join(parts)}."


@dataclass(frozen=True)
class _Measurement:
    """Everything about one file."""

    name: str
    file: str
    kind: str
    split: str | None
    evaluation: Evaluation
    gates: list[Gate]
    other_bins: _InOtherBins | None
    judge: Judge = "estimate"
    each_group: bool = False
    columns: list[str] | None = None

    @cached_property
    def judged_groups(self) -> list[dict[str, Any]]:
        """The thresholds of every group; none where they are not asked for."""
        return judge_groups(self.gates, self.evaluation, self.judge) if self.each_group else []

    def _compared_value(self, gate: Gate) -> float:
        """Return what a gate is compared with."""
        return gate.compared_value(self.evaluation, self.judge)

    @property
    def failures(self) -> list[str]:
        found = [(gate, self._compared_value(gate)) for gate in self.gates]
        whole = [gate.failure(value, self.judge) for gate, value in found if not gate.is_met(value)]
        return [*whole, *group_failures(self.gates, self.judged_groups, self.judge)]

    def to_dict(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Return everything for JSON: no path of the machine, only the file's name."""
        return {
            "file": self.file,
            "kind": self.kind,
            "split": self.split,
            **self.evaluation.to_dict(),
            "bootstrap": settings["bootstrap"],
            "seed": settings["seed"],
            "verdict": verdict(self.evaluation),
            "judge": self.judge,
            "gates": [gate.to_dict(self._compared_value(gate)) for gate in self.gates],
            **({"group_gates": self.judged_groups} if self.each_group else {}),
            "gates_met": not self.failures,
            **({} if self.other_bins is None else {"convention": self.other_bins.to_dict()}),
        }

    def print(self) -> None:
        """Print the table and the verdict."""
        console, found = results(), self.evaluation
        split = "" if self.split is None else f", split {self.split}"
        console.print(f"{self.name}: {data_size(found)}{split}")
        console.print(describe_measure(found.of, found.event))
        console.print(_metrics_table(found))
        for sentence in (*verdict(found), *found.notes, *([] if self.other_bins is None else [str(self.other_bins)])):
            console.print(sentence)
        for table in found.by.values():
            print_group_table(table, self.columns)

    def print_gates(self) -> None:
        """Print which thresholds are met."""
        from rich.text import Text

        for gate in self.gates:
            met = gate.is_met(self._compared_value(gate))
            words, style = ("passed", "green") if met else ("FAILED", "bold red")
            results().print(Text(f"{gate.option}: {words}", style=style))
        if self.each_group:
            failed = sum(not one["met"] for one in self.judged_groups)
            results().print(f"--each-group: {len(self.judged_groups) - failed:,} passed, {failed:,} failed")
            if said := not_judged(self.gates, self.evaluation, self.judged_groups):
                results().print(said)


def _measure(
    path: Path | str,
    metrics: list[str] | None,
    gates: list[Gate],
    convention: str,
    settings: dict[str, Any],
    reading: dict[str, Any],
    judge: Judge,
) -> _Measurement:
    from focalcal.metrics import evaluate

    file = open_input(path, reading)
    name = path.resolve().name if isinstance(path, Path) else path.rpartition("/")[2]
    with spinner(f"evaluating {name}"):
        names = _with_gates(metrics, gates)
        other_bins = None if convention == "focalcal" else _in_other_bins(file, settings["bins"], convention)
        evaluation = evaluate(file, metrics=names, **settings)
    _check_gates(gates, evaluation, judge)
    own = os.path.basename(file.path)
    return _Measurement(name, own, file.kind, file.split, evaluation, gates, other_bins, judge)


def _measure_shards(
    paths: list[str],
    metrics: list[str] | None,
    gates: list[Gate],
    settings: dict[str, Any],
    reading: dict[str, Any],
    judge: Judge,
    sharded: ShardOptions,
) -> _Measurement:
    from focalcal.metrics.streaming.sharded_evaluation import measure_shards

    with spinner("evaluating shards"):
        names = _with_gates(metrics, gates)
        evaluation, shards = measure_shards(paths, metrics=names, **settings, **sharded.arguments(), **reading)
    _check_gates(gates, evaluation, judge)
    name = paths[0] if len(paths) == 1 else f"{len(paths)} shards"
    own = os.path.basename(paths[0]) if len(paths) == 1 else name
    return _Measurement(name, own, shards.fact("kind"), shards.split, evaluation, gates, None, judge)


def _with_gates(metrics: list[str] | None, gates: list[Gate]) -> list[str] | None:
    return None if metrics is None else list(dict.fromkeys([*metrics, *(gate.metric for gate in gates)]))


def _check_gates(gates: list[Gate], evaluation: Evaluation, judge: Judge) -> None:
    for gate in gates:
        if gate.metric not in evaluation.values:
            raise ValueError(f"{gate.metric} cannot be computed from these predictions; leave out {gate.option}.")
        if judge == "upper" and gate.metric not in evaluation.intervals:
            raise ValueError(f"{gate.metric} has no interval here, which --judge upper needs; leave out {gate.option}.")


def _in_other_bins(file: PredictionsFile, bins: int, convention: str) -> _InOtherBins:
    """Compute ECE and MCE in another library's bins and in ours, in one pass over the file."""
    from focalcal.metrics.binning import largest_gap, mean_gap
    from focalcal.metrics.calibration_error import bins_by_convention

    names = (convention, "focalcal")
    totals: dict[str, BinSums] = {}
    for block in file.blocks():
        for name in names:
            sums = bins_by_convention(block, bins=bins, convention=cast("Convention", name))
            totals[name] = _add(totals[name], sums) if name in totals else sums
    theirs, ours = ({"ece": mean_gap(totals[name]), "mce": largest_gap(totals[name])} for name in names)
    return _InOtherBins(convention, theirs, ours)


def _add(a: BinSums, b: BinSums) -> BinSums:
    return type(a)(a.count + b.count, a.confidence + b.confidence, a.correct + b.correct)


def _metrics_table(found: Evaluation) -> Table:
    from rich.table import Table

    table = Table("metric")
    table.add_column("value", justify="right", no_wrap=True)
    if found.intervals:
        table.add_column(f"{100 * (found.level or 0):g}% interval", no_wrap=True)
    table.add_column("reading")
    group = None
    for name, value in found.values.items():
        if group not in (None, METRICS[name].group):
            table.add_section()
        group = METRICS[name].group
        interval = format_interval(found.intervals.get(name), partial(format_value, name))
        metric = describe_metric(name, found.of, found.event)
        cells = [format_value(name, value), interval, metric.reading]
        table.add_row(metric.heading, *(cells if found.intervals else cells[::2]))
    return table


def _write_report(source: str, out: Path, settings: dict[str, Any], reading: dict[str, Any]) -> None:
    with spinner("writing the report"):
        from focalcal.report import write_report

        write_report([source], out, command=command_line(), reading=reading, **settings)
    note(f"Wrote {out}.")
