"""The binary (constituency) Tree-LSTM of Tai, Socher and Manning (2015), all nodes of one height at a time."""

from typing import Protocol

import torch
from torch import Tensor, nn

from focalcal.models.network import full_precision
from focalcal.models.tree_levels import JoinLevels


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
        """How many nodes each height has, from height 1 on."""

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
        hidden: size of a state.
        dropout: share of the states' entries that training drops before the last layer.
        leaf_output_gate: whether leaves have an output gate.
        output_gate: whether the other nodes have one.
        sparse: whether the gradient of the word vectors is sparse, so that a step touches only the words of its batch.

    Attributes:
        embedding: the word vectors, an ``nn.Embedding``. No weight decay fits a sparse gradient.
        classifier: the last layer.

    Examples:
        >>> from focalcal.data.tree_reading import read_trees
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
        """(M, K) logits of the M output nodes."""
        return full_precision(self.classifier, self.features(inputs))

    def features(self, inputs: TreeInputs) -> Tensor:
        """(M, hidden) what the last layer is given: the states of the output nodes, with dropout in training."""
        states: Tensor = self.dropout(self.states(inputs)[inputs.output_nodes])
        return states

    def states(self, inputs: TreeInputs) -> Tensor:
        """(nodes, hidden) the states h of all nodes, leaves first, then by height."""
        weight, bias = self.join.weight, self.join.bias
        h, c = (x.to(weight.dtype) for x in self.leaf_states(inputs.words))  # autocast may have lowered them
        states: Tensor = JoinLevels.apply(h, c, weight, bias, inputs.children, inputs.joins)  # type: ignore[no-untyped-call]
        return states

    def leaf_states(self, words: Tensor) -> tuple[Tensor, Tensor]:
        """(L, hidden) twice: h and c of leaves with these words."""
        out = self.leaf(self.embedding(words))
        if not self.leaf_output_gate:
            return torch.tanh(out), out
        c, gate = out.split(self.hidden, dim=1)
        return torch.sigmoid(gate) * torch.tanh(c), c
