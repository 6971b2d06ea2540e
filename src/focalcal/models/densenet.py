"""A densely connected network for small images (Huang et al. 2017)."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from focalcal.models.network import ImageNetwork, average_windows, check_positive, compute_pooled_size, initialise
from focalcal.models.resnet import convolution

POOLING_WINDOW = 4


class DenseLayer(nn.Module):
    """Adds ``growth`` channels to those it is given: 1×1 to four times the growth, then 3×3.

    Args:
        inputs: Channels of x.
        growth: Channels to add.
    """

    def __init__(self, inputs: int, growth: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.BatchNorm2d(inputs),
            nn.ReLU(),
            convolution(inputs, 4 * growth, 1),
            nn.BatchNorm2d(4 * growth),
            nn.ReLU(),
            convolution(4 * growth, growth, 3),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, inputs, H, W) to (N, inputs + growth, H, W)."""
        return torch.cat((x, self.body(x)), 1)


class Transition(nn.Sequential):
    """Fewer channels and half the height and width between two stages.

    Args:
        inputs: Channels before.
        outputs: Channels after.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        # Rounding up keeps odd maps alive, as the strided convolutions of the other families do.
        halving = nn.AvgPool2d(2, ceil_mode=True)
        super().__init__(nn.BatchNorm2d(inputs), nn.ReLU(), convolution(inputs, outputs, 1), halving)


class DenseNet(ImageNetwork):
    """A stem, dense stages with transitions between them, average pooling and the classifier.

    Args:
        num_classes: K.
        depths: Dense layers of each stage.
        growth: Channels that a layer adds; the stem has twice as many.
        in_channels: Channels of an image.
        image_size: Height and width of an image.
    """

    def __init__(
        self, num_classes: int, *, depths: Sequence[int], growth: int, in_channels: int, image_size: int
    ) -> None:
        super().__init__(in_channels, image_size)
        side = compute_pooled_size(image_size, len(depths) - 1, POOLING_WINDOW)
        channels = 2 * growth
        self.stem = convolution(in_channels, channels, 3)
        self.stages = nn.Sequential()
        for index, depth in enumerate(depths):
            before = [] if index == 0 else [Transition(channels, channels // 2)]
            channels = channels if index == 0 else channels // 2
            layers = [DenseLayer(channels + growth * place, growth) for place in range(depth)]
            self.stages.append(nn.Sequential(*before, *layers))
            channels += growth * depth
        self.norm = nn.BatchNorm2d(channels)
        self.classifier = nn.Linear(channels * side * side, check_positive("num_classes", num_classes, 2))
        initialise(self, convolutions="fan_in")  # a layer has up to 1024 inputs and only 32 outputs

    def extract(self, x: Tensor) -> Tensor:
        """Compute pooled features (N, F) of images (N, C, S, S)."""
        return average_windows(functional.relu(self.norm(self.stages(self.stem(x)))), POOLING_WINDOW)


def densenet121(num_classes: int, *, in_channels: int = 3, image_size: int = 32) -> DenseNet:
    """Build DenseNet-121: stages of 6, 12, 24 and 16 layers, growth 32, halved channels between stages.

    Examples:
        >>> sum(p.numel() for p in densenet121(10).parameters())
        6956298
    """
    return DenseNet(num_classes, depths=(6, 12, 24, 16), growth=32, in_channels=in_channels, image_size=image_size)
