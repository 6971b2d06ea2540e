"""Coverage of the honest intervals of calibration errors; run ``python -m benchmarks.coverage``.

Every row is a population of which everything is known, and every cell counts in how many data sets drawn from it the
interval covers the population's value, where labels make no noise:

- logits z from a normal distribution, labels from softmax(z), a model that says softmax(z / T): T = 1 is calibrated;
- a model that is always 99.9% sure, and wrong in 1%, or in 0.1%, of its answers: errors are rare;
- the predictions of a real network, from which samples are drawn with replacement.

An MCE is that of the bins that the data set has samples in.
"""

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from focalcal.calibrators import TemperatureScaling
from focalcal.metrics import evaluate
from focalcal.metrics.binning import bin_index, equal_mass_bounds, sum_by_index
from focalcal.metrics.honest_intervals import HONEST_METRICS
from focalcal.metrics.samples import confidence_samples
from focalcal.metrics.smooth import Residuals, residual_grid
from focalcal.predictions import Predictions

BINS, SPREAD = 15, 3.0
# Drawing what a perfect model would show takes longest for smooth ECE: fewer data sets have to do.
SMOOTH_SETS = 200
# The paper's networks, if the shared predictions are there.
REAL_FILES = ("wideresnet-16-4-cifar-10", "densenet-bc-100-cifar-100")
Draw = Callable[[int, torch.Generator], Predictions]


@dataclass(frozen=True)
class Truth:
    """Values of a population.

    Attributes:
        values: By metric, but for MCE.
        gaps: (bins,) the size of the gap in each bin of equal width.
    """

    values: dict[str, float]
    gaps: Tensor

    def of(self, metric: str, occupied: Tensor) -> float:
        """Return the value that an interval has to cover, for a data set with samples in these bins."""
        return float(self.gaps[occupied].max()) if metric == "mce" else self.values[metric]


@dataclass(frozen=True)
class World:
    """A population: its name, its values, and how to draw a data set of n samples from it."""

    name: str
    truth: Truth
    draw: Draw
    sizes: tuple[int, ...]


def truth_of(said: Tensor, right: Tensor, class_gap: float) -> Truth:
    """Compute the values of a population.

    Args:
        said: (N,) confidence.
        right: (N,) probability that the answer is right.
        class_gap: Its classwise-ECE.
    """
    said, order = said.sort()
    right = right[order]
    gap, total = said - right, len(said)
    index = bin_index(said, BINS)
    count, width_gap = sum_by_index(index, BINS).double(), sum_by_index(index, BINS, gap)
    sizes = equal_mass_bounds(total, BINS).diff()
    mass_gap = sum_by_index(torch.arange(BINS).repeat_interleave(sizes), BINS, gap)
    residuals = Residuals(residual_grid(said, right), torch.tensor(float(total)), gap.abs().sum())
    # Ties have no order, so that a sum over some of them is of no interest.
    last_of_ties = torch.cat([said.diff() > 0, torch.tensor([True])])
    values = {
        "ece": float(width_gap.abs().sum()) / total,
        "ada_ece": float(mass_gap.abs().sum()) / total,
        "debiased_ece": math.sqrt(float((mass_gap.square() / sizes).sum()) / total),
        "ks_error": float(gap.cumsum(0)[last_of_ties].abs().max()) / total,
        "smooth_ece": float(residuals.solution[0]),
        "classwise_ece": class_gap,
    }
    return Truth(values, (width_gap.abs() / count.clamp(min=1)).where(count > 0, 0))


def simulated(name: str, classes: int, temperature: float, population: int, seed: int, sizes: tuple[int, ...]) -> World:
    """Make a world of normal logits."""
    generator = torch.Generator().manual_seed(seed)
    said, right, class_gap = [], [], torch.zeros(classes * BINS, dtype=torch.float64)
    for _ in range(max(1, population * 10 // classes // 100_000)):
        logits = SPREAD * torch.randn(100_000, classes, generator=generator, dtype=torch.float64)
        posterior, model = torch.softmax(logits, 1), torch.softmax(logits / temperature, 1)
        confidence, answer = model.max(1)
        said.append(confidence)
        right.append(posterior.gather(1, answer[:, None])[:, 0])
        place = bin_index(model, BINS) + torch.arange(classes) * BINS
        class_gap += sum_by_index(place.reshape(-1), classes * BINS, (model - posterior).reshape(-1))
    size = sum(map(len, said))

    def draw(n: int, generator: torch.Generator) -> Predictions:
        logits = SPREAD * torch.randn(n, classes, generator=generator, dtype=torch.float64)
        labels = torch.multinomial(torch.softmax(logits, 1), 1, generator=generator)[:, 0]
        return Predictions.from_logits(logits / temperature, labels)

    truth = truth_of(torch.cat(said), torch.cat(right), float(class_gap.abs().sum()) / size / classes)
    return World(name, truth, draw, sizes)


def rarely_wrong(name: str, confidence: float, accuracy: float) -> World:
    """Make a world in which every answer, one of two classes, has the same confidence."""
    gap = abs(confidence - accuracy)
    names = ("ece", "ada_ece", "debiased_ece", "ks_error", "classwise_ece")
    # At a single confidence smooth ECE is the gap as well.
    truth = Truth(dict.fromkeys((*names, "smooth_ece"), gap), torch.full((BINS,), gap, dtype=torch.float64))

    def draw(n: int, generator: torch.Generator) -> Predictions:
        answer = torch.randint(2, (n,), generator=generator)
        wrong = torch.rand(n, generator=generator) >= accuracy
        probs = torch.full((n, 2), 1 - confidence, dtype=torch.float64)
        probs[torch.arange(n), answer] = confidence
        return Predictions.from_probs(probs, torch.where(wrong, 1 - answer, answer))

    return World(name, truth, draw, (300, 2000))


def real(name: str, path: Path, *, scaled: bool) -> World:
    """Make a world of real predictions, as saved or after temperature scaling."""
    preds = Predictions.load(path)
    preds = TemperatureScaling().fit(preds).transform(preds) if scaled else preds
    probs = torch.softmax(preds.logits(), 1, dtype=torch.float64) if preds.kind == "logits" else preds.values.double()
    said, answer = probs.max(1)
    place = bin_index(probs, BINS) + torch.arange(preds.num_classes) * BINS
    gap = probs.clone()
    gap[torch.arange(len(gap)), preds.labels] -= 1
    class_gap = sum_by_index(place.reshape(-1), preds.num_classes * BINS, gap.reshape(-1)).abs().sum()
    classwise = float(class_gap) / len(gap) / preds.num_classes
    truth = truth_of(said, (answer == preds.labels).double(), classwise)

    def draw(n: int, generator: torch.Generator) -> Predictions:
        return preds.select(torch.randint(len(preds), (n,), generator=generator).tolist())

    return World(name, truth, draw, (1000, 5000))


def worlds(population: int, seed: int, few: bool = False) -> dict[str, Callable[[], World]]:
    """List all populations by name; each is made when it is called."""
    found: dict[str, Callable[[], World]] = {}

    def add(classes: int, temperature: float, sizes: tuple[int, ...]) -> None:
        name = f"{classes} classes, T = {temperature:g}"
        found[name] = partial(simulated, name, classes, temperature, population, seed, sizes)

    for temperature in () if few else (1.0, 0.97, 0.9, 0.6, 1.5):
        add(10, temperature, (500, 2000, 10000))
    for temperature in () if few else (1.0, 0.6):
        add(100, temperature, (1000, 5000))
    if few:
        add(3, 0.6, (100,))
    for accuracy in (0.99,) if few else (0.999, 0.99):
        name = f"99.9% sure, {accuracy:.1%} right"
        found[name] = partial(rarely_wrong, name, 0.999, accuracy)
    folder = os.environ.get("FOCALCAL_DATA")
    for name in REAL_FILES if folder and not few else ():
        path = Path(str(folder), "predictions", f"{name}.npz")
        found[name] = partial(real, name, path, scaled=False)
        found[f"{name}, scaled"] = partial(real, f"{name}, scaled", path, scaled=True)
    return found


def coverage(world: World, n: int, sets: int, level: float, seed: int) -> dict[str, tuple[float, float]]:
    """Count how often each metric's interval covers its value, and how wide it is on average."""
    generator = torch.Generator().manual_seed(seed + n)
    covered: dict[str, list[bool]] = {name: [] for name in HONEST_METRICS}
    widths: dict[str, list[float]] = {name: [] for name in HONEST_METRICS}
    for number in range(sets):
        preds = world.draw(n, generator)
        names = [name for name in HONEST_METRICS if name != "smooth_ece" or number < SMOOTH_SETS]
        found = evaluate(preds, metrics=names, method="honest", level=level, seed=seed + number)
        occupied = bin_index(confidence_samples(preds).confidence, BINS).unique()
        for name, (low, high) in found.intervals.items():
            # The error of a calibrated model is 0 but for rounding.
            covered[name].append(low - 1e-12 <= world.truth.of(name, occupied) <= high + 1e-12)
            widths[name].append(high - low)
    return {name: (float(np.mean(covered[name])), float(np.mean(widths[name]))) for name in covered}


def print_honest_coverage(
    level: float, seed: int, population: int, sets: int, rows: str = "", few: bool = False
) -> None:
    """Print one row per population and size: percent covered, and the mean width in points."""
    print(f"| population | n | data sets | {' | '.join(HONEST_METRICS)} |")
    print("|:--|--:|--:|" + "--:|" * len(HONEST_METRICS), flush=True)
    least = 1.0
    for make in (make for name, make in worlds(population, seed, few).items() if rows in name):
        world = make()
        for n in world.sizes:
            found = coverage(world, n, sets, level, seed)
            cells = " | ".join(f"{100 * share:.1f} ({100 * width:.1f})" for share, width in found.values())
            print(f"| {world.name} | {n:,} | {sets:,} | {cells} |", flush=True)
            least = min(least, *(share for share, _ in found.values()))
    print(f"\nLowest coverage of any cell: {least:.1%}.")
