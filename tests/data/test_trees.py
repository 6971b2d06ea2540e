"""Bracketed lines and the trees that come of them; batches by height."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from focalcal.data.trees import random_trees, read_trees, replace_words

SENTENCE = "(3 (2 It) (4 (2 (2 's) (1 not)) (3 bad)))"


def test_a_line_becomes_nodes_by_height():
    trees, words = read_trees([SENTENCE + "\n"], "some.txt")
    assert words == ["It", "'s", "not", "bad"]
    assert trees.words.tolist() == [0, 1, 2, 3, -1, -1, -1]
    assert trees.labels.tolist() == [2, 2, 1, 3, 2, 4, 3]
    assert trees.heights.tolist() == [0, 0, 0, 0, 1, 2, 3]
    assert trees.left.tolist() == [-1, -1, -1, -1, 1, 4, 0]
    assert trees.right.tolist() == [-1, -1, -1, -1, 2, 3, 5]
    assert trees.roots.tolist() == [6]


def test_a_no_break_space_is_part_of_a_word():
    _, words = read_trees(["(3 (2 2\u00a01/2) (2 stars))"], "some.txt")
    assert words == ["2\u00a01/2", "stars"]


def test_empty_lines_are_left_out_and_lines_counted_with_them():
    trees, _ = read_trees(["", SENTENCE, "", "(1 no)", ""], "some.txt")
    assert len(trees) == 2
    with pytest.raises(ValueError, match=r"^some.txt, line 3: "):
        read_trees([SENTENCE, "", "(1 no"], "some.txt")


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("(3 (2 not) (1 bad)", "the brackets do not match: 1 opened and never closed"),
        ("(3 (2 not) (1 bad)))", "the brackets do not match: one is closed that was not opened"),
        ("(3 (2 not) (1 bad)) (2 so)", "the brackets do not match: something follows the end of the tree"),
        ("(5 (2 not) (1 bad))", "the label '5' of a node is not one of 0 to 4"),
        ("(x (2 not) (1 bad))", "the label 'x' of a node is not one of 0 to 4"),
        ("(-1 (2 not) (1 bad))", "the label '-1' of a node is not one of 0 to 4"),
        ("(3 (2 not) (1 bad) (2 thing))", "one holds 3 node\\(s\\)"),
        ("(3 (2 (1 bad)) (2 thing))", "one holds 1 node\\(s\\)"),
        ("(3 (2 not bad) (2 thing))", "the one at 'not' is neither"),
        ("(3  (2 not) (1 bad))", "the one at '' is neither"),
        ("(3 (2 not) bad)", "the one at 'bad\\)' is neither"),
        ("not bad", "the one at 'not' is neither"),
    ],
)
def test_a_wrong_line_is_named_in_one_sentence(line, sentence):
    with pytest.raises(ValueError, match=rf"^some.txt, line 2: .*{sentence}.*; correct the line.$"):
        read_trees([SENTENCE, line], "some.txt")


def test_a_file_without_trees():
    with pytest.raises(ValueError, match=r"some.txt holds no tree"):
        read_trees(["", " \n"], "some.txt")


def written(trees, position):
    """The bracketed line of a tree, with numbers for words."""
    first = trees.starts[position]

    def node(number):
        place = first + number
        if trees.words[place] >= 0:
            return f"({trees.labels[place]} {trees.words[place]})"
        return f"({trees.labels[place]} {node(trees.left[place])} {node(trees.right[place])})"

    return node(trees.starts[position + 1] - first - 1)


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 10_000))
def test_what_is_written_is_read_again(seed):
    trees = random_trees(5, words=7, longest=12, generator=np.random.default_rng(seed))
    lines = [written(trees, position) for position in range(len(trees))]
    again, names = read_trees(lines, "again")
    again = replace_words(again, [int(name) for name in names])
    for column in vars(trees):
        assert np.array_equal(getattr(again, column), getattr(trees, column)), column


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 10_000), st.lists(st.integers(0, 7), min_size=1, max_size=8))
def test_a_batch_holds_the_trees_in_an_order_in_which_children_come_first(seed, positions):
    trees = random_trees(8, words=7, longest=10, generator=np.random.default_rng(seed))
    chosen = np.array(positions)
    batch, places = trees.batch(chosen, wanted=np.ones(len(trees.labels), dtype=bool))
    number_of = batch.output_nodes.numpy()  # the batch's number of each node, tree by tree
    nodes = np.concatenate([np.arange(trees.starts[p], trees.starts[p + 1]) for p in positions])
    assert np.array_equal(places, nodes)
    assert sorted(number_of) == list(range(len(nodes)))
    leaves = len(batch.words)
    assert leaves + sum(batch.joins) == len(nodes)
    offset = np.repeat(
        np.cumsum([0, *(trees.starts[chosen + 1] - trees.starts[chosen])[:-1]]),
        trees.starts[chosen + 1] - trees.starts[chosen],
    )
    level_of = np.repeat(np.arange(len(batch.joins) + 1), [leaves, *batch.joins])
    for node, own, first in zip(nodes, number_of, offset, strict=True):
        assert level_of[own] == trees.heights[node]
        if own < leaves:
            assert batch.words[own] == trees.words[node]
        else:
            pair = [number_of[first + trees.left[node]], number_of[first + trees.right[node]]]
            assert batch.children[own - leaves].tolist() == pair
            assert max(pair) < own


def test_roots_come_in_the_order_of_the_positions():
    trees = random_trees(8, words=7, longest=10, generator=np.random.default_rng(0))
    wanted = np.zeros(len(trees.labels), dtype=bool)
    wanted[trees.roots] = True
    positions = np.array([5, 1, 5, 0])
    batch, places = trees.batch(positions, wanted)
    assert places.tolist() == trees.roots[positions].tolist()
    assert len(batch.output_nodes) == 4


def test_a_selection_holds_the_same_trees():
    trees = random_trees(6, words=7, longest=10, generator=np.random.default_rng(0))
    chosen = trees.select(np.array([4, 1]))
    assert [written(chosen, 0), written(chosen, 1)] == [written(trees, 4), written(trees, 1)]
