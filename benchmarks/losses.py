"""Losses beside ``F.cross_entropy``, the plain formula and a loop over samples: forward + backward, one thread.

Targets: no slower than the plain formula at 128×10 and 128×100, at most 1.2 × ``F.cross_entropy`` at 1024×1000.
"""

from collections.abc import Callable

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.nn import functional

import focalcal as fc
from benchmarks.timing import machine, medians

SHAPES = ((128, 10), (128, 100), (1024, 1000), (2048, 32000))
QUICK_SHAPES = ((128, 10), (32, 1000))
Loss = Callable[[Tensor, Tensor], Tensor]


def plain_formula(logits: Tensor, target: Tensor) -> Tensor:
    """The focal loss as it is usually written."""
    log_p = functional.log_softmax(logits, 1).gather(1, target.unsqueeze(1)).squeeze(1)
    return -((1 - log_p.exp()) ** 3 * log_p).mean()


def loop_over_samples(logits: Tensor, target: Tensor) -> Tensor:
    """FLSD-53 with γ chosen in Python, by reading one value per sample."""
    log_p = functional.log_softmax(logits, 1).gather(1, target.unsqueeze(1)).squeeze(1)
    p = log_p.exp()
    gamma = torch.tensor([5.0 if value.item() < 0.2 else 3.0 for value in p])
    return -((1 - p) ** gamma * log_p).mean()


PLAIN, CROSS_ENTROPY = "plain formula γ=3", "F.cross_entropy"
OURS = ("focal_loss γ=3", "focal_loss FLSD-53")
# Most that focal_loss may take, as a multiple of another loss.
TARGETS = {(128, 10): (PLAIN, 1.0), (128, 100): (PLAIN, 1.0), (1024, 1000): (CROSS_ENTROPY, 1.2)}
FLSD = fc.SampleGamma.flsd53()
LOSSES: dict[str, Loss] = {
    CROSS_ENTROPY: functional.cross_entropy,
    "focal_loss γ=3": lambda z, t: fc.focal_loss(z, t, 3.0),
    "focal_loss FLSD-53": lambda z, t: fc.focal_loss(z, t, FLSD),
    PLAIN: plain_formula,
    "Python loop FLSD-53": loop_over_samples,
}


def step(loss: Loss, logits: Tensor, target: Tensor) -> Callable[[], None]:
    def run() -> None:
        logits.grad = None
        loss(logits, target).backward()

    return run


def saved_bytes(loss: Loss, logits: Tensor, target: Tensor) -> int:
    """Count the bytes kept for backward, each storage once."""
    storages: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda t: t):
        loss(logits * 1, target)
    return sum(storages.values())


def main(quick: bool = False) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    shapes = QUICK_SHAPES if quick else SHAPES
    columns = [measure(*shape, quick) for shape in shapes]
    heads = ["loss", *(f"{n}×{c}" for n, c in shapes)]
    times = Table(*heads, title="Losses, forward + backward, float32: time as a multiple of F.cross_entropy (medians)")
    kept = Table(*heads, title="Bytes kept for backward as a multiple of F.cross_entropy's")
    for name in LOSSES:
        ratios = [f"{seconds[name] / seconds[CROSS_ENTROPY]:.2f}" for seconds, _ in columns]
        absolute = [f"{seconds[name] * 1e3:.3g} ms" for seconds, _ in columns]
        times.add_row(name, *(absolute if name == CROSS_ENTROPY else ratios))
        kept.add_row(name, *(f"{sizes[name] / sizes[CROSS_ENTROPY]:.2f}" for _, sizes in columns))
    Console().print(times, kept, machine())
    for (n, c), (seconds, _) in zip(shapes, columns, strict=True):
        if (n, c) in TARGETS:
            print(verdict(n, c, seconds))


def measure(n: int, c: int, quick: bool) -> tuple[dict[str, float], dict[str, int]]:
    """Measure the seconds of each loss at one size, and the bytes that it keeps."""
    logits, target = torch.randn(n, c, requires_grad=True), torch.randint(c, (n,))
    seconds = medians({name: step(loss, logits, target) for name, loss in LOSSES.items()}, seconds=10, quick=quick)
    return seconds, {name: saved_bytes(loss, logits, target) for name, loss in LOSSES.items()}


def verdict(n: int, c: int, seconds: dict[str, float]) -> str:
    reference, most = TARGETS[n, c]
    ratios = [seconds[name] / seconds[reference] for name in OURS]
    shown = " and ".join(f"{ratio:.2f}" for ratio in ratios)
    return f"{n}×{c}: {shown} × {reference}, at most {most}: {'met' if max(ratios) <= most else 'MISSED'}"
