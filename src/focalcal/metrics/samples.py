"""Numbers per sample: confidence, right or wrong, losses, entropy, the rank of the label; and the sample's weight.

One pass over the outputs, in blocks that stay in the cache, gives all of it, and metrics are functions of sums over
these numbers. Everything is computed in float64, whatever type the outputs have: confidences that are nearly equal then
have the order that the outputs give them, not that of rounding.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from focalcal.base.chunks import chunk_rows
from focalcal.metrics.arguments import prepare_predictions
from focalcal.predictions import Predictions
from focalcal.predictions.masking import drop_masked

# Three blocks of this many float64 numbers stay in the cache. With few classes the numbers kept for each sample weigh
# more than its outputs, and the number of samples is what must not be large.
_BLOCK_VALUES = 2**18
_BLOCK_ROWS = 2**16
# Up to this many classes blocks are turned around, so that the numbers of one class lie side by side: what goes along a
# short row takes several times as long. At most 255, for positions are uint8.
_FEW_CLASSES = 32


@dataclass(frozen=True)
class ConfidenceSamples:
    """All that calibration needs to know of N samples; every tensor has shape (N,).

    Attributes:
        confidence: float64, the largest probability; the probability of class 1 where predictions are scores, and the
            confidence of the answer where they are confidences.
        correct: bool, whether that came true: the predicted class is the label; class 1 is; the answer was right.
        weight: float64, or None where every sample counts once.
    """

    confidence: Tensor
    correct: Tensor
    weight: Tensor | None

    def __len__(self) -> int:
        return len(self.confidence)

    @property
    def mass(self) -> Tensor:
        """The weights, 1 each where there are none."""
        return torch.ones_like(self.confidence) if self.weight is None else self.weight


@dataclass(frozen=True)
class SampleStatistics(ConfidenceSamples):
    """Per-sample numbers of N predictions; every tensor has shape (N,).

    Attributes:
        confidence: As in `ConfidenceSamples`.
        correct: As in `ConfidenceSamples`.
        weight: float64, or None where every sample counts once.
        prediction: int64, the class of the largest output, the first of them on ties; 1 where predictions are
            confidences, because an answer claims to be right.
        label: int64; the most probable class where labels are class probabilities.
        nll: float64, −log p of the label, or −Σ_k q_k log p_k for class probabilities q; inf where p is 0.
        brier: float64, Σ_k (p_k − q_k)²; (p_1 − q_1)² for scores and confidences.
        entropy: float64, −Σ_k p_k log p_k, in nats.
        rank: int64, how many classes come before the label: larger outputs, and equal ones with a lower index.
    """

    prediction: Tensor
    label: Tensor
    nll: Tensor
    brier: Tensor
    entropy: Tensor
    rank: Tensor

    @property
    def right(self) -> Tensor:
        """True if the predicted class is the label, which of a score is not what its calibration is about."""
        return self.prediction == self.label


def of_answers(stats: SampleStatistics) -> SampleStatistics:
    """Return the statistics of the predicted classes: of a score, how sure it is of the more probable class.

    Examples:
        >>> stats = of_answers(sample_statistics(Predictions.from_probs([0.25, 0.75], [0, 0])))
        >>> stats.confidence.tolist(), stats.correct.tolist()
        ([0.75, 0.75], [True, False])
    """
    if not bool((stats.correct != stats.right).any()):
        return stats
    confidence = torch.where(stats.prediction == 1, stats.confidence, 1 - stats.confidence)
    return replace(stats, confidence=confidence, correct=stats.right)


class StatisticsStore:
    """Joins the statistics of consecutive blocks, all of them weighted or none, in memory taken once for all.

    (A list of small tensors between large ones that come and go would leave the memory in pieces of no use.)

    Args:
        capacity: Largest number of samples.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._length = 0
        self._columns: dict[str, Tensor] = {}

    def add(self, stats: SampleStatistics) -> None:
        """Append a block."""
        part = slice(self._length, self._length + len(stats))
        for field in fields(stats):
            column: Tensor | None = getattr(stats, field.name)
            if column is not None:
                self._columns.setdefault(field.name, column.new_empty(self._capacity))[part] = column
        self._length += len(stats)

    def rescale(self, factor: float) -> None:
        """Multiply all weights so far by a power of two."""
        if "weight" in self._columns:
            self._columns["weight"][: self._length] *= factor

    def join(self) -> SampleStatistics:
        """Return the statistics of everything added."""
        columns: dict[str, Any] = {name: column[: self._length] for name, column in self._columns.items()}
        return SampleStatistics(**({"weight": None} | columns))


def confidence_samples(preds: Predictions) -> ConfidenceSamples:
    """Compute confidence and correctness alone, which is all that most calibration errors need.

    Examples:
        >>> samples = confidence_samples(Predictions.from_probs([[0.75, 0.25], [0.5, 0.5]], [0, 1]))
        >>> samples.confidence.tolist(), samples.correct.tolist()
        ([0.75, 0.5], [True, False])
    """
    preds = prepare_predictions(preds)
    prediction = torch.ones_like(preds.hard_labels)
    confidence = torch.empty(len(preds), dtype=torch.float64)
    start = 0
    for block, values, (gaps, probs, _) in _blocks(preds):
        part = slice(start, start + len(block))
        if preds.of == "top":
            prediction[part], confidence[part] = _first_maximum(values)
        else:
            confidence[part] = values[:, 1]
        if preds.kind == "logits":
            found = _softmax(_gaps(values, gaps), probs)
            confidence[part] = found.gather(1, prediction[part, None])[:, 0]
        start += len(block)
    return ConfidenceSamples(confidence, prediction == preds.hard_labels, preds.weights)


def sample_statistics(preds: Predictions) -> SampleStatistics:
    """Compute the numbers of all samples, in one pass over the outputs.

    Args:
        preds: N predictions of K classes.

    Examples:
        >>> preds = Predictions.from_probs([[0.75, 0.25], [0.5, 0.5]], [0, 1])
        >>> stats = sample_statistics(preds)
        >>> stats.confidence.tolist(), stats.correct.tolist(), stats.rank.tolist()
        ([0.75, 0.5], [True, False], [0, 1])
    """
    preds = prepare_predictions(preds)
    store = StatisticsStore(len(preds))
    for stats, _ in block_statistics(preds):
        store.add(stats)
    return store.join()


def block_statistics(preds: Predictions) -> Iterator[tuple[SampleStatistics, Tensor]]:
    """Yield the statistics of one block of samples after another, each with its (rows, K) float64 probabilities.

    Masked classes are left out; weights stay as they are. The probabilities stand in memory that the next block writes
    over: use them at once or copy them.
    """
    for block, values, scratch in _blocks(drop_masked(preds)):
        yield _statistics(block, values, *scratch)


def block_probabilities(preds: Predictions) -> Iterator[tuple[Predictions, Tensor]]:
    """Yield blocks of predictions, each with the probabilities that `block_statistics` gives."""
    for block, values, (doubles, probs, _) in _blocks(drop_masked(preds)):
        if block.kind == "logits":
            yield block, _softmax(_gaps(values, doubles), probs)
        else:
            yield block, probs.copy_(values)


def _blocks(preds: Predictions) -> Iterator[tuple[Predictions, Tensor, Sequence[Tensor]]]:
    """Yield blocks, their values, and three (rows, K) float64 tensors to write in.

    New memory for every block would cost time. With few classes all of them are views of (K, rows) tensors.
    """
    rows = min(len(preds), _BLOCK_ROWS, chunk_rows(preds.num_classes, _BLOCK_VALUES))
    if preds.num_classes > _FEW_CLASSES:
        scratch = torch.empty(3, rows, preds.num_classes, dtype=torch.float64)
        for block in preds.blocks(rows):
            yield block, block.values, tuple(scratch[:, : len(block)])
        return
    turned = torch.empty(4, preds.num_classes, rows, dtype=torch.float64).transpose(1, 2)
    for block in preds.blocks(rows):
        values, *others = turned[:, : len(block)]
        yield block, values.copy_(block.values), tuple(others)


def _statistics(
    block: Predictions, values: Tensor, log_odds: Tensor, probs: Tensor, spare: Tensor
) -> tuple[SampleStatistics, Tensor]:
    label = block.hard_labels
    prediction, top = _first_maximum(values)
    if block.of == "confidence":
        prediction = torch.ones_like(prediction)
    if block.kind == "logits":
        # Relative to the largest logit no precision is lost, and softmax gives the same bits, wherever the row stands.
        torch.sub(values, top[:, None], out=log_odds)
        _softmax(log_odds, probs)
        confidence = (probs.gather(1, prediction[:, None]) if block.of == "top" else probs[:, 1:].clone())[:, 0]
        log_total = -(confidence if block.of == "top" else probs.amax(dim=1)).log()
    else:
        torch.log(probs.copy_(values), out=log_odds)
        confidence = top if block.of == "top" else probs[:, 1].clone()
        log_total = torch.zeros_like(top)
    entropy = log_total - _sum_of_products(probs, log_odds, spare)
    if block.has_soft_labels:
        nll = log_total - _sum_of_products(block.labels, log_odds, spare)
        brier = torch.sub(probs, block.labels, out=spare).square_().sum(dim=1)
    else:
        nll = log_total - log_odds.gather(1, label[:, None])[:, 0]
        brier = _brier(probs, label, spare)
    if block.of != "top":
        happened = block.labels[:, 1] if block.has_soft_labels else label.double()
        brier = (confidence - happened).square_()
    right = prediction == label
    stats = SampleStatistics(
        confidence=confidence,
        correct=label == 1 if block.of == "score" else right,
        weight=block.weights,
        prediction=prediction,
        label=label,
        # Rounding may leave a hair below zero (and −0.0), which neither can be.
        nll=nll.clamp_(min=0).add_(0.0),
        brier=brier,
        entropy=entropy.clamp_(min=0).add_(0.0),
        rank=_rank(values, label, right, log_odds, spare),
    )
    return stats, probs


def _gaps(values: Tensor, out: Tensor | None = None) -> Tensor:
    """Return (N, K) float64 logits less the largest of their row."""
    return torch.sub(values, values.amax(1, keepdim=True).double(), out=out)


def _softmax(gaps: Tensor, out: Tensor | None = None) -> Tensor:
    """Return the softmax of `_gaps`: of few classes several times faster than ``torch.softmax``."""
    probs = torch.empty_like(gaps) if out is None else out
    np.exp(gaps.numpy(), out=probs.numpy())  # which is off by half a unit of the last digit, torch's by one
    return probs.div_(_sum_of_rows(probs)[:, None])


def _sum_of_rows(values: Tensor) -> Tensor:
    """Add up the rows, (N,): of few classes one class after another, so that the bits do not depend on the block."""
    if values.shape[1] > _FEW_CLASSES:
        return values.sum(1)
    columns = values.numpy().T
    total = columns[0].copy()
    for column in columns[1:]:
        total += column
    return torch.from_numpy(total)


def _first_maximum(values: Tensor) -> tuple[Tensor, Tensor]:
    """Return the first position of each row's maximum, and the maximum as float64: ``Tensor.max`` takes far longer."""
    classes = values.shape[1]
    if classes > _FEW_CLASSES:
        place = torch.from_numpy(values.numpy().argmax(axis=1))
        return place, values.gather(1, place[:, None])[:, 0].double()
    top = values.amax(1)
    places_from_the_end = (values == top[:, None]).view(torch.uint8) * torch.arange(classes, 0, -1, dtype=torch.uint8)
    return classes - places_from_the_end.amax(1).long(), top


def _sum_of_products(weights: Tensor, logs: Tensor, spare: Tensor) -> Tensor:
    """Return Σ_k weights · logs of each row, where 0 · log 0 is 0; ``spare`` is memory to write in."""
    total = _sum_of_rows(torch.mul(weights, logs, out=spare))
    undefined = total.isnan()
    if undefined.any():
        products = weights[undefined] * logs[undefined]
        total[undefined] = products.masked_fill_(weights[undefined] == 0, 0).sum(dim=1)
    return total


def _brier(probs: Tensor, label: Tensor, spare: Tensor) -> Tensor:
    """Return Σ_k (p_k − [k = label])² without the cancellation of 1 − 2p + Σp²: the label's own term is added apart."""
    of_label = probs.gather(1, label[:, None])
    others = _sum_of_rows(torch.mul(probs, probs, out=spare).scatter_(1, label[:, None], 0))
    return others + (1 - of_label[:, 0]).square_()


def _rank(values: Tensor, label: Tensor, right: Tensor, *scratch: Tensor) -> Tensor:
    """Count the classes before the label. The last two are memory to write in."""
    if values.shape[1] <= _FEW_CLASSES:
        return _count_before(values, label, scratch[1]).masked_fill_(right, 0)
    # A right prediction needs no look.
    rank = torch.zeros_like(label)
    wrong = torch.nonzero(~right)[:, 0]
    size = len(wrong) * values.shape[1]
    chosen, flags = (part.view(-1).view(values.dtype)[:size].view(len(wrong), values.shape[1]) for part in scratch)
    rank[wrong] = _count_before(torch.index_select(values, 0, wrong, out=chosen), label[wrong], flags)
    return rank


def _count_before(values: Tensor, label: Tensor, flags: Tensor) -> Tensor:
    """Count the classes before the label; ``flags`` is memory of the values' shape and type."""
    label = label[:, None]
    of_label = values.gather(1, label)
    # Comparing into floats and adding those is several times faster than counting booleans; exact up to 2^24 classes.
    before = torch.gt(values, of_label, out=flags).sum(dim=1).long()
    tied = torch.nonzero(torch.eq(values, of_label, out=flags).sum(dim=1) > 1)[:, 0]
    lower = torch.arange(values.shape[1]) < label[tied]
    before[tied] += ((values[tied] == of_label[tied]) & lower).sum(dim=1)
    return before
