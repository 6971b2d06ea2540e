"""Preconditions of a run: a folder that is free, the same data, devices that are there, a network that fits."""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import torch
from torch import Tensor, nn

from focalcal.base.files import check_links, make_folder, open_appending, parse_json, read_text
from focalcal.data import DataSet
from focalcal.data.data_types import Samples
from focalcal.recipes import Recipe, load_recipe
from focalcal.recipes.settings import HardwareSettings
from focalcal.training.run_directory import RunDirectory

# Settings that may change when a run is resumed: they say where it computes and what it writes beside its results.
_FREE_TO_CHANGE = {"hardware", "checkpoint", "logging", "about", "name"}
_FREE_DETAILS = {"data.workers", "data.in_memory"}
_NEVER_FREE = {"hardware.precision"}
_CONTENT = "content_sha256"
# Launchers that tell a process where the others are; without one of them it would wait for them for ever.
_LAUNCHERS = ("TORCHELASTIC_RUN_ID", "SLURM_JOB_ID", "LSB_JOBID", "MASTER_ADDR")


class RunInUse(ValueError):
    """Another process writes to the run directory."""


def check_free(files: RunDirectory, recipe: Recipe, resume: bool) -> None:
    """Refuse a folder that holds a different run, or this one unless it is to be resumed: nothing is overwritten."""
    if files.path.exists() and not files.path.is_dir():
        raise ValueError(f"{files.path} is a file; choose another folder for the run.")
    has_begun = files.evaluation.exists() or files.has_checkpoints
    if not files.config.is_file() or not has_begun:
        return
    if not resume:
        raise ValueError(
            f"{files.path} already holds a run: resume it with --resume (resume=True), or choose another folder."
        )
    changed = _find_changed_settings(load_recipe(files.config), recipe)
    if changed:
        began = f"The run in {files.path} was started with {' and '.join(changed)}"
        raise ValueError(f"{began}: resume it with the same settings, or choose another folder.")


def _find_changed_settings(before: Recipe, now: Recipe) -> list[str]:
    """Describe each setting that would change the results: ``epochs=2 (now 3)``."""
    old, new = _flatten(before.model_dump(mode="json")), _flatten(now.model_dump(mode="json"))
    free = {key for key in {**old, **new} if key.partition(".")[0] in _FREE_TO_CHANGE or key in _FREE_DETAILS}
    keys = [key for key in {**old, **new} if key not in free or key in _NEVER_FREE]
    return [f"{key}={old.get(key)} (now {new.get(key)})" for key in keys if old.get(key) != new.get(key)]


def _flatten(group: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in group.items():
        flat |= _flatten(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {prefix + name: value}
    return flat


def check_same_data(files: RunDirectory, facts: Mapping[str, Any]) -> None:
    """Refuse to resume with other data than a run was started with: the samples it learnt from may now be the test set.

    Nothing is refused before training has begun, or if the run is of another making; its weights still have to fit.
    """
    before = recorded_data(files)
    changed = None if before is None or not files.has_checkpoints else changed_data(before, facts)
    if changed:
        raise ValueError(
            f"The {changed} of the data have changed since the run in {files.path} was started: restore them, or "
            "choose another folder."
        )


def recorded_data(files: RunDirectory) -> Mapping[str, Any] | None:
    """Read the facts about its data that a run has recorded; None if it has not."""
    try:
        found = parse_json(read_text(files.environment))["data"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if isinstance(found, Mapping) else None


def changed_data(before: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """Name the first part of the data that has changed: files, splits or word vectors; None if nothing has."""
    same = parse_json(json.dumps(dict(now)))
    facts = [("files", "files"), ("split_sha256", "splits"), ("glove", "word vectors")]
    facts += [(_CONTENT, "samples")] if _CONTENT in before else []  # older runs have not recorded it
    return next((what for key, what in facts if before.get(key) != same.get(key)), None)


def data_facts(data: DataSet) -> dict[str, Any]:
    """Return the facts about data that a run records, with a digest of each split if no file stands for its content."""
    if data.facts.get("files"):
        return dict(data.facts)
    splits = {"train": data.train, **data.evaluation}
    return {**data.facts, _CONTENT: {split: _digest(samples) for split, samples in splits.items()}}


def _digest(samples: Samples) -> str:
    """Compute the SHA-256 of the labels, and of the inputs where they are in memory as one tensor."""
    digest = hashlib.sha256(str(samples.labels.dtype).encode() + samples.labels.cpu().contiguous().numpy().tobytes())
    inputs = getattr(samples, "inputs", None)
    if isinstance(inputs, Tensor):
        digest.update(f"{inputs.dtype} {tuple(inputs.shape)}".encode())
        if inputs.numel():
            digest.update(inputs.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


@contextmanager
def hold(files: RunDirectory) -> Iterator[None]:
    """Hold a run directory, which is made if it is not there: two processes that write to one would spoil it.

    The hold ends with the process, however that ends. A folder that is still empty at the end is removed again.
    """
    make_folder(files.path)
    check_links(files.path)
    with open_appending(files.lock) as file:
        _lock(file.fileno(), files)
        try:
            yield
        finally:
            if [entry.name for entry in files.path.iterdir()] == [files.lock.name]:
                with suppress(OSError):
                    files.lock.unlink()
                    files.path.rmdir()


def _lock(descriptor: int, files: RunDirectory) -> None:
    try:
        import fcntl
    except ImportError:  # Windows has no such locks; there the user must take care
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        in_use = f"Another process is training in {files.path}"
        raise RunInUse(f"{in_use}: wait for it, or choose another folder.") from error


def check_hardware(hardware: HardwareSettings) -> None:
    """Refuse devices that are not there, and what does not work on those that are, in one sentence."""
    if hardware.strategy == "fsdp" and not (hardware.accelerator in ("auto", "cuda") and torch.cuda.is_available()):
        raise ValueError("FSDP shards a network over GPUs, and this machine has none; use hardware.strategy=ddp.")
    if hardware.accelerator == "cuda" and not torch.cuda.is_available():
        raise ValueError("There is no CUDA device here; use hardware.accelerator=cpu, or auto.")
    if hardware.accelerator == "mps" and not torch.backends.mps.is_available():
        raise ValueError("There is no MPS device here; use hardware.accelerator=cpu, or auto.")
    if hardware.precision == "16-mixed" and _is_cpu(hardware):
        raise ValueError("hardware.precision=16-mixed is for GPUs, and this is a CPU; use bf16-mixed or 32.")
    if hardware.nodes > 1 and not any(name in os.environ for name in _LAUNCHERS):
        raise ValueError("hardware.nodes is for several machines: start the command with torchrun on each of them.")


def _is_cpu(hardware: HardwareSettings) -> bool:
    has_gpu = torch.cuda.is_available() or torch.backends.mps.is_available()
    return hardware.accelerator == "cpu" or (hardware.accelerator == "auto" and not has_gpu)


def check_model(model: object) -> None:
    """Refuse a model that is not a network.

    Examples:
        >>> check_model("mlp")
        Traceback (most recent call last):
        ...
        TypeError: model must be a torch.nn.Module, got str; to use a network by its name, set model=NAME in the recipe.
    """
    if isinstance(model, type) and issubclass(model, nn.Module):
        raise TypeError(f"model must be a network, not its class: pass {model.__name__}(…).")
    if not isinstance(model, nn.Module):
        got = type(model).__name__
        hint = "; to use a network by its name, set model=NAME in the recipe" if isinstance(model, str) else ""
        raise TypeError(f"model must be a torch.nn.Module, got {got}{hint}.")


def check_loss(loss: object) -> None:
    """Refuse a loss that cannot be called.

    Examples:
        >>> check_loss(0.5)
        Traceback (most recent call last):
        ...
        TypeError: loss must be the name of a loss or a function of logits and targets, got float.
    """
    if isinstance(loss, type) and issubclass(loss, nn.Module):
        raise TypeError(f"loss must be a loss, not its class: pass {loss.__name__}(…).")
    if not callable(loss) and not isinstance(loss, str):
        got = type(loss).__name__
        raise TypeError(f"loss must be the name of a loss or a function of logits and targets, got {got}.")


def check_splits(data: DataSet) -> None:
    """Refuse data without a validation split, or with a split that is empty."""
    if "val" not in data.evaluation:
        raise ValueError("The data has no split val, which every epoch is measured on; add one.")
    for split, samples in {"train": data.train, **data.evaluation}.items():
        if not len(samples):
            raise ValueError(f"The split {split} of the data is empty; add samples to it.")


def check_outputs(logits: Tensor, targets: Tensor, data: DataSet) -> None:
    """Refuse outputs that do not fit the targets, the labels or the class names, before an epoch is spent."""
    if not isinstance(logits, Tensor) or logits.ndim != 2 or len(logits) != len(targets):
        got = f"shape {tuple(logits.shape)}" if isinstance(logits, Tensor) else type(logits).__name__
        raise ValueError(f"The network must give logits of shape ({len(targets)}, K) for this batch, got {got}.")
    num_outputs = logits.shape[1]
    for split, samples in {"train": data.train, **data.evaluation}.items():
        check_labels(split, samples, num_outputs)
    if data.class_names and len(data.class_names) != num_outputs:
        names = len(data.class_names)
        raise ValueError(f"The network has {num_outputs} outputs, but the data has {names} class names.")


def check_labels(split: str, samples: Samples, num_outputs: int) -> None:
    """Refuse labels that a network has no output for."""
    largest = int(samples.labels.max()) if len(samples) else -1
    if largest >= num_outputs:
        found = f"there is a label {largest} in the data's split {split}"
        raise ValueError(f"The network has {num_outputs} outputs, but {found}.")
