"""Collecting a sweep of translators: tables, curves, and the translations that differences of BLEU are made from.

Predictions of tokens are far too large to be kept, so tables and curves stay as the sweep measured them. What compares
runs with each other (the differences of BLEU, the verdict) is made again from the kept translations, so that runs can
be added to a result whose own run directories are gone.
"""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from focalcal.base.files import atomic_writer
from focalcal.calibrators.temperature_scaling import Objective
from focalcal.data import DATA_NAMES, load_data
from focalcal.data.parallel_text import read_lines
from focalcal.data.sentence_pairs import SentencePairs
from focalcal.sweeps.bleu_differences import Translated, measure_differences, write_differences
from focalcal.sweeps.plan import PlannedRun
from focalcal.sweeps.result import CURVES, DIFFERENCES, FILES, SweepResult, translators_result
from focalcal.sweeps.result_rows import Row, read_rows, title, write_rows
from focalcal.sweeps.translated_run import CurvePoint, TranslatedRun, peak_of, read_curves, write_curves
from focalcal.sweeps.translation_result import TranslationResult
from focalcal.training import RunDirectory, open_run
from focalcal.translation import measure_bleu
from recorded_files import copy_histories
from result_pages import HOW, earlier_batches, how_it_was_made
from row_order import method_seeds, place


def collect_translators(sweep: Path, folder: Path, command: str, *, add: bool = False) -> None:
    """Keep what a sweep of translators measured.

    Args:
        sweep: The folder that ``focalcal sweep`` wrote.
        folder: Folder of the result.
        command: Command that made the runs, for the README.
        add: Keep the runs that the result has already, except those that are collected now.

    Raises:
        ValueError: One sentence, where the runs that the result has do not fit; nothing was changed.
    """
    new = _Tables.read(sweep)
    runs = [_open(sweep, loss, seed) for loss, seed in method_seeds(new.rows["ece"])]
    old = _Tables.read(folder).without(runs) if add else _Tables({name: [] for name in FILES}, [])
    old.check_place(new, folder)
    references = TranslatedRun(runs[0]).references
    kept = [_kept(folder, old, loss, seed, references) for loss, seed in method_seeds(old.rows["ece"])]
    translated = {
        (one.method, one.seed): one for one in [*kept, *(TranslatedRun(run).pick_translations() for run in runs)]
    }
    tables = old.join(new)
    result = tables.compared(translated, references, runs[0].recipe.select)
    earlier = earlier_batches(folder / "README.md") if add else ""

    if not add:
        for name in ("translations", "histories"):
            shutil.rmtree(folder / name, ignore_errors=True)
    (folder / "translations").mkdir(parents=True, exist_ok=True)
    for objective, name in FILES.items():
        write_rows(folder / name, tables.rows[objective])
    write_curves(folder / CURVES, tables.curves)
    write_differences(folder / DIFFERENCES, result.differences)
    for run in runs:
        _keep(translated[run.loss, run.seed], folder)
    paths = {f"{run.loss}-seed-{run.seed}": run.path for run in runs}
    copy_histories(paths, folder / "histories")
    how = how_it_was_made(folder, list(paths.values()), command, earlier)
    (folder / "README.md").write_text(result.to_markdown() + HOW + how, encoding="utf-8")
    print(f"results/{folder.name}: {len(translated)} runs, {len(runs)} of them new.")


def compare_again(folder: Path) -> None:
    """Compare the kept translations of a result again: its differences of BLEU and what its README says of them.

    Args:
        folder: Folder of the result.
    """
    tables = _Tables.read(folder)
    first = tables.rows["ece"][0]
    test = load_data(next(name for name in DATA_NAMES if title(name) == first.dataset)).evaluation["test"]
    assert isinstance(test, SentencePairs)
    references = list(test.references)
    runs = method_seeds(tables.rows["ece"])
    translated = {(loss, seed): _kept(folder, tables, loss, seed, references) for loss, seed in runs}
    result = tables.compared(translated, references, first.selection)
    how = (folder / "README.md").read_text(encoding="utf-8").partition(HOW)[2]
    write_differences(folder / DIFFERENCES, result.differences)
    (folder / "README.md").write_text(result.to_markdown() + HOW + how, encoding="utf-8")
    print(f"results/{folder.name}: {len(result.differences)} differences of BLEU, compared again.")


@dataclass(frozen=True)
class _Tables:
    rows: Mapping[Objective, Sequence[Row]]
    curves: Sequence[CurvePoint]

    @classmethod
    def read(cls, folder: Path) -> "_Tables":
        """Read the tables of a sweep or of a result."""
        rows = {objective: read_rows(folder / name) for objective, name in FILES.items()}
        return cls(rows, read_curves(folder / CURVES))

    def without(self, runs: Sequence[PlannedRun]) -> "_Tables":
        """Leave out runs that are collected again."""
        replaced = {(run.loss, run.seed) for run in runs}
        rows = {
            objective: [row for row in found if (row.method, row.seed) not in replaced]
            for objective, found in self.rows.items()
        }
        return _Tables(rows, [point for point in self.curves if (point.method, point.seed) not in replaced])

    def join(self, other: "_Tables") -> "_Tables":
        """Add the runs of another, in the order of a sweep."""
        rows = {name: sorted([*found, *other.rows[name]], key=place) for name, found in self.rows.items()}
        order = method_seeds(rows["ece"])
        curves = sorted([*self.curves, *other.curves], key=lambda one: order.index((one.method, one.seed)))
        return _Tables(rows, curves)

    def compared(
        self, translated: Mapping[tuple[str, int], Translated], references: Sequence[str], select: str
    ) -> SweepResult:
        """Compare the translations of all runs, and lay the result out as that of any sweep."""
        order = method_seeds(self.rows["ece"])
        differences = measure_differences([translated[one] for one in order], references)
        losses = tuple(dict.fromkeys(loss for loss, _ in order))
        return translators_result(TranslationResult(self.rows, self.curves, differences, losses), select)

    def check_place(self, new: "_Tables", folder: Path) -> None:
        """Refuse runs of other data or another network."""
        (place_of_new,) = {(row.dataset, row.model) for row in new.rows["ece"]}
        for row in self.rows["ece"]:
            if (row.dataset, row.model) != place_of_new:
                raise ValueError(
                    f"{folder.name} is about {row.dataset} with {row.model}, the sweep about "
                    f"{' with '.join(place_of_new)}: choose another name for it."
                )


def _open(sweep: Path, loss: str, seed: int) -> PlannedRun:
    path = sweep / loss / f"seed-{seed}"
    return PlannedRun(loss, seed, path, open_run(path).recipe)


def _texts(folder: Path, loss: str, seed: int, temperature: float) -> Path:
    """Name the kept translations as a run names its own."""
    return folder / "translations" / RunDirectory(folder).translation(f"{loss}-seed-{seed}", temperature).name


def _keep(one: Translated, folder: Path) -> None:
    for temperature, texts in one.texts.items():
        with atomic_writer(_texts(folder, one.method, one.seed, temperature)) as out:
            out.write("".join(f"{text}\n" for text in texts).encode())


def _kept(folder: Path, tables: _Tables, loss: str, seed: int, references: Sequence[str]) -> Translated:
    """Read the kept translations of a run, and check that they are of this test set."""
    (calibrated,) = (
        row.temperature or 1.0
        for row in tables.rows["ece"]
        if (row.method, row.seed, row.metric, row.temperature_scaling) == (loss, seed, "bleu", "post")
    )
    curve = [point for point in tables.curves if (point.method, point.seed) == (loss, seed)]
    peak = peak_of(curve)
    texts = {one: read_lines(_texts(folder, loss, seed, one)) for one in sorted({1.0, calibrated, peak})}
    expected = {point.temperature: point.bleu for point in curve}
    for temperature, lines in texts.items():
        found = measure_bleu(lines, references).score if len(lines) == len(references) else float("nan")
        if temperature in expected and f"{found:.6g}" != f"{expected[temperature]:.6g}":
            raise ValueError(
                f"{_texts(folder, loss, seed, temperature)} does not have the BLEU that {CURVES} gives it "
                f"({found:.2f} instead of {expected[temperature]:.2f}): it is of another test set, or was changed."
            )
    return Translated(loss, seed, calibrated, peak, texts)
