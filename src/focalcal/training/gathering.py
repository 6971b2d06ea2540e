"""What processes tell each other. Rows travel padded to one length, and are cut to their own again on arrival."""

import torch
from lightning_fabric import Fabric
from torch import Tensor


def gather_rows(fabric: Fabric, rows: Tensor) -> list[Tensor]:
    """The rows (n_r, …) of every process r, in the order of the processes, on every process and on the CPU."""
    if fabric.world_size == 1:
        return [rows.cpu()]
    counts = [int(count) for count in _all_gather(fabric, torch.tensor([len(rows)], device=fabric.device))]
    padded = rows.new_zeros((max(counts), *rows.shape[1:]), device=fabric.device)
    padded[: len(rows)] = rows
    return [part[:count].cpu() for part, count in zip(_all_gather(fabric, padded), counts, strict=True)]


def _all_gather(fabric: Fabric, tensor: Tensor) -> list[Tensor]:
    """Of one shape on all processes. Fabric's own would carry gradients, which nobody needs here."""
    gathered = [torch.empty_like(tensor) for _ in range(fabric.world_size)]
    torch.distributed.all_gather(gathered, tensor)
    return gathered


def sum_over_processes(fabric: Fabric, values: list[float]) -> list[float]:
    """Each value summed over the processes, in float64."""
    if fabric.world_size == 1:
        return values
    own = torch.tensor(values, dtype=torch.float64, device=fabric.device)
    total = fabric.all_reduce(own, reduce_op="sum")
    assert isinstance(total, Tensor)
    return [float(value) for value in total]


def largest_over_processes(fabric: Fabric, value: int) -> int:
    """The largest of the processes' values."""
    return max(int(one) for one in gather_rows(fabric, torch.tensor([value], device=fabric.device)))


def same_buffers_everywhere(fabric: Fabric, module: torch.nn.Module) -> None:
    """Give every process the first one's buffers: running means of batch normalisation differ between processes."""
    if fabric.world_size > 1:
        for buffer in module.buffers():
            buffer.copy_(fabric.broadcast(buffer, src=0))
