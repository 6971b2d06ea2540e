"""Coverage: how often intervals cover what a metric estimates; run ``python -m benchmarks.coverage``.

The first table is of the honest intervals of calibration errors (`benchmarks.honest_coverage`). The second is of
bootstrap intervals, the third of how often `compare` finds a difference. For these two, samples come from a known
world: ten classes, logits z of a sample drawn from a normal distribution, labels drawn from softmax(z). A model of that
world says softmax(z / T): T = 1 is calibrated, T < 1 over-confident. Because the posterior is known, so is the value
that a metric has on the whole population (the same bins, no noise of labels): to about 1e-4, from a million samples.
For many data sets of n samples each we count how often an interval covers it.
"""

import argparse
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from benchmarks.honest_coverage import print_honest_coverage
from focalcal.metrics.binning import bin_index, equal_mass_bounds, sum_by_index
from focalcal.metrics.bootstrap.comparison import COMPARED_METRICS, compare
from focalcal.metrics.bootstrap.interval_methods import Method
from focalcal.metrics.bootstrap.intervals import replicate
from focalcal.metrics.smooth import Residuals, residual_grid
from focalcal.predictions import Predictions

METRICS = ("error", "nll", "ece", "ada_ece", "classwise_ece", "mce", "debiased_ece", "smooth_ece")
METHODS: tuple[Method, ...] = ("basic", "percentile", "bca")
MODELS = {"calibrated": 1.0, "slightly over-confident": 0.9, "over-confident": 0.6}
CLASSES, BINS, SPREAD = 10, 15, 3.0
POPULATION, CHUNK = 1_000_000, 100_000


@dataclass
class Population:
    """Sums over a population, with the posterior instead of labels."""

    temperature: float
    total: int = 0

    def __post_init__(self) -> None:
        self.wrong = self.loss = 0.0
        self.confidence: list[Tensor] = []
        self.right: list[Tensor] = []
        self.class_gap = torch.zeros(CLASSES * BINS, dtype=torch.float64)

    def add(self, logits: Tensor) -> None:
        """Add samples of which the posterior is softmax(logits)."""
        posterior, said = torch.softmax(logits, 1), torch.softmax(logits / self.temperature, 1)
        confidence, prediction = said.max(1)
        right = posterior.gather(1, prediction[:, None])[:, 0]
        self.total += len(logits)
        self.wrong += float((1 - right).sum())
        self.loss -= float((posterior * said.log()).sum())
        self.confidence.append(confidence)
        self.right.append(right)
        place = bin_index(said, BINS) + torch.arange(CLASSES) * BINS
        self.class_gap += sum_by_index(place.reshape(-1), CLASSES * BINS, (said - posterior).reshape(-1))

    def values(self) -> dict[str, float]:
        """Return every metric of the population."""
        confidence, order = torch.cat(self.confidence).sort()
        right = torch.cat(self.right)[order]
        gap = confidence - right
        index = bin_index(confidence, BINS)
        count, width_gap = sum_by_index(index, BINS), sum_by_index(index, BINS, gap)
        sizes = equal_mass_bounds(self.total, BINS).diff()
        mass_gap = sum_by_index(torch.arange(BINS).repeat_interleave(sizes), BINS, gap)
        filled = count > self.total / 1e5
        grid = residual_grid(confidence, right)
        return {
            "error": self.wrong / self.total,
            "nll": self.loss / self.total,
            "ece": float(width_gap.abs().sum()) / self.total,
            "ada_ece": float(mass_gap.abs().sum()) / self.total,
            "classwise_ece": float(self.class_gap.abs().sum()) / self.total / CLASSES,
            "mce": float((width_gap.abs() / count)[filled].max()),
            "debiased_ece": math.sqrt(float((mass_gap.square() / sizes).sum()) / self.total),
            "smooth_ece": float(Residuals(grid, torch.tensor(float(self.total)), gap.abs().sum()).solution[0]),
        }


def draw(n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    logits = SPREAD * torch.randn(n, CLASSES, generator=generator, dtype=torch.float64)
    return logits, torch.multinomial(torch.softmax(logits, 1), 1, generator=generator)[:, 0]


def population_values(temperature: float, seed: int, size: int = POPULATION) -> dict[str, float]:
    generator = torch.Generator().manual_seed(seed)
    population = Population(temperature)
    for _ in range(size // CHUNK):
        population.add(SPREAD * torch.randn(CHUNK, CLASSES, generator=generator, dtype=torch.float64))
    return population.values()


@dataclass(frozen=True)
class Row:
    """One row of the table: the share of data sets in which each method's interval covers the truth."""

    model: str
    n: int
    metric: str
    truth: float
    mean_estimate: float
    coverage: dict[str, float]


def coverage_of(model: str, n: int, truth: dict[str, float], options: argparse.Namespace) -> Iterator[Row]:
    temperature, sets = MODELS[model], options.sets
    generator = torch.Generator().manual_seed(options.seed + n)
    estimates = {metric: np.empty(sets) for metric in METRICS}
    ends = {metric: np.empty((sets, len(METHODS), 2)) for metric in METRICS}
    for number in range(sets):
        logits, labels = draw(n, generator)
        preds = Predictions.from_logits(logits / temperature, labels)
        found = replicate(preds, METRICS, options.samples, options.seed + number, "bca", BINS)
        for metric in METRICS:
            estimates[metric][number] = found.estimates[metric]
            ends[metric][number] = [found.interval(metric, method, options.level) for method in METHODS]
    for metric in METRICS:
        low, high = ends[metric][..., 0], ends[metric][..., 1]
        # A calibrated model's error is 0 but for rounding.
        covered = (low <= truth[metric] + 1e-12) & (truth[metric] - 1e-12 <= high)
        coverage = dict(zip(METHODS, covered.mean(0).tolist(), strict=True))
        yield Row(model, n, metric, truth[metric], float(estimates[metric].mean()), coverage)


def print_coverage(options: argparse.Namespace) -> None:
    print(f"| model | metric | population | {' | '.join(f'n = {n:,}' for n in options.sizes)} |")
    print("|:--|:--|--:|" + "--:|" * len(options.sizes))
    for model, temperature in MODELS.items():
        truth = population_values(temperature, options.seed, options.population)
        by_size = [list(coverage_of(model, n, truth, options)) for n in options.sizes]
        for rows in zip(*by_size, strict=True):
            cells = " | ".join(f"{row.mean_estimate:.4f}: {_percents(row.coverage)}" for row in rows)
            print(f"| {model} | {rows[0].metric} | {rows[0].truth:.4f} | {cells} |", flush=True)


def _percents(coverage: dict[str, float]) -> str:
    return " / ".join(f"{100 * coverage[method]:.0f}" for method in METHODS)


def shares_shown(n: int, temperature: float, options: argparse.Namespace) -> dict[str, float]:
    """Count how often `compare` calls two models different; both see the logits through noise of their own."""
    generator = torch.Generator().manual_seed(options.seed + n)
    shown = dict.fromkeys(COMPARED_METRICS, 0)
    for number in range(options.sets):
        logits, labels = draw(n, generator)
        a, b = (logits + torch.randn(n, CLASSES, generator=generator, dtype=torch.float64) for _ in range(2))
        models = Predictions.from_logits(a, labels), Predictions.from_logits(b / temperature, labels)
        found = compare(
            *models,
            bootstrap=options.samples,
            permutations=options.samples,
            level=options.level,
            seed=options.seed + number,
        )
        for metric in COMPARED_METRICS:
            shown[metric] += found[metric].is_significant
    return {metric: count / options.sets for metric, count in shown.items()}


def print_comparisons(options: argparse.Namespace) -> None:
    print(f"| second model's T | n | {' | '.join(COMPARED_METRICS)} |")
    print("|--:|--:|" + "--:|" * len(COMPARED_METRICS))
    for temperature in (1.0, 0.8):
        for n in options.sizes[:2]:
            shown = shares_shown(n, temperature, options)
            print(f"| {temperature} | {n} | " + " | ".join(f"{100 * share:.0f}%" for share in shown.values()) + " |")


def main(quick: bool = False) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=int, default=100, help="data sets for each model and size")
    parser.add_argument("--samples", type=int, default=400, help="resamples (and permutations) for each data set")
    parser.add_argument("--level", type=float, default=0.90)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sizes", type=int, nargs="+", default=[500, 2000, 10000])
    parser.add_argument("--population", type=int, default=POPULATION, help="samples of the population")
    parser.add_argument("--only", choices=("honest", "bootstrap"), help="one of the tables")
    parser.add_argument("--honest-sets", type=int, default=2000, help="data sets for each row of honest intervals")
    parser.add_argument("--rows", default="", help="honest intervals: only populations whose name has this in it")
    few = (
        ["--honest-sets", "4", "--sets", "2", "--samples", "20", "--sizes", "100", "--population", str(CHUNK)]
        if quick
        else []
    )
    options = parser.parse_args(few if __name__ != "__main__" else None)
    torch.set_num_threads(1)
    if options.only != "bootstrap":
        print(f"Percent of data sets in which honest {options.level:.0%} intervals cover (and mean width in points).\n")
        settings = options.level, options.seed, options.population, options.honest_sets
        print_honest_coverage(*settings, rows=options.rows, few=quick)
    if options.only == "honest":
        return
    print(f"Coverage of {options.level:.0%} intervals, {options.sets} data sets, {options.samples} resamples.")
    print("Mean estimate: percent covered by basic / percentile / BCa intervals.\n")
    print_coverage(options)
    print(f"\nShare of {options.sets} pairs of models for which a difference is significant:\n")
    print_comparisons(options)


if __name__ == "__main__":
    main()
