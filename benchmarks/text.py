"""Texts: Tree-LSTM by heights beside node by node, texts grouped by length beside padded, word vectors; one thread.

The real data are used where $FOCALCAL_DATA has them, else random ones of the same shape.
"""

import os
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.nn import functional

from benchmarks.timing import machine, medians
from focalcal.data.glove import find_vectors, open_vectors, read_vectors
from focalcal.data.newsgroups import load_newsgroups
from focalcal.data.sst import TreeSamples, load_sst
from focalcal.data.text_tokens import NumberedTexts, TextBatch, TokenSamples
from focalcal.data.trees import Trees
from focalcal.models.gp_cnn import GlobalPoolingCNN
from focalcal.models.tree_lstm import TreeLSTM

CPU = torch.device("cpu")
TREES_IN_A_BATCH, TEXTS_IN_A_BATCH, BATCHES = 25, 128, 20
DATA = os.environ.get("FOCALCAL_DATA")


def trees(table: Table, quick: bool) -> None:
    data = load_sst() if DATA and not quick else load_sst(synthetic=50 if quick else 500)
    torch.manual_seed(0)
    net = TreeLSTM(2, embeddings=data.model_options["embeddings"])
    samples = data.train
    assert isinstance(samples, TreeSamples)
    batches = torch.randperm(len(samples))[: BATCHES * TREES_IN_A_BATCH].split(TREES_IN_A_BATCH)
    step, step_recursively = tree_steps(net, samples)
    seconds = medians(
        {
            "heights": lambda: [step(some) for some in batches],
            "recursion": lambda: [step_recursively(some) for some in batches[::5]],
        },
        seconds=20,
        quick=quick,
    )
    heights, recursive = seconds["heights"] / len(batches), seconds["recursion"] / len(batches[::5])
    table.add_row(
        f"Tree-LSTM, training step of {TREES_IN_A_BATCH} trees",
        f"{heights * 1e3:.1f} ms",
        f"{recursive * 1e3:.0f} ms (node by node)",
        f"{recursive / heights:.0f} ×",
        f"{heights * 6920 / TREES_IN_A_BATCH:.1f} s per epoch of 6,920 trees",
    )


def tree_steps(net: TreeLSTM, samples: TreeSamples) -> tuple[Callable[[Tensor], None], Callable[[Tensor], None]]:
    """Make a step of training with all nodes of one height at once, and one with a recursion of the same cell."""
    optimizers = (
        torch.optim.Adagrad([p for name, p in net.named_parameters() if "embedding" not in name], 0.05),
        torch.optim.SGD(net.embedding.parameters(), 0.1),
    )

    def update(loss: Tensor) -> None:
        net.zero_grad()
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()

    def by_height(positions: Tensor) -> None:
        inputs, targets = samples.batch(positions, device=CPU, generator=None)
        update(functional.cross_entropy(net(inputs), targets))

    def recursively(positions: Tensor) -> None:
        states = torch.cat([recursion(net, samples.trees, int(position)) for position in positions])
        places = np.concatenate([np.arange(*samples.trees.starts[p : p + 2]) for p in positions.tolist()])
        targets = torch.from_numpy(samples.targets[places])
        update(functional.cross_entropy(net.classifier(net.dropout(states)), targets))

    return by_height, recursively


def recursion(net: TreeLSTM, trees: Trees, position: int) -> Tensor:
    """(nodes, hidden) the states of a tree, one node after the other."""
    first, last = trees.starts[position : position + 2].tolist()
    states: dict[int, Tensor] = {}

    def visit(node: int) -> tuple[Tensor, Tensor]:
        word = int(trees.words[first + node])
        if word >= 0:
            h, c = net.leaf_states(torch.tensor([word]))
        else:
            pairs = [visit(int(children[first + node])) for children in (trees.left, trees.right)]
            (h1, c1), (h2, c2) = pairs
            f1, f2, i, u, o = net.join(torch.cat([h1, h2], dim=1)).chunk(5, dim=1)
            c = torch.sigmoid(f1) * c1 + torch.sigmoid(f2) * c2 + torch.sigmoid(i) * torch.tanh(u)
            h = torch.sigmoid(o) * torch.tanh(c)
        states[node] = h
        return h, c

    visit(last - first - 1)
    return torch.cat([states[node] for node in range(last - first)])


def texts(table: Table, quick: bool) -> None:
    samples, embeddings = some_texts(quick)
    torch.manual_seed(0)
    net = GlobalPoolingCNN(20, embeddings=embeddings)
    optimizer = torch.optim.Adam([p for p in net.parameters() if p.requires_grad], 1e-3)
    in_batch = 4 if quick else TEXTS_IN_A_BATCH
    chosen = torch.randperm(len(samples))[: BATCHES * in_batch]
    by_length = chosen[samples.lengths[chosen].argsort()]

    def learn(some: TokenSamples, positions: Tensor, logits: Callable[[TextBatch], Tensor] = net) -> None:
        for batch in positions.split(in_batch):
            inputs, targets = some.batch(batch, device=CPU, generator=None)
            optimizer.zero_grad()
            functional.cross_entropy(logits(inputs), targets).backward()
            optimizer.step()

    def plain_layers(inputs: TextBatch) -> Tensor:
        x = net.embedding(inputs.words).transpose(1, 2)
        for convolution in net.convolutions[:2]:
            x = functional.max_pool1d(functional.relu(convolution(x)), 5)
        return net.classifier(functional.relu(net.dense(functional.relu(net.convolutions[2](x)).amax(dim=2))))

    padded = replace(samples, trim=False)
    seconds = medians(
        {
            "grouped": lambda: learn(samples, by_length),
            "padded to 1,000": lambda: learn(padded, chosen[:in_batch]),
            "padded, nn.Conv1d": lambda: learn(padded, chosen[:in_batch], plain_layers),
        },
        seconds=20,
        quick=quick,
    )
    grouped = seconds.pop("grouped") / BATCHES
    for name, full in seconds.items():
        table.add_row(
            f"Global-pooling CNN, training step of {in_batch} texts",
            f"{grouped * 1e3:.0f} ms (grouped by length)",
            f"{full * 1e3:.0f} ms ({name})",
            f"{full / grouped:.1f} ×",
            f"{grouped * 15_098 / in_batch:.0f} s per epoch of 15,098 texts",
        )


def some_texts(quick: bool) -> tuple[TokenSamples, Tensor]:
    """Load the training split of 20 Newsgroups, or make random texts with about its lengths."""
    if DATA and not quick:
        data = load_newsgroups()
        assert isinstance(data.train, TokenSamples)
        return data.train, data.model_options["embeddings"]
    generator = np.random.default_rng(0)
    lengths = np.clip(generator.lognormal(5.0, 0.9, 4000), 1, 1000).astype(np.int64)
    numbers = NumberedTexts(generator.integers(2, 20_002, lengths.sum()), np.concatenate([[0], np.cumsum(lengths)]))
    return TokenSamples(numbers, torch.randint(20, (4000,)), torch.arange(4000), 1000), torch.randn(20_002, 100)


def vectors(table: Table, quick: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        if DATA and not quick:
            path = find_vectors(Path(DATA, "glove"), 100)
        else:
            path = write_vectors(Path(folder, "random.100d.txt"), 500 if quick else 36_893)
        words: list[str] = []

        def split_once() -> None:
            with open_vectors(path, 100) as stream:
                words[:] = [line.split(" ")[0] for line in stream.read().decode().splitlines()]

        split_once()
        seconds = medians({"read": lambda: read_vectors(path, words), "split": split_once}, seconds=10, quick=quick)
    table.add_row(
        f"word vectors, {len(words):,} words from {path.suffix}",
        f"{seconds['read']:.2f} s",
        f"{seconds['split']:.2f} s (reading and splitting the text once)",
        f"{seconds['read'] / seconds['split']:.2f} × its time",
        "",
    )


def write_vectors(path: Path, words: int) -> Path:
    values = np.random.default_rng(0).normal(0, 0.4, (words, 100))
    path.write_text("".join(f"word{i} {' '.join(f'{x:.5f}' for x in row)}\n" for i, row in enumerate(values)))
    return path


def main(quick: bool = False) -> None:
    torch.set_num_threads(1)
    # Adagrad and SGD make sparse tensors of their own; torch wants to be told not to check them.
    torch.sparse.check_sparse_tensor_invariants.disable()
    console = Console(width=180)
    console.print("Texts,", "real data," if DATA and not quick else "random data,", machine())
    table = Table("what", "focalcal", "beside", "ratio", "that is")
    for part in (vectors, trees, texts):
        part(table, quick)
    console.print(table)


if __name__ == "__main__":
    main()
