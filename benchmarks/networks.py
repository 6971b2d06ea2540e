"""Networks: samples/s of one training step (forward, backward, SGD) at batch 32, one thread, channels last.

Takes some minutes: a step of the largest takes half a minute. Hence two timed steps after one to warm up, and only
the channels-last format, which is the quicker one. ResNet-20 also in bf16-mixed, at its recipe's batch size of 128.
"""

from collections.abc import Callable

import torch
from rich.console import Console
from rich.table import Table
from torch.nn import functional

from benchmarks.timing import machine, medians
from focalcal.models import build_model

BATCH = 32
# Name, classes, image size.
NETWORKS: dict[str, tuple[str, int, int]] = {
    "resnet50, 32×32": ("resnet50", 10, 32),
    "resnet110, 32×32": ("resnet110", 10, 32),
    "wide_resnet_26_10, 32×32": ("wide_resnet_26_10", 10, 32),
    "densenet121, 32×32": ("densenet121", 10, 32),
    "resnet50, 64×64": ("resnet50", 200, 64),
    "resnet8, 32×32": ("resnet8", 10, 32),
}
SMALL_BATCH = 128
SMALL_NETWORK = ("resnet20", 10, 32)


def training_step(name: str, classes: int, size: int, batch: int, half: bool = False) -> Callable[[], None]:
    """Make a step; ``half`` computes what can be in bfloat16, as ``bf16-mixed`` does."""
    network = build_model(name, classes, image_size=size).to(memory_format=torch.channels_last)
    optimiser = torch.optim.SGD(network.parameters(), lr=1e-3, momentum=0.9, weight_decay=5e-4)
    images = torch.randn(batch, 3, size, size).to(memory_format=torch.channels_last)
    labels = torch.randint(classes, (batch,))

    def step() -> None:
        optimiser.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            logits = network(images)
        functional.cross_entropy(logits.float(), labels).backward()
        optimiser.step()

    return step


def parameters_of(name: str, classes: int, size: int) -> int:
    with torch.device("meta"):
        return sum(p.numel() for p in build_model(name, classes, image_size=size).parameters())


def main(quick: bool = False) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    table = Table(title="Networks: a training step, channels last (medians)")
    table.add_column("network")
    for column in ("parameters", "batch", "seconds", "samples/s"):
        table.add_column(column, justify="right")
    batch, small_batch = (1, 2) if quick else (BATCH, SMALL_BATCH)
    for title, network in NETWORKS.items():
        # One at a time: their activations together would need several gigabytes.
        step = training_step(*network, batch)
        seconds = medians({title: step}, seconds=1, fewest=2, quick=quick)[title]
        add_row(table, f"{title}, float32", network, batch, seconds)
    steps = {
        precision: training_step(*SMALL_NETWORK, small_batch, half=precision == "bf16-mixed")
        for precision in ("float32", "bf16-mixed")
    }
    for precision, seconds in medians(steps, seconds=20, quick=quick).items():
        add_row(table, f"resnet20, 32×32, {precision}", SMALL_NETWORK, small_batch, seconds)
    Console().print(table, machine())


def add_row(table: Table, title: str, network: tuple[str, int, int], batch: int, seconds: float) -> None:
    table.add_row(title, f"{parameters_of(*network):,}", f"{batch}", f"{seconds:.3g}", f"{batch / seconds:.3g}")


if __name__ == "__main__":
    main()
