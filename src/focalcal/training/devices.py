"""Devices and processes: the Fabric that carries a run, and collective operations between its processes."""

import os
from typing import Any

import torch
from lightning_fabric import Fabric
from lightning_fabric.strategies.ddp import DDPStrategy
from torch import Tensor

from focalcal.recipes.settings import HardwareSettings
from focalcal.training.preconditions import check_hardware


def build_fabric(hardware: HardwareSettings, loggers: list[Any]) -> Fabric:
    """Set up devices, precision and distribution; under torchrun its own numbers count."""
    devices, nodes = _places(hardware)
    check_hardware(hardware)
    strategy: Any = hardware.strategy
    if devices * nodes > 1 and strategy in ("auto", "ddp"):
        strategy = DDPStrategy(process_group_backend=None)
    precision: Any = "32-true" if hardware.precision == "32" else hardware.precision
    accelerator = hardware.accelerator
    return Fabric(
        accelerator=accelerator,
        devices=devices,
        num_nodes=nodes,
        strategy=strategy,
        precision=precision,
        loggers=loggers,
    )


def _places(hardware: HardwareSettings) -> tuple[int, int]:
    """Return the number of devices per node and the number of nodes."""
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return hardware.devices, hardware.nodes
    world, local = int(os.environ["WORLD_SIZE"]), int(os.environ["LOCAL_WORLD_SIZE"])
    return local, max(1, world // local)


def gather_rows(fabric: Fabric, rows: Tensor) -> list[Tensor]:
    """Gather the rows (n_r, …) of every process r, in the order of the processes, on every process and on the CPU.

    Rows travel padded to one length, and are cut to their own again on arrival.
    """
    if fabric.world_size == 1:
        return [rows.cpu()]
    counts = [int(count) for count in _all_gather(fabric, torch.tensor([len(rows)], device=fabric.device))]
    padded = rows.new_zeros((max(counts), *rows.shape[1:]), device=fabric.device)
    padded[: len(rows)] = rows
    return [part[:count].cpu() for part, count in zip(_all_gather(fabric, padded), counts, strict=True)]


def _all_gather(fabric: Fabric, tensor: Tensor) -> list[Tensor]:
    """Gather tensors of one shape. Fabric's own function would carry gradients, which nobody needs here."""
    gathered = [torch.empty_like(tensor) for _ in range(fabric.world_size)]
    torch.distributed.all_gather(gathered, tensor)
    return gathered


def sum_over_processes(fabric: Fabric, values: list[float]) -> list[float]:
    """Sum each value over the processes, in float64."""
    if fabric.world_size == 1:
        return values
    own = torch.tensor(values, dtype=torch.float64, device=fabric.device)
    total = fabric.all_reduce(own, reduce_op="sum")
    assert isinstance(total, Tensor)
    return [float(value) for value in total]


def largest_over_processes(fabric: Fabric, value: int) -> int:
    """Return the largest of the processes' values."""
    return max(int(one) for one in gather_rows(fabric, torch.tensor([value], device=fabric.device)))


def broadcast_buffers(fabric: Fabric, module: torch.nn.Module) -> None:
    """Give every process the first one's buffers: running means of batch normalisation differ between processes."""
    if fabric.world_size > 1:
        for buffer in module.buffers():
            buffer.copy_(fabric.broadcast(buffer, src=0))
