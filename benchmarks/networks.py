"""The paper's networks: samples/s of one training step (forward, backward, SGD) at batch 32, float32, one thread.

Takes some minutes: a step of the largest takes half a minute. Hence two timed steps after one to warm up, and only
the channels-last format, which is the quicker one.
"""

from collections.abc import Callable

import torch
from rich.console import Console
from rich.table import Table
from torch.nn import functional

from benchmarks.timing import machine, medians
from focalcal.models import build_model

BATCH = 32
NETWORKS: dict[str, tuple[str, int, int]] = {
    "resnet50, 32×32": ("resnet50", 10, 32),
    "resnet110, 32×32": ("resnet110", 10, 32),
    "wide_resnet_26_10, 32×32": ("wide_resnet_26_10", 10, 32),
    "densenet121, 32×32": ("densenet121", 10, 32),
    "resnet50, 64×64": ("resnet50", 200, 64),
    "resnet8, 32×32": ("resnet8", 10, 32),
}


def training_step(
    name: str, classes: int, size: int, memory_format: torch.memory_format = torch.channels_last
) -> Callable[[], None]:
    network = build_model(name, classes, image_size=size).to(memory_format=memory_format)
    optimiser = torch.optim.SGD(network.parameters(), lr=1e-3, momentum=0.9, weight_decay=5e-4)
    images = torch.randn(BATCH, 3, size, size).to(memory_format=memory_format)
    labels = torch.randint(classes, (BATCH,))

    def step() -> None:
        optimiser.zero_grad(set_to_none=True)
        functional.cross_entropy(network(images), labels).backward()
        optimiser.step()

    return step


def parameters_of(name: str, classes: int, size: int) -> int:
    with torch.device("meta"):
        return sum(p.numel() for p in build_model(name, classes, image_size=size).parameters())


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    table = Table(title=f"Networks: a training step at batch {BATCH}, float32, channels last (medians)")
    table.add_column("network")
    for column in ("parameters", "seconds", "samples/s"):
        table.add_column(column, justify="right")
    for title, network in NETWORKS.items():
        # One at a time: their activations together would need several gigabytes.
        seconds = medians({title: training_step(*network)}, seconds=1, fewest=2)[title]
        table.add_row(title, f"{parameters_of(*network):,}", f"{seconds:.3g}", f"{BATCH / seconds:.3g}")
    Console().print(table, machine())


if __name__ == "__main__":
    main()
