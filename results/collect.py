"""Puts a finished comparison into results/: ``python results/collect.py runs/resnet8 cifar10_resnet8``.

Copies the tables and histories that ``focalcal compare`` wrote, writes a README with the command, the versions and the
date that made them, and puts the paper's figures beside them where it has any.
"""

import json
import shutil
import sys
from pathlib import Path

from focalcal.comparison.rows import read_rows
from focalcal.paper import paper_tables, published
from focalcal.paper.table import LEGEND

RESULTS = Path(__file__).parent
_TABLES = ("table.csv", "table_nll.csv")


def collect(comparison: Path, name: str, command: str) -> None:
    """Copy what a comparison wrote, and say how it was made."""
    folder = RESULTS / name
    folder.mkdir(exist_ok=True)
    for table in _TABLES:
        shutil.copy(comparison / table, folder / table)
    histories = folder / "histories"
    shutil.rmtree(histories, ignore_errors=True)
    histories.mkdir()
    rows = read_rows(folder / "table.csv")
    runs = [comparison / loss / f"seed-{seed}" for loss, seed in dict.fromkeys((row.method, row.seed) for row in rows)]
    for run in runs:
        shutil.copy(run / "history.jsonl", histories / f"{run.parent.name}-{run.name}.jsonl")
    (folder / "README.md").write_text(_readme(comparison, runs, command), encoding="utf-8")
    if published(rows[0].dataset, rows[0].model):
        (folder / "beside_the_paper.md").write_text(_beside_the_paper(name), encoding="utf-8")


def _readme(comparison: Path, runs: list[Path], command: str) -> str:
    environments = [json.loads((run / "environment.json").read_text(encoding="utf-8")) for run in runs]
    first = environments[0]
    days = sorted({environment["started"][:10] for environment in environments})
    versions = ", ".join(f"{name} {version}" for name, version in first["packages"].items())
    seconds = sum(_seconds(run) for run in runs)
    facts = [
        f"Made by `{command}`.",
        f"{len(runs)} runs, begun {' to '.join(dict.fromkeys((days[0], days[-1])))}; {first['threads']} thread each on "
        f"a machine with {first['cores']} cores and no GPU, which had other work to do; {seconds / 3600:.1f} hours of "
        f"training in all. Python {first['python']}; {versions}.",
        "`table.csv`: every figure, T by validation ECE (the paper's grid); `table_nll.csv`: T by validation NLL; "
        "`histories/`: every epoch of every run.",
    ]
    table = (comparison / "table.md").read_text(encoding="utf-8")
    return table + "\n## How it was made\n\n" + "\n\n".join(facts) + "\n"


def _beside_the_paper(name: str) -> str:
    table = RESULTS / name / "table.csv"
    head = f"Made by `focalcal paper table results/{name}/table.csv --markdown`. {LEGEND}\n"
    return "\n".join([head, *(one.markdown() for one in paper_tables(read_rows(table)))])


def _seconds(run: Path) -> float:
    lines = (run / "history.jsonl").read_text(encoding="utf-8").splitlines()
    return sum(json.loads(line)["seconds"] for line in lines)


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit("Usage: python results/collect.py COMPARISON NAME 'focalcal compare …'")
    collect(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
