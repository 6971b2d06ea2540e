"""The loop against loops by hand: clipping, optimizers, averages, selection, precision, memory format."""

import copy
from functools import partial

import pytest
import torch
from torch import nn

from focalcal.data import own_data
from focalcal.training.batches import epoch_batches
from focalcal.training.building import learning_rate_factor
from focalcal.training.checkpoints import read_checkpoint
from tiny_runs import HARDWARE, Net, data, prediction_bytes, run, timeless, weights


def by_hand(optimizer, *, epochs=2, clip=None, factor=lambda epoch, progress: 1.0, after=lambda network: None):
    """The plainest loop that does what the recipe of the tests says."""
    network, samples = Net(), data().train
    stepper = optimizer(network.parameters())
    rate = stepper.param_groups[0]["lr"]
    for epoch in range(epochs):
        batches = epoch_batches(samples, 16, seed=0, epoch=epoch)
        for step, batch in enumerate(batches, 1):
            stepper.param_groups[0]["lr"] = rate * factor(epoch, step / len(batches))
            stepper.zero_grad()
            nn.functional.cross_entropy(network(samples.inputs[batch]), samples.labels[batch]).backward()
            if clip is not None:
                nn.utils.clip_grad_norm_(network.parameters(), clip)
            stepper.step()
            after(network)
    return network


def assert_same(saved, network):
    for name, tensor in network.state_dict().items():
        torch.testing.assert_close(saved[name], tensor, rtol=1e-5, atol=1e-6)


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=0.01),
    "adam": lambda p: torch.optim.Adam(p, lr=0.05, weight_decay=0.01),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.05, weight_decay=0.01),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.05, weight_decay=0.01),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_are_pytorch_s(tmp_path, name):
    run(tmp_path / "a", optimizer={"name": name, "lr": 0.05, "weight_decay": 0.01})
    assert_same(weights(tmp_path / "a"), by_hand(OPTIMIZERS[name]))


@pytest.mark.parametrize(
    "schedule",
    [{"name": "steps", "factors": {1: 0.1}}, {"name": "cosine", "warmup_epochs": 0.5}, {"warmup_epochs": 1.5}],
    ids=["steps", "cosine with warm-up", "warm-up"],
)
def test_schedules_set_the_learning_rate_of_every_step(tmp_path, schedule):
    finished = run(tmp_path / "a", schedule=schedule)
    settings = finished.recipe.schedule

    def factor(epoch, progress):
        return learning_rate_factor(settings, epochs=2, epoch=epoch, progress=progress)

    expected = by_hand(lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9), factor=factor)
    assert_same(weights(tmp_path / "a"), expected)
    assert finished.history[-1]["learning_rate"] == pytest.approx(0.05 * factor(1, 1.0))


def test_clipping(tmp_path):
    run(tmp_path / "a", clip_norm=0.05)
    clipped = by_hand(lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9), clip=0.05)
    assert_same(weights(tmp_path / "a"), clipped)
    free = by_hand(lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9))
    assert not torch.allclose(free.classifier.weight, clipped.classifier.weight, atol=1e-2)


def test_moving_average(tmp_path):
    average = []

    def follow(network):
        now = {name: tensor.clone() for name, tensor in network.state_dict().items()}
        old = average[-1] if average else now
        average.append({name: 0.8 * old[name] + 0.2 * now[name] for name in now} if average else now)

    by_hand(lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9), after=follow)
    finished = run(tmp_path / "a", ema_decay=0.8)
    network = Net()
    network.load_state_dict(average[-1])
    with torch.no_grad():
        expected = network.eval()(data().evaluation["test"].inputs)
    torch.testing.assert_close(finished.predictions("test").values.float(), expected, rtol=1e-4, atol=1e-5)


def test_moving_average_with_batch_normalisation(tmp_path):
    assert len(run(tmp_path / "a", network=Net(norm=True), ema_decay=0.9).history) == 2


@pytest.mark.parametrize("select", ["error", "nll", "ece", "scaled_nll"])
def test_selected_epoch_is_the_best(tmp_path, select):
    """A large learning rate makes validation go up and down."""
    finished = run(tmp_path / "a", select=select, epochs=6, optimizer={"lr": 0.4, "momentum": 0.5})
    values = [epoch["val"][select] for epoch in finished.history]
    best = finished.evaluation["epoch"]
    assert best == values.index(min(values))
    shown = {"scaled_nll": ("after_nll", "nll")}.get(select, ("before", select))
    measured = finished.evaluation["splits"]["val"][shown[0]][shown[1]]
    assert measured == pytest.approx(values[best], rel=1e-5, abs=1e-9)
    last = finished.predictions("val", "last")
    assert last.ids == finished.predictions("val").ids
    if best != 5:
        assert not torch.equal(last.values, finished.predictions("val").values)
    kept = list((tmp_path / "a/checkpoints").glob(f"best-{best:05d}.safetensors"))
    assert read_checkpoint(kept[0]).values == {"epoch": best}


def test_last_is_stored_once(tmp_path):
    finished = run(tmp_path / "a")
    assert set(prediction_bytes(tmp_path / "a")) == {"val.safetensors", "test.safetensors"}
    assert torch.equal(finished.predictions("val", "last").values, finished.predictions("val").values)


def test_bfloat16(tmp_path):
    finished = run(tmp_path / "a", hardware={**HARDWARE, "precision": "bf16-mixed"}, epochs=3)
    full = run(tmp_path / "b", epochs=3)
    assert all(tensor.dtype == torch.float32 for tensor in weights(tmp_path / "a").values())
    assert not torch.equal(finished.predictions("val").values, full.predictions("val").values)
    assert finished.history[-1]["val"]["nll"] == pytest.approx(full.history[-1]["val"]["nll"], rel=0.05)


class Convolution(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(2)
        self.layer = nn.Conv2d(3, 5, 3)
        self.classifier = nn.Linear(5, 3)
        self.formats = []

    def forward(self, x):
        self.formats.append(x.is_contiguous(memory_format=torch.channels_last))
        return self.classifier(self.layer(x).relu().mean((2, 3)))


def test_channels_last_changes_no_result(tmp_path):
    torch.manual_seed(3)
    images, labels = torch.randn(40, 3, 6, 6), torch.arange(40) % 3
    samples = own_data(train=(images, labels), val=(images[:20], labels[:20]))
    plain, last = Convolution(), Convolution()
    run(tmp_path / "a", network=plain, samples=samples)
    run(tmp_path / "b", network=last, samples=samples, channels_last=True)
    assert all(last.formats)
    assert not any(plain.formats)
    for name, tensor in weights(tmp_path / "a").items():
        torch.testing.assert_close(weights(tmp_path / "b")[name], tensor, rtol=1e-4, atol=1e-6)


def test_same_seed_same_result_another_seed_another(tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        torch.manual_seed(len(name) + seed * 17)
        run(tmp_path / name, network=copy.deepcopy(Net(dropout=0.5)), seed=seed)
    assert prediction_bytes(tmp_path / "a") == prediction_bytes(tmp_path / "b")
    assert timeless(tmp_path / "a") == timeless(tmp_path / "b")
    assert prediction_bytes(tmp_path / "a") != prediction_bytes(tmp_path / "c")


def test_tied_weights(tmp_path):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(1)
            self.first, self.second, self.classifier = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 4)
            self.second.weight = self.first.weight

        def forward(self, x):
            return self.classifier(self.second(self.first(x).relu()).relu())

    run(tmp_path / "a", network=Tied(), select="nll", checkpoint={"every_steps": 3})
    assert torch.equal(weights(tmp_path / "a")["first.weight"], weights(tmp_path / "a")["second.weight"])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of PyTorch's own code
def test_compiled_network(tmp_path, monkeypatch):
    """Traced by PyTorch's compiler; turning the trace into C++ would take half a minute and change nothing here."""
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))
    run(tmp_path / "a", epochs=1)
    run(tmp_path / "b", epochs=1, compile=True)
    for name, tensor in weights(tmp_path / "a").items():
        torch.testing.assert_close(weights(tmp_path / "b")[name], tensor, rtol=1e-4, atol=1e-6)
