"""From a network and a split to predictions: every sample once, in the split's order, on however many processes."""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from focalcal.data.samples import Batch, DataSet, Samples
from focalcal.predictions import Predictions
from focalcal.predictions.masking import masking
from focalcal.training.divergence import diverged_outputs
from focalcal.training.gathering import gather_rows, largest_over_processes, same_buffers_everywhere
from focalcal.training.order import evaluation_batches


def split_predictions(
    fabric: Fabric,
    model: nn.Module,
    samples: Samples,
    *,
    split: str,
    class_names: tuple[str, ...] | None,
    masked_classes: Collection[int],
    batch_size: int,
    prepare: Callable[[Batch], Batch],
) -> Predictions:
    """The network's logits for every sample of a split, on every process.

    The batches are the same on any number of processes, and each is computed by one of them: nothing is padded and
    nothing computed twice, so the result does not depend on how many there are. Without ``class_names`` (None, or none
    at all) classes have no names.
    """
    same_buffers_everywhere(fabric, model)
    batches = evaluation_batches(samples, batch_size)
    own = batches[fabric.global_rank :: fabric.world_size]
    outputs: list[Tensor] = []
    with evaluation_mode(model), torch.no_grad():  # in full precision, whatever the run trains in
        for positions in own:
            inputs = prepare(samples.batch(positions, device=fabric.device, generator=None)).inputs
            outputs.append(_checked(model(inputs), positions).float())
    num_classes = largest_over_processes(fabric, outputs[0].shape[1] if outputs else 0)
    _check_labels(split, samples, num_classes)
    logits = torch.cat(outputs) if outputs else torch.empty(0, num_classes, device=fabric.device)
    gathered = gather_rows(fabric, logits)
    in_order = torch.empty(len(samples), num_classes)
    for rank, rows in enumerate(gathered):
        places = batches[rank :: fabric.world_size]
        if places:
            in_order[torch.cat(places)] = rows
    not_finite = (~in_order.amax(dim=1).isfinite()).nonzero()  # −inf is the logit of a class that is masked
    if len(not_finite):
        raise diverged_outputs(split, int(samples.ids[not_finite[0]]))
    return Predictions.from_logits(
        in_order,
        samples.labels,
        ids=samples.ids,
        split=split,
        class_names=class_names or None,
        ignore_index=None,
        provenance=masking(masked_classes),
    )


def _checked(logits: Tensor, positions: Tensor) -> Tensor:
    if logits.ndim != 2 or len(logits) != len(positions):
        shape = tuple(logits.shape)
        raise ValueError(f"The network must give one row of logits for each of {len(positions)} samples, got {shape}.")
    return logits


def check_outputs(logits: Tensor, targets: Tensor, samples: Samples) -> None:
    """Whether a network's outputs fit its targets and the classes of the data: said before any loss stumbles."""
    if not isinstance(logits, Tensor) or logits.ndim != 2 or len(logits) != len(targets):
        got = f"shape {tuple(logits.shape)}" if isinstance(logits, Tensor) else type(logits).__name__
        raise ValueError(f"The network must give logits of shape ({len(targets)}, K) for this batch, got {got}.")
    _check_labels("train", samples, logits.shape[1])


def check_classes(num_outputs: int, data: DataSet) -> None:
    """Whether a network has an output for every label and every class name: said before an epoch is spent."""
    for split, samples in {"train": data.train, **data.evaluation}.items():
        _check_labels(split, samples, num_outputs)
    if data.class_names and len(data.class_names) != num_outputs:
        names = len(data.class_names)
        raise ValueError(f"The network has {num_outputs} outputs, but the data has {names} class names.")


def _check_labels(split: str, samples: Samples, num_outputs: int) -> None:
    largest = int(samples.labels.max()) if len(samples) else -1
    if largest >= num_outputs:
        found = f"there is a label {largest} in the data's split {split}"
        raise ValueError(f"The network has {num_outputs} outputs, but {found}.")


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Evaluate, then train again."""
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)
