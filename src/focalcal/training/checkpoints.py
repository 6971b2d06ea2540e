"""Checkpoints: everything that decides how a run continues, in one file that is whole or not there.

A checkpoint is a safetensors file. Tensors are stored by name (``model/…``, ``optimizer/…``, ``process/…``), everything
else as JSON in its header, with a digest of both: a file that was damaged on disk is found out when it is read.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from focalcal.base.files import atomic_writer, make_folder, parse_json, regular_file

_NAME = re.compile(r"epoch-(\d+)-step-(\d+)\.safetensors")
_KEPT = 2


@dataclass(frozen=True)
class Checkpoint:
    """The contents of a checkpoint: tensors by name, and JSON values by name."""

    tensors: Mapping[str, Tensor]
    values: Mapping[str, Any]

    def part(self, prefix: str) -> dict[str, Tensor]:
        """Return the tensors named ``prefix/…`` (or ``prefix…``, if it ends in a dot), without the prefix."""
        start = prefix if prefix.endswith(".") else f"{prefix}/"
        return {name.removeprefix(start): tensor for name, tensor in self.tensors.items() if name.startswith(start)}


class CheckpointFolder:
    """The checkpoints of one run: the last two of them, and the weights of the best epoch.

    Args:
        path: The folder, made if it is not there.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, epoch: int, step: int, checkpoint: Checkpoint) -> None:
        """Save the state after ``step`` steps of an epoch; older files are removed when the new one is safely there."""
        make_folder(self.path)
        write_checkpoint(self.path / f"epoch-{epoch:05d}-step-{step:07d}.safetensors", checkpoint)
        self.remove_older(checkpoint)

    def remove_older(self, newest: Checkpoint) -> None:
        """Remove the files that are not needed beside the newest checkpoint; a kill may have left them."""
        for old in self._files()[:-_KEPT]:
            old.unlink(missing_ok=True)
        best = newest.values.get("best")
        for file in self.path.glob("best-*.safetensors"):
            if best is not None and file.name != best["file"] and not self._is_needed(file.name):
                file.unlink(missing_ok=True)

    def write_weights(self, name: str, epoch: int, weights: Mapping[str, Tensor]) -> None:
        """Save the weights of the best epoch so far."""
        make_folder(self.path)
        write_checkpoint(self.path / name, Checkpoint(weights, {"epoch": epoch}))

    def _is_needed(self, name: str) -> bool:
        """Return whether an older checkpoint, which a run may have to go back to, needs this file of weights."""
        for file in self._files():
            try:
                best = _header(file)["values"].get("best")
            except (OSError, SafetensorError, KeyError, ValueError):
                continue
            if best is not None and best["file"] == name:
                return True
        return False

    def newest(self) -> tuple[Checkpoint | None, list[str]]:
        """Return the newest undamaged checkpoint, and a sentence on each damaged one."""
        damaged: list[str] = []
        for file in reversed(self._files()):
            try:
                return read_checkpoint(file), damaged
            except ValueError as error:
                damaged.append(f"{error} The one before it is used.")
        return None, damaged

    def _files(self) -> list[Path]:
        """List the checkpoints from old to new."""
        found = [(match, file) for file in self.path.glob("*.safetensors") if (match := _NAME.fullmatch(file.name))]
        return [file for _, file in sorted(found, key=lambda pair: (int(pair[0][1]), int(pair[0][2])))]


def write_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write one file, atomically."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in checkpoint.tensors.items()}
    tensors = _unshare(tensors)
    values = json.dumps(checkpoint.values, sort_keys=True)
    content = save(tensors, {"values": values, "digest": _digest(tensors, values)})
    with atomic_writer(path) as file:
        file.write(content)


def _unshare(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copy tensors that share their memory with another, as tied weights do: the format stores each by itself."""
    apart: dict[str, Tensor] = {}
    taken: set[int] = set()
    for name, tensor in tensors.items():
        storage = tensor.untyped_storage().data_ptr()
        apart[name] = tensor.clone() if tensor._is_view() or storage in taken else tensor
        taken.add(storage)
    return apart


def read_checkpoint(path: Path) -> Checkpoint:
    """Read one file; anything wrong with it is a ValueError with its name."""
    try:
        with safe_open(regular_file(path), framework="pt") as file:
            header = dict(file.metadata() or {})
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - it is not a dictionary
        if header["digest"] != _digest(tensors, header["values"]):
            raise ValueError("its contents do not match its digest")
        return Checkpoint(tensors, parse_json(header["values"]))
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        raise ValueError(f"The checkpoint {path.name} is damaged ({error}).") from error


def _header(path: Path) -> dict[str, Any]:
    with safe_open(regular_file(path), framework="pt") as file:
        return {"values": parse_json((file.metadata() or {})["values"])}


def _digest(tensors: Mapping[str, Tensor], values: str) -> str:
    digest = hashlib.sha256(values.encode())
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data if tensor.numel() else b"")
    return digest.hexdigest()


def module_tensors(module: nn.Module) -> dict[str, Tensor]:
    """Return weights and buffers by name; full ones also if they are sharded."""
    if _is_sharded(module):
        from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict

        full = get_model_state_dict(module, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
        return {name: value for name, value in full.items() if isinstance(value, Tensor)}
    return dict(module.state_dict())


def restore_module(module: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Load into a network what `module_tensors` returned."""
    if _is_sharded(module):
        from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict

        set_model_state_dict(module, dict(tensors), options=StateDictOptions(full_state_dict=True))
        return
    try:
        module.load_state_dict(dict(tensors))
    except RuntimeError as error:
        reason = str(error).splitlines()[-1].strip()
        raise ValueError(f"The saved weights do not fit the network: {reason}") from error


def _is_sharded(module: nn.Module) -> bool:
    from torch.distributed.fsdp import FullyShardedDataParallel

    return any(isinstance(part, FullyShardedDataParallel) for part in module.modules())
