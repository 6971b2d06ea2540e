"""The network that a run has trained, to be used on other inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn

from focalcal.data import DataSet
from focalcal.training.building import build_data, build_network
from focalcal.training.checkpoints import CheckpointFolder, read_checkpoint
from focalcal.training.run_directory import recorded_data
from focalcal.training.states import restore_module

if TYPE_CHECKING:
    from focalcal.training.run_directory import Run


def trained_network(run: Run, model: nn.Module | None = None, data: DataSet | None = None) -> nn.Module:
    """The network with the weights of the selected epoch, in evaluation mode; see :meth:`Run.network`."""
    for what, given in (("model", model), ("data", data)):
        if given is None and getattr(run.recipe, what).name == "own" and model is None:
            raise ValueError(f"The run was made with {what} of your own: pass it, as in network({what}=…).")
    if model is None:
        data = build_data(run.recipe) if data is None else data
        _check_words(run, data)
        model = build_network(run.recipe, data)
    checkpoints = CheckpointFolder(run.path / "checkpoints")
    newest, _ = checkpoints.newest()
    if newest is None:
        raise ValueError(f"{run.path} holds no checkpoint that is whole, so there are no weights to take.")
    best = newest.values["best"]
    if best is not None:
        weights = dict(read_checkpoint(checkpoints.path / best["file"]).tensors)
    else:
        weights = newest.part("average/module.") or newest.part("model")
    # A compiled network calls its parts by another name.
    plain = getattr(model, "_orig_mod", model)
    restore_module(plain, {name.removeprefix("_orig_mod."): weight for name, weight in weights.items()})
    return model.cpu().eval()


def _check_words(run: Run, data: DataSet) -> None:
    """Refuse texts whose words have other numbers than in training: the weights would fit, the answers be wrong."""
    before = recorded_data(run.path) or {}
    for fact, what in (("vocabulary_sha256", "other words"), ("tokens", "another number of tokens")):
        if fact in before and before[fact] != data.facts.get(fact):
            raise ValueError(
                f"The data has {what} than the run in {run.path} was trained with: load it with the same settings from "
                "the same files, as run.data() does."
            )
