"""What is promised of every network: features, gradients, formats, precision, export, checks of the input."""

from typing import Any

import pytest
import torch
from torch import nn

from focalcal.models import build_model

pytestmark = pytest.mark.slow

PAPER = ("resnet50", "resnet110", "wide_resnet_26_10", "densenet121")
SMALL: dict[str, dict[str, Any]] = {
    "resnet8": {"width": 4},
    "resnet20": {"width": 4},
    "mlp": {"hidden": [16, 8], "dropout": 0.2},
    "cnn": {"channels": [4, 6], "hidden": 12, "dropout": 0.2},
}
IMAGE_MODELS = [*SMALL, *PAPER]


@pytest.fixture(scope="module", params=IMAGE_MODELS)
def network(request: pytest.FixtureRequest) -> nn.Module:
    torch.manual_seed(3)
    return build_model(request.param, 5, **SMALL.get(request.param, {}))


@pytest.fixture(scope="module")
def images() -> torch.Tensor:
    return torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))


def test_forward_is_the_classifier_of_the_features(network: nn.Module, images: torch.Tensor) -> None:
    network.eval()
    with torch.no_grad():
        features = network.features(images)
        logits = network(images)
    assert type(network.classifier) is nn.Linear
    assert torch.equal(logits, network.classifier(features))
    assert torch.isfinite(logits).all()
    assert logits.std() > 0


def test_training_and_evaluation_agree_once_statistics_are_settled(network: nn.Module, images: torch.Tensor) -> None:
    batch = torch.cat((images, -images, images.flip(3)))
    network.train()
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = 1.0  # the running statistics become those of this batch
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    with torch.no_grad():
        trained = network(batch)
        evaluated = network.eval()(batch)
    assert 0 < trained.std() < 3
    # Running variances are unbiased, those of the batch are not; in small maps that is a few percent.
    torch.testing.assert_close(evaluated, trained, rtol=0.2, atol=0.2)


def test_evaluation_is_deterministic_and_by_sample(network: nn.Module, images: torch.Tensor) -> None:
    network.eval()
    with torch.no_grad():
        logits = network(images)
        assert torch.equal(network(images), logits)
        torch.testing.assert_close(network(images[:1]), logits[:1], rtol=1e-3, atol=1e-3)


def test_gradients_reach_every_parameter(network: nn.Module, images: torch.Tensor) -> None:
    network.train()
    network.zero_grad()
    nn.functional.cross_entropy(network(torch.cat((images, -images))), torch.tensor([0, 4, 1, 2])).backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None, name
        assert torch.isfinite(parameter.grad).all(), name
        assert parameter.grad.abs().max() > 0, name


def test_channels_last_changes_nothing(network: nn.Module, images: torch.Tensor) -> None:
    network.eval()
    with torch.no_grad():
        expected = network(images)
        network.to(memory_format=torch.channels_last)
        got = network(images.to(memory_format=torch.channels_last))
        network.to(memory_format=torch.contiguous_format)
    torch.testing.assert_close(got, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", SMALL)
def test_bfloat16_autocast(name: str, images: torch.Tensor) -> None:
    torch.manual_seed(0)
    network = build_model(name, 5, **SMALL[name]).eval()
    with torch.no_grad():
        expected = network(images)
        with torch.autocast("cpu", torch.bfloat16):
            got = network(images)
            features = network.features(images)
    assert got.dtype == torch.float32  # the last layer is not lowered
    exact = torch.nn.functional.linear(features.float(), network.classifier.weight, network.classifier.bias)
    torch.testing.assert_close(got, exact, rtol=0, atol=0)
    torch.testing.assert_close(got, expected, rtol=0.1, atol=0.1)


@pytest.mark.parametrize("name", ["cnn", "resnet8"])
def test_export_with_any_batch_size(name: str, images: torch.Tensor) -> None:
    network = build_model(name, 5, **SMALL[name]).eval()
    program = torch.export.export(network, (images,), dynamic_shapes=({0: torch.export.Dim("batch", min=2)},))
    more = torch.cat((images, 2 * images))
    with torch.no_grad():
        torch.testing.assert_close(program.module()(more), network(more), rtol=1e-4, atol=1e-5)


def test_the_graph_has_no_breaks(images: torch.Tensor) -> None:
    for name, options in SMALL.items():
        network = build_model(name, 5, **options).eval()
        compiled = torch.compile(network, backend="eager", fullgraph=True)
        with torch.no_grad():
            torch.testing.assert_close(compiled(images), network(images))


@pytest.mark.parametrize("name", SMALL)
def test_the_same_seed_gives_the_same_weights(name: str) -> None:
    torch.manual_seed(5)
    first = build_model(name, 10).state_dict()
    torch.manual_seed(5)
    second = build_model(name, 10).state_dict()
    third = build_model(name, 10).state_dict()
    assert all(torch.equal(first[key], second[key]) for key in first)
    assert not torch.equal(first["classifier.weight"], third["classifier.weight"])


def test_the_classifier_starts_near_chance() -> None:
    torch.manual_seed(0)
    x, y = torch.randn(64, 3, 32, 32), torch.randint(10, (64,))
    for name in SMALL:
        loss = nn.functional.cross_entropy(build_model(name, 10)(x), y)
        assert 2.0 < loss.item() < 3.3, name


@pytest.mark.parametrize("shape", [(2, 1, 32, 32), (2, 3, 28, 28), (3, 32, 32), (2, 3, 32, 64), (2, 3072)])
def test_images_of_the_wrong_shape(network: nn.Module, shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"takes images of shape \(N, 3, 32, 32\) and got") as caught:
        network(torch.zeros(shape))
    assert str(shape) in str(caught.value)


def test_images_of_bytes(network: nn.Module) -> None:
    with pytest.raises(ValueError, match=r"must be floating-point numbers and are torch.uint8: normalise them"):
        network.features(torch.zeros(2, 3, 32, 32, dtype=torch.uint8))
