"""Residual and wide residual networks for small images: a 3×3 stem without max-pooling, so that 32×32 stays 32×32."""

from collections.abc import Sequence

from torch import Tensor, nn
from torch.nn import functional

from focalcal.models.network import ImageNetwork, average_windows, check_positive, compute_pooled_size, initialise

POOLING_WINDOW = 4

WIDENING = 10  # of Wide-ResNet-26-10
WIDE_POOLING_WINDOW = 8


def convolution(inputs: int, outputs: int, size: int, stride: int = 1) -> nn.Conv2d:
    """Make a convolution that keeps height and width at stride 1; without bias, as batch normalisation has one."""
    return nn.Conv2d(inputs, outputs, size, stride=stride, padding=size // 2, bias=False)


class Block(nn.Module):
    """A residual block: relu(body(x) + shortcut(x)), the shortcut a projection where the shape changes.

    Args:
        body: From ``inputs`` to ``outputs`` channels, with the stride.
        inputs: Channels of x.
        outputs: Channels of the result.
        stride: Stride of the block.
    """

    def __init__(self, body: nn.Sequential, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.body = body
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(convolution(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, inputs, H, W) to (N, outputs, ⌈H/stride⌉, ⌈W/stride⌉)."""
        return functional.relu(self.body(x) + self.shortcut(x))


class BasicBlock(Block):
    """Two 3×3 convolutions of the same width."""

    expansion = 1

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        body = nn.Sequential(
            convolution(inputs, width, 3, stride),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            convolution(width, width, 3),
            nn.BatchNorm2d(width),
        )
        super().__init__(body, inputs, width, stride)


class Bottleneck(Block):
    """1×1 to ``width`` channels, 3×3 with the stride, 1×1 to four times the width."""

    expansion = 4

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        outputs = width * self.expansion
        body = nn.Sequential(
            convolution(inputs, width, 1),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            convolution(width, width, 3, stride),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            convolution(width, outputs, 1),
            nn.BatchNorm2d(outputs),
        )
        super().__init__(body, inputs, outputs, stride)


class ResNet(ImageNetwork):
    """A stem, stages of residual blocks, average pooling and the classifier.

    Every stage but the first halves height and width.

    Args:
        num_classes: K.
        block: Kind of block.
        depths: Blocks of each stage.
        widths: Width of each stage.
        stem: Channels after the first convolution.
        window: Side of the pooling windows at the end; None pools over the whole map.
        in_channels: Channels of an image.
        image_size: Height and width of an image.
    """

    def __init__(
        self,
        num_classes: int,
        *,
        block: type[BasicBlock] | type[Bottleneck],
        depths: Sequence[int],
        widths: Sequence[int],
        stem: int,
        window: int | None,
        in_channels: int,
        image_size: int,
    ) -> None:
        super().__init__(in_channels, image_size)
        side = 1 if window is None else compute_pooled_size(image_size, len(depths) - 1, window)
        self.window = window
        self.stem = nn.Sequential(convolution(in_channels, stem, 3), nn.BatchNorm2d(stem), nn.ReLU())
        self.stages = nn.Sequential()
        channels = stem
        for index, (depth, width) in enumerate(zip(depths, widths, strict=True)):
            self.stages.append(_stage(block, channels, width, depth, stride=1 if index == 0 else 2))
            channels = width * block.expansion
        self.classifier = nn.Linear(channels * side * side, check_positive("num_classes", num_classes, 2))
        initialise(self)

    def extract(self, x: Tensor) -> Tensor:
        """Compute pooled features (N, F) of images (N, C, S, S)."""
        return average_windows(self.stages(self.stem(x)), self.window)


def _stage(
    block: type[BasicBlock] | type[Bottleneck], inputs: int, width: int, depth: int, stride: int
) -> nn.Sequential:
    rest = [block(width * block.expansion, width, 1) for _ in range(depth - 1)]
    return nn.Sequential(block(inputs, width, stride), *rest)


def _bottleneck_resnet(num_classes: int, depths: Sequence[int], in_channels: int, image_size: int) -> ResNet:
    return ResNet(
        num_classes,
        block=Bottleneck,
        depths=depths,
        widths=(64, 128, 256, 512),
        stem=64,
        window=POOLING_WINDOW,
        in_channels=in_channels,
        image_size=image_size,
    )


def resnet50(num_classes: int, *, in_channels: int = 3, image_size: int = 32) -> ResNet:
    """Build ResNet-50: bottleneck blocks 3-4-6-3; 2048 features for 32×32 images, 8192 (2×2 pooled) for 64×64.

    Examples:
        >>> sum(p.numel() for p in resnet50(10).parameters())
        23520842
    """
    return _bottleneck_resnet(num_classes, (3, 4, 6, 3), in_channels, image_size)


def resnet110(num_classes: int, *, in_channels: int = 3, image_size: int = 32) -> ResNet:
    """Build ResNet-110 of the paper on focal loss: bottleneck blocks 3-4-26-3, 45,864,522 parameters for 10 classes."""
    return _bottleneck_resnet(num_classes, (3, 4, 26, 3), in_channels, image_size)


def _small_resnet(num_classes: int, depth: int, width: int, in_channels: int, image_size: int) -> ResNet:
    check_positive("width", width)
    return ResNet(
        num_classes,
        block=BasicBlock,
        depths=(depth,) * 3,
        widths=(width, 2 * width, 4 * width),
        stem=width,
        window=None,
        in_channels=in_channels,
        image_size=image_size,
    )


def resnet8(num_classes: int, *, width: int = 16, in_channels: int = 3, image_size: int = 32) -> ResNet:
    """Build ResNet-8: one basic block in each of three stages of ``width``, 2 and 4 times as many channels; any size.

    Examples:
        >>> import torch
        >>> resnet8(10).features(torch.zeros(2, 3, 32, 32)).shape
        torch.Size([2, 64])
    """
    return _small_resnet(num_classes, 1, width, in_channels, image_size)


def resnet20(num_classes: int, *, width: int = 16, in_channels: int = 3, image_size: int = 32) -> ResNet:
    """Build ResNet-20: three basic blocks in each of three stages of ``width``, 2 and 4 times as many channels."""
    return _small_resnet(num_classes, 3, width, in_channels, image_size)


def wide_resnet_26_10(num_classes: int, *, in_channels: int = 3, image_size: int = 32) -> ResNet:
    """Build Wide-ResNet-26-10: four basic blocks in each of three stages of 160, 320 and 640 channels.

    26 layers = 2 + 3 stages · 4 blocks · 2 convolutions; ten times the width of a CIFAR ResNet. Blocks normalise after
    each convolution, projections included: 36,481,434 parameters for 10 classes. (The 28-10 of Zagoruyko and Komodakis
    2016 has the same convolutions, normalises before them and not on projections, and so has 2,240 fewer.)

    Examples:
        >>> import torch
        >>> with torch.device("meta"):
        ...     net = wide_resnet_26_10(10)
        >>> sum(p.numel() for p in net.parameters())
        36481434
    """
    return ResNet(
        num_classes,
        block=BasicBlock,
        depths=(4, 4, 4),
        widths=tuple(width * WIDENING for width in (16, 32, 64)),
        stem=16,
        window=WIDE_POOLING_WINDOW,
        in_channels=in_channels,
        image_size=image_size,
    )
