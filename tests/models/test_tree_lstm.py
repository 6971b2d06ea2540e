"""The Tree-LSTM by heights against the recursion node by node, its options, and what it takes to train it."""

import numpy as np
import pytest
import torch

from focalcal.data.trees import random_trees, read_trees
from focalcal.models.model_registry import build_model
from focalcal.models.tree_lstm import JoinLevels, TreeLSTM
from oracles.trees import node_by_node

WORDS = 30


def network(dtype=torch.float32, **options):
    torch.manual_seed(0)
    options = {"hidden": 12, "dropout": 0.0, "sparse": False} | options
    return TreeLSTM(3, embeddings=torch.randn(WORDS, 6), **options).to(dtype)


def some_trees(count=9, longest=25, seed=0):
    return random_trees(count, WORDS, longest, np.random.default_rng(seed))


def everything(trees, positions=None):
    positions = np.arange(len(trees)) if positions is None else np.array(positions)
    return trees.batch(positions, wanted=np.ones(len(trees.labels), dtype=bool))


GATES = pytest.mark.parametrize("gates", [(False, True), (True, True), (True, False), (False, False)])


def with_gates(gates, **options):
    return network(leaf_output_gate=gates[0], output_gate=gates[1], **options)


@GATES
@pytest.mark.parametrize("hidden", [12, 150])
def test_states_are_those_of_the_recursion(gates, hidden):
    trees, net = some_trees(), with_gates(gates, hidden=hidden)
    positions = [4, 0, 8, 4]
    batch, _ = everything(trees, positions)
    expected = torch.cat([node_by_node(net, trees, position) for position in positions])
    torch.testing.assert_close(net.features(batch), expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(net(batch), net.classifier(expected), atol=1e-5, rtol=0)


@GATES
def test_gradients_are_those_of_the_recursion(gates):
    trees, net = some_trees(), with_gates(gates, hidden=30)
    batch, _ = everything(trees)
    weights = torch.randn(len(trees.labels), 3, generator=torch.Generator().manual_seed(1))
    states = torch.cat([node_by_node(net, trees, position) for position in range(len(trees))])
    expected = torch.autograd.grad((net.classifier(states) * weights).sum(), list(net.parameters()))
    actual = torch.autograd.grad((net(batch) * weights).sum(), list(net.parameters()))
    for name, one, other in zip(dict(net.named_parameters()), actual, expected, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize("parts", [5, 4])
def test_derivatives_agree_with_finite_differences(parts):
    trees = some_trees(3, longest=6)
    batch, _ = everything(trees)
    generator = torch.Generator().manual_seed(0)
    leaves = len(batch.words)
    shapes = ((leaves, 2), (leaves, 2), (2 * parts, 4), (2 * parts,))
    inputs = [torch.randn(*shape, dtype=torch.float64, generator=generator, requires_grad=True) for shape in shapes]
    assert torch.autograd.gradcheck(lambda *x: JoinLevels.apply(*x, batch.children, batch.joins), inputs)


def test_without_an_output_gate_the_state_is_the_tanh_of_the_cell():
    net = network(output_gate=False)
    assert net.join.weight.shape == (4 * 12, 2 * 12)
    batch, _ = everything(read_trees(["(3 (2 so) (3 good))"], "two.txt")[0])
    h, c = net.leaf_states(batch.words)
    f1, f2, i, u = net.join(h.flatten()).chunk(4)
    cell = torch.sigmoid(f1) * c[0] + torch.sigmoid(f2) * c[1] + torch.sigmoid(i) * torch.tanh(u)
    torch.testing.assert_close(net.states(batch)[2], torch.tanh(cell))


def test_a_deep_tree_needs_no_recursion():
    line = "(2 w)"
    for _ in range(3000):
        line = f"(2 {line} (2 w))"
    trees, _ = read_trees([line], "deep.txt")
    batch, _ = everything(trees)
    assert len(batch.joins) == 3000
    assert torch.isfinite(network()(batch)).all()


def test_one_word_alone():
    trees, _ = read_trees(["(3 good)"], "one.txt")
    batch, _ = everything(trees)
    net = network()
    torch.testing.assert_close(net.features(batch), node_by_node(net, trees, 0))
    net(batch).sum().backward()
    assert net.leaf.weight.grad.abs().sum() > 0


def test_a_sparse_gradient_is_the_dense_one_and_touches_only_the_words_of_the_batch():
    trees = some_trees(2)
    batch, _ = everything(trees)
    dense, sparse = network(sparse=False), network(sparse=True)
    for net in (dense, sparse):
        net(batch).square().sum().backward()
    assert sparse.embedding.weight.grad.is_sparse
    torch.testing.assert_close(sparse.embedding.weight.grad.to_dense(), dense.embedding.weight.grad)
    touched = sparse.embedding.weight.grad.coalesce().indices()[0]
    assert sorted(touched.tolist()) == sorted(set(batch.words.tolist()))


def test_dropout_acts_in_training_alone():
    batch, _ = everything(some_trees())
    net = network(dropout=0.5)
    assert (net.features(batch) == 0).float().mean() > 0.3
    assert torch.equal(net.eval()(batch), net(batch))


def test_embeddings_are_copied_and_trained():
    given = torch.randn(WORDS, 6)
    net = TreeLSTM(2, embeddings=given, hidden=4)
    assert torch.equal(net.embedding.weight, given)
    assert net.embedding.weight.data_ptr() != given.data_ptr()
    assert net.embedding.weight.requires_grad


def test_the_registry_builds_it():
    net = build_model("tree_lstm", 2, embeddings=torch.randn(WORDS, 6), hidden=5)
    assert isinstance(net, TreeLSTM)
    assert net.classifier.in_features == 5


def test_autocast_gives_finite_float_states():
    batch, _ = everything(some_trees())
    net = network()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        lowered = net.features(batch)
    assert lowered.dtype == torch.float32
    torch.testing.assert_close(lowered, net.features(batch), atol=0.1, rtol=0)
