"""The texts of a result: how it was made, what is kept of it, and the paper's figures beside ours."""

import json
from collections.abc import Sequence
from pathlib import Path

from focalcal.paper import paper_tables
from focalcal.paper.loss_comparison import selected_rows
from focalcal.paper.sweep_tables import LEGEND
from focalcal.sweeps.finished import read_index
from focalcal.sweeps.loss_table import average_figures, best_losses, lines_as_markdown, table_line
from focalcal.sweeps.result import CURVES
from focalcal.sweeps.result_rows import Row, read_rows
from focalcal.training.run_directory import RunDirectory, read_history

HOW = "\n## How it was made\n\n"
_TABLES = (
    "`table.csv`: every figure, T by validation ECE (the paper's grid); `table_nll.csv`: T by validation NLL; "
    "`histories/`: every epoch of every run."
)
_RECORDED = (
    "`recorded/`: histograms of gradient norms (`gradient-norms.jsonl`), and for each snapshot of the training set the "
    "number of samples, their summed confidence and the number of right answers in 25 bins of equal width "
    "(`snapshots.json`)."
)


_TRANSLATORS = (
    "`curves.csv`: BLEU and ECE by temperature; `translations/`: of the test set, with a beam of 5, at T = 1, at T of "
    "the lowest validation ECE and at T of the highest BLEU; `bleu_differences.csv`: paired bootstrap between them "
    "(`python results/collect.py --again` makes them again). Predictions of tokens are too large to be kept, so the "
    "tables cannot be made again from here."
)


def earlier_batches(readme: Path) -> str:
    """Read the command, machine and dates of the runs that a result has already from its README."""
    how = readme.read_text(encoding="utf-8").partition(HOW)[2]
    return how.partition(_TABLES)[0]


def how_it_was_made(folder: Path, runs: Sequence[Path], command: str, earlier: str = "") -> str:
    """Command, machine, versions, dates, and what the files of a result are.

    Args:
        folder: Folder of the result, with everything in it but the README.
        runs: The run directories.
        command: Command that made them.
        earlier: The same of the runs that were there before.
    """
    environments = [json.loads(RunDirectory(run).environment.read_text(encoding="utf-8")) for run in runs]
    first = environments[0]
    days = sorted({environment["started"][:10] for environment in environments})
    versions = ", ".join(f"{name} {version}" for name, version in first["packages"].items())
    seconds = sum(_seconds(run) for run in runs)
    count = f"{len(runs)} run{'s' * (len(runs) > 1)}"
    facts = [
        f"Made by `{command}`.",
        f"{count}, begun {' to '.join(dict.fromkeys((days[0], days[-1])))}; {first['threads']} thread each on "
        f"a machine with {first['cores']} cores and no GPU, which had other work to do; {seconds / 3600:.1f} hours of "
        f"training in all. Python {first['python']}; {versions}.",
        _TABLES,
        _TRANSLATORS if (folder / CURVES).is_file() else _about_predictions(folder),
        *[_RECORDED] * (folder / "recorded").is_dir(),
    ]
    return earlier + "\n\n".join(facts) + "\n"


def _about_predictions(folder: Path) -> str:
    text = [
        "`predictions/`: logits and labels of the runs that kept them, from which `python results/collect.py --again "
        f"{folder.name}` makes the tables again. Each row of logits is moved so that its largest is 0, and is in "
        "float16 wherever that changes no figure of the tables as printed (two decimals, T too), in float32 elsewhere."
    ]
    short = [run.name for run in read_index(folder / "predictions") if "last" not in run.selections]
    if short:
        text.append(f"The last epoch is left out for its size in {', '.join(short)}; its rows stay as first measured.")
    rows = read_rows(folder / "table.csv")
    if any("CIFAR-10-C severity" in row.dataset for row in rows):
        text.append(
            "Of CIFAR-10-C only severity 5 is kept: the rows of the other severities were measured on all of its "
            "images when the runs were collected, and stay so."
        )
    measured = {row.method for row in rows if row.is_out_of_distribution}
    kept = {run.loss for run in read_index(folder / "predictions") if len(run.splits(run.shown)) > 2}
    without_ood = sorted(measured - kept)
    if without_ood:
        text.append(f"No out-of-distribution set is kept for {', '.join(without_ood)}; those rows stay, too.")
    return " ".join(text)


def table_of_rows(heading: str, rows: Sequence[Row]) -> str:
    """The table of a result of which some losses kept no predictions: without ties, which need those."""
    selected = [row for row in selected_rows(rows) if not row.is_out_of_distribution]
    losses = list(dict.fromkeys(row.method for row in selected))
    found = average_figures(selected)
    best = best_losses(found, losses)
    lines = {loss: table_line(found, loss, best, {}) for loss in losses}
    seeds = len({row.seed for row in selected})
    caption = (
        "Test set; percent; before → after temperature scaling (T by validation ECE, as in the paper); mean ± standard "
        f"deviation of up to {seeds} seeds. Bold: the lowest mean. Which losses differ significantly from it is not "
        "said, because not all of them kept their predictions."
    )
    return f"# {heading}\n\n{lines_as_markdown(lines)}\n\n{caption}\n"


def beside_the_paper(folder: Path) -> str:
    """Our figures beside the published ones, in Markdown."""
    head = f"Made by `focalcal paper table results/{folder.name}/table.csv --markdown`. {LEGEND}\n"
    return "\n".join([head, *(one.markdown() for one in paper_tables(read_rows(folder / "table.csv")))])


def _seconds(run: Path) -> float:
    return sum(epoch["seconds"] for epoch in read_history(RunDirectory(run).history))
