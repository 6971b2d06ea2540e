"""The encoder–decoder Transformer of Vaswani et al. (2017), with a cache for generating word by word."""

import math
from collections.abc import Callable
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from focalcal.models.network import check_positive, compute_in_full_precision

Norm = Literal["pre", "post"]
KeysAndValues = tuple[Tensor, Tensor]


class PairInputs(Protocol):
    """Sentence pairs, as :class:`focalcal.data.sentence_pairs.PairBatch` has them."""

    @property
    def source(self) -> Tensor:
        """(B, S) int64 subwords, padded at the end."""

    @property
    def target(self) -> Tensor:
        """(B, T) int64 subwords that the decoder reads, padded at the end; the first one begins the sentence."""

    @property
    def output_places(self) -> Tensor:
        """(M,) int64 the positions of the flattened target whose next subword is asked for."""


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


class Transformer(nn.Module):
    """Predicts each subword of a sentence from the subwords before it and from a sentence of another language.

    One embedding serves both languages and, transposed, the last layer. Weights begin as in the paper's code: Xavier
    uniform, embeddings normal with variance 1/width.

    Args:
        num_classes: V, the number of subwords.
        layers: Layers of the encoder, and as many of the decoder.
        width: Size of a position's vector, a multiple of ``heads`` and even.
        feedforward: Hidden size of the position-wise networks.
        heads: Heads of every attention.
        dropout: Share of entries that training drops, of embeddings and of what a sub-layer adds.
        norm: Normalise what a sub-layer gets ("pre") or what comes out of its residual sum ("post", the paper's).
        max_length: Longest sentence, in subwords with the one that ends it.
        padding: The subword that fills up shorter sentences; attention does not look at it.

    Attributes:
        embedding: The shared embedding.
        classifier: The last layer, without a bias; its weight is the embedding's.

    Examples:
        >>> from focalcal.data.sentence_pairs import PairBatch
        >>> net = Transformer(20, layers=1, width=8, feedforward=16, heads=2)
        >>> pairs = PairBatch(torch.tensor([[5, 6, 3]]), torch.tensor([[2, 7]]), torch.tensor([0, 1]))
        >>> net(pairs).shape
        torch.Size([2, 20])
    """

    def __init__(
        self,
        num_classes: int,
        *,
        layers: int = 4,
        width: int = 128,
        feedforward: int = 256,
        heads: int = 4,
        dropout: float = 0.3,
        norm: Norm = "post",
        max_length: int = 256,
        padding: int = 0,
    ) -> None:
        super().__init__()
        for name, value in (("layers", layers), ("heads", heads), ("max_length", max_length)):
            check_positive(name, value)
        if check_positive("width", width) % (2 * heads):
            raise ValueError(f"width must be an even multiple of heads and is {width} for {heads} heads.")
        if norm not in ("pre", "post"):
            raise ValueError(f"norm must be pre or post and is {norm!r}.")
        self.width, self.max_length, self.padding = width, max_length, padding
        self.embedding = nn.Embedding(num_classes, width)
        self.dropout = nn.Dropout(dropout)
        shape = (width, check_positive("feedforward", feedforward), heads, dropout, norm == "pre")
        self.encoder: Any = nn.ModuleList(EncoderLayer(*shape) for _ in range(layers))
        self.decoder: Any = nn.ModuleList(DecoderLayer(*shape) for _ in range(layers))
        self.encoder_norm = nn.LayerNorm(width) if norm == "pre" else nn.Identity()
        self.decoder_norm = nn.LayerNorm(width) if norm == "pre" else nn.Identity()
        self.classifier = nn.Linear(width, num_classes, bias=False)
        self._initialise()
        self.register_buffer("positions", sinusoids(max_length, width), persistent=False)

    positions: Tensor

    def _initialise(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Linear) and module is not self.classifier:
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)
        nn.init.normal_(self.embedding.weight, std=self.width**-0.5)
        self.classifier.weight = self.embedding.weight

    def forward(self, inputs: PairInputs) -> Tensor:
        """Compute (M, V) logits of the subwords that follow the output places."""
        return compute_in_full_precision(self.classifier, self.features(inputs))

    def features(self, inputs: PairInputs) -> Tensor:
        """Compute the inputs (M, width) of the last layer."""
        memory, mask = self.encode(inputs.source)
        x = self._embed(inputs.target)
        for layer in self.decoder:
            x = layer(x, *layer.cross.project(memory), mask)
        chosen: Tensor = self.decoder_norm(x.flatten(0, 1)[inputs.output_places])
        return chosen

    def encode(self, source: Tensor) -> tuple[Tensor, Tensor | None]:
        """Encode sentences.

        Args:
            source: (B, S) int64, padded at the end.

        Returns:
            (B, S, width) the memory that the decoder attends to, and (B, 1, 1, S) bool, False where it is padding;
            None where there is no padding at all.
        """
        real = source != self.padding
        mask = None if bool(real.all()) else real[:, None, None, :]
        x = self._embed(source)
        for layer in self.encoder:
            x = layer(x, mask)
        return self.encoder_norm(x), mask

    def start(self, source: Tensor) -> DecoderState:
        """Encode sentences (B, S) and return the state of a decoder that has read nothing yet."""
        memory, mask = self.encode(source)
        return DecoderState([layer.cross.project(memory) for layer in self.decoder], mask)

    def step(self, tokens: Tensor, state: DecoderState) -> Tensor:
        """Read one more subword of every hypothesis.

        Args:
            tokens: (B, H) int64, the last subword of H hypotheses of each of B sentences.
            state: What was read before; the new subwords are added to it.

        Returns:
            (B, H, V) logits of the subwords that follow.
        """
        x = self._embed(tokens.reshape(-1, 1), first=state.length)
        for number, layer in enumerate(self.decoder):
            x = layer.step(x, state, number, tokens.shape)
        return compute_in_full_precision(self.classifier, self.decoder_norm(x)).reshape(*tokens.shape, -1)

    def _embed(self, tokens: Tensor, first: int = 0) -> Tensor:
        end = first + tokens.shape[1]
        if end > self.max_length:
            raise ValueError(f"A sentence has {end} subwords or more, and this network takes {self.max_length}.")
        x = self.embedding(tokens) * math.sqrt(self.width) + self.positions[first:end]
        embedded: Tensor = self.dropout(x)
        return embedded


class Attention(nn.Module):
    """Multi-head attention."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(width, 2 * width)
        self.output = nn.Linear(width, width)

    def project(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Compute (B, heads, S, width / heads) keys and values of a memory (B, S, width)."""
        keys, values = self.key_value(memory).chunk(2, dim=-1)
        return self._split(keys), self._split(values)

    def forward(
        self, x: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None = None, is_causal: bool = False
    ) -> Tensor:
        """Attend from each position of x (B, T, width) to the keys, with ``is_causal`` only to those up to its own."""
        mixed = functional.scaled_dot_product_attention(
            self._split(self.query(x)), keys, values, attn_mask=mask, is_causal=is_causal
        )
        attended: Tensor = self.output(mixed.transpose(1, 2).flatten(2))
        return attended

    def _split(self, x: Tensor) -> Tensor:
        return x.reshape(*x.shape[:-1], self.heads, -1).transpose(1, 2)


class Residual(nn.Module):
    """Surroundings of a sub-layer f: x + dropout(f(x)), normalised before f or after the sum."""

    def __init__(self, width: int, dropout: float, is_pre: bool) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)
        self.is_pre = is_pre

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """Add the sub-layer's output to its input."""
        if self.is_pre:
            added: Tensor = x + self.dropout(sublayer(self.norm(x)))
            return added
        normalised: Tensor = self.norm(x + self.dropout(sublayer(x)))
        return normalised


class EncoderLayer(nn.Module):
    """Self-attention and a position-wise network."""

    def __init__(self, width: int, feedforward: int, heads: int, dropout: float, is_pre: bool) -> None:
        super().__init__()
        self.attention = Attention(width, heads)
        self.feedforward = nn.Sequential(nn.Linear(width, feedforward), nn.ReLU(), nn.Linear(feedforward, width))
        self.around = nn.ModuleList(Residual(width, dropout, is_pre) for _ in range(2))

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """Map (B, S, width) to the same; ``mask`` says which positions are no padding."""
        x = self.around[0](x, lambda y: self.attention(y, *self.attention.project(y), mask))
        out: Tensor = self.around[1](x, self.feedforward)
        return out


class DecoderLayer(nn.Module):
    """Causal self-attention, attention to the encoder's memory, and a position-wise network."""

    def __init__(self, width: int, feedforward: int, heads: int, dropout: float, is_pre: bool) -> None:
        super().__init__()
        self.attention = Attention(width, heads)
        self.cross = Attention(width, heads)
        self.feedforward = nn.Sequential(nn.Linear(width, feedforward), nn.ReLU(), nn.Linear(feedforward, width))
        self.around = nn.ModuleList(Residual(width, dropout, is_pre) for _ in range(3))

    def forward(self, x: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        """Map (B, T, width) to the same, with the keys and values of the memory."""
        x = self.around[0](x, lambda y: self.attention(y, *self.attention.project(y), is_causal=True))
        x = self.around[1](x, lambda y: self.cross(y, keys, values, mask))
        out: Tensor = self.around[2](x, self.feedforward)
        return out

    def step(self, x: Tensor, state: DecoderState, number: int, shape: torch.Size) -> Tensor:
        """Map (B · H, 1, width) to the same, for one more subword of B × H hypotheses; this is layer ``number``."""
        sentences, hypotheses = shape
        x = self.around[0](x, lambda y: self.attention(y, *state.append(number, *self.attention.project(y))))
        # The hypotheses of a sentence share its memory: to it they are further positions.
        x = x.reshape(sentences, hypotheses, -1)
        x = self.around[1](x, lambda y: self.cross(y, *state.memory[number], state.mask))
        out: Tensor = self.around[2](x, self.feedforward)
        return out.reshape(sentences * hypotheses, 1, -1)


def sinusoids(length: int, width: int) -> Tensor:
    """Compute the paper's code of positions (length, width): sines, then cosines, of geometrically falling frequencies.

    Examples:
        >>> sinusoids(2, 4).round(decimals=2)
        tensor([[0.0000, 0.0000, 1.0000, 1.0000],
                [0.8400, 0.0000, 0.5400, 1.0000]])
    """
    half = width // 2
    falling = torch.exp(torch.arange(half, dtype=torch.float64) * (-math.log(10_000.0) / max(1, half - 1)))
    angles = torch.arange(length, dtype=torch.float64)[:, None] * falling
    return torch.cat([angles.sin(), angles.cos()], 1).float()


def transformer_tiny(
    num_classes: int, *, dropout: float = 0.3, norm: Norm = "post", max_length: int = 256
) -> nn.Module:
    """Build a network for small corpora: 4 + 4 layers of width 128, 2.6 million weights with 10,000 subwords."""
    return Transformer(num_classes, dropout=dropout, norm=norm, max_length=max_length)


def transformer_base(
    num_classes: int, *, dropout: float = 0.1, norm: Norm = "post", max_length: int = 256
) -> nn.Module:
    """Build the base network of Vaswani et al.: 6 + 6 layers of width 512, 8 heads."""
    return Transformer(
        num_classes,
        layers=6,
        width=512,
        feedforward=2048,
        heads=8,
        dropout=dropout,
        norm=norm,
        max_length=max_length,
    )
