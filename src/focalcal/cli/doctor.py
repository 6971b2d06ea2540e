"""``focalcal doctor``: what a predictions file is, and what is suspicious about it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from focalcal.cli.output import print_json, progress, results
from focalcal.cli.packed_options import packed
from focalcal.cli.sources import READ_OPTIONS, check_exist, opened, shown_names

if TYPE_CHECKING:
    from focalcal.cli.examination.finding import Examined, Finding
    from focalcal.predictions import Predictions, PredictionsFile

# Outputs that are examined at most: 256 MB of float32, of which the checks make copies.
_MOST_VALUES = 2**26
_STYLES = {"problem": "bold red", "warning": "yellow", "info": "dim"}
_ORDER = {severity: place for place, severity in enumerate(_STYLES)}


@packed("reading", READ_OPTIONS)
def doctor(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A predictions file, or a run directory (its test predictions).")
    ],
    val: Annotated[
        Path | None, typer.Option(help="The validation predictions that go with it (or the run directory).")
    ] = None,
    bins: Annotated[int, typer.Option(min=1, help="How many bins the ECE is to have.")] = 15,
    json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Say what a predictions file is, and what is suspicious about it.

    Looks for probabilities that are called logits, values that were rounded to float16, labels that are shifted or
    missing or no better than chance, samples that occur twice, a temperature that has no optimum, too few samples for
    the bins; and with --val for validation data that equals the test data or has other classes.

    The exit code is 0 if there is no problem (there may be warnings), 1 if there is one, 2 if the file cannot be read.

    Examples:
      focalcal doctor test.safetensors
      focalcal doctor test.npz --val val.npz
      focalcal doctor scores.csv --probs-key score --labels-key truth --json
    """
    check_exist(file, val, reading.get("labels"))
    with progress(f"examining {file.name}"):
        test = _examined(file, "test", reading, bins)
        findings = [*_findings(test), *(() if val is None else _findings_about_both(test, file, val))]
    findings.sort(key=lambda finding: _ORDER[finding.severity])
    _print(test, findings, json)
    if any(finding.severity == "problem" for finding in findings):
        raise typer.Exit(1)


def _examined(path: Path, split: str, reading: dict[str, Any], bins: int) -> Examined:
    from focalcal.cli.examination.finding import Examined

    # An id that occurs twice is a finding here, not a reason to stop.
    file = opened(path, {**reading, "allow_duplicate_ids": True}, split)
    preds, is_part = _first_samples(file)
    return Examined(file, preds, is_part, reading, bins)


def _first_samples(file: PredictionsFile) -> tuple[Predictions, bool]:
    """All samples, or as many of the first as fit into memory easily."""
    from focalcal.predictions import concatenate

    parts: list[Predictions] = []
    values = 0
    for block in file.blocks():
        if parts and values + block.values.numel() > _MOST_VALUES:
            return concatenate(parts), True
        parts.append(block)
        values += block.values.numel()
    return concatenate(parts), False


def _findings(examined: Examined) -> Iterator[Finding]:
    from focalcal.cli.examination import fit, labels, outputs, repeats
    from focalcal.cli.examination.finding import Finding

    if examined.is_part:
        yield Finding("info", "part_of_file", f"Only the first {len(examined.preds):,} samples were examined.")
    for look in (
        outputs.wrong_kind,
        outputs.rounded,
        outputs.saturated,
        outputs.one_class,
        labels.missing_classes,
        labels.shifted_labels,
        labels.accuracy_by_chance,
        repeats.repeated_ids,
        repeats.repeated_rows,
        fit.temperature,
        fit.too_few_samples,
    ):
        yield from look(examined)


def _findings_about_both(test: Examined, file: Path, val: Path) -> Iterator[Finding]:
    from focalcal.cli.examination import pairs

    other, names = _examined(val, "val", dict(test.reading), test.bins), shown_names(file, val)
    for look in (pairs.different_classes, pairs.wrong_splits, pairs.common_samples):
        yield from look(test.preds, other.preds, names)


def _print(test: Examined, findings: list[Finding], json: bool) -> None:
    from rich.table import Table
    from rich.text import Text

    from focalcal.cli.examination.facts import facts, shown_facts

    found = facts(test)
    if json:
        problems = sum(finding.severity == "problem" for finding in findings)
        print_json({**found, "findings": [finding.to_dict() for finding in findings], "problems": problems})
        return
    console, table = results(), Table.grid("", "", padding=(0, 2))
    for name, text in shown_facts(found):
        table.add_row(Text(name, style="bold"), Text(text))
    console.print(table)
    for finding in findings:
        line = Text(f"{finding.severity}: ", style=_STYLES[finding.severity])
        console.print(line + Text(f"{finding.what} {finding.advice}".rstrip()))
    if all(finding.severity == "info" for finding in findings):
        console.print("Nothing suspicious was found.")
