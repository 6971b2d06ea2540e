"""Networks by the names that recipes and the command line use."""

import inspect
from collections.abc import Callable
from typing import Any

from torch import nn

from focalcal.base.suggestions import did_you_mean
from focalcal.models import densenet, gp_cnn, resnet, small, transformer, tree_lstm

# A builder takes num_classes, then its options by name; a new network is a line here.
_BUILDERS: dict[str, Callable[..., nn.Module]] = {
    "resnet50": resnet.resnet50,
    "resnet110": resnet.resnet110,
    "wide_resnet_26_10": resnet.wide_resnet_26_10,
    "densenet121": densenet.densenet121,
    "resnet8": resnet.resnet8,
    "resnet20": resnet.resnet20,
    "mlp": small.MLP,
    "cnn": small.CNN,
    "gp_cnn": gp_cnn.GlobalPoolingCNN,
    "tree_lstm": tree_lstm.TreeLSTM,
    "transformer_tiny": transformer.transformer_tiny,
    "transformer_base": transformer.transformer_base,
}
MODEL_NAMES: tuple[str, ...] = tuple(_BUILDERS)


def build_model(name: str, num_classes: int, **options: Any) -> nn.Module:
    """Build a network with fresh weights, drawn from torch's global random numbers.

    Every network has ``features(x)`` (N, F), ``classifier`` (its last ``nn.Linear``) and
    forward(x) = classifier(features(x)), logits of shape (N, K).

    Args:
        name: One of ``MODEL_NAMES``.
        num_classes: K, at least 2.
        options: Options of the network: ``in_channels`` (3) and ``image_size`` (32) for images, ``width`` for the small
            ResNets, ``hidden`` and ``dropout`` for the MLP and the CNN; ``model_options`` lists them.

    Returns:
        The network, in training mode.

    Raises:
        ValueError: An unknown name or option, or a value that does not fit.

    Examples:
        >>> import torch
        >>> net = build_model("resnet8", num_classes=10, in_channels=1, image_size=28)
        >>> x = torch.randn(4, 1, 28, 28)
        >>> net(x).shape, net.features(x).shape, net.classifier
        (torch.Size([4, 10]), torch.Size([4, 64]), Linear(in_features=64, out_features=10, bias=True))
        >>> build_model("resnet5", num_classes=10)
        Traceback (most recent call last):
        ...
        ValueError: There is no model 'resnet5'; did you mean 'resnet50'?
    """
    known = model_options(name)
    for option in options:
        if option not in known:
            raise ValueError(f"The model {name} has no option {option!r}{did_you_mean(option, known)}")
    missing = [option for option, default in known.items() if default is inspect.Parameter.empty]
    for option in missing:
        if option not in options:
            raise ValueError(f"The model {name} needs the option {option!r}: give {option}=… to build_model.")
    return _BUILDERS[name](num_classes, **options)


def model_options(name: str) -> dict[str, Any]:
    """List the options of a network and their defaults (``inspect.Parameter.empty`` if one must be given).

    Examples:
        >>> model_options("resnet8")
        {'width': 16, 'in_channels': 3, 'image_size': 32}
    """
    if not isinstance(name, str):
        raise TypeError(f"The name of a model is a string, got {type(name).__name__}.")
    if name not in _BUILDERS:
        raise ValueError(f"There is no model {name!r}{did_you_mean(name, MODEL_NAMES)}")
    parameters = inspect.signature(_BUILDERS[name]).parameters
    return {option: p.default for option, p in parameters.items() if p.kind is inspect.Parameter.KEYWORD_ONLY}
