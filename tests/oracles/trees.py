"""The Tree-LSTM node by node, as its formulas say, over the parameters of the network under test."""

import torch


def node_by_node(network, trees, position):
    """(nodes, hidden) the states of one tree's nodes in the order of its flat arrays, by recursion from the root."""
    first, last = int(trees.starts[position]), int(trees.starts[position + 1])
    states = [None] * (last - first)

    def visit(node):
        word = int(trees.words[first + node])
        if word >= 0:
            h, c = _leaf(network, network.embedding.weight[word])
        else:
            left, right = int(trees.left[first + node]), int(trees.right[first + node])
            h, c = _join(network, *visit(left), *visit(right))
        states[node] = h
        return h, c

    visit(last - first - 1)
    return torch.stack(states)


def _leaf(network, x):
    out = network.leaf.weight @ x + network.leaf.bias
    if not network.leaf_output_gate:
        return torch.tanh(out), out
    c, gate = out.chunk(2)
    return torch.sigmoid(gate) * torch.tanh(c), c


def _join(network, h1, c1, h2, c2):
    f1, f2, i, u, *o = (network.join.weight @ torch.cat([h1, h2]) + network.join.bias).split(network.hidden)
    c = torch.sigmoid(f1) * c1 + torch.sigmoid(f2) * c2 + torch.sigmoid(i) * torch.tanh(u)
    return (torch.sigmoid(o[0]) * torch.tanh(c) if o else torch.tanh(c)), c
