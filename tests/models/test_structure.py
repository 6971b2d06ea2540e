"""Strides, widths, depths and names of parameters: what a checkpoint and the paper rely on."""

import hashlib
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from focalcal.models import build_model
from focalcal.models.densenet import DenseLayer, DenseNet
from focalcal.models.network import average_windows, compute_pooled_size, initialise
from focalcal.models.resnet import BasicBlock, Block, Bottleneck


def on_meta(name: str, **options: Any) -> nn.Module:
    with torch.device("meta"):
        return build_model(name, 10, **options)


def stage_maps(network: nn.Module, size: int) -> list[tuple[int, ...]]:
    """(channels, height, width) after the stem and after each stage."""
    maps: list[tuple[int, ...]] = []

    def note(_module: nn.Module, _inputs: object, output: Tensor) -> None:
        maps.append(tuple(output.shape[1:]))

    for module in (network.stem, *network.stages):
        module.register_forward_hook(note)
    network(torch.zeros(1, 3, size, size, device="meta"))
    return maps


@pytest.mark.slow
@pytest.mark.parametrize("size", [32, 64])
@pytest.mark.parametrize(
    ("name", "stem", "channels"),
    [
        ("resnet50", 64, (256, 512, 1024, 2048)),
        ("resnet110", 64, (256, 512, 1024, 2048)),
        ("wide_resnet_26_10", 16, (160, 320, 640)),
        ("densenet121", 64, (256, 512, 1024, 1024)),
        ("resnet8", 16, (16, 32, 64)),
        ("resnet20", 16, (16, 32, 64)),
    ],
)
def test_every_stage_but_the_first_halves_the_map(name: str, stem: int, channels: tuple[int, ...], size: int) -> None:
    sides = [size, *(size >> stage for stage in range(len(channels)))]
    expected = [(width, side, side) for width, side in zip((stem, *channels), sides, strict=True)]
    assert stage_maps(on_meta(name, image_size=size), size) == expected


@pytest.mark.parametrize(
    ("name", "kind", "depths", "layers"),
    [
        ("resnet50", Bottleneck, (3, 4, 6, 3), 50),
        ("resnet110", Bottleneck, (3, 4, 26, 3), 110),
        ("wide_resnet_26_10", BasicBlock, (4, 4, 4), 26),
        ("densenet121", DenseLayer, (6, 12, 24, 16), 121),
        ("resnet8", BasicBlock, (1, 1, 1), 8),
        ("resnet20", BasicBlock, (3, 3, 3), 20),
    ],
)
def test_depth_is_what_the_name_says(name: str, kind: type, depths: tuple[int, ...], layers: int) -> None:
    network = on_meta(name)
    assert tuple(sum(isinstance(m, kind) for m in stage) for stage in network.stages) == depths
    weighted = [key for key, m in network.named_modules() if isinstance(m, nn.Conv2d | nn.Linear)]
    assert sum("shortcut" not in key for key in weighted) == layers


@pytest.mark.parametrize("name", ["resnet50", "wide_resnet_26_10", "resnet20"])
def test_only_the_first_block_of_a_stage_projects(name: str) -> None:
    for index, stage in enumerate(on_meta(name).stages):
        kinds = [isinstance(block.shortcut, nn.Identity) for block in stage]
        # The first stage of a small ResNet keeps the stem's width, so nothing is projected there.
        assert kinds[0] is (name == "resnet20" and index == 0)
        assert all(kinds[1:])


def test_a_block_adds_its_shortcut() -> None:
    block = BasicBlock(3, 3, 1).eval()
    x = torch.randn(2, 3, 5, 5)
    assert torch.equal(block(x), torch.relu(block.body(x) + x))
    nn.init.zeros_(block.body[-1].weight)
    assert torch.equal(block(x), torch.relu(x))


def test_a_dense_layer_keeps_what_it_was_given() -> None:
    layer = DenseLayer(5, 2).eval()
    x = torch.randn(2, 5, 4, 4)
    got = layer(x)
    assert got.shape == (2, 7, 4, 4)
    assert torch.equal(got[:, :5], x)


def test_pooling_by_windows_and_over_everything() -> None:
    x = torch.arange(64.0).reshape(1, 1, 8, 8)
    blocks = x.reshape(2, 4, 2, 4).mean((1, 3)).flatten()
    assert torch.equal(average_windows(x, 4), blocks[None])
    assert torch.equal(average_windows(x, None), torch.tensor([[31.5]]))
    assert torch.equal(average_windows(x, 16), torch.tensor([[31.5]]))
    assert torch.equal(average_windows(x[..., :7, :7], 4), blocks[None, :1])


@pytest.mark.parametrize("size", [1, 8, *range(25, 70, 2)])
def test_pooled_size_agrees_with_the_map(size: int) -> None:
    network = DenseNet(10, depths=(1, 1, 1, 1), growth=4, in_channels=3, image_size=size)
    channels = ((((8 + 4) // 2 + 4) // 2 + 4) // 2) + 4
    side = compute_pooled_size(size, 3, 4)
    assert network.features(torch.zeros(2, 3, size, size)).shape == (2, channels * side**2)


def test_initialisation_is_kaiming() -> None:
    torch.manual_seed(0)
    convolution, dense, classifier = nn.Conv2d(64, 128, 3), nn.Linear(400, 300), nn.Linear(300, 10)
    network = nn.Sequential(convolution, dense)
    network.classifier = classifier
    before = classifier.weight.clone()
    initialise(network)
    assert convolution.weight.std().item() == pytest.approx((2 / (9 * 128)) ** 0.5, rel=0.02)
    assert dense.weight.std().item() == pytest.approx((2 / 400) ** 0.5, rel=0.02)
    assert not convolution.bias.any()
    assert not dense.bias.any()
    assert torch.equal(classifier.weight, before)
    initialise(network, convolutions="fan_in")
    assert convolution.weight.std().item() == pytest.approx((2 / (9 * 64)) ** 0.5, rel=0.02)


def test_blocks_are_alike_from_outside() -> None:
    assert issubclass(BasicBlock, Block)
    assert Bottleneck(8, 4, 2)(torch.randn(2, 8, 5, 5)).shape == (2, 16, 3, 3)


# A changed name makes every checkpoint unreadable: change these only on purpose, and say so in the CHANGELOG.
FIRST_AND_LAST = {
    "resnet50": ("stem.0.weight", "stages.3.2.body.7.num_batches_tracked"),
    "wide_resnet_26_10": ("stem.0.weight", "stages.2.3.body.4.num_batches_tracked"),
    "densenet121": ("stem.weight", "norm.num_batches_tracked"),
    "resnet8": ("stem.0.weight", "stages.2.0.shortcut.1.num_batches_tracked"),
    "mlp": ("layers.1.weight", "layers.1.bias"),
    "cnn": ("convolutions.0.weight", "dense.1.bias"),
}
HASHES = {
    "resnet50": "f89a838f613dce61",
    "wide_resnet_26_10": "dcea8570c759c97c",
    "densenet121": "6dec49ec07d0622a",
    "resnet8": "bde853c5835367cf",
    "mlp": "7b0e93e22d3618a2",
    "cnn": "43ec5b9be63a485c",
}


@pytest.mark.parametrize("name", FIRST_AND_LAST)
def test_names_in_the_state_are_stable(name: str) -> None:
    keys = list(on_meta(name).state_dict())
    assert (keys[0], keys[-3]) == FIRST_AND_LAST[name]
    assert keys[-2:] == ["classifier.weight", "classifier.bias"]
    assert hashlib.sha256("\n".join(keys).encode()).hexdigest()[:16] == HASHES[name]
