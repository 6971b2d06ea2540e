"""What processes tell each other. Rows travel padded to one length, and are cut to their own again on arrival."""

import torch
from lightning_fabric import Fabric
from torch import Tensor


def gather_rows(fabric: Fabric, rows: Tensor) -> list[Tensor]:
    """The rows (n_r, …) of every process r, in the order of the processes, on every process and on the CPU."""
    if fabric.world_size == 1:
        return [rows.cpu()]
    counts = _all_gather(fabric, torch.tensor([len(rows)], device=fabric.device)).flatten().tolist()
    padded = rows.new_zeros((max(counts), *rows.shape[1:]), device=fabric.device)
    padded[: len(rows)] = rows
    received = _all_gather(fabric, padded).reshape(fabric.world_size, max(counts), *rows.shape[1:])
    return [part[:count].cpu() for part, count in zip(received, counts, strict=True)]


def _all_gather(fabric: Fabric, tensor: Tensor) -> Tensor:
    gathered = fabric.all_gather(tensor)
    assert isinstance(gathered, Tensor)
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
