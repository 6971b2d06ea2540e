"""The base of all image networks: the check of their input, features before the classifier, initialisation."""

from abc import ABC, abstractmethod
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional


class ImageNetwork(nn.Module, ABC):
    """A network for square images: ``forward(x) = classifier(features(x))``.

    A family sets up its layers in ``__init__``, among them ``classifier``, and computes features in ``extract``.

    Args:
        in_channels: Channels of an image, C.
        image_size: Height and width of an image, S.

    Attributes:
        classifier: The last layer, an ``nn.Linear`` of F features and K classes.
    """

    classifier: nn.Linear

    def __init__(self, in_channels: int, image_size: int) -> None:
        super().__init__()
        self.in_channels = check_positive("in_channels", in_channels)
        self.image_size = check_positive("image_size", image_size)

    @abstractmethod
    def extract(self, x: Tensor) -> Tensor:
        """Compute features (N, F) of images of the right shape."""

    def features(self, x: Tensor) -> Tensor:
        """Compute the input of the classifier.

        Args:
            x: (N, C, S, S) floating-point images, normalised.

        Returns:
            (N, F) features.
        """
        self.check_input(x)
        return self.extract(x)

    def forward(self, x: Tensor) -> Tensor:
        """Compute logits (N, K) of images (N, C, S, S)."""
        return compute_in_full_precision(self.classifier, self.features(x))

    def check_input(self, x: Tensor) -> None:
        """Refuse inputs that are not the images that the network was built for."""
        expected = (self.in_channels, self.image_size, self.image_size)
        if tuple(x.shape[1:]) != expected:
            raise ValueError(
                f"This {type(self).__name__} takes images of shape (N, {', '.join(map(str, expected))}) and got "
                f"{tuple(x.shape)}: build it with in_channels and image_size of the data."
            )
        if not x.is_floating_point():
            raise ValueError(f"Images must be floating-point numbers and are {x.dtype}: normalise them first.")


def compute_in_full_precision(layer: nn.Linear, features: Tensor) -> Tensor:
    """Compute a layer's outputs in the precision of its weights, also under autocast.

    A calibration error is made of differences between logits: three digits of bfloat16 would blur them.
    """
    kind = features.device.type
    logits: Tensor
    if torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind):
        with torch.autocast(kind, enabled=False):
            logits = layer(features.to(layer.weight.dtype))
    else:
        logits = layer(features)
    return logits


def check_positive(name: str, value: int, least: int = 1) -> int:
    """Return the value if it is a whole number of at least ``least``, and raise a ValueError otherwise."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least} and is {value!r}.")
    return value


def compute_pooled_size(image_size: int, halvings: int, window: int) -> int:
    """Compute the height of the pooled map: an image is halved (rounding up) some times, then averaged over windows.

    Examples:
        >>> compute_pooled_size(32, halvings=3, window=4), compute_pooled_size(64, halvings=3, window=4)
        (1, 2)
    """
    size = image_size
    for _ in range(halvings):
        size = -(-size // 2)
    return max(1, size // window)


def initialise(network: nn.Module, convolutions: Literal["fan_in", "fan_out"] = "fan_out") -> None:
    """Set the weights that come before the classifier, from torch's global random numbers.

    Convolutions: Kaiming normal, fan-out (variance 2 / (k² · outputs)): gradients keep their variance on the way back
    through ReLUs, which is what deep stacks need; the forward scale is set by batch normalisation anyway. Dense hidden
    layers: Kaiming normal, fan-in, as nothing normalises their outputs. Their biases are zero. Batch normalisation
    starts at scale 1, shift 0. The classifier keeps PyTorch's default, uniform within ±1/√F: small logits, so that
    training starts near a loss of log K.

    Args:
        network: The layers to set; its ``classifier``, if it has one, is left alone.
        convolutions: "fan_in" for networks with many more inputs than outputs in a layer, where fan-out would multiply
            the scale of the features until batch normalisation has seen some steps.
    """
    classifier = getattr(network, "classifier", None)
    for module in network.modules():
        if module is classifier or not isinstance(module, nn.Conv2d | nn.Linear):
            continue
        mode: Literal["fan_in", "fan_out"] = convolutions if isinstance(module, nn.Conv2d) else "fan_in"
        nn.init.kaiming_normal_(module.weight, mode=mode, nonlinearity="relu")
        if module.bias is not None:
            nn.init.zeros_(module.bias)


def average_windows(x: Tensor, window: int | None) -> Tensor:
    """Average a square map (N, C, H, H) over windows and flatten it to (N, F).

    A window that is larger than the map, or None, averages over all of it. Where H is not a multiple of the window, the
    last rows and columns are left out.
    """
    if window is None:
        return x.mean((2, 3))
    return functional.avg_pool2d(x, min(window, x.shape[-1])).flatten(1)
