"""An attack on everything that is read: mutated files, recipes from a grammar, tampered runs.

Each case must end in a result or in one sentence that names the file; a traceback, a hang, or a part that is lost in
silence is a failure. ``make test`` runs a fixed set of cases, ``make fuzz`` others for some minutes, and

    python tests/reliability/attack.py --cases 100000 --seed 1

all kinds in one process. A case is repeated by its number: ``--first 4711 --cases 1`` with the same seed.
"""

import argparse
import json
import os
import random
import resource
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import torch

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from focalcal.calibrators import load_calibrator
from focalcal.metrics import evaluate
from focalcal.predictions import Predictions, open_predictions
from focalcal.recipes import load_recipe, recipe_names
from reliability.checks import Failure, check_nothing_lost, limited, refused_or, run_cli
from reliability.corpus import Sample, calibrator_files, prediction_files, recipe_files
from reliability.data_corpus import READERS, data_files
from reliability.folders import Folders
from reliability.mutations import NUMBERS, TEXTS, mutate

SECONDS = 30  # of the processor for one case; a slow machine needs a hundredth of it


@dataclass
class Tally:
    """Numbers of cases by kind and outcome, and the failures."""

    outcomes: Counter = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)


class Attack:
    """Cases that follow from a seed and a number alone, in a folder of their own."""

    def __init__(self, folder: Path, seed: int, *, commands_every: int = 100) -> None:
        self.folder, self.seed, self.commands_every = folder, seed, commands_every
        (folder / "valid").mkdir()
        self.predictions = prediction_files(folder / "valid")
        self.calibrators = list(calibrator_files(folder / "valid"))
        self.recipes = list(recipe_files())
        os.environ["FOCALCAL_CACHE"] = str(folder / "cache")
        (folder / "material").mkdir()
        self.data = list(data_files(folder / "material"))
        self.folders = Folders(folder, commands_every)
        self.kinds = {
            self.attack_predictions: 62,
            self.attack_calibrator: 9,
            self.attack_recipe: 9,
            self.attack_data: 11,
            self.folders.attack_run: 3,
            self.folders.attack_sweep: 1.5,
            self.folders.attack_results: 1.5,
            self.folders.attack_translator: 1.5,
            self.folders.attack_shards: 1.5,
        }

    def case(self, number: int) -> str:
        """Run one case, and return its kind and outcome."""
        source = random.Random(f"{self.seed} {number}")
        attack = source.choices(list(self.kinds), list(self.kinds.values()))[0]
        shutil.rmtree(self.folder / "case", ignore_errors=True)
        (self.folder / "case").mkdir()
        with limited(SECONDS), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.manual_seed(0)
            outcome = attack(source, number)
        return f"{attack.__name__.removeprefix('attack_')}: {outcome}"

    def attack_predictions(self, source: random.Random, number: int) -> str:
        """Load and evaluate a mutated file; one in a hundred also by the commands that read it."""
        sample = source.choice(self.predictions)
        path = self._write(source, sample, self.predictions)
        loaded = refused_or(path, lambda: Predictions.load(path))
        streamed = refused_or(path, lambda: sum(len(block) for block in open_predictions(path).blocks(3)))
        if isinstance(loaded, Predictions):
            if streamed is not None and streamed != len(loaded):
                raise Failure(f"{len(loaded)} samples are loaded and {streamed} read in blocks")
            check_nothing_lost(sample, path, loaded)
            evaluated = refused_or(path, lambda: evaluate(loaded, intervals=False), named=False)
            if evaluated is not None:
                json.dumps(evaluated.to_dict())
        if number % self.commands_every == 0:
            self._run_commands(source, path)
        return "refused" if loaded is None else "read"

    def _run_commands(self, source: random.Random, path: Path) -> None:
        val, out = self.folder / "valid" / "full.npz", self.folder / "case"
        fit = ("--allow-test", "--out", out / "a.npz", "--save-calibrator", out / "a.json")
        commands = [
            ("calibrate", path, path, *fit),
            ("calibrate", val, path, "--allow-test", "--out", out / "b.csv"),
            ("doctor", path),
            ("doctor", path, "--val", val, "--json"),
            ("report", path, "--out", out / "report.html"),
            ("evaluate", path, "--bootstrap", 2),
            ("evaluate", path, "--by", "site", "--no-intervals"),
            ("evaluate", path, "--by", "predicted", "--no-intervals", "--json"),
            ("compare", path, val, "--bootstrap", 2),
            ("compare", path, val, "--unpaired", "--bootstrap", 2),
            ("apply", self.folder / "t.json", path, "--out", out / f"c{''.join(path.suffixes)}"),
        ]
        for command in source.sample(commands, 4):
            run_cli(*command)
        left = [entry.name for entry in out.iterdir() if entry.name.endswith(".tmp")]
        if left:
            raise Failure(f"a command left {left}")

    def attack_calibrator(self, source: random.Random, number: int) -> str:
        """Load a mutated calibrator, and apply it."""
        sample = source.choice(self.calibrators)
        path = self._write(source, sample, self.calibrators)
        calibrator = refused_or(path, lambda: load_calibrator(path))
        if calibrator is None:
            return "refused"
        binary = next(one.preds for one in self.predictions if one.name == "binary.npz")
        refused_or(path, lambda: calibrator.transform(binary), named=False)
        if number % self.commands_every == 0:
            new = self.folder / "valid" / "binary.npz"
            run_cli("apply", path, new, "--out", path.with_name("new.parquet"))
            run_cli("compare", new, new, "--unpaired", "--calibrator", path, "--bootstrap", 2)
        return "read"

    def attack_recipe(self, source: random.Random, _: int) -> str:
        """Load a mutated recipe, or one of a grammar, with overrides of a grammar."""
        changes = [draw_override(source) for _ in range(source.choice((0, 0, 1, 2)))]
        if source.random() < 0.5:
            name = self._write(source, source.choice(self.recipes), self.recipes)
        else:
            name = self.folder / "case" / "drawn.yaml"
            name.write_text(draw_yaml(source), encoding="utf-8", errors="surrogatepass")
        if source.random() < 0.3:
            name = source.choice(recipe_names())
        found = refused_or(Path(name), lambda: load_recipe(name, changes), named=not changes)
        if found is not None:
            found.to_yaml()
        return "refused" if found is None else "read"

    def attack_data(self, source: random.Random, _: int) -> str:
        """Read a mutated file of a data set, of results or of a sweep."""
        sample = source.choice(self.data)
        path = self._write(source, sample, self.data)
        is_named = sample.name not in ("own.npz", "among-others.png")  # there it may be the samples that do not fit
        found = refused_or(path, lambda: READERS[sample.name](path), named=is_named)
        return "refused" if found is None else "read"

    def _write(self, source: random.Random, sample: Sample, samples: list[Sample]) -> Path:
        path = self.folder / "case" / sample.name
        others = [one.content for one in samples if one.ending == sample.ending]
        path.write_bytes(mutate(source, sample.content, sample.ending, others))
        return path


KEYS = (
    "data", "model", "epochs", "batch_size", "loss", "seed", "optimizer", "optimizer.lr", "optimizer.name", "schedule",
    "schedule.name", "schedule.factors", "select", "ema_decay", "hardware", "hardware.threads", "record", "extends",
    "protocols", "by_loss", "protocol", "about", "name", "data.synthetic", "model.hidden", "clip_norm", "unknown", "",
)  # fmt: skip
VALUES = (
    "digits", "mlp", "3", "16", "flsd-53", "fl-3", "adam", "sgd", "0.1", "last", "nll", "[8]", "{name: sgd}", "true",
    "[1, [2, [3]]]", "{0: 0.1, 3: 0.01}", "!!int x", "!!bool x", "!!timestamp x", "!!binary x", "!!set {a}", "~",
    "2001-01-01", "&a [*a]", "*a", "<<", "0o17", "1:30", "digits/mlp", "drawn.yaml", "../x", "1e3", "-3",
)  # fmt: skip


def draw_value(source: random.Random) -> str:
    """Draw a value of a recipe: a likely one, a number, a text, or a nest of them."""
    kind = source.random()
    if kind < 0.5:
        return source.choice(VALUES)
    if kind < 0.7:
        return source.choice(NUMBERS)
    if kind < 0.9:
        return source.choice(TEXTS)
    return f"{{{source.choice(KEYS)}: {source.choice(VALUES)}, {source.choice(KEYS)}: {source.choice(NUMBERS)}}}"


def draw_override(source: random.Random) -> str:
    """Draw a text that looks like ``optimizer.lr=0.1``."""
    return f"{source.choice(KEYS)}{source.choice(('=', '=', '=', '=', '', '==', ' = '))}{draw_value(source)}"


def draw_yaml(source: random.Random) -> str:
    """Draw the text of a recipe."""
    lines = [f"{source.choice(KEYS)}: {draw_value(source)}" for _ in range(source.randrange(1, 9))]
    if source.random() < 0.7:
        lines = ["data: digits", "model: mlp", "epochs: 3", *lines]
    return "\n".join(lines) + source.choice(("\n", "", "\n\t", "\n---\n"))


def run_cases(attack: Attack, first: int, count: int, *, until: float | None = None, show: int = 0) -> Tally:
    """Run cases one after the other, and keep on after a failure."""
    tally = Tally()
    for number in range(first, first + count):
        if until is not None and time.monotonic() >= until:
            break
        try:
            outcome = attack.case(number)
        except Exception as error:
            kind = "failure" if isinstance(error, Failure) else "traceback"
            place = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{Path(place.filename).name}:{place.lineno}"
            tally.failures.append(
                f"case {number} of seed {attack.seed}: {type(error).__name__} at {where}: {error}"[:600]
            )
            outcome = kind
            print(tally.failures[-1], flush=True)
        tally.outcomes[outcome] += 1
        if show and (number - first + 1) % show == 0:
            print(f"{number - first + 1:,} cases, {len(tally.failures)} failures", flush=True)
    return tally


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, help="stop after this time")
    parser.add_argument("--commands-every", type=int, default=100, help="one file of so many goes through the commands")
    options = parser.parse_args()
    torch.set_num_threads(1)
    resource.setrlimit(
        resource.RLIMIT_AS, (16 * 2**30, 16 * 2**30)
    )  # a flood ends in a MemoryError, not in the machine
    os.environ["FOCALCAL_OFFLINE"] = "1"
    began, cpu = time.monotonic(), time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        attack = Attack(Path(folder), options.seed, commands_every=options.commands_every)
        until = None if options.seconds is None else began + options.seconds
        tally = run_cases(attack, options.first, options.cases, until=until, show=5000)
    for outcome, count in sorted(tally.outcomes.items()):
        print(f"{count:9,}  {outcome}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{sum(tally.outcomes.values()):,} cases of seed {options.seed}: {len(tally.failures)} failures", end="; ")
    spent = f"{time.process_time() - cpu:.0f} s of one core ({time.monotonic() - began:.0f} s by the clock)"
    print(f"{spent}, {peak:.1f} GB at most")
    return bool(tally.failures)


if __name__ == "__main__":
    sys.exit(main())
