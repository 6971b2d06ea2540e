"""From a recipe to the parts of a run: data, network, loss, optimizers, and the Fabric that carries them."""

import os
from collections.abc import Callable
from typing import Any

import torch
from lightning_fabric import Fabric
from lightning_fabric.strategies.ddp import DDPStrategy
from torch import Tensor, nn

from focalcal.data import DataSet, load_data
from focalcal.gamma import EpochGamma, SampleGamma
from focalcal.losses import FocalLoss, build_loss
from focalcal.models import build_model
from focalcal.recipes import Recipe
from focalcal.recipes.settings import HardwareSettings, OptimizerSettings
from focalcal.training.hardware import check_hardware

Loss = Callable[[Tensor, Tensor], Tensor]


def build_data(recipe: Recipe) -> DataSet:
    """The data set of a recipe."""
    settings = recipe.data
    if settings.name == "own":
        raise ValueError(f"Recipe {recipe.name} is for data of your own: pass it as focalcal.train(…, data=…).")
    options = settings.options()
    return load_data(settings.name, seed=options.pop("split_seed"), **options)


def build_network(recipe: Recipe, data: DataSet) -> nn.Module:
    """The network of a recipe, with fresh weights from torch's global generator."""
    if recipe.model.name == "own":
        raise ValueError(f"Recipe {recipe.name} is for a network of your own: pass it as focalcal.train(…, model=…).")
    return build_model(recipe.model.name, **data.model_options, **recipe.model.options())


def build_criterion(recipe: Recipe) -> nn.Module:
    """The loss of a recipe; ``per_sample`` is a sum, which the loop divides."""
    options: dict[str, Any] = {"reduction": "mean" if recipe.reduction == "mean" else "sum"}
    penalty = {"penalty": recipe.mmce_penalty} if recipe.loss.startswith("mmce") else {}
    loss = build_loss(recipe.loss, epochs=recipe.epochs, **options, **penalty)
    policy = _own_gamma(recipe)
    if policy is None:
        return loss
    if not isinstance(loss, FocalLoss):
        field = "gamma_schedule" if isinstance(policy, EpochGamma) else "gamma_by_sample"
        raise ValueError(f"{field} belongs to a focal loss, and {recipe.loss} is none; leave it out.")
    return FocalLoss(policy, **options)


def _own_gamma(recipe: Recipe) -> EpochGamma | SampleGamma | None:
    """What a recipe says about γ in place of the loss."""
    if recipe.gamma_schedule is not None:
        return EpochGamma(dict(sorted(recipe.gamma_schedule.items())))
    chosen = recipe.gamma_by_sample
    return None if chosen is None else SampleGamma(chosen.thresholds, chosen.gammas)


def check_model(model: object) -> None:
    """Whether a network of the user's own is one.

    Examples:
        >>> check_model("mlp")
        Traceback (most recent call last):
        ...
        TypeError: model must be a torch.nn.Module, got str; a network of the recipes is chosen by model=NAME in them.
    """
    if isinstance(model, type) and issubclass(model, nn.Module):
        raise TypeError(f"model must be a network, not its class: pass {model.__name__}(…).")
    if not isinstance(model, nn.Module):
        got = type(model).__name__
        hint = "; a network of the recipes is chosen by model=NAME in them" if isinstance(model, str) else ""
        raise TypeError(f"model must be a torch.nn.Module, got {got}{hint}.")


def check_loss(loss: object) -> None:
    """Whether a loss of the user's own can be called.

    Examples:
        >>> check_loss(0.5)
        Traceback (most recent call last):
        ...
        TypeError: loss must be the name of a loss or a function of logits and targets, got float.
    """
    if isinstance(loss, type) and issubclass(loss, nn.Module):
        raise TypeError(f"loss must be a loss, not its class: pass {loss.__name__}(…).")
    if not callable(loss) and not isinstance(loss, str):
        got = type(loss).__name__
        raise TypeError(f"loss must be the name of a loss or a function of logits and targets, got {got}.")


def build_optimizers(recipe: Recipe, model: nn.Module) -> list[torch.optim.Optimizer]:
    """One optimizer, or two where the network's embedding has its own."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not parameters:
        raise ValueError("The network has no weights that can be trained.")
    embedding = getattr(model, "embedding", None)
    if recipe.embedding_optimizer is None or embedding is None:
        return [_optimizer(recipe.optimizer, parameters)]
    # torch warns that it does not check what sparse gradients look like; nobody asks it to.
    torch.sparse.check_sparse_tensor_invariants.disable()  # type: ignore[no-untyped-call]
    own = [parameter for parameter in embedding.parameters() if parameter.requires_grad]
    if not own:
        return [_optimizer(recipe.optimizer, parameters)]
    others = [parameter for parameter in parameters if all(parameter is not one for one in own)]
    return [_optimizer(recipe.optimizer, others), _optimizer(recipe.embedding_optimizer, own)]


def _optimizer(settings: OptimizerSettings, parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
    options: dict[str, Any] = {"lr": settings.lr, "weight_decay": settings.weight_decay}
    if settings.name == "sgd":
        return torch.optim.SGD(parameters, momentum=settings.momentum, nesterov=settings.nesterov, **options)
    if settings.name == "adagrad":
        return torch.optim.Adagrad(parameters, **options)
    kind = torch.optim.Adam if settings.name == "adam" else torch.optim.AdamW
    return kind(parameters, betas=settings.betas, **options)


def build_fabric(hardware: HardwareSettings, loggers: list[Any]) -> Fabric:
    """Devices, precision and distribution; under torchrun its own numbers count."""
    devices, nodes = _places(hardware)
    check_hardware(hardware)
    strategy: Any = hardware.strategy
    if devices * nodes > 1 and strategy in ("auto", "ddp"):
        strategy = DDPStrategy(process_group_backend=None)
    precision: Any = "32-true" if hardware.precision == "32" else hardware.precision
    accelerator = hardware.accelerator
    return Fabric(
        accelerator=accelerator,
        devices=devices,
        num_nodes=nodes,
        strategy=strategy,
        precision=precision,
        loggers=loggers,
    )


def _places(hardware: HardwareSettings) -> tuple[int, int]:
    """How many devices a node has, and how many nodes there are."""
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return hardware.devices, hardware.nodes
    world, local = int(os.environ["WORLD_SIZE"]), int(os.environ["LOCAL_WORLD_SIZE"])
    return local, max(1, world // local)
