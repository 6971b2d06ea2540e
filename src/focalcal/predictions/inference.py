"""Inference: predictions of a network over batches."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from focalcal.base.measures import Of
from focalcal.base.progress import track
from focalcal.predictions.construction import check_whole
from focalcal.predictions.container import Predictions, concatenate, from_rows
from focalcal.predictions.description import Columns, describe
from focalcal.predictions.rows import Kind, check_kind, count_columns, prepare_rows


def predict(
    model: Callable[..., Any],
    loader: Iterable[Any],
    *,
    kind: Kind = "logits",
    split: str | None = None,
    class_names: Sequence[str] | None = None,
    masked_classes: Collection[int] = (),
    of: Of | None = None,
    positive_class: int | str | None = None,
    class_dim: int | None = None,
    provenance: Mapping[str, str] | None = None,
    ignore_index: int | None = -100,
    device: torch.device | str | None = None,
    progress: bool = True,
) -> Predictions:
    """Run a network over batches, without gradient and in evaluation mode, and keep its outputs.

    Every submodule's train/eval mode is restored, also after an error or an interruption.

    Args:
        model: A network (or any function) whose output is a tensor (N, K) or (N, K, d1, ...), or has it as
            ``output.logits`` or ``output["logits"]``; one column for two classes, as in ``Predictions.from_logits``.
        loader: Batches ``(inputs, labels)``. Inputs are a tensor, ``model(inputs)``; a tuple or list of tensors,
            ``model(*inputs)``; or a dictionary, ``model(**inputs)``. A batch that is itself a dictionary with
            ``"labels"`` is the inputs and the labels in one.
        kind: Kind of the outputs: ``"logits"``, or ``"probs"`` if it ends in a softmax or sigmoid.
        split: As in ``Predictions.from_logits``.
        class_names: As in ``Predictions.from_logits``.
        masked_classes: As in ``Predictions.from_logits``.
        of: As in ``Predictions.from_logits``.
        positive_class: As in ``Predictions.from_logits``.
        class_dim: As in ``Predictions.from_logits``.
        provenance: As in ``Predictions.from_logits``.
        ignore_index: Positions with this label are dropped.
        device: Device for the inputs; by default that of the network's first parameter (or buffer).
        progress: Show a bar on stderr, if that is a terminal.

    Returns:
        Predictions on the CPU, in the order of the batches; float16 and bfloat16 outputs are raised to float32.

    Examples:
        >>> _ = torch.manual_seed(0)
        >>> network = nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.5))
        >>> batches = [(torch.randn(5, 4), torch.tensor([0, 1, 2, 0, 1])), (torch.randn(2, 4), torch.tensor([2, 2]))]
        >>> predict(network, batches, split="val"), network.training
        (Predictions(7 samples, 3 classes, logits, split='val'), True)
    """
    check_kind(kind)
    described = partial(describe, split=split, masked_classes=masked_classes, provenance=provenance)
    columns = Columns(of, positive_class, class_dim, class_names)
    target = find_device(model) if device is None else torch.device(device)
    parts: list[Predictions] = []
    samples = 0
    with evaluation_mode(model), torch.no_grad(), _show_progress(loader, progress) as batches:
        for batch in batches:
            inputs, labels = _split_batch(batch)
            output = compute_outputs(model, inputs, target)
            measured, positive = columns.measure(count_columns(output, class_dim))
            rows = prepare_rows(
                kind,
                output,
                labels,
                class_dim=class_dim,
                positive=positive,
                ignore_index=ignore_index,
                first=samples,
            )
            samples += len(output)
            names = columns.names(positive)
            parts.append(from_rows(rows, kind, described(rows.num_classes, of=measured, class_names=names)))
    if not parts:
        raise ValueError("The loader gave no batch; pass at least one (a generator can be run through only once).")
    return check_whole(concatenate(parts), allow_duplicate_ids=False)


def _show_progress(loader: Iterable[Any], wanted: bool) -> AbstractContextManager[Iterable[Any]]:
    return track(loader, "predict", _find_length(loader)) if wanted else nullcontext(loader)


@contextmanager
def evaluation_mode(model: Callable[..., Any]) -> Iterator[None]:
    """Switch to evaluation, and give each submodule its own mode back: some may have been frozen by hand."""
    modules = list(model.modules()) if isinstance(model, nn.Module) else []
    modes = [module.training for module in modules]
    try:
        if isinstance(model, nn.Module):
            model.eval()
        yield
    finally:
        for module, mode in zip(modules, modes, strict=True):
            module.training = mode


def _find_length(loader: Iterable[Any]) -> float | None:
    try:
        return float(len(loader))  # type: ignore[arg-type]
    except TypeError:
        return None


def find_device(model: Callable[..., Any]) -> torch.device:
    """Return the device of a network's first parameter or buffer; the CPU for anything else."""
    if isinstance(model, nn.Module):
        for tensors in (model.parameters(), model.buffers()):
            for tensor in tensors:
                return tensor.device
    return torch.device("cpu")


def _split_batch(batch: Any) -> tuple[Any, Any]:
    if isinstance(batch, Mapping) and "labels" in batch:
        return {name: value for name, value in batch.items() if name != "labels"}, batch["labels"]
    if isinstance(batch, tuple | list) and len(batch) == 2:
        return batch[0], batch[1]
    raise TypeError("A batch must be (inputs, labels), or a dictionary with 'labels'; change what the loader gives.")


def _move(inputs: Any, device: torch.device) -> Any:
    if isinstance(inputs, Tensor):
        return inputs.to(device, non_blocking=True)
    if isinstance(inputs, Mapping):
        return {name: _move(value, device) for name, value in inputs.items()}
    if isinstance(inputs, tuple | list):
        return [_move(value, device) for value in inputs]
    return inputs


def compute_outputs(model: Callable[..., Any], inputs: Any, device: torch.device | None = None) -> Tensor:
    """Compute the outputs for one batch of inputs, as :func:`predict` takes them.

    Args:
        model: A network, or any function.
        inputs: A tensor, a tuple or list of tensors, or a dictionary.
        device: Device for the inputs; None for that of the network.
    """
    return find_outputs(_call(model, _move(inputs, find_device(model) if device is None else device)))


def _call(model: Callable[..., Any], inputs: Any) -> Any:
    if isinstance(inputs, dict):
        return model(**inputs)
    return model(*inputs) if isinstance(inputs, list) else model(inputs)


def find_outputs(output: Any) -> Tensor:
    """Return the tensor among what a network gives: itself, ``output.logits`` or ``output["logits"]``."""
    if isinstance(output, Mapping) and "logits" in output:
        output = output["logits"]
    output = getattr(output, "logits", output)
    if not isinstance(output, Tensor):
        raise TypeError(f"The network gave a {type(output).__name__}; it must give a tensor, or something with logits.")
    return output
