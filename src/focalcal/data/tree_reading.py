"""Trees from bracketed lines, as the Penn Treebank writes them, without recursion; and random ones."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from focalcal.data.trees import Integers, Trees, with_words

_LABELS = {str(label): label for label in range(5)}


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
    """Read one tree a line, such as ``(3 (2 not) (1 bad))``, with labels 0 to 4; empty lines are left out.

    Words end at a single space or a bracket: a no-break space is part of a word.

    Args:
        lines: the text.
        source: the file's name, for what is said of a wrong line.

    Returns:
        The trees and the W different words of their leaves, which ``Trees.words`` indexes.

    Raises:
        ValueError: one sentence with file and line: brackets that do not match, a label outside 0 ... 4, or a node
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
        raise ValueError(f"{source} holds no tree; give a file with one bracketed tree a line.")
    return _packed(columns), list(words)


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


def _packed(columns: _Columns) -> Trees:
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
    """Trees of random shape, words, labels and lengths from 1 to the longest, to try something out without a file."""
    lines = [_random_line(int(generator.integers(1, longest + 1)), words, generator) for _ in range(count)]
    trees, names = read_trees(lines, "random trees")
    return with_words(trees, [int(name) for name in names])


def _random_line(length: int, words: int, generator: np.random.Generator) -> str:
    parts = [f"({generator.integers(5)} {word})" for word in generator.integers(words, size=length)]
    while len(parts) > 1:
        place = int(generator.integers(len(parts) - 1))
        parts[place : place + 2] = [f"({generator.integers(5)} {parts[place]} {parts[place + 1]})"]
    return parts[0]
