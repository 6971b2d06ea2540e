"""The state of networks and optimizers as tensors by name, and back."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn


def optimizer_tensors(optimizers: list[torch.optim.Optimizer]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Everything that optimizers remember: tensors by ``optimizer/weight/what``, and the plain values among it."""
    tensors: dict[str, Tensor] = {}
    values: dict[str, Any] = {}
    for number, optimizer in enumerate(optimizers):
        for weight, memory in optimizer.state_dict()["state"].items():
            for what, value in memory.items():
                name = f"{number}/{weight}/{what}"
                if isinstance(value, Tensor):
                    tensors[name] = value
                elif value is not None:
                    values[name] = value
    return tensors, values


def restore_optimizers(
    optimizers: list[torch.optim.Optimizer], tensors: Mapping[str, Tensor], values: Mapping[str, Any]
) -> None:
    """Give optimizers back what `optimizer_tensors` took; learning rates are the schedule's."""
    memories: list[dict[int, dict[str, Any]]] = [{} for _ in optimizers]
    for name, value in {**tensors, **values}.items():
        number, weight, what = name.split("/", 2)
        memories[int(number)].setdefault(int(weight), {})[what] = value
    for optimizer, memory in zip(optimizers, memories, strict=True):
        optimizer.load_state_dict({"state": memory, "param_groups": optimizer.state_dict()["param_groups"]})


def module_tensors(module: nn.Module) -> dict[str, Tensor]:
    """Weights and buffers by name; full ones also where they are sharded."""
    if _is_sharded(module):
        from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict

        full = get_model_state_dict(module, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
        return {name: value for name, value in full.items() if isinstance(value, Tensor)}
    return dict(module.state_dict())


def restore_module(module: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Give a network back what `module_tensors` took."""
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
