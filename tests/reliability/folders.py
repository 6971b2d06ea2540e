"""Folders that are read whole: a run, a sweep, collected results, a translator's run, shards; one file is changed.

Each function of ``Folders`` is a case: it makes a copy, does something to one file of it, and reads everything.
"""

import dataclasses
import os
import random
import shutil
from pathlib import Path

import torch

from focalcal.calibrators import TemperatureScaling
from focalcal.metrics import evaluate
from focalcal.metrics.streaming.sharded_evaluation import evaluate_shards
from focalcal.paper.result_folders import find_results
from focalcal.plots.training_history import training_curves
from focalcal.predictions import Predictions, open_predictions
from focalcal.recipes import load_recipe
from focalcal.sweeps import sweep, write_slurm_job
from focalcal.sweeps.finished import finished_run, write_index
from focalcal.sweeps.plan import Plan
from focalcal.training import open_run, train
from reliability.checks import Failure, refused_or, run_cli
from reliability.mutations import mutate

SMALL = ("epochs=2", "data.train_size=60", "model.hidden=[8]", "hardware.threads=1", "record.test_every=1")
LOSSES = ("cross-entropy", "fl-3")
TRANSLATOR = (
    "multi30k/transformer_tiny", "data.synthetic=12", "epochs=1", "batch_tokens=100", "schedule.warmup_epochs=0.5",
)  # fmt: skip


class Folders:
    """Whole folders to be tampered with.

    Args:
        folder: Where they are made.
        commands_every: One case in so many goes through commands, too.
    """

    def __init__(self, folder: Path, commands_every: int) -> None:
        self.folder, self.commands_every = folder, commands_every
        self.sweep, self.results, self.translator = (folder / name for name in ("sweep", "results", "translator"))
        plan = Plan("digits/mlp", SMALL, LOSSES, (0,), self.sweep)
        write_slurm_job([plan], self.sweep)  # its tasks
        for run in plan.runs():
            train(run.recipe, out=run.path, progress=False)
        sweep("digits/mlp", SMALL, out=self.sweep, losses=LOSSES, measure_only=True, bootstrap=20, progress=False)
        self.run = self.sweep / "fl-3" / "seed-0"
        _collect(plan, self.results)
        train(load_recipe(TRANSLATOR[0], TRANSLATOR[1:]), out=self.translator, progress=False)
        (folder / "shards").mkdir()
        numbers = torch.Generator().manual_seed(3)
        for ending in (".npz", ".parquet", ".csv"):
            for name in "abc":
                preds = Predictions.from_logits(
                    torch.randn(8, 3, generator=numbers),
                    torch.arange(8) % 3,
                    ids=[f"{name}{number}" for number in range(8)],
                    groups={"site": ["x", "y"] * 4},
                )
                preds.save(folder / "shards" / f"{name}{ending}")
        TemperatureScaling().fit(preds).save(folder / "t.json")

    def attack_run(self, source: random.Random, number: int) -> str:
        """Read a run directory."""
        run, what = self._tampered(source, self.run)
        opened = refused_or(run, lambda: open_run(run), named=False)
        if opened is not None:
            for read in (
                lambda: opened.files.is_finished,
                lambda: opened.history,
                lambda: opened.evaluation,
                lambda: training_curves(opened.files.history),
                lambda: opened.predictions("val"),
                lambda: evaluate(opened.predictions("test"), metrics=["nll", "ece"], intervals=False),
            ):
                refused_or(run, read, named=False)
        if number % self.commands_every == 0:
            self._run_commands(
                source,
                ("evaluate", run, "--no-intervals"),
                ("report", run, "--out", run.with_name("report.html")),
                ("train", "digits/mlp", *SMALL, "loss=fl-3", "--out", run, "--resume"),
                ("calibrate", run, "--json"),
                ("export", run, "--out", run.with_name("model.onnx")),
            )
        return f"{what}, {'refused' if opened is None else 'read'}"

    def attack_sweep(self, source: random.Random, number: int) -> str:
        """Read and measure a sweep."""
        out, what = self._tampered(source, self.sweep)
        found = refused_or(out, lambda: _read_results(out), named=False)
        if number % self.commands_every < 3:
            self._run_commands(source, *sweep_commands(out))
        return f"{what}, {'refused' if found is None else 'read'}"

    def attack_results(self, source: random.Random, number: int) -> str:
        """Read collected results, and make the paper's pages of them."""
        results, what = self._tampered(source, self.results)
        found = refused_or(results, lambda: _read_results(results), named=False)
        if number % self.commands_every < 3:
            self._run_commands(source, *results_commands(results))
        return f"{what}, {'refused' if found is None else 'read'}"

    def attack_translator(self, source: random.Random, number: int) -> str:
        """Read the run of a translator, and translate."""
        run, what = self._tampered(source, self.translator)
        opened = refused_or(run, lambda: open_run(run), named=False)
        if opened is not None:
            tokens = opened.files.predictions("test")
            refused_or(tokens, lambda: evaluate(open_predictions(tokens), intervals=False), named=tokens.is_file())
            refused_or(run, lambda: opened.network(data=None) if number % 20 == 0 else None, named=False)
        if number % self.commands_every < 3:
            lines = run.with_name("lines.en")
            lines.write_text("ba de\n\nki\n")
            self._run_commands(
                source,
                ("translate", run, "--input", lines, "--beam", 2),
                ("translate", run, "--split", "val", "--beam", 1),
                ("evaluate", run, "--no-intervals"),
                ("doctor", run / "predictions" / "test.safetensors"),
                ("train", *TRANSLATOR, "--out", run, "--resume"),
            )
        return f"{what}, {'refused' if opened is None else 'read'}"

    def attack_shards(self, source: random.Random, number: int) -> str:
        """Evaluate shards of which one was tampered with; skipped, it leaves the result of the others."""
        folder = self.folder / "case" / "shards"
        ending = source.choice((".npz", ".parquet", ".csv"))
        folder.mkdir()
        for path in sorted((self.folder / "shards").glob(f"*{ending}")):
            shutil.copyfile(path, folder / path.name)
        what = tamper(source, folder / f"b{ending}")
        pattern, by = str(folder / f"*{ending}"), source.choice((None, "site"))
        found = refused_or(folder / "b", lambda: evaluate_shards(pattern, by=by, workers=1), named=what != "removed")
        skipped = evaluate_shards(pattern, by=by, workers=1, skip_bad_shards=True)
        if skipped.n < 16 or (found is not None and found.n != skipped.n):
            raise Failure(f"{skipped.n} samples are left where one shard of three was skipped")
        if number % self.commands_every < 3:
            scored = ("--out", folder.with_name("scored"), "--workers", 1)
            self._run_commands(
                source,
                ("evaluate", pattern, "--workers", 1, "--skip-bad-shards", "--json"),
                ("evaluate", pattern, "--workers", 1, "--by", "site"),
                ("apply", self.folder / "t.json", pattern, *scored),
                ("calibrate", pattern, pattern, "--allow-test", *scored),
            )
        return f"{what}, {'refused' if found is None else 'read'}"

    def _tampered(self, source: random.Random, whole: Path) -> tuple[Path, str]:
        copy = self.folder / "case" / whole.name
        shutil.copytree(whole, copy)
        files = [path for path in sorted(copy.rglob("*")) if path.is_file() and path.name != ".lock"]
        return copy, tamper(source, source.choice(files))

    def _run_commands(self, source: random.Random, *commands: tuple) -> None:
        """Run one of the commands; nothing half-written is left behind."""
        run_cli(*source.choice(commands))
        left = [entry.name for entry in (self.folder / "case").rglob("*.tmp")]
        if left:
            raise Failure(f"a command left {left}")


def sweep_commands(out: Path) -> list[tuple]:
    """Return the commands that read a sweep."""
    small = ("--losses", ",".join(LOSSES), "--bootstrap", "2", "--no-report", "--quiet")
    return [
        ("sweep", "digits/mlp", *SMALL, *small, "--out", out, "--measure-only"),
        ("paper", "table", out / "table.csv"),
        ("paper", "table", "ece", "--results", out),
        ("paper", "study", "miscalibration", "--results", out),
        ("train", "--task", out / "tasks.jsonl", "--index", "0", "--no-report"),
    ]


def results_commands(results: Path) -> list[tuple]:
    """Return the commands that read collected results."""
    one = results.with_name("figure.png")
    return [
        ("paper", "tables", "--results", results, "--out", results.with_name("tables")),
        ("paper", "study", "early-stopping", "--results", results),
        ("paper", "study", "calibration", "--results", results),
        ("paper", "figure", "training", "--runs", results, "--out", one),
        ("paper", "figure", "bars", "--runs", results, "--out", one),
    ]


def _read_results(folder: Path) -> list[object]:
    """Read everything that the paper's pages are made of."""
    found: list[object] = []
    for result in find_results([folder]):
        found += [result.rows, result.curves, result.places()]
        for run in result.runs:
            found += [run.name, run.history, run.gradient_norms, run.snapshots]
            if run.finished is not None:
                for selection in run.finished.selections:
                    found += [run.finished.predictions(split, selection) for split in run.finished.splits(selection)]
    return found


def _collect(plan: Plan, folder: Path) -> None:
    """Keep what a sweep's runs left, as results in the repository are kept."""
    (folder / "histories").mkdir(parents=True)
    kept = []
    for run in plan.runs():
        finished = finished_run(run)
        shutil.copytree(run.files.predictions_folder, folder / "predictions" / finished.name)
        shutil.copyfile(run.files.history, folder / "histories" / f"{finished.name}.jsonl")
        kept.append(dataclasses.replace(finished, folder=folder / "predictions" / finished.name))
    write_index(folder / "predictions", kept)
    for name in ("table.csv", "table_nll.csv"):
        shutil.copyfile(plan.out / name, folder / name)


def tamper(source: random.Random, path: Path) -> str:
    """Change one file of a folder."""
    what = source.choice(
        ("mutated", "mutated", "mutated", "removed", "emptied", "folder", "pipe", "loop", "device", "elsewhere")
    )
    if what == "mutated":
        content = path.read_bytes()
        path.write_bytes(mutate(source, content, path.suffix, [content]))
        return what
    path.unlink()
    if what == "emptied":
        path.touch()
    elif what == "folder":
        path.mkdir()
    elif what == "pipe":
        os.mkfifo(path)
    elif what == "loop":
        path.symlink_to(path.name)
    elif what == "device":
        path.symlink_to("/dev/zero")
    elif what == "elsewhere":
        path.symlink_to("/etc/hostname")
    return what
