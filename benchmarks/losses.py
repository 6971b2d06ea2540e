"""The losses beside ``F.cross_entropy``, the plain formula and a loop over samples: forward + backward, one thread."""

from collections.abc import Callable

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.nn import functional

import focalcal as fc
from benchmarks.timing import machine, medians

SHAPES = ((128, 10), (128, 100), (1024, 1000), (2048, 32000))
Loss = Callable[[Tensor, Tensor], Tensor]


def plain_formula(logits: Tensor, target: Tensor) -> Tensor:
    """The focal loss as it is usually written."""
    log_p = functional.log_softmax(logits, 1).gather(1, target.unsqueeze(1)).squeeze(1)
    return -((1 - log_p.exp()) ** 3 * log_p).mean()


def loop_over_samples(logits: Tensor, target: Tensor) -> Tensor:
    """FLSD-53 with γ chosen in Python, one look at a value for each sample."""
    log_p = functional.log_softmax(logits, 1).gather(1, target.unsqueeze(1)).squeeze(1)
    p = log_p.exp()
    gamma = torch.tensor([5.0 if value.item() < 0.2 else 3.0 for value in p])
    return -((1 - p) ** gamma * log_p).mean()


FLSD = fc.SampleGamma.flsd53()
LOSSES: dict[str, Loss] = {
    "F.cross_entropy": functional.cross_entropy,
    "focal_loss γ=3": lambda z, t: fc.focal_loss(z, t, 3.0),
    "focal_loss FLSD-53": lambda z, t: fc.focal_loss(z, t, FLSD),
    "plain formula γ=3": plain_formula,
    "Python loop FLSD-53": loop_over_samples,
}


def step(loss: Loss, logits: Tensor, target: Tensor) -> Callable[[], None]:
    def run() -> None:
        logits.grad = None
        loss(logits, target).backward()

    return run


def saved_bytes(loss: Loss, logits: Tensor, target: Tensor) -> int:
    """Bytes kept for backward, each storage counted once."""
    storages: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda t: t):
        loss(logits * 1, target)
    return sum(storages.values())


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    times = Table(title="Losses, forward + backward, float32: time as a multiple of F.cross_entropy (medians)")
    kept = Table(title="Bytes kept for backward as a multiple of F.cross_entropy's")
    for table in (times, kept):
        table.add_column("loss")
        for n, c in SHAPES:
            table.add_column(f"{n}×{c}", justify="right")
    columns = []
    for n, c in SHAPES:
        logits, target = torch.randn(n, c, requires_grad=True), torch.randint(c, (n,))
        seconds = medians({name: step(loss, logits, target) for name, loss in LOSSES.items()}, seconds=6)
        floor = saved_bytes(functional.cross_entropy, logits, target)
        columns.append((seconds, {name: saved_bytes(loss, logits, target) / floor for name, loss in LOSSES.items()}))
    reference = next(iter(LOSSES))
    for name in LOSSES:
        cells = [f"{seconds[name] / seconds[reference]:.2f}" for seconds, _ in columns]
        if name == reference:
            cells = [f"{seconds[name] * 1e3:.3g} ms" for seconds, _ in columns]
        times.add_row(name, *cells)
        kept.add_row(name, *(f"{ratios[name]:.2f}" for _, ratios in columns))
    console = Console()
    console.print(times, kept, machine())


if __name__ == "__main__":
    main()
