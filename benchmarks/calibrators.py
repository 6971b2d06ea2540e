"""Calibrators beside those of probmetrics, judged by the test log-loss, as the public leaderboards do.

``python -m benchmarks calibrators`` fits on 200 and 1,000 samples and on half of each data set, with three seeds, and
tests on the other half. The data are the two shared prediction files (FOCALCAL_DATA), predictions kept in ``results/``
and those of scikit-learn's classifiers on its digits, as ten classes and as even or odd. Test sets of fewer than 500
samples are left out: their noise is larger than what is measured.
"""

import os
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from statistics import mean, median
from typing import NamedTuple

import numpy as np
import torch
from scipy.stats import trim_mean
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.timing import machine
from focalcal.base.markdown import markdown_table
from focalcal.calibrators import build_calibrator
from focalcal.metrics.scores import nll
from focalcal.predictions import Predictions

RESULTS = Path(__file__).parent.parent / "results"
OURS = ("identity", "temperature", "vector", "dirichlet", "structured-vector", "structured-matrix", "auto")
OURS_OF_TWO = ("platt", "beta", "quadratic")
# probmetrics' names; its temperature scaling mixes in a little of the uniform distribution.
PEERS = {"SVS": "svs", "SMS": "sms", "probmetrics temperature": "ts-mix"}
PEERS_OF_TWO = {"probmetrics quadratic": "quadratic-scaling"}
SEEDS = 3
# Share of experiments that the trimmed mean leaves out at each end.
TRIMMED = 0.1
SMALLEST = torch.finfo(torch.float32).tiny


class Experiment(NamedTuple):
    """A calibrator is fitted on ``val`` and judged on ``test``."""

    data: str
    samples: int
    seed: int
    val: Predictions
    test: Predictions


class Outcome(NamedTuple):
    """Test log-loss and seconds of processor time for the fit."""

    log_loss: float
    seconds: float


def shared_files() -> Iterator[tuple[str, Predictions]]:
    """The softmax outputs of two networks, where FOCALCAL_DATA is set."""
    for name in ("wideresnet-16-4-cifar-10", "densenet-bc-100-cifar-100"):
        path = Path(os.environ.get("FOCALCAL_DATA", ""), "predictions", f"{name}.npz")
        if path.is_file():
            yield name, Predictions.load(path)


def committed() -> Iterator[tuple[str, Predictions]]:
    """Test logits of networks that this repository has results of; the treebank's have a masked class."""
    for loss in ("cross-entropy", "flsd-53"):
        path = RESULTS / "cifar10_resnet20" / "predictions" / f"{loss}-seed-0" / "test.safetensors"
        yield f"resnet20 {loss}", Predictions.load(path)
    for loss in ("cross-entropy", "brier", "fl-3"):
        path = RESULTS / "sst_authors" / "predictions" / f"{loss}-seed-0" / "test.safetensors"
        yield f"tree-lstm {loss}", Predictions.load(path)


def scikit_learn() -> Iterator[tuple[str, Predictions]]:
    """Cross-validated probabilities of classifiers on the bundled digits: all ten, and even or odd."""
    classifiers = {
        "naive Bayes": GaussianNB(),
        "forest": RandomForestClassifier(100, random_state=0),
        "logistic": make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)),
        "MLP": make_pipeline(StandardScaler(), MLPClassifier((64,), max_iter=300, random_state=0)),
        "neighbours": make_pipeline(StandardScaler(), KNeighborsClassifier(5)),
    }
    pixels, digits = load_digits(return_X_y=True)
    for task, labels in (("digits", digits), ("even or odd", digits % 2)):
        for name, classifier in classifiers.items():
            probs = cross_val_predict(classifier, pixels, labels, cv=5, method="predict_proba")
            yield f"{task} {name}", Predictions.from_probs(probs / probs.sum(axis=1, keepdims=True), labels)


def experiments(name: str, preds: Predictions, seed: int) -> Iterator[Experiment]:
    half = len(preds) // 2
    order = torch.randperm(len(preds), generator=torch.Generator().manual_seed(seed))
    for samples in [count for count in (200, 1000) if count <= 0.9 * half] + [half]:
        yield Experiment(name, samples, seed, preds.select(order[:samples]), preds.select(order[half:]))


def ours(method: str, experiment: Experiment) -> Outcome:
    calibrator = build_calibrator(method)
    start = time.process_time()
    calibrator.fit(experiment.val, allow_test=True)
    seconds = time.process_time() - start
    return Outcome(nll(floored(calibrator.transform(experiment.test))), seconds)


def theirs(method: str, experiment: Experiment) -> Outcome:
    """A calibrator of probmetrics, from the same probabilities in double precision."""
    from probmetrics.calibrators import get_calibrator

    calibrator = get_calibrator(method)
    val, test = (exact_probs(preds) for preds in (experiment.val, experiment.test))
    start = time.process_time()
    calibrator.fit(val, experiment.val.labels.numpy())
    seconds = time.process_time() - start
    probs = torch.from_numpy(np.asarray(calibrator.predict_proba(test), dtype=np.float64))
    return Outcome(nll(floored(experiment.test.with_values(probs / probs.sum(1, keepdim=True), "probs"))), seconds)


def exact_probs(preds: Predictions) -> np.ndarray:
    probs = preds.values.double().softmax(1) if preds.kind == "logits" else preds.values.double()
    return (probs / probs.sum(1, keepdim=True)).numpy()


def floored(preds: Predictions) -> Predictions:
    """Zeros raised to the smallest float32, for everybody: one sample must not make a mean infinite."""
    return preds if preds.kind == "logits" else preds.with_values(preds.values.clamp_min(SMALLEST), "probs")


def compete(experiment: Experiment, *, with_peers: bool) -> dict[str, Outcome]:
    two = experiment.val.num_classes == 2
    runs: dict[str, Callable[[], Outcome]] = {}
    for method in OURS + (OURS_OF_TWO if two else ()):
        runs[method] = lambda method=method: ours(method, experiment)
    for name, method in {**PEERS, **(PEERS_OF_TWO if two else {})}.items() if with_peers else ():
        runs[name] = lambda method=method: theirs(method, experiment)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {name: run() for name, run in runs.items()}


class Table:
    """All outcomes, by experiment and method."""

    def __init__(self) -> None:
        self.outcomes: dict[tuple[str, int, int], dict[str, Outcome]] = {}
        self.sizes: dict[str, int] = {}

    def excess(self, method: str) -> list[float]:
        """Compute by which share the log-loss is above the best of each experiment."""
        return [
            found[method].log_loss / min(one.log_loss for one in found.values()) - 1
            for found in self.outcomes.values()
            if method in found
        ]

    def wins(self, method: str, rival: str) -> float:
        """The share of experiments with a lower log-loss than the rival's; a tie is half."""
        pairs = [(found[method], found[rival]) for found in self.outcomes.values() if method in found]
        return mean((a.log_loss < b.log_loss) + 0.5 * (a.log_loss == b.log_loss) for a, b in pairs)

    def worse_than_identity(self, method: str) -> list[float]:
        """By how much, relatively, in each experiment in which it is."""
        found = [one for one in self.outcomes.values() if method in one]
        gaps = [one[method].log_loss / one["identity"].log_loss - 1 for one in found]
        return [gap for gap in gaps if gap > 1e-9]

    def methods(self) -> list[str]:
        """All names, in the order in which they ran."""
        return list(dict.fromkeys(name for found in self.outcomes.values() for name in found))

    def summary(self) -> str:
        """A row per method."""
        rows = []
        for method in self.methods():
            excess, worse = self.excess(method), self.worse_than_identity(method)
            rivals = [
                f"{self.wins(method, rival):.2f}" if self.has(rival) and rival != method else ""
                for rival in ("SMS", "SVS")
            ]
            worst = f"{len(worse)} (by {100 * max(worse):.1f}%)" if worse else "0"
            averages = (mean(excess), median(excess), float(trim_mean(excess, TRIMMED)), max(excess))
            rows.append([method, f"{len(excess)}", *rivals, *(f"{100 * value:.2f}" for value in averages), worst])
        head = ["method", "experiments", "wins against SMS", "against SVS", "mean excess, %", "median", "trimmed mean"]
        return markdown_table([*head, "largest", "worse than uncalibrated"], rows)

    def has(self, method: str) -> bool:
        """Tell whether it ran in any experiment."""
        return any(method in found for found in self.outcomes.values())

    def by_data(self) -> str:
        """The mean log-loss over the seeds, a row per data set and size."""
        methods, rows = self.methods(), []
        groups: dict[tuple[str, int], list[dict[str, Outcome]]] = defaultdict(list)
        for (data, samples, _), found in self.outcomes.items():
            groups[data, samples].append(found)
        for (data, samples), found in groups.items():
            cells = [mean(one[name].log_loss for one in found) if name in found[0] else None for name in methods]
            best = min(cell for cell in cells if cell is not None)
            written = ["" if cell is None else f"**{cell:.4f}**" if cell == best else f"{cell:.4f}" for cell in cells]
            rows.append([data, f"{samples:,}", *written])
        return markdown_table(["data", "n", *methods], rows)


def timings(preds: Predictions, sizes: tuple[int, ...], *, with_peers: bool) -> str:
    """Median seconds of processor time of a fit, by the number of samples; the competitors take turns."""
    names = [name for name in OURS if name != "identity"] + (list(PEERS) if with_peers else [])
    seconds: dict[tuple[str, int], list[float]] = defaultdict(list)
    for samples in sizes:
        experiment = Experiment("timing", samples, 0, preds.select(range(samples)), preds.select(range(10)))
        for _ in range(3):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                for name in names:
                    run = theirs(PEERS[name], experiment) if name in PEERS else ours(name, experiment)
                    seconds[name, samples].append(run.seconds)
    rows = [[name, *(f"{median(seconds[name, samples]):.3f}" for samples in sizes)] for name in names]
    return markdown_table([f"{preds.num_classes} classes", *(f"n = {samples:,}, s" for samples in sizes)], rows)


def has_probmetrics() -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import probmetrics.calibrators  # noqa: F401
    except ImportError:
        print("probmetrics is not installed here: its columns are missing.")
        return False
    return True


def main(*, quick: bool = False) -> None:
    torch.set_num_threads(1)
    peers, table = has_probmetrics(), Table()
    print(f"\n## Calibrators, by test log-loss ({machine()})\n")
    found = dict(committed()) if quick else dict(chain(shared_files(), committed(), scikit_learn()))
    data = {name: preds for name, preds in found.items() if not quick or name.startswith("tree-lstm cross")}
    for seed in range(1 if quick else SEEDS):
        for experiment in chain.from_iterable(experiments(name, preds, seed) for name, preds in data.items()):
            key = (experiment.data, experiment.samples, seed)
            table.outcomes[key] = compete(experiment, with_peers=peers)
            losses = ", ".join(f"{method} {one.log_loss:.4f}" for method, one in table.outcomes[key].items())
            print(f"{key}: {losses}", file=sys.stderr, flush=True)
        print(
            f"\n\nSeeds 0 to {seed}, {time.strftime('%Y-%m-%d %H:%M')}\n\n{table.summary()}\n\n{table.by_data()}\n",
            flush=True,
        )
    for name, preds in [] if quick else shared_files():
        if preds.num_classes == 100:
            print(f"{name}\n\n{timings(preds, (200, 5000), with_peers=peers)}")


if __name__ == "__main__":
    main()
