"""Small runs for the tests of training: here, in a process that starts in milliseconds, or in several at once."""

import json
import multiprocessing
import os
import socket
from pathlib import Path

import torch
from torch import nn

from focalcal.data import own_data
from focalcal.data.data_types import Batch, DataSet
from focalcal.data.own import TensorSamples
from focalcal.recipes import Recipe
from focalcal.training import train
from focalcal.training.checkpoints import CheckpointFolder

# A server that has imported everything forks the children.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["pytest", "focalcal.training.run", "sklearn.datasets", "torch._dynamo"])
CLASSES = 4
HARDWARE = {"accelerator": "cpu", "threads": 1}


def recipe(**changes):
    given = {"data": "own", "model": "own", "epochs": 2, "batch_size": 16, "optimizer": {"lr": 0.05}}
    return Recipe.check({"hardware": HARDWARE, **given, **changes}, "tiny")


def vectors(count, seed):
    """Four overlapping clouds in eight dimensions."""
    source = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % CLASSES
    centres = torch.eye(CLASSES, 8) * 2
    return torch.randn(count, 8, generator=source) + centres[labels], labels


def noise(inputs, source):
    return inputs + 0.1 * torch.randn(inputs.shape, generator=source)


def data(train=100, val=61, test=45, transform=None):
    splits = {"train": train, "val": val, "test": test}
    return own_data(
        **{name: vectors(size, seed) for seed, (name, size) in enumerate(splits.items())}, transform=transform
    )


class Net(nn.Module):
    """A perceptron with a ``classifier``; made anew it always has the same weights."""

    def __init__(self, hidden=16, dropout=0.0, norm=False, outputs=CLASSES):
        super().__init__()
        torch.manual_seed(5)
        middle = nn.BatchNorm1d(hidden) if norm else nn.Identity()
        self.layers = nn.Sequential(nn.Linear(8, hidden), middle, nn.ReLU(), nn.Dropout(dropout))
        self.classifier = nn.Linear(hidden, outputs)

    def forward(self, x):
        return self.classifier(self.layers(x))


class HalfSupervised(TensorSamples):
    """Samples with two outputs each: most have no target at all, some have one, a few have both."""

    def batch(self, positions, *, device, generator):
        whole = super().batch(positions, device=device, generator=generator)
        if generator is None:
            return whole
        first = torch.where(positions % 5 == 0, whole.targets, -100)
        second = torch.where(positions % 3 == 0, first, -100)
        targets = torch.stack([first, second], dim=1).flatten()
        return Batch(whole.inputs.repeat_interleave(2, dim=0), targets)


def half_supervised(train=100):
    usual = data()
    return DataSet(
        "own", usual.class_names, HalfSupervised(*vectors(train, 0)), usual.evaluation, usual.model_options, usual.facts
    )


def run(out, *, network=None, samples=None, criterion=None, resume=False, progress=False, **changes):
    return train(
        recipe(**changes),
        out=out,
        model=Net() if network is None else network,
        data=data() if samples is None else samples,
        loss=criterion,
        resume=resume,
        progress=progress,
    )


def last_state(out):
    """The newest checkpoint of a run."""
    checkpoint, damaged = CheckpointFolder(Path(out) / "checkpoints").newest()
    assert checkpoint is not None, damaged
    return checkpoint


def weights(out):
    return last_state(out).part("model")


def timeless(out):
    """The history without what differs from run to run."""
    epochs = [json.loads(line) for line in (Path(out) / "history.jsonl").read_text().splitlines()]
    return [
        {key: value for key, value in epoch.items() if key not in ("seconds", "samples_per_second")} for epoch in epochs
    ]


def prediction_bytes(out):
    folder = Path(out) / "predictions"
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*.safetensors"))}


def start(target, *arguments, **options):
    torch.set_num_threads(1)
    child = PROCESSES.Process(target=target, args=arguments, kwargs=options, daemon=True)
    child.start()
    return child


def in_processes(count, target, *arguments, **options):
    """Call a function in several processes; all must end well."""
    for child in start_processes(count, target, *arguments, **options):
        child.join(120)
        assert child.exitcode == 0


def start_processes(count, target, *arguments, **options):
    """Start a function in several processes as torchrun would."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return [start(_as_rank, rank, count, port, target, arguments, options) for rank in range(count)]


def _as_rank(rank, world, port, target, arguments, options):
    torch.set_num_threads(1)
    places = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": world, "GROUP_RANK": 0}
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "TORCHELASTIC_RUN_ID": "test"}
    os.environ.update({name: str(value) for name, value in {**places, **address}.items()})
    target(*arguments, **options)
