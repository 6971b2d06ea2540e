"""Binary trees with labelled nodes in flat arrays, and batches of them by the height of the nodes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Integers = NDArray[np.int64]


class TreeBatch(NamedTuple):
    """Trees as a network takes them: leaves first, then all nodes of height 1, of height 2, and so on.

    A node's children come before it, so that all nodes of one height can be computed in one matrix product.

    Attributes:
        words: (L,) int64, the words of the leaves, which are the nodes 0 to L − 1: rows of the embedding.
        children: (I, 2) int64, the numbers of the left and the right child of the nodes L to L + I − 1.
        joins: how many nodes each height has, from height 1 on.
        output_nodes: (M,) int64, the nodes whose logits are asked for.
    """

    words: Tensor
    children: Tensor
    joins: tuple[int, ...]
    output_nodes: Tensor


@dataclass(frozen=True)
class Trees:
    """T trees in flat arrays, the nodes of each in the order of their heights; leaves first, from left to right.

    Attributes:
        starts: (T + 1,) where the nodes of each tree begin.
        labels: one label a node.
        heights: 0 for a leaf, else one more than the higher child.
        left: the left child's number within its tree, −1 for a leaf.
        right: the right child's number within its tree, −1 for a leaf.
        words: a leaf's word, an index into whatever the reader chose; −1 for the others.
    """

    starts: Integers
    labels: Integers
    heights: Integers
    left: Integers
    right: Integers
    words: Integers

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def roots(self) -> Integers:
        """(T,) the place of each tree's root in the flat arrays: its last node."""
        return self.starts[1:] - 1

    def select(self, positions: Integers) -> "Trees":
        """The trees at these positions."""
        nodes = self._nodes(positions)
        starts = np.concatenate([[0], np.cumsum(self.starts[positions + 1] - self.starts[positions])])
        columns = {name: values[nodes] for name, values in vars(self).items() if name != "starts"}
        return Trees(starts=starts, **columns)

    def _nodes(self, positions: Integers) -> Integers:
        sizes = self.starts[positions + 1] - self.starts[positions]
        firsts = np.cumsum(sizes) - sizes
        nodes: Integers = np.arange(sizes.sum()) + np.repeat(self.starts[positions] - firsts, sizes)
        return nodes

    def batch(self, positions: Integers, wanted: NDArray[np.bool_]) -> tuple[TreeBatch, Integers]:
        """The trees at these positions in one schedule.

        Args:
            positions: (B,) which trees.
            wanted: one truth value for each node of all trees: whether its logits are asked for.

        Returns:
            The batch, and (M,) the places of its output nodes in the flat arrays. Where only roots are wanted they
            come in the order of the positions.
        """
        sizes = self.starts[positions + 1] - self.starts[positions]
        firsts = np.repeat(np.cumsum(sizes) - sizes, sizes)  # where each node's tree begins in the batch
        nodes = self._nodes(positions)
        heights = self.heights[nodes]
        by_height = np.argsort(heights, kind="stable")
        number = np.empty_like(by_height)
        number[by_height] = np.arange(len(nodes))
        counts = np.bincount(heights)
        inner = by_height[counts[0] :]
        children = number[np.stack([self.left[nodes[inner]], self.right[nodes[inner]]], axis=1) + firsts[inner, None]]
        out = np.flatnonzero(wanted[nodes])
        words = self.words[nodes[by_height[: counts[0]]]]
        batch = TreeBatch(
            words=torch.from_numpy(words),
            children=torch.from_numpy(children),
            joins=tuple(counts[1:].tolist()),
            output_nodes=torch.from_numpy(number[out]),
        )
        return batch, nodes[out]


def to_device(batch: TreeBatch, device: torch.device) -> TreeBatch:
    """The same batch with its tensors on a device."""
    moved = {name: getattr(batch, name).to(device) for name in ("words", "children", "output_nodes")}
    return batch._replace(**moved)


def with_words(trees: Trees, rows: Sequence[int] | Integers) -> Trees:
    """The same trees with each word replaced: the word w becomes rows[w]."""
    new = np.asarray(rows, dtype=np.int64)
    return replace(trees, words=np.where(trees.words >= 0, new[trees.words], -1))
