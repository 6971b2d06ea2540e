"""The wide residual network of the paper on focal loss."""

from focalcal.models.resnet import BasicBlock, ResNet

WIDENING = 10
POOLING_WINDOW = 8


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
        window=POOLING_WINDOW,
        in_channels=in_channels,
        image_size=image_size,
    )
