"""Shards: a temperature fitted on predictions that lie in several files, and calibrators applied file by file."""

import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate as accumulate_sums
from pathlib import Path
from types import SimpleNamespace
from typing import Unpack

from focalcal._version import __version__
from focalcal.base.chunks import chunk_rows
from focalcal.base.files import make_folder, read_bytes
from focalcal.base.remote import LocalCopy, is_remote, remote_exists, write_remote
from focalcal.calibrators.base import Calibrator
from focalcal.calibrators.record import FitRecord
from focalcal.calibrators.temperature_scaling import TemperatureScaling, warn_at_bound
from focalcal.calibrators.uniform_mixture import has_zeros
from focalcal.metrics.streaming.sharded_evaluation import Placed, ShardFailure, ShardSet, accumulate, open_shards
from focalcal.metrics.streaming.workers import Engine, start_workers
from focalcal.predictions import Predictions, PredictionsFile
from focalcal.predictions.container import concatenate
from focalcal.predictions.formats.rewriting import save_like
from focalcal.predictions.read_options import ReadOptions
from focalcal.predictions.shards import Paths
from focalcal.temperature import NllSums, fit_on_sums, guess_from_sample, sample_stride

# A block of this many values, and what is computed from it, stays in the cache.
_VALUES_READ = 2**19
_CALIBRATOR = "calibrator.json"


def fit_temperature_on_shards(
    paths: Paths,
    *,
    on: Engine = "local",
    workers: int | None = None,
    address: str | None = None,
    allow_test: bool = False,
    **options: Unpack[ReadOptions],
) -> TemperatureScaling:
    """Fit temperature scaling by NLL on shards: Newton's method on sums that workers return.

    The temperature is that of one process over all rows, to rounding. The shards are read some eight times: to count
    and to sample them, for each step, and for NLL and ECE before and after.

    Args:
        paths: Validation predictions: files, or patterns such as ``val/*.parquet``.
        on: ``local`` for processes of this machine, ``ray`` for a Ray cluster (``focalcal[ray]``).
        workers: Number of processes, or of tasks at a time; None for one per core.
        address: Address of the Ray cluster: ``auto``, ``HOST:PORT``; None for one of this machine alone.
        allow_test: Fit even on predictions whose split is "test".
        **options: How the files are read, as in `open_predictions`.

    Examples:
        >>> from focalcal.predictions import Predictions
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for name, label in (("a", 0), ("b", 0), ("c", 0), ("d", 1)):
        ...         Predictions.from_logits([[4.0, 0.0]], [label]).save(f"{folder}/{name}.npz")
        ...     round(fit_temperature_on_shards(f"{folder}/*.npz", workers=1).temperature_, 3)
        3.641
    """
    with start_workers(on, workers=workers, address=address) as pool:
        return fit_on_shards(open_shards(paths, pool, on, options), allow_test=allow_test)


def fit_on_shards(shards: ShardSet, *, allow_test: bool = False) -> TemperatureScaling:
    """Fit on shards that are opened; see `fit_temperature_on_shards`."""
    for placed in () if allow_test else shards.shards:
        if (placed.shard.split or "").strip().lower() == "test":
            raise ValueError(
                f"{placed.shard.path} has split {placed.shard.split!r}; fit on validation predictions, or pass "
                "allow_test=True to fit on the test set anyway."
            )

    def sums_at(inverse_temperature: float) -> NllSums:
        total = NllSums()
        for part in shards.map(partial(_nll_sums, inverse_temperature)):
            if isinstance(part, NllSums):
                total = total + part
        return total

    fit = fit_on_sums(sums_at, guess=_guess(shards))
    if fit.bound is not None:
        warn_at_bound(fit)
    scaler = TemperatureScaling()
    scaler.temperature_, scaler.uniform_share_ = fit.temperature, 0.0
    before, _ = accumulate(shards, 15)
    after, _ = accumulate(shards, 15, transform=scaler._apply)
    names = ["nll", "ece"]
    scores = [total.compute(names, intervals=False).values for total in (before, after)]
    scaler.record_ = FitRecord(
        __version__,
        before.samples,
        shards.fact("num_classes"),
        shards.split,
        scores[0]["nll"],
        scores[1]["nll"],
        scores[0]["ece"],
        scores[1]["ece"],
        of=shards.fact("of"),
        class_names=shards.fact("class_names"),
    )
    return scaler


def _guess(shards: ShardSet) -> float:
    """Begin where one process begins, on the same sample of rows, so that every step after it is the same, too."""
    counts = [count for count in shards.map(_count) if isinstance(count, int)]
    total = sum(counts)
    if not total:
        raise ValueError("The shards have no samples that a temperature could be fitted on.")
    stride = sample_stride(total)
    offsets = accumulate_sums([0, *counts[:-1]])
    begun = replace(
        shards,
        shards=tuple(Placed(one.shard, first) for one, first in zip(shards.shards, offsets, strict=True)),
    )
    parts = [part for part in begun.map(partial(_every, stride)) if isinstance(part, Predictions)]
    sample = concatenate(parts)
    return guess_from_sample(sample.logits(), sample.labels, sample.weights, total)


def _read_counted(file: PredictionsFile) -> Iterator[Predictions]:
    """Read the samples that count."""
    for block in file.blocks(chunk_rows(file.num_classes, _VALUES_READ), is_part=True):
        used = None if block.weights is None or bool((block.weights > 0).all()) else block.weights > 0
        yield block if used is None else block.select(used.nonzero()[:, 0])


def _count(placed: Placed, file: PredictionsFile) -> int:
    return sum(len(block) for block in _read_counted(file))


def _every(stride: int, placed: Placed, file: PredictionsFile) -> Predictions | None:
    """Return every stride-th sample of all shards that lies in this one."""
    row, parts = placed.first_row, []
    for block in _read_counted(file):
        chosen = range(-row % stride, len(block), stride)
        if chosen:
            parts.append(block.select(list(chosen)))
        row += len(block)
    return concatenate(parts) if parts else None


def _nll_sums(inverse_temperature: float, placed: Placed, file: PredictionsFile) -> NllSums:
    """Add up one shard."""
    total = NllSums()
    for block in file.blocks(chunk_rows(file.num_classes, _VALUES_READ), is_part=True):
        if has_zeros(block):
            raise ValueError(
                f"{placed.shard.path} has probabilities that are exactly 0, for which a share of the uniform "
                "distribution is fitted too: that needs all predictions in one file; or save logits."
            )
        total = total + NllSums.of(block.logits(), block.labels, block.weights, inverse_temperature)
    return total


@dataclass(frozen=True)
class AppliedShards:
    """Files that a calibrator was applied to.

    Attributes:
        written: Files that were written, by the names of their shards.
        finished: Those that were there already, from an earlier call.
        failures: Shards that could not be read and were skipped.
    """

    written: tuple[str, ...]
    finished: tuple[str, ...]
    failures: tuple[ShardFailure, ...]


def calibrate_shards(
    calibrator: Calibrator,
    paths: Paths,
    out: str | os.PathLike[str],
    *,
    on: Engine = "local",
    workers: int | None = None,
    address: str | None = None,
    skip_bad_shards: bool = False,
    **options: Unpack[ReadOptions],
) -> AppliedShards:
    """Apply a calibrator to shards, file by file, into a folder; each file is written whole or not at all.

    A call that was interrupted is repeated: files that are finished are skipped. Labels are not needed, and tables keep
    their other columns. The folder gets ``calibrator.json``, too. A worker holds one shard in memory.

    Args:
        calibrator: A fitted calibrator.
        paths: Files, or patterns such as ``new/*.parquet``.
        out: The folder, which is made; a file in it has the name of its shard. On a cluster, all nodes share it.
        on: ``local`` for processes of this machine, ``ray`` for a Ray cluster (``focalcal[ray]``).
        workers: Number of processes, or of tasks at a time; None for one per core.
        address: Address of the Ray cluster: ``auto``, ``HOST:PORT``; None for one of this machine alone.
        skip_bad_shards: Leave out shards that cannot be read.
        **options: How the files are read, as in `open_predictions`.

    Raises:
        ValueError: Two shards have the same name, the folder holds predictions of another calibrator, the calibrator is
            for other classes, or a file cannot be written.
    """
    calibrator._check_ready()
    folder = os.fspath(out) if is_remote(out) else str(Path(out).resolve())
    with start_workers(on, workers=workers, address=address) as pool:
        shards = open_shards(paths, pool, on, options, skip_bad_shards=skip_bad_shards, needs_labels=False)
        calibrator._check_fits(SimpleNamespace(**dict(shards.shards[0].shard.facts)))
        names = [os.path.basename(placed.shard.path) for placed in shards.shards]
        repeated = next((name for name in names if names.count(name) > 1), None)
        if repeated is not None:
            raise ValueError(f"Two shards are called {repeated}, and would be one file in {folder}; rename one.")
        for placed in shards.shards:
            if not is_remote(folder) and Path(placed.shard.path).resolve().parent == Path(folder):
                raise ValueError(f"{folder} is the folder that is read; write to another one.")
        if not is_remote(folder):
            make_folder(folder)
        _keep_calibrator(calibrator, folder)
        try:
            done = list(shards.map(partial(_write_shard, calibrator, folder)))
        except _CannotApply as error:
            raise ValueError(str(error)) from error
    failures = (*shards.failures, *(one for one in done if isinstance(one, ShardFailure)))
    written = [(name, one) for name, one in zip(names, done, strict=True) if not isinstance(one, ShardFailure)]
    return AppliedShards(
        tuple(name for name, is_new in written if is_new),
        tuple(name for name, is_new in written if not is_new),
        failures,
    )


def calibrated_by(calibrator: Calibrator) -> str:
    """Say in a few words what predictions were calibrated by, for their provenance."""
    found = {name: getattr(calibrator, f"{name}_", None) for name in ("temperature", "gamma")}
    learned = ", ".join(f"{name} {value:.6g}" for name, value in found.items() if value is not None)
    return f"{calibrator.method} ({learned})" if learned else calibrator.method


class _CannotApply(Exception):
    """A calibrator that does not fit, or a file that cannot be written: no shard is skipped for that."""


def _write_shard(calibrator: Calibrator, folder: str, placed: Placed, file: PredictionsFile) -> bool:
    """Calibrate one shard; False if that was done before."""
    target = f"{folder.rstrip('/')}/{os.path.basename(placed.shard.path)}"
    if remote_exists(target) if is_remote(target) else os.path.exists(target):
        return False
    given = file.read()
    try:
        result = calibrator.transform(given)
        result = replace(result, provenance={**result.provenance, "calibrated_by": calibrated_by(calibrator)})
        _write(target, lambda path: save_like(file, result, path))
    except (ValueError, TypeError, OSError) as error:
        path, reason = placed.shard.path, str(error)
        raise _CannotApply(reason if target in reason or path in reason else f"{path}: {reason}") from error
    return True


def _keep_calibrator(calibrator: Calibrator, folder: str) -> None:
    """Save the calibrator with what it is applied to; refuse a folder that holds another's."""
    target = f"{folder.rstrip('/')}/{_CALIBRATOR}"
    with tempfile.TemporaryDirectory() as temporary:
        own = Path(temporary, _CALIBRATOR)
        calibrator.save(own)
        if not (remote_exists(target) if is_remote(target) else os.path.exists(target)):
            _write(target, calibrator.save)
            return
        copy = LocalCopy(target) if is_remote(target) else None
        if read_bytes(target if copy is None else copy.path) != read_bytes(own):
            raise ValueError(f"{folder} holds predictions of another calibrator ({target}); choose another folder.")


def _write(target: str, save: Callable[[Path], object]) -> None:
    """Write a file whole, here or on remote storage."""
    if not is_remote(target):
        save(Path(target))
        return
    with tempfile.TemporaryDirectory() as temporary:
        local = Path(temporary, os.path.basename(target))
        save(local)
        write_remote(target, local)
