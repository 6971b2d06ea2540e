"""Kills and full disks at every write of a run: whatever it was writing, resumed it ends as one that never stopped.

``make test`` kills runs a dozen times, and ``python tests/reliability/kills.py --kills 200`` three recipes in turn.
A process kills itself with SIGKILL at a chosen write: before the new file is complete (a torn temporary file stays),
when it is complete and not yet in its place, or when it is.
"""

import argparse
import errno
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from tiny_runs import prediction_bytes, start, timeless

MOMENTS = ("torn", "complete", "in place")
# A run writes some thirty files: without a limit one run could take all kills.
KILLS_PER_RUN = 10
# The most files that a run writes before it is killed: mostly few, so that there are many kills, and now and then
# enough to get to its predictions and its evaluation.
REACHES = (4, 8, 16, 32)
# Three kinds of networks and data, each as small as it gets: (recipe, changes).
RECIPES = {
    "digits": (
        "digits/mlp",
        {"epochs": 4, "data.train_size": 60, "model.hidden": [8], "select": "nll", "ema_decay": 0.9},
    ),
    "texts": ("newsgroups/gp_cnn", {"epochs": 4, "data.synthetic": 40, "data.tokens": 20, "batch_size": 20}),
    "trees": ("sst/tree_lstm", {"epochs": 4, "data.synthetic": 20, "select": "error"}),
}


def train_run(out, name, seed, stop=None, moment=None, log=None):
    """Train or resume a run; at write number ``stop`` the process kills itself, or the disk is full."""
    import torch

    from focalcal.training import train

    torch.set_num_threads(1)
    if stop is not None or log is not None:
        interfere(stop, moment, log)
    recipe, changes = RECIPES[name]
    overrides = {**changes, "seed": seed, "hardware.threads": 1, "hardware.accelerator": "cpu"}
    train(recipe, out=out, overrides=overrides, resume=True, progress=False)


def interfere(stop, moment, log=None):
    """Count the files that are written, and strike at one of them; ``log`` gets the name of each."""
    sync, replace, count = os.fsync, os.replace, 0

    def interfering_sync(descriptor):
        nonlocal count
        count += 1
        if count == stop and moment == "full":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if count == stop and moment == "torn":
            os.ftruncate(descriptor, os.fstat(descriptor).st_size // 2)
            _die(log, os.readlink(f"/proc/self/fd/{descriptor}") if os.path.exists("/proc/self/fd") else "a file")
        sync(descriptor)

    def interfering_replace(source, target):
        if count == stop and moment == "complete":
            _die(log, target)
        replace(source, target)
        if count == stop and moment == "in place":
            _die(log, target)
        if log is not None and stop is None:
            _note(log, target)

    os.fsync, os.replace = interfering_sync, interfering_replace


def _note(log, target):
    with open(log, "a", encoding="utf-8") as file:
        file.write(f"{Path(target).name}\n")


def _die(log, target):
    if log is not None:
        _note(log, target)
    os.kill(os.getpid(), signal.SIGKILL)


def outcome(out):
    """Everything that a run leaves, without times."""
    return {
        "predictions": prediction_bytes(out),
        "history": timeless(out),
        "evaluation": (out / "evaluation.json").read_bytes(),
        "config": (out / "config.yaml").read_bytes(),
        "files": sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()),
    }


def kill_chain(folder, name, seed, source, most):
    """Kill a run and resume it until it ends or was killed ``most`` times; return the kills: (file, moment)."""
    out, log, kills = folder / f"{name}-{seed}", folder / f"{name}-{seed}.log", []
    while True:
        is_last = len(kills) >= most
        moment = source.choice(MOMENTS)
        stop = None if is_last else source.randint(1, source.choice(REACHES))
        child = start(train_run, out, name, seed, stop, moment, None if is_last else log)
        child.join(300)
        if child.exitcode == 0:
            return out, kills
        if child.exitcode != -signal.SIGKILL:
            raise AssertionError(f"{name} ended with {child.exitcode} after {kills}")
        kills.append((log.read_text().splitlines()[-1].lstrip("."), moment))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    began, source, kills, differing, runs, seed = time.monotonic(), random.Random(options.seed), [], 0, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        while len(kills) < options.kills:
            seed += 1
            for name in RECIPES:
                if len(kills) == options.kills:
                    break
                most = min(KILLS_PER_RUN, options.kills - len(kills))
                out, new = kill_chain(Path(folder), name, seed, source, most)
                kills += new
                whole = Path(folder) / "whole"
                child = start(train_run, whole, name, seed)
                child.join(300)
                same = outcome(whole) == outcome(out)
                runs, differing = runs + 1, differing + (not same)
                print(
                    f"{len(kills)} kills; {name}, seed {seed}: {'the same' if same else 'ANOTHER'} result", flush=True
                )
                shutil.rmtree(whole)
                shutil.rmtree(out)
    by_moment = {moment: sum(one == moment for _, one in kills) for moment in MOMENTS}
    files = Counter(file.split(".")[0].split("-")[0] for file, _ in kills)
    by_file = ", ".join(f"{name} {count}" for name, count in files.most_common())
    spent = f"{len(kills)} kills in {time.monotonic() - began:.0f} s"
    print(f"{spent}, {by_moment}, at {by_file}: {differing} of {runs} runs differ")
    return bool(differing)


if __name__ == "__main__":
    sys.exit(main())
