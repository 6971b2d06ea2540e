"""``focalcal evaluate``: every metric of a predictions file, with intervals, a verdict and an exit code."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from focalcal.cli.destinations import check_place
from focalcal.cli.gates import GATE_OPTIONS, chosen_gates
from focalcal.cli.output import print_json, progress, say
from focalcal.cli.packed_options import packed
from focalcal.cli.report import command_line, needing_extra
from focalcal.cli.sources import READ_OPTIONS, check_exist

if TYPE_CHECKING:
    from focalcal.cli.measured import Request


@packed("gates", GATE_OPTIONS)
@packed("reading", READ_OPTIONS)
def evaluate(
    predictions: Annotated[
        Path,
        typer.Argument(metavar="PREDICTIONS", help="A predictions file, or a run directory (its test predictions)."),
    ],
    bins: Annotated[int, typer.Option(min=1, help="How many bins the binned metrics have.")] = 15,
    bootstrap: Annotated[int, typer.Option(min=0, help="How many resamples make the intervals; 0 for none.")] = 1000,
    level: Annotated[float, typer.Option(help="How often an interval is to cover what it estimates.")] = 0.9,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same intervals.")] = 0,
    metrics: Annotated[str | None, typer.Option(help="Only these, separated by commas: ece,nll,error.")] = None,
    convention: Annotated[
        str, typer.Option(help="torchmetrics or netcal: show ECE and MCE as they bin, and how far they move.")
    ] = "focalcal",
    compare: Annotated[
        Path | None, typer.Option(help="Another model's predictions of the same samples, to compare with.")
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Also write a report, as HTML, to this file.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
    *,
    reading: dict[str, Any],
    gates: dict[str, float],
) -> None:
    """Measure how far a classifier's confidence can be trusted.

    Reads .safetensors, .npz, .parquet or .csv with labels and logits or probabilities. Prints every metric with its
    interval, and a verdict in words.

    There is a --max-METRIC and a --min-METRIC for every metric, which take fractions (0.02 is 2%). The exit code is 1
    if such a bound is not kept, and 2 for bad input.

    Examples:
      focalcal evaluate test.safetensors
      focalcal evaluate test.npz --max-ece 0.02 --min-accuracy 0.9
      focalcal evaluate runs/a --compare runs/b
      focalcal evaluate test.npz --json --metrics ece,nll --bootstrap 0
      focalcal evaluate test.npz --report report.html
      focalcal evaluate scores.csv --probs-key score --labels-key truth
    """
    check_exist(predictions, compare, reading.get("labels"))
    bounds = chosen_gates(gates)
    if report is not None:
        check_place(report, [path for path in (predictions, compare) if path is not None and path.is_file()])
    from focalcal.cli.measured import Request, measure

    request = Request(_metric_names(metrics), bins, bootstrap, level, seed, convention)
    measured = measure(predictions, compare, reading, request, bounds)
    if json:
        print_json(measured.to_dict())
    else:
        from focalcal.cli.evaluation_output import print_evaluation

        print_evaluation(measured)
    if report is not None:
        _write_report(report, [predictions] if compare is None else [predictions, compare], request, reading)
    for failure in measured.failures:
        say(failure)
    if measured.failures:
        raise typer.Exit(1)


def _write_report(out: Path, sources: list[Path], request: Request, reading: dict[str, Any]) -> None:
    with progress("writing the report"), needing_extra():
        from focalcal.report import write_report

        write_report(
            sources,
            out,
            bins=request.bins,
            bootstrap=request.bootstrap,
            level=request.level,
            seed=request.seed,
            command=command_line(),
            reading=reading,
        )
    say(f"Wrote {out}.")


def _metric_names(metrics: str | None) -> tuple[str, ...] | None:
    """``ada-ece, nll`` to ``("ada_ece", "nll")``; what is no metric is found out by the library, which knows them."""
    if metrics is None:
        return None
    names = tuple(name.strip().lower().replace("-", "_") for name in metrics.split(",") if name.strip())
    if not names:
        raise ValueError("--metrics names no metric; give some, separated by commas, such as ece,nll.")
    return names
