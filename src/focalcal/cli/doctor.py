"""``focalcal doctor``: facts about a predictions file, and what is suspicious about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from focalcal.base.progress import spinner
from focalcal.cli.failures import sentence
from focalcal.cli.inputs import predictions_file
from focalcal.cli.options import READ_OPTIONS, Json, pack_options
from focalcal.cli.output import print_json, results

if TYPE_CHECKING:
    from focalcal.diagnosis import Diagnosis

_STYLES = {"problem": "bold red", "warning": "yellow", "info": "dim"}


@pack_options("reading", READ_OPTIONS)
def doctor(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A predictions file, or a run directory (its test predictions).")
    ],
    val: Annotated[
        Path | None, typer.Option(help="The validation predictions that go with it (or the run directory).")
    ] = None,
    bins: Annotated[int, typer.Option(min=1, help="Number of bins that the ECE will have.")] = 15,
    json: Json = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Describe a predictions file, and say what is suspicious about it.

    Looks for probabilities that are called logits, values that were rounded to float16, labels that are shifted or
    missing or no better than chance, samples that occur twice, a temperature that has no optimum, too few samples for
    the bins; and with --val for validation data that equals the test data or has other classes.

    The exit code is 0 if there is no problem (there may be warnings), 1 if there is one, 2 if the file cannot be read.

    Examples:
      focalcal doctor test.safetensors
      focalcal doctor test.npz --val val.npz
      focalcal doctor scores.csv --probs-key score --labels-key truth --json
    """
    with spinner(f"examining {file.name}"):
        from focalcal.diagnosis import diagnose

        other = None if val is None else predictions_file(val, "val")
        found = diagnose(predictions_file(file), val=other, bins=bins, **reading)
    if json:
        print_json(_in_options(found.to_dict()))
    else:
        _print(found)
    if found.problems:
        raise typer.Exit(1)


def _in_options(content: dict[str, Any]) -> dict[str, Any]:
    """Write advice in the words of the command line."""
    findings = [{**finding, "advice": sentence(finding["advice"])} for finding in content["findings"]]
    return {**content, "findings": findings}


def _print(found: Diagnosis) -> None:
    from rich.table import Table
    from rich.text import Text

    console, table = results(), Table.grid("", "", padding=(0, 2))
    for name, text in _fact_rows(found.facts):
        table.add_row(Text(name, style="bold"), Text(text))
    console.print(table)
    for finding in found.findings:
        line = Text(f"{finding.severity}: ", style=_STYLES[finding.severity])
        console.print(line + Text(sentence(f"{finding.what} {finding.advice}".rstrip())))
    if all(finding.severity == "info" for finding in found.findings):
        console.print("Nothing suspicious was found.")


def _fact_rows(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    masked, names = facts["masked_classes"], facts["class_names"]
    answered = [count for number, count in enumerate(facts["samples_by_class"]) if number not in masked]
    rows = [
        ("file", f"{facts['file']} ({facts['format']}, {facts['bytes']:,} bytes)"),
        ("outputs", f"{facts['kind']}, {facts['samples']:,} × {facts['classes']}, {facts['dtype']}"),
        ("measured", facts["measured"]),
        ("labels", f"{facts['labels']}, {_distribution(answered)}"),
        ("split", facts["split"] or "not given"),
        ("classes", _list(names) if names else "no names"),
        ("ids", "yes" if facts["ids"] else "no"),
        ("weights", "yes" if facts["weights"] else "no"),
        ("provenance", _list([f"{key} = {value}" for key, value in facts["provenance"].items()]) or "not given"),
        ("accuracy", f"{100 * facts['accuracy']:.2f}%"),
        ("mean score" if facts["of"] == "score" else "mean confidence", f"{100 * facts['mean_confidence']:.2f}%"),
    ]
    if masked:
        rows.insert(3, ("masked", _list([names[i] if names else str(i) for i in masked]) + " (never the answer)"))
    left_out = facts["samples_in_file"] - facts["samples"]
    return rows if not left_out else [*rows, ("not examined", f"{left_out:,} samples")]


def _distribution(counts: list[int]) -> str:
    least, most = min(counts), max(counts)
    return f"{least:,} per class" if least == most else f"{least:,} to {most:,} per class"


def _list(texts: Sequence[str], most: int = 6) -> str:
    return ", ".join(texts[:most]) + (f" and {len(texts) - most} more" if len(texts) > most else "")
