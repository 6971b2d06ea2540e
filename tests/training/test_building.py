"""Parts of a run, and what is refused before it begins."""

import csv
import importlib.util
import math
import sqlite3
import sys
import types

import pytest
import torch
from torch import nn

from focalcal.gamma import EpochGamma, SampleGamma
from focalcal.losses import FocalLoss
from focalcal.recipes.settings import ScheduleSettings
from focalcal.training.building import (
    build_criterion,
    build_data,
    build_network,
    build_optimizers,
    learning_rate_factor,
    logger_place,
)
from focalcal.training.devices import _places, build_fabric
from focalcal.training.preconditions import check_loss, check_model
from tiny_runs import Net, recipe, run


def test_embedding_has_its_own_optimizer():
    network = nn.Module()
    network.embedding, network.classifier = nn.Embedding(5, 3), nn.Linear(3, 2)
    two = build_optimizers(recipe(embedding_optimizer={"name": "adagrad", "lr": 0.3}), network)
    assert [type(one) for one in two] == [torch.optim.SGD, torch.optim.Adagrad]
    assert [sum(len(group["params"]) for group in one.param_groups) for one in two] == [2, 1]
    network.embedding.weight.requires_grad_(False)
    assert len(build_optimizers(recipe(embedding_optimizer={"name": "adagrad"}), network)) == 1


def test_frozen_network_is_refused():
    with pytest.raises(ValueError, match="no weights that can be trained"):
        build_optimizers(recipe(), Net().requires_grad_(False))


def test_criterion():
    assert build_criterion(recipe(loss="fl-3", reduction="per_sample")).reduction == "sum"
    scheduled = build_criterion(recipe(loss="fl-3", gamma_schedule={0: 5, 1: 2}))
    assert isinstance(scheduled, FocalLoss)
    assert isinstance(scheduled.gamma, EpochGamma)
    with pytest.raises(ValueError, match="gamma_schedule is for focal losses, and brier is not one"):
        build_criterion(recipe(loss="brier", gamma_schedule={0: 5}))
    by_sample = build_criterion(recipe(loss="flsd-532", gamma_by_sample={"thresholds": [0.19], "gammas": [5, 3]}))
    assert by_sample.gamma == SampleGamma((0.19,), (5.0, 3.0))
    with pytest.raises(ValueError, match="gamma_by_sample is for focal losses, and mmce is not one"):
        build_criterion(recipe(loss="mmce", gamma_by_sample={"thresholds": [], "gammas": [3]}))
    with pytest.raises(ValueError, match="focal-lose"):
        build_criterion(recipe(loss="focal-lose"))


def test_gamma_schedule_may_be_written_in_any_order():
    assert build_criterion(recipe(loss="fl-3", gamma_schedule={2: 1, 0: 5})).gamma == EpochGamma({0: 5.0, 2: 1.0})


def test_the_penalty_of_mmce():
    assert build_criterion(recipe(loss="mmce")).penalty == 2.0
    own = build_criterion(recipe(loss="mmce-formula", mmce_penalty=0.1, reduction="sum"))
    assert (own.penalty, own.normalization, own.reduction) == (0.1, "formula", "sum")
    assert isinstance(build_criterion(recipe(loss="fl-3", mmce_penalty=8)), FocalLoss)


def test_own_parts_must_be_passed():
    with pytest.raises(ValueError, match=r"pass it as focalcal\.train"):
        build_data(recipe())
    with pytest.raises(ValueError, match=r"pass it as focalcal\.train"):
        build_network(recipe(), None)


@pytest.mark.parametrize(
    ("check", "given", "words"),
    [
        (check_model, 5, r"^model must be a torch\.nn\.Module, got int\.$"),
        (check_model, "mlp", "got str; to use a network by its name, set model=NAME in the recipe"),
        (check_model, Net, r"not its class: pass Net\(…\)"),
        (check_loss, 0.5, "the name of a loss or a function of logits and targets, got float"),
        (check_loss, nn.CrossEntropyLoss, r"not its class: pass CrossEntropyLoss\(…\)"),
    ],
)
def test_what_is_no_network_or_loss(check, given, words):
    with pytest.raises(TypeError, match=words):
        check(given)


def test_what_is_a_network_or_loss():
    check_model(Net())
    check_loss(nn.CrossEntropyLoss())
    check_loss(nn.functional.cross_entropy)


@pytest.mark.skipif(torch.cuda.is_available(), reason="There is a GPU.")
@pytest.mark.parametrize(
    ("hardware", "said"),
    [
        ({"strategy": "fsdp"}, "FSDP shards a network over GPUs, and this machine has none"),
        ({"strategy": "fsdp", "accelerator": "cpu", "devices": 2}, "use hardware.strategy=ddp"),
        ({"precision": "16-mixed", "accelerator": "cpu"}, "16-mixed is for GPUs, and this is a CPU; use bf16-mixed"),
        ({"accelerator": "cuda"}, "There is no CUDA device here"),
        ({"accelerator": "mps"}, "There is no MPS device here"),
    ],
)
def test_hardware_that_is_not_there(hardware, said):
    with pytest.raises(ValueError, match=said) as refused:
        build_fabric(recipe(hardware=hardware).hardware, [])
    assert "\n" not in str(refused.value)


def test_places_under_torchrun(monkeypatch):
    assert _places(recipe(hardware={"devices": 2, "nodes": 3}).hardware) == (2, 3)
    for name, value in {"TORCHELASTIC_RUN_ID": "a", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4"}.items():
        monkeypatch.setenv(name, value)
    assert _places(recipe().hardware) == (4, 2)


def factors(settings, epochs, steps):
    return [
        learning_rate_factor(settings, epochs=epochs, epoch=epoch, progress=(step + 1) / steps)
        for epoch in range(epochs)
        for step in range(steps)
    ]


def test_constant_learning_rate():
    assert factors(ScheduleSettings(), 3, 2) == [1.0] * 6


def test_steps_of_the_paper():
    found = factors(ScheduleSettings(name="steps", factors={150: 0.1, 250: 0.01}), 350, 1)
    assert found == [1.0] * 150 + [0.1] * 100 + [0.01] * 100


def test_steps_in_any_order():
    found = factors(ScheduleSettings(name="steps", factors={2: 0.01, 1: 0.1}), 4, 1)
    assert found == [1.0, 0.1, 0.01, 0.01]


def test_cosine_by_the_step():
    found = factors(ScheduleSettings(name="cosine"), 4, 5)
    assert found == pytest.approx([(1 + math.cos(math.pi * (step + 1) / 20)) / 2 for step in range(20)])
    assert found[-1] == 0.0


@pytest.mark.parametrize("name", ["constant", "cosine"])
def test_warm_up_rises_by_the_step(name):
    warm = factors(ScheduleSettings(name=name, warmup_epochs=1.5), 4, 4)
    cold = factors(ScheduleSettings(name=name), 4, 4)
    expected = [cold[step] * min(1.0, (step + 1) / 6) for step in range(16)]
    assert warm == pytest.approx(expected)


def test_csv_logger(tmp_path):
    finished = run(tmp_path / "a", logging={"to": "csv"}, epochs=3, record={"test_every": 2})
    with open(tmp_path / "a/logs/csv/metrics.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["val/nll"]) for row in rows] == [epoch["val"]["nll"] for epoch in finished.history]
    assert [bool(row["test/nll"]) for row in rows] == [False, True, True]


@pytest.mark.skipif(importlib.util.find_spec("tensorboard") is None, reason="TensorBoard is not installed.")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_tensorboard_logger(tmp_path):
    run(tmp_path / "a", logging={"to": ["tensorboard"]})
    (events,) = (tmp_path / "a/logs/tensorboard").rglob("events*")
    assert b"val/nll" in events.read_bytes()


@pytest.mark.parametrize("name", ["mlflow", "wandb"])
def test_logger_that_is_not_installed(tmp_path, name):
    if importlib.util.find_spec("lightning") and importlib.util.find_spec(name):
        pytest.skip(f"{name} is installed.")
    with pytest.raises(
        ValueError, match=f"logging.to={name} needs packages that are not installed: pip install "
    ) as no:
        run(tmp_path / "a", logging={"to": [name]})
    assert "\n" not in str(no.value)
    assert not (tmp_path / "a").exists()


@pytest.fixture
def mlflow(monkeypatch):
    """Let MLflow seem to be installed: only which store a run asks for is looked at."""
    for package in ("mlflow", "sqlalchemy"):
        monkeypatch.setitem(sys.modules, package, types.ModuleType(package))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


def test_mlflow_writes_a_database_into_the_run_directory(mlflow, tmp_path):
    place = logger_place("mlflow", tmp_path / "logs")
    assert sqlite3.connect(place["tracking_uri"].removeprefix("sqlite:///")).execute("SELECT 1").fetchone() == (1,)
    assert place["artifact_location"] == (tmp_path / "logs/files").as_uri()


def test_mlflow_writes_to_the_server_that_is_named(mlflow, tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    assert logger_place("mlflow", tmp_path / "logs") == {"tracking_uri": "http://127.0.0.1:9"}
    assert not (tmp_path / "logs").exists()


def test_mlflow_without_a_database_is_not_enough(mlflow, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)  # as beside mlflow-skinny
    with pytest.raises(ValueError, match=r"logging\.to=mlflow needs packages that are not installed: pip install "):
        run(tmp_path / "a", logging={"to": ["mlflow"]})
    assert not (tmp_path / "a").exists()


def test_inverse_square_root_after_a_warm_up():
    found = factors(ScheduleSettings(name="inverse_sqrt", warmup_epochs=2), 8, 2)
    assert found[:4] == [0.25, 0.5, 0.75, 1.0]
    assert found[-1] == pytest.approx((2 / 8) ** 0.5)
    assert found[7] == pytest.approx((2 / 4) ** 0.5)
