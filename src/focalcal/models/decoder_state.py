"""Memory of a decoder: the keys and values of every layer, so that no subword is computed twice."""

import torch
from torch import Tensor

KeysAndValues = tuple[Tensor, Tensor]


class DecoderState:
    """The cache of B sentences with H hypotheses each.

    Args:
        memory: For each layer, keys and values (B, heads, S, d) of the encoded sentences.
        mask: (B, 1, 1, S) bool, which of them are no padding; None for all.

    Attributes:
        length: Subwords that every hypothesis has.
    """

    def __init__(self, memory: list[KeysAndValues], mask: Tensor | None) -> None:
        self.memory, self.mask = memory, mask
        self.length = 0
        self._read: list[KeysAndValues | None] = [None] * len(memory)

    def append(self, layer: int, keys: Tensor, values: Tensor) -> KeysAndValues:
        """Add keys and values (B · H, heads, 1, d) of one more subword, and return all of the layer's."""
        before = self._read[layer]
        if before is not None:
            keys, values = torch.cat([before[0], keys], 2), torch.cat([before[1], values], 2)
        self._read[layer] = keys, values
        if layer == len(self._read) - 1:
            self.length += 1
        return keys, values

    def select(self, rows: Tensor) -> None:
        """Keep the hypotheses at these rows (of B · H), in this order; one may be taken more than once."""
        self._read = [
            None if pair is None else (pair[0].index_select(0, rows), pair[1].index_select(0, rows))
            for pair in self._read
        ]

    def keep_sentences(self, sentences: Tensor) -> None:
        """Keep the memory of these sentences only; their hypotheses are chosen by `select`."""
        self.memory = [(k.index_select(0, sentences), v.index_select(0, sentences)) for k, v in self.memory]
        if self.mask is not None:
            self.mask = self.mask.index_select(0, sentences)
