"""From a recipe to its parts, and what is refused before anything begins."""

import pytest
import torch
from torch import nn

from focalcal.gamma import EpochGamma, SampleGamma
from focalcal.losses import FocalLoss
from focalcal.training.building import (
    build_criterion,
    build_data,
    build_fabric,
    build_network,
    build_optimizers,
    check_loss,
    check_model,
)
from tiny_runs import Net, recipe


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
    with pytest.raises(ValueError, match="gamma_schedule belongs to a focal loss, and brier is none"):
        build_criterion(recipe(loss="brier", gamma_schedule={0: 5}))
    by_sample = build_criterion(recipe(loss="flsd-532", gamma_by_sample={"thresholds": [0.19], "gammas": [5, 3]}))
    assert by_sample.gamma == SampleGamma((0.19,), (5.0, 3.0))
    with pytest.raises(ValueError, match="gamma_by_sample belongs to a focal loss, and mmce is none"):
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
        (check_model, "mlp", "got str; a network of the recipes is chosen by model=NAME in them"),
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
        ({"strategy": "fsdp"}, "FSDP shards a network over GPUs, and there is none here"),
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
    from focalcal.training.building import _places

    assert _places(recipe(hardware={"devices": 2, "nodes": 3}).hardware) == (2, 3)
    for name, value in {"TORCHELASTIC_RUN_ID": "a", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4"}.items():
        monkeypatch.setenv(name, value)
    assert _places(recipe().hardware) == (4, 2)
