"""Binary trees of words: read from brackets, and scheduled by height for a network."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Integers = NDArray[np.int64]
_LABELS = {str(label): label for label in range(5)}


class TreeBatch(NamedTuple):
    """Trees as a network takes them: leaves first, then all nodes of height 1, of height 2, and so on.

    A node's children come before it, so that all nodes of one height can be computed in one matrix product.

    Attributes:
        words: (L,) int64, the words of the leaves, which are the nodes 0 to L − 1: rows of the embedding.
        children: (I, 2) int64, the numbers of the left and the right child of the nodes L to L + I − 1.
        joins: Number of nodes of each height, from height 1 on.
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
        labels: One label per node.
        heights: 0 for a leaf, else one more than the higher child.
        left: Left child's number within its tree, −1 for a leaf.
        right: Right child's number within its tree, −1 for a leaf.
        words: A leaf's word, an index into whatever the reader chose; −1 for the others.
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
        """Return the trees at these positions."""
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
        """Put the trees at these positions into one schedule.

        Args:
            positions: (B,) which trees.
            wanted: One truth value for each node of all trees: whether its logits are asked for.

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
    """Move the tensors of a batch to a device."""
    moved = {name: getattr(batch, name).to(device) for name in ("words", "children", "output_nodes")}
    return batch._replace(**moved)


def replace_words(trees: Trees, rows: Sequence[int] | Integers) -> Trees:
    """Replace each word of the trees: the word w becomes rows[w]."""
    new = np.asarray(rows, dtype=np.int64)
    return replace(trees, words=np.where(trees.words >= 0, new[trees.words], -1))


@dataclass
class _Columns:
    """Nodes in the order in which their brackets close, as they are read."""

    labels: list[int] = field(default_factory=list)
    heights: list[int] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    right: list[int] = field(default_factory=list)
    words: list[int] = field(default_factory=list)
    trees: list[int] = field(default_factory=list)

    def add(self, *, label: int, height: int, left: int, right: int, word: int, tree: int) -> int:
        self.labels.append(label)
        self.heights.append(height)
        self.left.append(left)
        self.right.append(right)
        self.words.append(word)
        self.trees.append(tree)
        return len(self.labels) - 1


def read_trees(lines: Iterable[str], source: str) -> tuple[Trees, list[str]]:
    """Read one tree per line, such as ``(3 (2 not) (1 bad))``, with labels 0 to 4; empty lines are left out.

    Words end at a single space or a bracket: a no-break space is part of a word.

    Args:
        lines: Lines of the text.
        source: Name of the file, for messages about wrong lines.

    Returns:
        The trees and the W different words of their leaves, which ``Trees.words`` indexes.

    Raises:
        ValueError: One sentence with file and line: brackets that do not match, a label outside 0 ... 4, or a node
            that is neither one word nor two nodes.

    Examples:
        >>> trees, words = read_trees(["(3 (2 not) (1 bad))"], "some.txt")
        >>> trees.labels, trees.left, words
        (array([2, 1, 3]), array([-1, -1,  0]), ['not', 'bad'])
        >>> read_trees(["(3 (2 not) (7 bad))"], "some.txt")
        Traceback (most recent call last):
        ValueError: some.txt, line 1: the label '7' of a node is not one of 0 to 4; correct the line.
    """
    columns, words = _Columns(), dict[str, int]()
    tree = 0
    for number, line in enumerate(lines, start=1):
        text = line.strip("\r\n ")
        if text:
            try:
                _read_tree(text, columns, words, tree)
            except ValueError as error:
                raise ValueError(f"{source}, line {number}: {error}; correct the line.") from None
            tree += 1
    if tree == 0:
        raise ValueError(f"{source} holds no tree; give a file with one bracketed tree per line.")
    return _pack(columns), list(words)


def _read_tree(text: str, columns: _Columns, words: dict[str, int], tree: int) -> None:
    open_labels: list[int] = []
    children: list[list[int]] = [[]]
    for piece in text.split(" "):
        if len(children[0]):
            raise ValueError("the brackets do not match: something follows the end of the tree")
        if piece.startswith("("):
            if piece[1:] not in _LABELS:
                raise ValueError(f"the label {piece[1:]!r} of a node is not one of 0 to 4")
            open_labels.append(_LABELS[piece[1:]])
            children.append([])
            continue
        word = piece.rstrip(")")
        closing = len(piece) - len(word)
        if closing > len(open_labels):
            raise ValueError("the brackets do not match: one is closed that was not opened")
        if not word or not closing or children[-1]:
            raise ValueError(f"a node must be one word or two nodes, and the one at {piece!r} is neither")
        index = words.setdefault(word, len(words))
        node = columns.add(label=open_labels.pop(), height=0, left=-1, right=-1, word=index, tree=tree)
        children.pop()
        children[-1].append(node)
        for _ in range(closing - 1):
            node = _join(children.pop(), open_labels.pop(), columns, tree)
            children[-1].append(node)
    if open_labels:
        raise ValueError(f"the brackets do not match: {len(open_labels)} opened and never closed")


def _join(pair: Sequence[int], label: int, columns: _Columns, tree: int) -> int:
    if len(pair) != 2:
        raise ValueError(f"a node must be one word or two nodes, and one holds {len(pair)} node(s)")
    left, right = pair
    height = 1 + max(columns.heights[left], columns.heights[right])
    return columns.add(label=label, height=height, left=left, right=right, word=-1, tree=tree)


def _pack(columns: _Columns) -> Trees:
    arrays: dict[str, Integers] = {name: np.array(values, dtype=np.int64) for name, values in vars(columns).items()}
    trees = arrays.pop("trees")
    order = np.lexsort((arrays["heights"], trees))
    starts = np.concatenate([[0], np.cumsum(np.bincount(trees))])
    number = np.empty_like(order)
    number[order] = np.arange(len(order)) - starts[trees[order]]
    for side in ("left", "right"):
        arrays[side] = np.where(arrays[side] >= 0, number[arrays[side]], -1)
    return Trees(starts=starts, **{name: values[order] for name, values in arrays.items()})


def random_trees(count: int, words: int, longest: int, generator: np.random.Generator) -> Trees:
    """Make trees of random shape, words, labels and lengths from 1 to the longest, for trials without a file."""
    lines = [_random_line(int(generator.integers(1, longest + 1)), words, generator) for _ in range(count)]
    trees, names = read_trees(lines, "random trees")
    return replace_words(trees, [int(name) for name in names])


def _random_line(length: int, words: int, generator: np.random.Generator) -> str:
    parts = [f"({generator.integers(5)} {word})" for word in generator.integers(words, size=length)]
    while len(parts) > 1:
        place = int(generator.integers(len(parts) - 1))
        parts[place : place + 2] = [f"({generator.integers(5)} {parts[place]} {parts[place + 1]})"]
    return parts[0]
