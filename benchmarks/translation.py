"""Translation: beam search, ``linear_focal_loss`` and training beside the usual ways.

Beam search with and without its cache and its batches, the loss beside the unfused one, an epoch of training beside the
barest loop. One thread, in seconds of the processor: what other work on the machine takes does not count.
"""

import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from torch.nn import functional
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

import focalcal as fc
from benchmarks.timing import machine, medians
from benchmarks.training import MOST, whole_epoch
from focalcal.data import DataSet
from focalcal.data.sentence_pairs import SentencePairs, add_ends
from focalcal.data.subwords import BEGIN, END, FIRST_SUBWORD
from focalcal.models import build_model
from focalcal.models.transformer import Transformer
from focalcal.recipes import Recipe, load_recipe
from focalcal.training.batches import epoch_batches, load_batch
from focalcal.translation import search_beams

medians = partial(medians, clock=time.process_time)
PAIRS = 3000
SUBWORDS, SENTENCES, LENGTH, BEAM = 10_000, 32, 14, 5
TOKENS, VOCABULARY, WIDTH = 2048, 32_000, 512
LEAST_CACHED, LEAST_BATCHED, MOST_TIME, MOST_MEMORY = 3.0, 5.0, 1.3, 0.25


def verdict(is_met: bool, quick: bool) -> str:
    """Small sizes say nothing about speed."""
    return "not judged" if quick else "met" if is_met else "MISSED"


def network(recipe: Recipe | None = None) -> Transformer:
    torch.manual_seed(0)
    net = build_model("transformer_tiny", SUBWORDS, **({} if recipe is None else recipe.model.options())).eval()
    assert isinstance(net, Transformer)
    return net  # to random weights an end is as unlikely as any other subword: translations continue to the limit


def search_again(net: Transformer, source: Tensor, length: int) -> None:
    """The arithmetic of the same search where every step reads the whole prefix again."""
    with torch.no_grad():
        repeated = source.repeat_interleave(BEAM, 0)
        memory, mask = net.encode(repeated)
        tokens = torch.full((len(repeated), 1), BEGIN)
        for _ in range(length):
            x = net._embed(tokens)
            for layer in net.decoder:
                x = layer(x, *layer.cross.project(memory), mask)
            log_p = net.classifier(net.decoder_norm(x[:, -1])).log_softmax(-1)
            tokens = torch.cat([tokens, log_p.topk(2 * BEAM).indices[:, :1]], 1)


def beams(quick: bool) -> None:
    sentences, words = (2, 3) if quick else (SENTENCES, LENGTH)
    net, length = network(), 2 * words
    source = torch.randint(4, SUBWORDS, (sentences, words), generator=torch.Generator().manual_seed(0))
    source[:, -1] = END
    competitors: dict[str, Callable[[], object]] = {
        "cached, batched": lambda: search_beams(net, source, beam=BEAM, max_length=length),
        "prefix again": lambda: search_again(net, source, length),
        "one by one": lambda: [search_beams(net, row[None], beam=BEAM, max_length=length) for row in source],
    }
    seconds = medians(competitors, seconds=20, fewest=2, quick=quick)
    ours = seconds["cached, batched"]
    table = Table("beam search", "seconds", "times slower", "at least", title=f"{sentences} sentences, beam {BEAM}")
    for name, least in (("cached, batched", 1.0), ("prefix again", LEAST_CACHED), ("one by one", LEAST_BATCHED)):
        ratio = seconds[name] / ours
        table.add_row(name, f"{seconds[name]:.2f}", f"{ratio:.1f}", f"{least:g} {verdict(ratio >= least, quick)}")
    Console().print(table)


def resident() -> float:
    """MB of memory that the process has."""
    with open("/proc/self/status", encoding="utf-8") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("RssAnon")) / 1024


def peak(call: Callable[[], object]) -> float:
    """MB that a call needs at its peak beyond what was there."""
    before, largest, done = resident(), 0.0, threading.Event()

    def watch() -> None:
        nonlocal largest
        while not done.is_set():
            largest = max(largest, resident())
            time.sleep(0.002)

    watcher = threading.Thread(target=watch)
    watcher.start()
    call()
    done.set()
    watcher.join()
    return largest - before


def linear_loss(quick: bool) -> None:
    torch.manual_seed(0)
    tokens, vocabulary, width = (64, 1000, 16) if quick else (TOKENS, VOCABULARY, WIDTH)
    hidden = torch.randn(tokens, width, requires_grad=True)
    weight = (torch.randn(vocabulary, width) / width**0.5).requires_grad_()
    target = torch.randint(vocabulary, (tokens,))

    def step(loss: Callable[[], Tensor]) -> Callable[[], None]:
        def run() -> None:
            hidden.grad = weight.grad = None
            loss().backward()

        return run

    competitors: dict[str, Callable[[], object]] = {
        "focal_loss of the logits": step(lambda: fc.focal_loss(functional.linear(hidden, weight), target, 1.0)),
        "linear_focal_loss": step(lambda: fc.linear_focal_loss(hidden, weight, target, 1.0)),
    }
    for call in competitors.values():
        call()
    memory = {name: peak(call) for name, call in reversed(competitors.items())}
    seconds = medians(competitors, seconds=20, fewest=2, quick=quick)
    unfused, fused = competitors
    time_ratio, memory_ratio = seconds[fused] / seconds[unfused], memory[fused] / max(memory[unfused], 1e-9)
    table = Table("loss and gradients", "seconds", "peak MB", title=f"{tokens:,} tokens × {vocabulary:,} subwords")
    for name in competitors:
        table.add_row(name, f"{seconds[name]:.2f}", f"{memory[name]:.0f}")
    judged = verdict(time_ratio <= MOST_TIME and memory_ratio <= MOST_MEMORY, quick)
    Console().print(
        table,
        f"time × {time_ratio:.2f} (at most {MOST_TIME}), memory × {memory_ratio:.2f} (at most {MOST_MEMORY}): {judged}",
        machine(),
    )


def random_pairs(count: int, seed: int) -> SentencePairs:
    """Sentences as long as captions."""
    draw = np.random.default_rng(seed)
    source, target = (
        add_ends([draw.integers(FIRST_SUBWORD, SUBWORDS, size).tolist() for size in draw.integers(8, 22, count)])
        for _ in range(2)
    )
    return SentencePairs(source, target, torch.arange(count) + 100_000 * seed)


def bare_epoch(recipe: Recipe, data: DataSet, model: nn.Module) -> Callable[[], None]:
    """Return the barest epoch that learns the same: the same batches, loss, optimizer and average of the weights."""
    settings = recipe.optimizer
    optimizer = torch.optim.Adam(model.parameters(), lr=settings.lr, betas=tuple(settings.betas))
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(recipe.ema_decay), use_buffers=True)

    def epoch() -> None:
        model.train()
        batches = epoch_batches(data.train, recipe.batch_size, seed=0, epoch=0, batch_tokens=recipe.batch_tokens)
        for positions in batches:
            batch = load_batch(data.train, positions, device=torch.device("cpu"))
            functional.cross_entropy(model(batch.inputs), batch.targets).backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            average.update_parameters(model)

    return epoch


def training(quick: bool) -> None:
    """Compare an epoch of the training loop with the bare one."""
    count = 20 if quick else PAIRS
    evaluation = {"val": random_pairs(10, 1), "test": random_pairs(10, 2)}
    data = DataSet("multi30k", (), random_pairs(count, 3), evaluation, {"num_classes": SUBWORDS})
    recipe = load_recipe("multi30k/transformer_tiny", {"epochs": 1000})
    recipe = recipe.with_changes(record={"outputs": False, "test_every": None, "train_every": None})
    with tempfile.TemporaryDirectory() as folder:
        competitors = {
            "bare": bare_epoch(recipe, data, network(recipe)),
            "loop": whole_epoch(recipe, data, Path(folder), network(recipe)),
        }
        seconds = medians(competitors, seconds=60, fewest=3, quick=quick)
    overhead = seconds["loop"] / seconds["bare"] - 1
    print(
        f"training on {count} pairs: bare {count / seconds['bare']:.0f} pairs/s, focalcal "
        f"{count / seconds['loop']:.0f} pairs/s, overhead {overhead:+.1%} (at most {MOST:.0%}): "
        f"{verdict(overhead <= MOST, quick)}"
    )


def main(quick: bool = False) -> None:
    torch.set_num_threads(1)
    beams(quick)
    linear_loss(quick)
    training(quick)
