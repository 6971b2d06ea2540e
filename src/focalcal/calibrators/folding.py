"""Folding: calibrators that are linear in the logits, written into the last layer of a network.

The folded network has the size and speed of the uncalibrated one, and its softmax is calibrated.
"""

import copy
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from focalcal.calibrators.base import Calibrator
from focalcal.predictions.inference import compute_outputs, evaluation_mode

Layer = TypeVar("Layer", bound=nn.Module)
Model = TypeVar("Model", bound=nn.Module)

# Linear in their inputs, with one output per class on an axis of its own.
_LINEAR = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
# Layers that do nothing when a network is evaluated.
_WITHOUT_EFFECT = (nn.Identity, nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout)
# Largest difference between probabilities that rounding explains, by the type of the weights.
_TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4}
_TOLERANCE_OF_HALF_PRECISION = 0.03


def fold(calibrator: Calibrator, layer: Layer) -> Layer:
    """Make a layer whose outputs are the calibrated logits of another layer.

    Temperature, vector, matrix, structured and Platt scaling are linear in the logits: W (A x + c) + b is again a layer
    of the same size. A network with the new layer gives the probabilities of :meth:`Calibrator.transform`, up to the
    rounding of its weights' type.

    Args:
        calibrator: A fitted calibrator of K classes.
        layer: An ``nn.Linear`` or a convolution with K outputs; or with one, the logit of class 1 of two classes. It is
            left unchanged.

    Returns:
        A copy of the layer with other weights, and with a bias where it had none and needs one.

    Raises:
        TypeError: It is not a linear layer.
        ValueError: The calibrator is not linear, or is for another number of classes.

    Examples:
        >>> from focalcal.calibrators import TemperatureScaling
        >>> from focalcal.predictions import Predictions
        >>> scaler = TemperatureScaling().fit(Predictions.from_logits([[4.0, 0.0]] * 4, [0, 0, 0, 1]))
        >>> layer = nn.Linear(1, 2)
        >>> folded = fold(scaler, layer)
        >>> torch.allclose(folded.weight * scaler.temperature_, layer.weight)
        True
    """
    outputs = _outputs(layer)
    if outputs is None:
        raise TypeError(
            f"A calibrator can be folded into nn.Linear and into convolutions, not into {type(layer).__name__}; append "
            "calibrator.to_module() instead."
        )
    _check_plain(layer)
    matrix, offset = _map_of_outputs(calibrator, outputs)
    _check_groups(layer, matrix)
    folded = copy.deepcopy(layer)
    parameters: dict[str, Any] = folded._parameters
    weight, bias = parameters["weight"], parameters["bias"]
    old = torch.zeros(outputs) if bias is None else bias.detach()
    new_weight = matrix @ weight.detach().double().cpu().reshape(outputs, -1)
    new_bias = matrix @ old.double().cpu() + offset
    parameters["weight"] = nn.Parameter(new_weight.reshape(weight.shape).to(weight), weight.requires_grad)
    if bias is not None or bool(new_bias.any()):
        parameters["bias"] = nn.Parameter(new_bias.to(weight), weight.requires_grad)
    return folded


def fold_into(model: Model, calibrator: Calibrator, *, layer: str | None = None, example: Any = None) -> Model:
    """Fold a calibrator into the last layer of a network, in place: its softmax is calibrated from then on.

    Folding twice calibrates twice. A layer that shares its weights with another (the output layer of many language
    models) gets weights of its own, so that only the outputs change.

    Args:
        model: A network whose outputs are logits, as :func:`focalcal.predict` takes it.
        calibrator: A fitted calibrator that is linear in the logits.
        layer: Name of the last layer, as ``model.named_modules()`` has it; by default the only linear layer or
            convolution with one output per class, if it comes last. In doubt, nothing is folded.
        example: A batch of inputs, as for :func:`focalcal.predict`. The last layer is then the one that runs last, and
            the outputs are compared with the calibrator's.

    Returns:
        The network.

    Raises:
        ValueError: The layer cannot be found, or something other than a linear layer comes last.

    Examples:
        >>> from focalcal.calibrators import TemperatureScaling
        >>> from focalcal.predictions import Predictions
        >>> scaler = TemperatureScaling().fit(Predictions.from_logits([[4.0, 0.0]] * 4, [0, 0, 0, 1]))
        >>> network = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))
        >>> x = torch.randn(5, 3)
        >>> before = network(x)
        >>> torch.allclose(fold_into(network, scaler)(x), before / scaler.temperature_, atol=1e-6)
        True
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"fold_into needs a network, a torch.nn.Module, not {type(model).__name__}.")
    if layer is not None:
        name = _check_name(model, layer)
    elif example is not None:
        name = _find_by_running(model, calibrator, example)
    else:
        name = _find_by_structure(model, calibrator)
    if not name:
        raise ValueError("The network is a single layer; use fold, which gives a new one.")
    old = model.get_submodule(name)
    folded = fold(calibrator, old)
    before = None if example is None else _logits(model, example, folded)
    model.set_submodule(name, folded)
    if before is not None:
        try:
            _check_outputs(before, _logits(model, example, folded), calibrator, name)
        except BaseException:
            model.set_submodule(name, old)
            raise
    return model


def _check_plain(layer: nn.Module) -> None:
    """Refuse a layer that computes something else than its weight and bias say."""
    weight = layer._parameters.get("weight")
    if isinstance(weight, nn.UninitializedParameter):
        raise ValueError("The layer has no weights yet; run the network once before you fold.")
    own = next(kind for kind in _LINEAR if isinstance(layer, kind))
    if weight is None or not weight.is_floating_point() or type(layer).forward is not own.forward:
        raise ValueError(
            f"This {type(layer).__name__} does not use a plain weight (it is parametrised, quantised or adapted); "
            "merge or remove that first, or append calibrator.to_module()."
        )


def _outputs(layer: nn.Module) -> int | None:
    """Count the outputs of a linear layer or convolution; None for any other layer."""
    if not isinstance(layer, _LINEAR):
        return None
    return layer.out_features if isinstance(layer, nn.Linear) else layer.out_channels


def _map_of_outputs(calibrator: Calibrator, outputs: int) -> tuple[Tensor, Tensor]:
    """Return W and b for a layer with K outputs, or with the one logit z that stands for (0, z)."""
    matrix, offset = calibrator.linear_map(max(outputs, 2))
    if outputs == 1 and len(offset) == 2:
        return (matrix[1, 1] - matrix[0, 1]).reshape(1, 1), (offset[1] - offset[0]).reshape(1)
    if len(offset) != outputs:
        raise ValueError(
            f"The {calibrator.method} calibrator was fitted on {len(offset)} classes, and the layer has {outputs} "
            "outputs; fold it into the last layer of the network that it was fitted for."
        )
    return matrix, offset


def _check_groups(layer: nn.Module, matrix: Tensor) -> None:
    if getattr(layer, "groups", 1) > 1 and bool((matrix - matrix.diag().diag()).any()):
        raise ValueError(
            "The calibrator mixes classes, and a grouped convolution keeps them apart; append calibrator.to_module() "
            "instead."
        )


def _check_name(model: nn.Module, name: str) -> str:
    names = [found for found, module in model.named_modules() if _outputs(module) is not None]
    if name not in dict(model.named_modules()):
        raise ValueError(f"The network has no layer {name!r}; its linear layers are {', '.join(names) or 'none'}.")
    if name not in names:
        kind = type(model.get_submodule(name)).__name__
        raise ValueError(f"The layer {name!r} is not linear but {kind}; append calibrator.to_module() instead.")
    return name


def _candidates(model: nn.Module, calibrator: Calibrator) -> list[str]:
    classes = None if calibrator.record_ is None else calibrator.record_.classes
    wanted = {1, 2} if classes == 2 else {classes}
    counts = {name: _outputs(module) for name, module in model.named_modules()}
    found = [name for name, count in counts.items() if count is not None and (classes is None or count in wanted)]
    if not found:
        size = "" if classes is None else f" with {classes} outputs"
        raise ValueError(
            f"The network has no linear layer or convolution{size}; append calibrator.to_module() instead."
        )
    return found


def _find_by_structure(model: nn.Module, calibrator: Calibrator) -> str:
    """Name the one layer that can be meant, if the order of the layers leaves no doubt."""
    found = _candidates(model, calibrator)
    if len(found) > 1:
        raise ValueError(
            f"Several layers could be the last one ({', '.join(found)}); say which with layer=…, or pass a batch of "
            "inputs as example=…."
        )
    leaves = [(name, part) for name, part in model.named_modules() if not any(part.children())]
    last, kind = [(name, part) for name, part in leaves if not isinstance(part, _WITHOUT_EFFECT)][-1]
    if last != found[0]:
        raise ValueError(
            f"The last layer, {last!r} ({type(kind).__name__}), is not a linear one with an output per class; if "
            f"{found[0]!r} is what gives the logits, say layer={found[0]!r}, or pass a batch of inputs as example=…."
        )
    return found[0]


def _find_by_running(model: nn.Module, calibrator: Calibrator, example: Any) -> str:
    """Name the candidate that runs last."""
    ran: list[str] = []
    hooks = [
        model.get_submodule(name).register_forward_hook(lambda *_, name=name: ran.append(name))
        for name in _candidates(model, calibrator)
    ]
    try:
        with evaluation_mode(model), torch.no_grad():
            compute_outputs(model, example)
    finally:
        for hook in hooks:
            hook.remove()
    if not ran:
        raise ValueError("No linear layer with one output per class ran on the example; append calibrator.to_module().")
    return ran[-1]


def _logits(model: nn.Module, example: Any, last: nn.Module) -> Tensor:
    """Compute logits with the classes on axis 1, two of them where the network gives the one logit z for (0, z)."""
    with evaluation_mode(model), torch.no_grad():
        logits = compute_outputs(model, example)
    outputs = _outputs(last)
    if logits.ndim > 2 and isinstance(last, nn.Linear) and logits.shape[-1] == outputs:
        logits = logits.movedim(-1, 1)  # a linear layer has the classes last, as for tokens
    elif logits.ndim == 1:
        logits = logits[:, None]
    return torch.cat([torch.zeros_like(logits), logits], 1) if outputs == 1 else logits


def _check_outputs(before: Tensor, after: Tensor, calibrator: Calibrator, name: str) -> None:
    expected = calibrator.to_module().to(before.device)(before)
    difference = float((after.double().softmax(1) - expected.double().softmax(1)).abs().max())
    if not difference <= _TOLERANCE.get(after.dtype, _TOLERANCE_OF_HALF_PRECISION):
        raise ValueError(
            f"The outputs after folding into {name!r} differ from the calibrator's by {difference:.2g}: something "
            "other than a linear map follows that layer; the network is unchanged, append calibrator.to_module()."
        )
