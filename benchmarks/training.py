"""Training loop: an epoch of it beside the barest loop that learns the same, and what recording costs.

The same network, loss, optimizer, batches and data in memory, one thread. The loop also keeps its running outputs and
feature norms, measures them, writes the history and a checkpoint. The validation and test splits have ten samples and
the training set is not evaluated, so that evaluation passes do not count. ResNet-20 in float32 and in bf16-mixed, with
everything recorded that ``cifar10/resnet20`` records.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from lightning_fabric import Fabric
from rich.console import Console
from rich.table import Table
from torch import nn

from benchmarks.timing import machine, medians
from focalcal.data import DataSet, own_data
from focalcal.losses import build_loss
from focalcal.models import build_model
from focalcal.recipes import Recipe, load_recipe
from focalcal.training import RunDirectory
from focalcal.training.batches import epoch_batches
from focalcal.training.epoch_progress import ProgressDisplay
from focalcal.training.evaluator import build_evaluator
from focalcal.training.stopping import Interruption
from focalcal.training.trainer import Trainer

SAMPLES, QUICK_SAMPLES = 2000, 40
MOST = 0.05
RUNS = (("cifar10/resnet8", "32"), ("cifar10/resnet20", "32"), ("cifar10/resnet20", "bf16-mixed"))


def random_images(samples: int) -> DataSet:
    images, labels = torch.randn(samples, 3, 32, 32), torch.randint(10, (samples,))
    few = images[:10], labels[:10]
    return own_data(train=(images, labels), val=few, test=few, class_names=list("0123456789"))


def network(recipe: Recipe) -> nn.Module:
    torch.manual_seed(0)
    return build_model(recipe.model.name, 10, **recipe.model.options()).to(memory_format=torch.channels_last)


def bare_epoch(recipe: Recipe, data: DataSet) -> Callable[[], None]:
    model, loss, settings = network(recipe), build_loss("cross-entropy", epochs=1), recipe.optimizer
    optimizer = torch.optim.SGD(
        model.parameters(), lr=settings.lr, momentum=settings.momentum, weight_decay=settings.weight_decay
    )
    inputs, labels = data.train.inputs, data.train.labels  # type: ignore[attr-defined]
    half = recipe.hardware.precision == "bf16-mixed"

    def epoch() -> None:
        model.train()
        for batch in epoch_batches(data.train, recipe.batch_size, seed=0, epoch=0):
            images = inputs.index_select(0, batch).contiguous(memory_format=torch.channels_last)
            with torch.autocast("cpu", torch.bfloat16, enabled=half):
                logits = model(images)
            loss(logits.float(), labels.index_select(0, batch)).backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

    return epoch


def whole_epoch(recipe: Recipe, data: DataSet, folder: Path, model: nn.Module) -> Callable[[], None]:
    """Return one epoch of the library's loop."""
    fabric = Fabric(accelerator="cpu", devices=1, precision=recipe.hardware.precision)
    fabric.launch()
    loss = build_loss("cross-entropy", epochs=1)
    evaluator = build_evaluator(fabric, recipe, data)
    trainer = Trainer(fabric, recipe, model, loss, evaluator, RunDirectory(folder), ProgressDisplay())

    def epoch() -> None:
        trainer._train_epoch(Interruption())
        trainer._finish_epoch()

    return epoch


def measure(name: str, precision: str, quick: bool) -> tuple[int, dict[str, float]]:
    """Return the number of samples in an epoch, and the seconds of both loops."""
    data = random_images(QUICK_SAMPLES if quick else SAMPLES)
    recipe = load_recipe(name, {"epochs": 1000, "hardware.precision": precision})
    recipe = recipe.with_changes(record={"test_every": 1, "train_every": None})
    with tempfile.TemporaryDirectory() as folder:
        competitors = {
            "bare": bare_epoch(recipe, data),
            "loop": whole_epoch(recipe, data, Path(folder), network(recipe)),
        }
        return len(data.train), medians(competitors, seconds=30, fewest=5, quick=quick)


def main(quick: bool = False) -> None:
    torch.set_num_threads(1)
    table = Table(title=f"Training loop beside bare PyTorch, {SAMPLES:,} random images (medians)")
    table.add_column("recipe")
    for column in ("precision", "bare, samples/s", "focalcal, samples/s", "overhead", f"at most {MOST:.0%}"):
        table.add_column(column, justify="right")
    for name, precision in RUNS:
        samples, seconds = measure(name, precision, quick)
        rates = [f"{samples / seconds[one]:,.0f}" for one in ("bare", "loop")]
        overhead = seconds["loop"] / seconds["bare"] - 1
        table.add_row(name, precision, *rates, f"{overhead:+.1%}", "met" if overhead <= MOST else "MISSED")
    Console(width=120).print(table, machine())


if __name__ == "__main__":
    main()
