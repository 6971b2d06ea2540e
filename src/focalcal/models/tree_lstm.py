"""The binary (constituency) Tree-LSTM of Tai, Socher and Manning (2015), all nodes of one height at a time."""

from collections.abc import Iterator
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from focalcal.models.network import compute_in_full_precision


class TreeInputs(Protocol):
    """Trees in a schedule by height, as :class:`focalcal.data.trees.TreeBatch` has them."""

    @property
    def words(self) -> Tensor:
        """(L,) the words of the leaves."""

    @property
    def children(self) -> Tensor:
        """(I, 2) the numbers of the children of the other nodes."""

    @property
    def joins(self) -> tuple[int, ...]:
        """Number of nodes of each height, from height 1 on."""

    @property
    def output_nodes(self) -> Tensor:
        """(M,) the nodes whose logits are asked for."""


class TreeLSTM(nn.Module):
    """Classifies the nodes of binary trees whose leaves are words.

    A leaf with the word vector x has the cell c = W x + b and the state h = tanh(c), or h = σ(W' x + b') tanh(c) with
    ``leaf_output_gate``. A node joins its children (h1, c1) and (h2, c2) with one affine map of (h1, h2) into five
    parts f1, f2, i, u, o of the size of h: c = σ(f1) c1 + σ(f2) c2 + σ(i) tanh(u) and h = σ(o) tanh(c). Without
    ``output_gate`` there are four parts, and h = tanh(c).

    Args:
        num_classes: K.
        embeddings: (V, E) word vectors to begin with; they are trained, and copied.
        hidden: Size of a state.
        dropout: Share of the states' entries that training drops before the last layer.
        leaf_output_gate: Whether leaves have an output gate.
        output_gate: Whether the other nodes have one.
        sparse: Whether the gradient of the word vectors is sparse, so that a step touches only the words of its batch.

    Attributes:
        embedding: The word vectors, an ``nn.Embedding``. No weight decay fits a sparse gradient.
        classifier: The last layer.

    Examples:
        >>> from focalcal.data.trees import read_trees
        >>> trees, words = read_trees(["(3 (2 not) (1 bad))", "(2 (2 so) (2 (2 it) (2 goes)))"], "example")
        >>> batch, _ = trees.batch(trees.starts[:2] * 0, wanted=trees.words >= 0)
        >>> net = TreeLSTM(2, embeddings=torch.randn(len(words), 8), hidden=16)
        >>> net(batch).shape
        torch.Size([4, 2])
    """

    def __init__(
        self,
        num_classes: int,
        *,
        embeddings: Tensor,
        hidden: int = 150,
        dropout: float = 0.5,
        leaf_output_gate: bool = False,
        output_gate: bool = True,
        sparse: bool = True,
    ) -> None:
        super().__init__()
        words, size = embeddings.shape
        self.embedding = nn.Embedding(words, size, sparse=sparse, _weight=embeddings.detach().clone())
        self.leaf = nn.Linear(size, hidden * (2 if leaf_output_gate else 1))
        self.join = nn.Linear(2 * hidden, (5 if output_gate else 4) * hidden)
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(hidden, num_classes)
        self.hidden = hidden
        self.leaf_output_gate = leaf_output_gate

    def forward(self, inputs: TreeInputs) -> Tensor:
        """Compute (M, K) logits of the M output nodes."""
        return compute_in_full_precision(self.classifier, self.features(inputs))

    def features(self, inputs: TreeInputs) -> Tensor:
        """Compute (M, hidden) inputs of the last layer: the states of the output nodes, with dropout in training."""
        states: Tensor = self.dropout(self.states(inputs)[inputs.output_nodes])
        return states

    def states(self, inputs: TreeInputs) -> Tensor:
        """Compute (nodes, hidden) states h of all nodes, leaves first, then by height."""
        weight, bias = self.join.weight, self.join.bias
        h, c = (x.to(weight.dtype) for x in self.leaf_states(inputs.words))  # autocast may have lowered them
        states: Tensor = JoinLevels.apply(h, c, weight, bias, inputs.children, inputs.joins)  # type: ignore[no-untyped-call]
        return states

    def leaf_states(self, words: Tensor) -> tuple[Tensor, Tensor]:
        """Compute h and c, (L, hidden) each, of leaves with these words."""
        out = self.leaf(self.embedding(words))
        if not self.leaf_output_gate:
            return torch.tanh(out), out
        c, gate = out.split(self.hidden, dim=1)
        return torch.sigmoid(gate) * torch.tanh(c), c


class JoinLevels(Function):
    """The states h of all nodes, from those of the leaves.

    ``apply(h, c, weight, bias, children, joins)`` takes h and c of L leaves (L, H), weight (5H, 2H), bias (5H,), the
    numbers of the children (I, 2) of the inner nodes L, L + 1, ..., lowest first, and how many of them each height has.
    It returns h of all nodes, (L + I, H). A node with the children (h1, c1), (h2, c2) has the gates
    (f1, f2, i, u, o) = weight · (h1, h2) + bias, c = σ(f1) c1 + σ(f2) c2 + σ(i) tanh(u), and h = σ(o) tanh(c).
    With a weight (4H, 2H) and a bias (4H,) there is no output gate o, and h = tanh(c).

    Autograd would do the same with a product and a sum of the whole weight's gradient at every height. Here the pairs
    of children and the gates of all heights lie one below the other, so that gradient is one product, and everything
    that needs no gradient from above is computed for all nodes at once.
    """

    @staticmethod
    def forward(
        ctx: Any, h: Tensor, c: Tensor, weight: Tensor, bias: Tensor, children: Tensor, joins: tuple[int, ...]
    ) -> Tensor:
        """Compute (L + I, H) states of all nodes."""
        (leaves, size), inner = h.shape, len(children)
        states, cells = (torch.cat([x, x.new_empty(inner, size)]) for x in (h, c))
        pairs, forgotten, tanh = (h.new_empty(inner, width * size) for width in (2, 2, 1))
        gates = h.new_empty(inner, len(weight))
        for rows in _levels(joins):
            nodes = slice(leaves + rows.start, leaves + rows.stop)
            below = children[rows].reshape(-1)
            torch.index_select(states, 0, below, out=pairs[rows].view(-1, size))
            torch.index_select(cells, 0, below, out=forgotten[rows].view(-1, size))
            level = torch.addmm(bias, pairs[rows], weight.t(), out=gates[rows])
            sigmoids, update, output = level.tensor_split((3 * size, 4 * size), dim=1)
            sigmoids.sigmoid_()
            update.tanh_()
            output.sigmoid_()
            kept = sigmoids[:, : 2 * size] * forgotten[rows]
            cell = torch.add(kept[:, :size], kept[:, size:], out=cells[nodes])
            cell.addcmul_(sigmoids[:, 2 * size :], update)
            squashed = torch.tanh(cell, out=tanh[rows])
            if output.shape[1]:
                torch.mul(output, squashed, out=states[nodes])
            else:
                states[nodes] = squashed
        ctx.save_for_backward(weight, children, pairs, forgotten, gates, tanh)
        ctx.joins = joins
        return states

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Compute the gradients of h, c, weight and bias."""
        weight, children, pairs, forgotten, gates, tanh = ctx.saved_tensors
        inner, size = tanh.shape
        leaves = len(grad) - inner
        by_state, by_cell = grad.clone(), torch.zeros_like(grad)
        slopes = _slopes(gates, forgotten, tanh)
        to_cell = 1 - tanh * tanh  # what a change of h is worth to c: 1 − tanh² c, times o where there is one
        has_output_gate = gates.shape[1] > 4 * size
        if has_output_gate:
            to_cell *= gates[:, 4 * size :]
        by_gates = torch.empty_like(gates)
        for rows in reversed(list(_levels(ctx.joins))):
            nodes = slice(leaves + rows.start, leaves + rows.stop)
            state = by_state[nodes]
            cell = torch.addcmul(by_cell[nodes], state, to_cell[rows])
            level = by_gates[rows]
            level.copy_(slopes[rows])
            level[:, : 4 * size].view(-1, 4, size).mul_(cell[:, None])
            if has_output_gate:
                level[:, 4 * size :].mul_(state)
            below = children[rows].reshape(-1)
            by_state.index_add_(0, below, (level @ weight).view(-1, size))
            forget = gates[rows, : 2 * size].view(-1, 2, size)
            by_cell[below] = (forget * cell[:, None]).view(-1, size)
        return by_state[:leaves], by_cell[:leaves], by_gates.t() @ pairs, by_gates.sum(0), None, None


def _levels(joins: tuple[int, ...]) -> Iterator[slice]:
    first = 0
    for count in joins:
        yield slice(first, first + count)
        first += count


def _slopes(gates: Tensor, forgotten: Tensor, tanh: Tensor) -> Tensor:
    """Compute (I, 4H or 5H) derivatives of c by the gates before sigmoid or tanh; for an output gate, that of h."""
    size = tanh.shape[1]
    slopes = gates * (1 - gates)
    enter, update = gates[:, 2 * size : 3 * size], gates[:, 3 * size : 4 * size]
    slopes[:, : 2 * size] *= forgotten
    slopes[:, 2 * size : 3 * size] *= update
    slopes[:, 3 * size : 4 * size] = enter * (1 - update * update)
    if slopes.shape[1] > 4 * size:
        slopes[:, 4 * size :] *= tanh
    return slopes
