"""Sentence pairs as samples: the source and the target so far go in, the next subword is asked for."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from focalcal.data.data_types import Batch
from focalcal.data.subwords import BEGIN, END, PADDING, SubwordVocabulary
from focalcal.data.text_tokens import Integers, NumberedTexts


class PairBatch(NamedTuple):
    """Sentence pairs as a network takes them.

    Attributes:
        source: (B, S) int64 subwords, padded at the end.
        target: (B, T) int64 subwords that the decoder reads, padded at the end; the first one begins the sentence.
        output_places: (M,) int64 the positions of the flattened target whose next subword is asked for.
    """

    source: Tensor
    target: Tensor
    output_places: Tensor


@dataclass
class SentencePairs:
    """N sentences with their translations, as subwords.

    Every target has one output per subword and one for its end. A batch has those of its sentences, one sentence after
    the other: padding has none.

    Attributes:
        source: Subwords of the sentences, each with the one that ends it.
        target: Subwords of the translations, each with the one that ends it.
        ids: (N,) int64, the lines of the files, those of one split after those of the other.
        vocabulary: What the numbers stand for; None for sentences that never were text.
        sources: The sentences as text.
        references: The translations as text.
        labels: (M,) int64, all subwords that are asked for, sentence by sentence.
    """

    source: NumberedTexts
    target: NumberedTexts
    ids: Tensor
    vocabulary: SubwordVocabulary | None = None
    sources: Sequence[str] = ()
    references: Sequence[str] = ()
    labels: Tensor = field(init=False)

    def __post_init__(self) -> None:
        self.labels = torch.from_numpy(self.target.numbers)

    def __len__(self) -> int:
        return len(self.target)

    @property
    def sentences(self) -> Tensor:
        """(M,) int64, the id of the sentence of each subword that is asked for."""
        return self.ids.repeat_interleave(torch.from_numpy(self.target.lengths))

    @property
    def places(self) -> Tensor:
        """(M,) int64, the place of each subword that is asked for in its sentence, counted from 0."""
        starts = np.repeat(self.target.starts[:-1], self.target.lengths)
        return torch.from_numpy(np.arange(len(self.target.numbers)) - starts)

    def output_rows(self, positions: Tensor) -> Tensor:
        """Find where the outputs of a batch of these sentences are among ``labels``: (M,) int64."""
        numbered = NumberedTexts(np.arange(len(self.target.numbers)), self.target.starts)
        return torch.from_numpy(numbered.select(positions.numpy()).numbers)

    @property
    def lengths(self) -> Tensor:
        """(N,) subwords of each pair's longer side."""
        return torch.from_numpy(np.maximum(self.source.lengths, self.target.lengths))

    def batch(self, positions: Tensor, *, device: torch.device, generator: torch.Generator | None) -> Batch:
        """Load the pairs at these positions, and (M,) the subwords that are asked for."""
        del generator  # nothing here is random
        source, target = self.source.select(positions.numpy()), self.target.select(positions.numpy())
        asked = pad(target)
        read = np.concatenate([np.full((len(asked), 1), BEGIN), asked[:, :-1]], 1)
        is_real = asked != PADDING
        read[~is_real] = PADDING
        places = np.flatnonzero(is_real)
        inputs = PairBatch(*(torch.from_numpy(x).to(device) for x in (pad(source), read, places)))
        return Batch(inputs, torch.from_numpy(target.numbers).to(device))


def pad(texts: NumberedTexts) -> Integers:
    """Pad texts at the end to the longest one, as (N, W) numbers.

    Examples:
        >>> pad(NumberedTexts(np.array([7, 3, 8, 9, 3]), np.array([0, 2, 5])))
        array([[7, 3, 0],
               [8, 9, 3]])
    """
    width = int(texts.lengths.max(initial=1))
    rows = np.full((len(texts), width), PADDING, dtype=np.int64)
    rows[np.arange(width) < texts.lengths[:, None]] = texts.numbers
    return rows


def add_ends(rows: Sequence[Sequence[int]]) -> NumberedTexts:
    """Join the subwords of sentences, each followed by the one that ends it.

    Examples:
        >>> add_ends([[7], [8, 9]]).numbers
        array([7, 3, 8, 9, 3])
    """
    lengths = np.array([len(row) + 1 for row in rows], dtype=np.int64)
    numbers = [number for row in rows for number in (*row, END)]
    return NumberedTexts(np.array(numbers, dtype=np.int64), np.concatenate([[0], np.cumsum(lengths)]))
