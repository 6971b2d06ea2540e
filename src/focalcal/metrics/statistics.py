"""Everything about a sample that is one number: confidence, right or wrong, its scores, its entropy, its label's rank.

One pass over the outputs, in blocks that stay in the cache, gives all of it, and the metrics that need no more are sums
over these numbers.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from focalcal.predictions import Predictions
from focalcal.predictions.masking import answers

# Outputs worked on at a time: 8 MB of float32, which a few passes can go over without going to memory, and enough work
# for threads that meet at the end of each operation: on a busy machine they wait for each other. With few classes the
# numbers kept for each sample weigh more than its outputs, and the number of samples is what must not be large.
_BLOCK_VALUES = 2**21
_BLOCK_ROWS = 2**17


@dataclass(frozen=True)
class ConfidenceSamples:
    """All that calibration of the predicted class needs to know of N samples; every tensor has shape (N,).

    Attributes:
        confidence: float64, the largest probability.
        correct: bool, the predicted class is the label.
        weight: float64, or None where every sample counts once.
    """

    confidence: Tensor
    correct: Tensor
    weight: Tensor | None

    def __len__(self) -> int:
        return len(self.confidence)


@dataclass(frozen=True)
class SampleStatistics(ConfidenceSamples):
    """Per-sample numbers of N predictions; every tensor has shape (N,).

    Attributes:
        confidence: float64, the largest probability.
        correct: bool, the predicted class is the label.
        weight: float64, or None where every sample counts once.
        prediction: int64, the class of the largest output, the first of them on ties.
        label: int64; the most probable class where labels are class probabilities.
        nll: float64, −log p of the label, or −Σ_k q_k log p_k for class probabilities q; inf where p is 0.
        brier: float64, Σ_k (p_k − q_k)².
        entropy: float64, −Σ_k p_k log p_k, in nats.
        rank: int64, how many classes come before the label: larger outputs, and equal ones with a lower index.
    """

    prediction: Tensor
    label: Tensor
    nll: Tensor
    brier: Tensor
    entropy: Tensor
    rank: Tensor


class StatisticsStore:
    """Joins the statistics of consecutive blocks, all of them weighted or none, in memory taken once for all.

    (A list of small tensors between large ones that come and go would leave the memory in pieces of no use.)

    Args:
        capacity: how many samples there are at most.
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

    def joined(self) -> SampleStatistics:
        """The statistics of everything added."""
        columns: dict[str, Any] = {name: column[: self._length] for name, column in self._columns.items()}
        return SampleStatistics(**({"weight": None} | columns))


def sample_statistics(preds: Predictions) -> SampleStatistics:
    """Per-sample numbers of all predictions, in one pass over the outputs.

    Args:
        preds: N predictions of K classes.

    Examples:
        >>> preds = Predictions.from_probs([[0.75, 0.25], [0.5, 0.5]], [0, 1])
        >>> stats = sample_statistics(preds)
        >>> stats.confidence.tolist(), stats.correct.tolist(), stats.rank.tolist()
        ([0.75, 0.5], [True, False], [0, 1])
    """
    preds = measured(preds)
    store = StatisticsStore(len(preds))
    for stats, _ in block_statistics(preds):
        store.add(stats)
    return store.joined()


def measured(preds: object) -> Predictions:
    """What metrics look at: the predictions without masked classes; anything else is refused."""
    if not isinstance(preds, Predictions):
        what = f"A metric needs Predictions, not {type(preds).__name__}"
        raise TypeError(f"{what}: make them with Predictions.from_logits or from_probs.")
    return answers(preds)


def block_statistics(preds: Predictions) -> Iterator[tuple[SampleStatistics, Tensor]]:
    """The statistics of one cache-sized block of samples after another, each with its (rows, K) probabilities.

    Masked classes are left out. The probabilities stand in memory that the next block writes over: use them at once or
    copy them.
    """
    preds = measured(preds)
    rows = min(len(preds), _BLOCK_ROWS, max(1, _BLOCK_VALUES // preds.num_classes))
    # Writing into the same memory again and again is faster than asking for new memory for every intermediate result.
    scratch = torch.empty(3, rows, preds.num_classes, dtype=preds.values.dtype)
    for block in preds.blocks(rows):
        yield _statistics(block, *scratch[:, : len(block)])


def _statistics(block: Predictions, log_odds: Tensor, probs: Tensor, spare: Tensor) -> tuple[SampleStatistics, Tensor]:
    values, label = block.values, block.hard_labels
    top, prediction = _first_maximum(values)
    if block.kind == "logits":
        # Relative to the largest logit no precision is lost, and softmax gives the same bits.
        torch.sub(values, top[:, None], out=log_odds)
        torch.softmax(log_odds, dim=1, out=probs)
        confidence = probs.gather(1, prediction[:, None])[:, 0].double()
        log_total = -confidence.log()
    else:
        torch.log(values, out=log_odds)
        probs, confidence = values, top.double()
        log_total = torch.zeros_like(confidence)
    entropy = log_total - _sum_of_products(probs, log_odds, spare)
    if block.has_soft_labels:
        nll = log_total - _sum_of_products(block.labels, log_odds.double())
        brier = (probs - block.labels).square_().sum(dim=1)
    else:
        nll = log_total - log_odds.gather(1, label[:, None])[:, 0].double()
        brier = _brier(probs, label, spare)
    correct = prediction == label
    stats = SampleStatistics(
        confidence=confidence,
        correct=correct,
        weight=block.weights,
        prediction=prediction,
        label=label,
        # Rounding may leave a hair below zero (and −0.0), which neither can be.
        nll=nll.clamp_(min=0).add_(0.0),
        brier=brier,
        entropy=entropy.clamp_(min=0).add_(0.0),
        rank=_rank(values, label, correct, log_odds, spare),
    )
    return stats, probs


def _first_maximum(values: Tensor) -> tuple[Tensor, Tensor]:
    """The maximum of each row and its first position: as ``Tensor.max``, at half the time."""
    top = values.amax(dim=1)
    places = np.flatnonzero(values.numpy() == top[:, None].numpy())
    row, column = np.divmod(places, values.shape[1])
    first = np.diff(row, prepend=-1) != 0
    return top, torch.from_numpy(column[first])


def _sum_of_products(weights: Tensor, logs: Tensor, spare: Tensor | None = None) -> Tensor:
    """Σ_k weights · logs of each row, float64, where 0 · log 0 is 0; ``spare`` is memory to write in."""
    total = torch.mul(weights, logs, out=spare).sum(dim=1).double()
    undefined = total.isnan()
    if undefined.any():
        products = weights[undefined] * logs[undefined]
        total[undefined] = products.masked_fill_(weights[undefined] == 0, 0).sum(dim=1).double()
    return total


def _brier(probs: Tensor, label: Tensor, spare: Tensor) -> Tensor:
    """Σ_k (p_k − [k = label])² without the cancellation of 1 − 2p + Σp²: the label's own term is added apart."""
    of_label = probs.gather(1, label[:, None])
    others = torch.mul(probs, probs, out=spare).scatter_(1, label[:, None], 0).sum(dim=1)
    return others.double() + (1 - of_label[:, 0].double()).square_()


def _rank(values: Tensor, label: Tensor, correct: Tensor, chosen: Tensor, flags: Tensor) -> Tensor:
    """How many classes come before the label; a right prediction needs no look. The last two are memory to write in."""
    rank = torch.zeros_like(label)
    wrong = torch.nonzero(~correct)[:, 0]
    values = torch.index_select(values, 0, wrong, out=chosen[: len(wrong)])
    flags, label = flags[: len(wrong)], label[wrong, None]
    of_label = values.gather(1, label)
    # Comparing into floats and adding those is several times faster than counting booleans; exact up to 2^24 classes.
    before = torch.gt(values, of_label, out=flags).sum(dim=1).long()
    tied = torch.nonzero(torch.eq(values, of_label, out=flags).sum(dim=1) > 1)[:, 0]
    lower = torch.arange(values.shape[1]) < label[tied]
    before[tied] += ((values[tied] == of_label[tied]) & lower).sum(dim=1)
    rank[wrong] = before
    return rank
