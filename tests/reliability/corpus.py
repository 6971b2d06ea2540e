"""Small valid files of every kind that is read, with the predictions that are in them."""

import gzip
import io
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from focalcal.calibrators import METHODS, build_calibrator
from focalcal.predictions import Predictions
from focalcal.predictions.token_predictions import TokenPredictions
from focalcal.recipes import load_recipe, recipe_names

ENDINGS = (".npz", ".safetensors", ".parquet", ".csv", ".csv.gz")


@dataclass(frozen=True)
class Sample:
    """A valid file.

    Attributes:
        name: Its name, whose ending says the format.
        content: Its bytes.
        preds: The predictions that focalcal wrote there, with statement of contents; None for files of others.
    """

    name: str
    content: bytes
    preds: Predictions | None = None

    @property
    def ending(self):
        return Path(self.name).suffix


def prediction_sets():
    """Predictions of every kind, of a few samples each."""
    numbers = np.random.default_rng(7)
    logits = numbers.normal(size=(12, 3)).astype(np.float32) * 2
    probs = torch.softmax(torch.from_numpy(logits).double(), dim=1)
    labels = numbers.integers(0, 3, 12)
    ids = [f"sample-{i}" for i in range(12)]
    names = ["cat", "dog", "eel, 'é'"]
    counts = numbers.integers(0, 4, (12, 3)) + np.eye(3, dtype=np.int64)[labels]
    masked = np.where(np.arange(3) == 1, -np.inf, logits)
    full = {"ids": ids, "weights": numbers.random(12) + 0.1, "split": "val", "class_names": names}
    yield "plain", Predictions.from_logits(logits, labels)
    yield "full", Predictions.from_logits(logits, labels, **full, provenance={"model": "small", "seed": "0"})
    yield "probs", Predictions.from_probs(probs, labels, **full)
    yield "soft", Predictions.from_probs(probs, counts / counts.sum(1, keepdims=True), ids=ids, split="test")
    yield "masked", Predictions.from_logits(masked, np.where(labels == 1, 0, labels), masked_classes=[1], **full)
    groups = {"site": ["a", "b", "c"] * 4, "sex": ["f", "m"] * 6}
    yield "grouped", Predictions.from_logits(logits, labels, groups=groups, clusters=np.arange(12) // 3, **full)
    yield "unlabelled", Predictions.from_logits(logits, ids=ids, split="test")
    yield "score", Predictions.from_probs(probs[:, 0], labels % 2, ids=ids)
    yield "confidence", Predictions.from_confidence(probs.amax(1), labels == 1, ids=ids)
    yield "binary", Predictions.from_probs(probs[:, :2] / probs[:, :2].sum(1, keepdim=True), labels % 2, ids=ids)


def prediction_files(folder):
    """Predictions in every format, written by focalcal and by others."""
    found = []
    for name, preds in prediction_sets():
        for ending in ENDINGS:
            path = folder / f"{name}{ending}"
            preds.save(path)
            found.append(Sample(path.name, path.read_bytes(), preds))
    path = folder / "tokens.safetensors"
    token_predictions().save(path)
    return [*found, Sample(path.name, path.read_bytes(), Predictions.load(path)), *files_of_others()]


def token_predictions():
    """Predictions of 12 tokens in four sentences, from a vocabulary of five."""
    numbers = torch.Generator().manual_seed(9)
    features, weight = torch.randn(12, 3, generator=numbers), torch.randn(5, 3, generator=numbers)
    sentences = torch.arange(12) // 3
    return TokenPredictions(
        features, weight, torch.arange(12) % 5, sentences, torch.arange(12) % 3, "test", torch.arange(5) * 40
    )


def files_of_others():
    """Layouts that focalcal reads and does not write."""
    logits = np.random.default_rng(8).normal(size=(10, 4)).astype(np.float32)
    labels = np.arange(10) % 4
    for name, save in (("numpy", np.savez), ("packed", np.savez_compressed)):
        file = io.BytesIO()
        save(file, logits=logits, labels=labels, ids=np.array([f"i{i}" for i in range(10)]), weights=np.ones(10))
        yield Sample(f"{name}.npz", file.getvalue())
    rows = "\n".join(
        f'"{json.dumps([float(x) for x in row])}",{label}' for row, label in zip(logits, labels, strict=True)
    )
    yield Sample("lists.csv", f"logits,label\n{rows}\n".encode())
    yield Sample("score.csv", b"probs,labels\n" + b"".join(b"%.2f,%d\n" % (i / 10, i % 2) for i in range(10)))
    objects = [{"logits": [float(x) for x in row], "labels": int(y)} for row, y in zip(logits, labels, strict=True)]
    lines = "".join(json.dumps(one) + "\n" for one in objects).encode()
    yield Sample("objects.jsonl", lines)
    yield Sample("objects.jsonl.gz", gzip.compress(lines, mtime=0))
    yield Sample("tabs.tsv", b"probs\tlabels\n" + b"".join(b"%.2f\t%d\n" % (i / 10, i % 2) for i in range(10)))
    columns = {f"logits_{i}": pa.array(logits[:, i]) for i in range(4)} | {
        "labels": pa.array(labels),
        "split": ["val"] * 10,
    }
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file, compression="zstd")
    yield Sample("columns.parquet", file.getvalue())


def calibrator_files(folder):
    """One file per method of calibration."""
    preds = Predictions.from_logits(
        torch.randn(60, 2, generator=torch.Generator().manual_seed(0)), torch.arange(60) % 2
    )
    for method in METHODS:
        path = folder / f"{method}.json"
        try:
            build_calibrator(method).fit(preds).save(path)
        except (ValueError, TypeError):  # a method that needs more than predictions: γ, or several sets of them
            continue
        yield Sample(path.name, path.read_bytes())


def recipe_files():
    """The packaged recipes, resolved as a run writes them, and as they are."""
    for name in recipe_names():
        yield Sample(f"{name.replace('/', '-')}.yaml", load_recipe(name).to_yaml().encode())
    yield Sample(
        "extended.yaml",
        b"extends: digits/mlp\nprotocols:\n  long: {epochs: 9}\nby_loss:\n  flsd-53: {optimizer: {lr: 0.2}}\nseed: 3\n",
    )
