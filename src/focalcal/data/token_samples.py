"""Texts as samples: padded at the front, without the padding that a network need not look at."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from focalcal.data.samples import Batch
from focalcal.data.text_tokens import PADDING, NumberedTexts

# Of the global-pooling CNN: an entry of its last map sees 149 positions, so there must be as many; neighbours are 25
# apart, so leaving out multiples of 25 keeps all windows where they are; an entry of its first pooled map sees 9; and
# its second pooling needs four entries of the first one besides the padding that is put in front.
_LEAST_POSITIONS = 149
_STEP = 25
_KEPT_PADDING = 8
_LEAST_WIDTH = 24


class TextBatch(NamedTuple):
    """Texts as a network takes them.

    Attributes:
        words: (B, W) int64 rows of the embedding, padded at the front.
        left_out: how many more positions of padding are to be thought of in front of every text.
    """

    words: Tensor
    left_out: int


@dataclass
class TokenSamples:
    """N texts of at most a number of tokens.

    Padding takes part in convolution and pooling, so a batch may not simply be cut to its longest text. But what
    convolution makes of nothing but padding is the same everywhere: the batch says how many positions were left out,
    and the network puts in what its maps would have there. The logits are those of padding to all tokens.

    Attributes:
        texts: rows of the embedding, the last ``tokens`` of each text.
        labels: (N,) int64.
        ids: (N,) int64.
        tokens: to how many positions a text is padded.
        trim: whether padding is left out.
        vocabulary: the words that the rows of the embedding from the third on stand for; empty where they are random.
    """

    texts: NumberedTexts
    labels: Tensor
    ids: Tensor
    tokens: int
    trim: bool = True
    vocabulary: Sequence[str] = ()

    def __post_init__(self) -> None:
        self.texts = self.texts.last(self.tokens)

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def lengths(self) -> Tensor:
        """(N,) the number of tokens of each text."""
        return torch.from_numpy(self.texts.lengths)

    def batch(self, positions: Tensor, *, device: torch.device, generator: torch.Generator | None) -> Batch:
        """The texts, padded at the front to all tokens, or to fewer where ``trim`` is set, and (B,) labels."""
        del generator  # nothing here is random
        chosen = self.texts.select(positions.numpy())
        lengths, full = chosen.lengths, max(self.tokens, _LEAST_POSITIONS)
        width = padded_width(int(lengths.max(initial=0)), full) if self.trim else full
        rows = np.full((len(chosen), width), PADDING, dtype=np.int64)
        rows[np.arange(width) >= width - lengths[:, None]] = chosen.numbers
        inputs = TextBatch(torch.from_numpy(rows).to(device), full - width)
        return Batch(inputs, self.labels[positions].to(device))


def padded_width(longest: int, full: int) -> int:
    """How many of the full number of positions must remain for a batch whose longest text is this long.

    Examples:
        >>> padded_width(100, full=1000), padded_width(990, full=1000), padded_width(1, full=512)
        (125, 1000, 37)
    """
    spare = full - max(longest + _KEPT_PADDING, _LEAST_WIDTH)
    return full - max(0, spare // _STEP) * _STEP
