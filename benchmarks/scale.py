"""Shards and sweeps: rows per second beside reading and one softmax, and what an engine adds to a run."""

import os
import tempfile
import time
from pathlib import Path

import pyarrow.parquet as pq
import torch
from rich.console import Console
from rich.table import Table

from benchmarks.timing import machine
from focalcal.calibrators import fit_temperature_on_shards
from focalcal.metrics import Accumulator, evaluate_shards
from focalcal.predictions import Predictions
from focalcal.sweeps import Plan, train_all
from focalcal.sweeps.ray_runs import RayOptions, train_on_ray
from focalcal.training import train

ROWS, SHARDS, CLASSES = 10_000_000, 20, 10
QUICK_ROWS, QUICK_SHARDS = 20_000, 4
WIDE_ROWS, WIDE_CLASSES = 100_000, 1000
RUNS = ("cross-entropy", "fl-1", "fl-2", "fl-3")


def write_shards(folder: Path, rows: int, shards: int, classes: int) -> str:
    """Write logits of an over-confident model, and return the pattern of the files."""
    for shard in range(shards):
        source = torch.Generator().manual_seed(shard)
        logits = 2 * torch.randn(rows // shards, classes, generator=source)
        labels = torch.multinomial(logits.softmax(1), 1, generator=source)[:, 0]
        Predictions.from_logits(1.5 * logits, labels).save(folder / f"{shard:03d}.parquet")
    return str(folder / "*.parquet")


def read_and_softmax(pattern: str) -> None:
    """Read the logits with pyarrow, on one thread, and take the softmax in the precision that metrics have."""
    for path in sorted(Path(pattern).parent.glob("*.parquet")):
        for batch in pq.ParquetFile(path).iter_batches(2**16, use_threads=False):
            values = batch.column("logits").flatten().to_numpy(zero_copy_only=False)
            torch.softmax(torch.tensor(values).view(batch.num_rows, -1).double(), dim=1)


def seconds(call, times: int, clock=time.perf_counter) -> float:  # type: ignore[no-untyped-def]
    """Return the least of a few times: whatever disturbs a long call only adds to it."""
    found = []
    for _ in range(times):
        start = clock()
        call()
        found.append(clock() - start)
    return min(found)


def cpu_seconds() -> float:
    """Return the CPU time of this process and of those that it started and that have ended."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def measure_shards(console: Console, rows: int, shards: int, classes: int, *, with_ray: bool, times: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        pattern = write_shards(Path(folder), rows, shards, classes)
        size = sum(path.stat().st_size for path in Path(folder).iterdir())
        floor = seconds(lambda: read_and_softmax(pattern), times)
        calls = {"read with pyarrow + one softmax, 1 process": lambda: read_and_softmax(pattern)}
        calls |= {
            f"evaluate_shards, {count} worker(s)": lambda count=count: evaluate_shards(pattern, workers=count)
            for count in (1, 2)
        }
        if with_ray:
            calls["evaluate_shards, Ray with 2 cores"] = lambda: evaluate_shards(pattern, on="ray", workers=2)
        calls["fit_temperature_on_shards, 2 workers"] = lambda: fit_temperature_on_shards(pattern, workers=2)
        if rows == QUICK_ROWS:
            del calls["fit_temperature_on_shards, 2 workers"]
        title = f"{rows:,} rows × {classes} classes in {shards} shards, {size / 1e6:,.0f} MB"
        table = Table("", "seconds", "rows per second", "× the first", title=title, title_justify="left")
        for number, (name, call) in enumerate(calls.items()):
            taken = floor if number == 0 else seconds(call, 1 if "fit" in name else times)
            table.add_row(name, f"{taken:.2f}", f"{rows / taken:,.0f}", f"{taken / floor:.2f}")
    console.print(table)


def measure_states(console: Console) -> None:
    table = Table("classes", "bytes of a shard's state", "ms to merge two")
    for classes in (10, 1000):
        one, other = (Accumulator(classes, compact=True) for _ in range(2))
        for each in (one, other):
            each.update(logits=torch.randn(100, classes), labels=torch.arange(100) % classes)
        size = sum(part.numel() * part.element_size() for part in one.state_dict().values())
        table.add_row(str(classes), f"{size:,}", f"{1000 * seconds(lambda a=one, b=other: a.merge(b), 5):.2f}")
    console.print(table)


def measure_engines(console: Console, *, with_ray: bool) -> None:
    """Time a sweep of small runs, one at a time, and the same runs called one after another."""
    small = ("epochs=10", "data.train_size=100")
    table = Table("engine", "seconds per run", "more than train() itself")
    with tempfile.TemporaryDirectory() as folder:

        def plan(name: str) -> list:  # type: ignore[type-arg]
            return list(Plan("digits/mlp", small, RUNS, (0,), Path(folder, name)).runs())

        warm = plan("warm")[0]
        train(warm.recipe, out=warm.path, progress=False)  # imports are paid once
        start = time.perf_counter()
        for run in plan("direct"):
            train(run.recipe, out=run.path, progress=False)
        alone = (time.perf_counter() - start) / len(RUNS)
        table.add_row("train(), in this process", f"{alone:.2f}", "")
        engines = {"local processes, one at a time": lambda: train_all(plan("local"), jobs=1)}
        if with_ray:
            options = RayOptions(cpus_per_run=2)
            out = Path(folder, "ray")
            engines["Ray, one at a time, cluster included"] = lambda: train_on_ray(plan("ray"), options, out=out)
        for name, call in engines.items():
            taken = seconds(call, 1) / len(RUNS)
            table.add_row(name, f"{taken:.2f}", f"{taken - alone:+.2f}")
    console.print(table)


def main(quick: bool = False) -> None:
    console = Console(width=110)
    torch.set_num_threads(1)
    console.print(f"shards and sweeps; {machine()}")
    times = 1 if quick else 2
    rows, shards = (QUICK_ROWS, QUICK_SHARDS) if quick else (ROWS, SHARDS)
    measure_shards(console, rows, shards, CLASSES, with_ray=not quick, times=times)
    if not quick:
        measure_shards(console, WIDE_ROWS, 4, WIDE_CLASSES, with_ray=False, times=times)
    measure_states(console)
    measure_engines(console, with_ray=not quick)
