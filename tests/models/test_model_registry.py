"""Names, options, sizes and shapes."""

from typing import Any

import pytest
import torch
from torch import nn

from focalcal.models import MODEL_NAMES, build_model, model_options

PAPER = {
    "resnet50": (23_520_842, 2048),
    "resnet110": (45_864_522, 2048),
    "wide_resnet_26_10": (36_481_434, 640),
    "densenet121": (6_956_298, 1024),
}
SMALL = ("resnet8", "resnet20", "mlp", "cnn")
IMAGE_MODELS = [*SMALL, *PAPER]


def parameters_of(network: nn.Module) -> int:
    return sum(p.numel() for p in network.parameters())


def on_meta(name: str, num_classes: int = 10, **options: Any) -> nn.Module:
    with torch.device("meta"):
        return build_model(name, num_classes, **options)


@pytest.mark.parametrize("name", PAPER)
def test_the_papers_networks_have_the_papers_parameters(name: str) -> None:
    count, features = PAPER[name]
    network = on_meta(name)
    assert parameters_of(network) == count
    assert network.classifier.in_features == features
    hundred = on_meta(name, 100)
    assert parameters_of(hundred) == count + 90 * (features + 1)


def test_resnet50_for_tiny_imagenet_has_two_by_two_pooled_features() -> None:
    network = on_meta("resnet50", 200, image_size=64)
    assert parameters_of(network) == 25_138_952
    assert network.features(torch.zeros(3, 3, 64, 64, device="meta")).shape == (3, 4 * 2048)


def test_small_resnets_have_the_known_numbers_of_parameters() -> None:
    def basic(blocks: int) -> int:
        total, inputs = 3 * 16 * 9 + 32, 16
        for width in (16, 32, 64):
            for block in range(blocks):
                total += 9 * width * (inputs if block == 0 else width) + 9 * width * width + 4 * width
            total += inputs * width + 2 * width if inputs != width else 0
            inputs = width
        return total + 650

    assert parameters_of(on_meta("resnet8")) == basic(1) == 78_042
    assert parameters_of(on_meta("resnet20")) == basic(3) == 272_474


@pytest.mark.slow
@pytest.mark.parametrize(("size", "channels"), [(28, 1), (64, 3)])
@pytest.mark.parametrize("name", IMAGE_MODELS)
def test_shapes(name: str, size: int, channels: int) -> None:
    network = on_meta(name, 7, in_channels=channels, image_size=size)
    x = torch.zeros(3, channels, size, size, device="meta")
    assert network.features(x).shape == (3, network.classifier.in_features)
    assert network(x).shape == (3, 7)


@pytest.mark.parametrize("name", SMALL)
def test_small_networks_take_digits(name: str) -> None:
    network = build_model(name, 10, in_channels=1, image_size=8)
    assert network(torch.randn(2, 1, 8, 8)).shape == (2, 10)


def test_unknown_names_get_a_suggestion_and_the_list() -> None:
    with pytest.raises(ValueError, match=r"no model 'ResNet-50'; did you mean 'resnet50'"):
        build_model("ResNet-50", 10)
    with pytest.raises(ValueError, match="no model 'zzz'; known are resnet50"):
        build_model("zzz", 10)
    with pytest.raises(TypeError, match="The name of a model is a string, got int"):
        build_model(3, 10)  # type: ignore[arg-type]


def test_unknown_options_get_a_suggestion_and_the_list() -> None:
    message = r"model mlp has no option 'drop_out'; did you mean 'dropout'"
    with pytest.raises(ValueError, match=message):
        build_model("mlp", 10, drop_out=0.5)
    with pytest.raises(ValueError, match="model resnet50 has no option 'width'"):
        build_model("resnet50", 10, width=3)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("resnet8", {"width": 0}, "width must be a whole number of at least 1 and is 0"),
        ("resnet8", {"in_channels": 1.5}, "in_channels must be a whole number"),
        ("resnet50", {"image_size": 0}, "image_size must be a whole number of at least 1 and is 0"),
        ("densenet121", {"image_size": True}, "image_size must be a whole number"),
        ("mlp", {"hidden": 64}, r"hidden must be a list of whole numbers, for example \[128\], and is 64"),
        ("mlp", {"hidden": [64, -1]}, r"hidden\[1\] must be a whole number"),
        ("mlp", {"dropout": 1.0}, r"dropout must be a probability in \[0, 1\) and is 1.0"),
        ("cnn", {"dropout": "a"}, "dropout must be a probability"),
        ("cnn", {"channels": [8]}, "channels must have two entries, one for each convolution, and has 1"),
        ("cnn", {"image_size": 3}, "image_size must be a whole number of at least 4 and is 3"),
    ],
)
def test_values_that_do_not_fit(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        on_meta(name, 10, **options)


@pytest.mark.parametrize("name", IMAGE_MODELS)
def test_num_classes_is_checked(name: str) -> None:
    with pytest.raises(ValueError, match="num_classes must be a whole number of at least 2 and is 1"):
        on_meta(name, 1)


def test_every_name_has_options() -> None:
    assert set(IMAGE_MODELS) <= set(MODEL_NAMES)
    for name in IMAGE_MODELS:
        assert {"in_channels": 3, "image_size": 32}.items() <= model_options(name).items()
