"""Networks that a laptop trains in seconds or minutes."""

from collections.abc import Sequence
from itertools import pairwise

from torch import Tensor, nn

from focalcal.models.network import ImageNetwork, check_positive, initialise


class MLP(ImageNetwork):
    """A perceptron over the flattened image, or over features: dense, ReLU and dropout per hidden size, a classifier.

    Args:
        num_classes: K.
        hidden: Sizes of the hidden layers; none gives logistic regression.
        dropout: Probability of dropping a hidden unit in training.
        in_channels: Channels of an image.
        image_size: Height and width of an image.
        num_features: F, for inputs (N, F) instead of images.

    Examples:
        >>> import torch
        >>> net = MLP(10, hidden=(64, 32), in_channels=1, image_size=8)
        >>> net.features(torch.zeros(5, 1, 8, 8)).shape, net(torch.zeros(5, 1, 8, 8)).shape
        (torch.Size([5, 32]), torch.Size([5, 10]))
        >>> MLP(3, num_features=7)(torch.zeros(5, 7)).shape
        torch.Size([5, 3])
    """

    def __init__(
        self,
        num_classes: int,
        *,
        hidden: Sequence[int] = (128,),
        dropout: float = 0.0,
        in_channels: int = 3,
        image_size: int = 32,
        num_features: int | None = None,
    ) -> None:
        super().__init__(in_channels, image_size)
        self.num_features = None if num_features is None else check_positive("num_features", num_features)
        sizes = [self.num_features or in_channels * image_size**2, *check_sizes("hidden", hidden)]
        self.layers = nn.Sequential(nn.Flatten())
        for inputs, outputs in pairwise(sizes):
            self.layers.extend([nn.Linear(inputs, outputs), nn.ReLU(), make_dropout(dropout)])
        self.classifier = nn.Linear(sizes[-1], check_positive("num_classes", num_classes, 2))
        initialise(self)

    def check_input(self, x: Tensor) -> None:
        """Refuse inputs that are not the images, or the features, that it was built for."""
        if self.num_features is None:
            super().check_input(x)
        elif x.shape[1:] != (self.num_features,) or not x.is_floating_point():
            expected = f"floating-point features of shape (N, {self.num_features})"
            raise ValueError(f"This MLP takes {expected} and got {tuple(x.shape)} {x.dtype}.")

    def extract(self, x: Tensor) -> Tensor:
        """Compute the last hidden layer (N, F) of images (N, C, S, S), or of features (N, F)."""
        features: Tensor = self.layers(x)
        return features


class CNN(ImageNetwork):
    """After LeNet-5: two times 5×5 convolution, ReLU and 2×2 max-pooling, a dense layer, dropout, the classifier.

    Args:
        num_classes: K.
        channels: Channels of the two convolutions.
        hidden: Size of the dense layer.
        dropout: Probability of dropping a unit of the dense layer in training.
        in_channels: Channels of an image.
        image_size: Height and width of an image, at least 4.

    Examples:
        >>> import torch
        >>> CNN(10, in_channels=1, image_size=28)(torch.zeros(2, 1, 28, 28)).shape
        torch.Size([2, 10])
    """

    def __init__(
        self,
        num_classes: int,
        *,
        channels: Sequence[int] = (32, 64),
        hidden: int = 128,
        dropout: float = 0.0,
        in_channels: int = 3,
        image_size: int = 32,
    ) -> None:
        super().__init__(in_channels, check_positive("image_size", image_size, 4))
        first, second = _two_sizes("channels", channels)
        self.convolutions = nn.Sequential(*_convolve_and_halve(in_channels, first), *_convolve_and_halve(first, second))
        side = image_size // 2 // 2
        dense = nn.Linear(second * side * side, check_positive("hidden", hidden))
        self.dense = nn.Sequential(nn.Flatten(), dense, nn.ReLU(), make_dropout(dropout))
        self.classifier = nn.Linear(hidden, check_positive("num_classes", num_classes, 2))
        initialise(self)

    def extract(self, x: Tensor) -> Tensor:
        """Return the dense layer (N, F) of images (N, C, S, S)."""
        features: Tensor = self.dense(self.convolutions(x))
        return features


def check_sizes(name: str, sizes: Sequence[int]) -> list[int]:
    """Return the sizes as a list, each checked to be a positive whole number."""
    if not isinstance(sizes, list | tuple):
        raise ValueError(f"{name} must be a list of whole numbers, for example [128], and is {sizes!r}.")
    return [check_positive(f"{name}[{index}]", size) for index, size in enumerate(sizes)]


def make_dropout(probability: float) -> nn.Dropout:
    """Make dropout of a probability that is checked to be in [0, 1)."""
    if isinstance(probability, bool) or not isinstance(probability, int | float) or not 0 <= probability < 1:
        raise ValueError(f"dropout must be a probability in [0, 1) and is {probability!r}.")
    return nn.Dropout(probability)


def _two_sizes(name: str, sizes: Sequence[int]) -> tuple[int, int]:
    checked = check_sizes(name, sizes)
    if len(checked) != 2:
        raise ValueError(f"{name} must have two entries, one for each convolution, and has {len(checked)}.")
    return checked[0], checked[1]


def _convolve_and_halve(inputs: int, outputs: int) -> tuple[nn.Module, ...]:
    return nn.Conv2d(inputs, outputs, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)
