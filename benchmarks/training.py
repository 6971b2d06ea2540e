"""What the training loop costs beside what it computes: an epoch of it against the barest loop that learns the same.

Same network (that of ``cifar10/resnet8``), loss, optimizer, batches and data in memory, one thread. The loop also keeps
its running outputs, measures them, writes the history and a checkpoint. Its validation split has ten samples, so that
what an evaluation pass takes does not count.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from lightning_fabric import Fabric
from rich.console import Console
from torch import nn

from benchmarks.timing import machine, medians
from focalcal.data import DataSet, own_data
from focalcal.losses import build_loss
from focalcal.models import build_model
from focalcal.recipes import Recipe, load_recipe
from focalcal.training import Trainer
from focalcal.training.interruption import Interruption
from focalcal.training.order import epoch_batches
from focalcal.training.progress import Reporter

SAMPLES = 2000
MOST = 0.05


def random_images() -> DataSet:
    images, labels = torch.randn(SAMPLES, 3, 32, 32), torch.randint(10, (SAMPLES,))
    return own_data(train=(images, labels), val=(images[:10], labels[:10]), class_names=list("0123456789"))


def network() -> nn.Module:
    torch.manual_seed(0)
    return build_model("resnet8", 10).to(memory_format=torch.channels_last)


def bare_epoch(recipe: Recipe, data: DataSet) -> Callable[[], None]:
    model, loss, settings = network(), build_loss("cross-entropy", epochs=1), recipe.optimizer
    optimizer = torch.optim.SGD(
        model.parameters(), lr=settings.lr, momentum=settings.momentum, weight_decay=settings.weight_decay
    )
    inputs, labels = data.train.inputs, data.train.labels  # type: ignore[attr-defined]

    def epoch() -> None:
        model.train()
        for batch in epoch_batches(data.train, recipe.batch_size, seed=0, epoch=0):
            images = inputs.index_select(0, batch).contiguous(memory_format=torch.channels_last)
            loss(model(images), labels.index_select(0, batch)).backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

    return epoch


def whole_epoch(recipe: Recipe, data: DataSet, folder: Path) -> Callable[[], None]:
    fabric = Fabric(accelerator="cpu", devices=1)
    fabric.launch()
    loss = build_loss("cross-entropy", epochs=1)
    trainer = Trainer(fabric, recipe, data, network(), loss, folder, Reporter())

    def epoch() -> None:
        trainer._train_epoch(Interruption())
        trainer._finish_epoch()

    return epoch


def main() -> None:
    torch.set_num_threads(1)
    recipe, data = load_recipe("cifar10/resnet8", {"epochs": 1000}), random_images()
    recipe = recipe.with_changes(record={"test_every": None, "train_every": None})
    with tempfile.TemporaryDirectory() as folder:
        competitors = {"bare": bare_epoch(recipe, data), "loop": whole_epoch(recipe, data, Path(folder))}
        seconds = medians(competitors, seconds=20, fewest=5)
    ratio = seconds["loop"] / seconds["bare"]
    samples = {name: f"{SAMPLES / one:,.0f} samples/s" for name, one in seconds.items()}
    verdict = "met" if ratio <= 1 + MOST else "MISSED"
    Console().print(
        f"Training loop, cifar10/resnet8, {SAMPLES:,} random images in batches of {recipe.batch_size}: bare PyTorch "
        f"{samples['bare']}, focalcal {samples['loop']}; ratio {ratio:.3f}, at most {1 + MOST:.2f}: {verdict}",
        machine(),
    )
