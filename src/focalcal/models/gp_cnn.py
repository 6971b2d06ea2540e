"""The global-pooling CNN for texts: three convolutions over word vectors, and the maximum over all positions."""

from typing import Any, Protocol, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from focalcal.models.network import compute_in_full_precision

_WINDOW = 5  # of every convolution and pooling
_PADDING = 0  # the row of the embedding that stands for padding
# Padding that is left out: entries of the last map are 25 positions apart, so leaving out multiples of 25 keeps all
# windows where they are; an entry of the first pooled map sees 9 positions, so 8 of padding stay in front of the
# longest text; and the second pooling needs four entries of the first besides the padding that is put in front.
_STEP = _WINDOW**2
_KEPT_PADDING = 2 * (_WINDOW - 1)
_LEAST_WIDTH = 3 * _WINDOW + _KEPT_PADDING + 1
_INITIALIZATIONS = ("glorot", "pytorch")


class TextInputs(Protocol):
    """Texts of which padding was left out, such as :class:`focalcal.data.text_tokens.TextBatch`."""

    @property
    def words(self) -> Tensor:
        """(N, L) rows of the embedding, padded at the front."""

    @property
    def left_out(self) -> int:
        """Number of positions of padding that were left out in front of every text."""


class GlobalPoolingCNN(nn.Module):
    """Classifies texts: the network of the Keras example with pretrained word vectors, which the paper trains.

    Convolution (128 maps, 5 words), ReLU and the maximum over 5, twice; the same convolution and ReLU once more, and
    the maximum over all positions; a dense layer with 128 units and ReLU; the classifier.

    Args:
        num_classes: K.
        embeddings: (V, E) word vectors; row 0 is that of padding. They are copied.
        channels: Maps of each convolution, and units of the dense layer.
        pool_stride: Distance between the windows of the two poolings, 5 or 1; with 1 the maps keep their length.
        dropout: Share of the dense layer's units that training drops.
        freeze: Whether the word vectors are not trained.
        initialization: "glorot": weights start uniform as Glorot and Bengio (2010) propose and biases at 0, as they do
            in Keras; "pytorch": as PyTorch's layers start.

    Attributes:
        embedding: The word vectors, an ``nn.Embedding``.
        classifier: The last layer.

    Examples:
        >>> net = GlobalPoolingCNN(20, embeddings=torch.randn(50, 100))
        >>> net(torch.randint(50, (3, 1000))).shape, net(torch.randint(50, (3, 7))).shape
        (torch.Size([3, 20]), torch.Size([3, 20]))
        >>> net.least_positions, GlobalPoolingCNN(20, embeddings=torch.randn(50, 100), pool_stride=1).least_positions
        (149, 21)
    """

    def __init__(
        self,
        num_classes: int,
        *,
        embeddings: Tensor,
        channels: int = 128,
        pool_stride: int = 5,
        dropout: float = 0.0,
        freeze: bool = True,
        initialization: str = "glorot",
    ) -> None:
        super().__init__()
        if pool_stride not in (1, _WINDOW):
            raise ValueError(f"pool_stride must be 5 (windows side by side) or 1 and is {pool_stride!r}.")
        if initialization not in _INITIALIZATIONS:
            raise ValueError(f"initialization must be glorot or pytorch and is {initialization!r}.")
        words, size = embeddings.shape
        self.embedding = nn.Embedding(words, size, _weight=embeddings.detach().clone())
        self.embedding.requires_grad_(not freeze)
        self.convolutions = nn.ModuleList(nn.Conv1d(inputs, channels, _WINDOW) for inputs in (size, channels, channels))
        self.dense = nn.Linear(channels, channels)
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(channels, num_classes)
        self.pool_stride = pool_stride
        if initialization == "glorot":
            self._start_as_in_keras()

    def _start_as_in_keras(self) -> None:
        for layer in (*self.convolutions, self.dense, self.classifier):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    @property
    def least_positions(self) -> int:
        """Number of positions that one entry of the last map sees; a shorter text is padded to it."""
        positions = _WINDOW
        for _ in range(2):
            positions = (positions - 1) * self.pool_stride + _WINDOW  # before the pooling
            positions += _WINDOW - 1  # before the convolution
        return positions

    def forward(self, texts: Tensor | TextInputs) -> Tensor:
        """Compute (N, K) logits of (N, L) int64 texts, rows of the embedding."""
        return compute_in_full_precision(self.classifier, self.features(texts))

    def features(self, texts: Tensor | TextInputs) -> Tensor:
        """Compute (N, channels) inputs of the last layer."""
        words, left_out = (texts, 0) if isinstance(texts, Tensor) else (texts.words, texts.left_out)
        words, left_out = self._add_padding(words, left_out)
        # One text is computed twice: a convolution of one picture rounds in its own way, which depends on its width.
        some = words.expand(2, -1) if len(words) == 1 else words
        maps = self.maps(some, left_out)[: len(words)]
        x = functional.relu(maps).amax(dim=1)
        dense: Tensor = self.dropout(torch.relu(self.dense(x)))
        return dense

    def _add_padding(self, words: Tensor, left_out: int) -> tuple[Tensor, int]:
        """Put as much of the padding back as the windows need; return the texts and how much is still left out."""
        longest = words.shape[1]
        full = max(longest + left_out, self.least_positions)
        width = padded_width(longest, full) if left_out else full
        return functional.pad(words, (width - longest, 0), value=_PADDING), full - width

    def maps(self, words: Tensor, left_out: int) -> Tensor:
        """Compute (N, L', channels), the last convolution, of (N, L) rows of the embedding.

        What a convolution and a pooling make of nothing but padding is one vector. After each of them, as many copies
        of it are put in front as the next convolution needs to meet every mixture of padding and text, and padding
        alone if there was enough; further copies would not change the maximum over all positions.
        """
        first, second, third = (cast(nn.Conv1d, layer) for layer in self.convolutions)
        stride = self.pool_stride
        least = (2 * _WINDOW - 2) // stride * stride  # what the second pooling's windows reach beyond their stride
        x, padding = _convolve_words(first, self.embedding, words)
        for convolution, needed in ((second, least), (third, _WINDOW)):
            x, padding = functional.relu(_pool(x, stride)), functional.relu(padding)  # relu of fewer, the same
            left_out //= stride
            added = min(left_out, needed)
            left_out -= added
            if added:
                x = torch.cat([padding.expand(len(x), added, -1), x], dim=1)
            x = _convolve(convolution, x)
            padding = x[:1, :1]  # of padding alone if there was enough; else it is not needed any more
        return x


def padded_width(longest: int, full: int) -> int:
    """Return how many of the full number of positions must remain for a batch whose longest text is this long.

    Examples:
        >>> padded_width(100, full=1000), padded_width(990, full=1000), padded_width(1, full=512)
        (125, 1000, 37)
    """
    spare = full - max(longest + _KEPT_PADDING, _LEAST_WIDTH)
    return full - max(0, spare // _STEP) * _STEP


def _convolve_words(convolution: nn.Conv1d, embedding: nn.Embedding, words: Tensor) -> tuple[Tensor, Tensor]:
    """Convolve the word vectors of (N, L) words to (N, L - 4, C), and padding alone to (1, 1, C).

    A batch has far fewer words than positions: each is multiplied once with each of the five parts of the weight, and
    a position is the sum of five rows of that table. This takes a third of the time of a convolution, and does not
    depend on how much padding there is.
    """
    length = words.shape[1] - _WINDOW + 1
    padded = torch.cat([words.new_full((1,), _PADDING), words.flatten()])
    occurring, rows = torch.unique(padded, return_inverse=True)
    table = embedding(occurring) @ convolution.weight.permute(2, 1, 0)  # (5, words, C)
    windows = rows.new_empty(_WINDOW, 1 + len(words) * length)
    windows[:, 0] = rows[0]
    for k in range(_WINDOW):
        windows[k, 1:].view(len(words), length).copy_(rows[1:].view(words.shape)[:, k : k + length])
    sums: Tensor = _RowSums.apply(table, windows) + convolution.bias  # type: ignore[no-untyped-call]
    return sums[1:].view(len(words), length, sums.shape[1]), sums[:1].unsqueeze(0)


def _convolve(convolution: nn.Conv1d, x: Tensor) -> Tensor:
    """Convolve (N, L, E) to (N, L - 4, C); as a convolution of images with channels last it takes half the time."""
    weight, images = convolution.weight.unsqueeze(2), x.transpose(1, 2).unsqueeze(2)
    return functional.conv2d(images, weight, convolution.bias).squeeze(2).transpose(1, 2)


def _pool(x: Tensor, stride: int) -> Tensor:
    """Compute (N, L', C), the maximum over five positions of (N, L, C)."""
    images = x.transpose(1, 2).unsqueeze(2)
    return functional.max_pool2d(images, (1, _WINDOW), (1, stride)).squeeze(2).transpose(1, 2)


class _RowSums(torch.autograd.Function):
    """(N, C) the sums over k of row ``rows[k, n]`` of ``table[k]``, of a (5, R, C) table and (5, N) rows.

    This is ``embedding_bag``; its own way back sorts the rows, which takes twice as long as adding them up.
    """

    @staticmethod
    def forward(table: Tensor, rows: Tensor) -> Tensor:
        starts = torch.arange(len(table), device=rows.device).unsqueeze(1) * table.shape[1]
        return functional.embedding_bag((rows + starts).t().contiguous(), table.flatten(0, 1), mode="sum")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        table, rows = inputs
        ctx.save_for_backward(rows)
        ctx.shape = table.shape

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (gradient,) = gradients
        (rows,) = ctx.saved_tensors
        # A frequent word adds up thousands of rows: in half precision the sum would stop growing.
        wide = gradient.to(torch.promote_types(gradient.dtype, torch.float32))
        if torch.is_grad_enabled():  # a second derivative is wanted
            parts = [wide.new_zeros(ctx.shape[1:]).index_add(0, chosen, wide) for chosen in rows]
            return torch.stack(parts).to(gradient.dtype), None
        total = wide.new_zeros(ctx.shape)
        for part, chosen in zip(total, rows, strict=True):
            part.index_add_(0, chosen, wide)
        return total.to(gradient.dtype), None
