"""Metrics and calibration beside the peers: temperature fits, evaluation, bootstrap; two threads, medians, one run."""

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.nn import functional

import focalcal as fc
from benchmarks import peers
from benchmarks.timing import machine, medians

GRID = [i / 10 for i in range(1, 101)]


def over_confident(samples: int, classes: int) -> tuple[Tensor, Tensor]:
    """Make logits of an over-confident model: labels are drawn from softmax(logits / 2)."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(samples, classes, generator=generator) * 3
    labels = torch.multinomial(torch.softmax(logits / 2, 1), 1, generator=generator).squeeze(1)
    return logits, labels


def nll_at(logits: Tensor, labels: Tensor, temperature: float) -> float:
    return float(functional.cross_entropy(logits.double() / temperature, labels))


def temperature_fits(table: Table, quick: bool) -> None:
    for samples, classes in ((300, 10),) if quick else ((5_000, 10), (10_000, 200), (50_000, 1_000)):
        logits, labels = over_confident(samples, classes)
        val = fc.Predictions.from_logits(logits, labels)
        theirs = peers.installed(
            {
                "scikit-learn": lambda z=logits, y=labels: peers.scikit_learn_temperature(z, y),
                "probmetrics": lambda z=logits, y=labels: peers.probmetrics_temperature(z, y),
            }
        )
        fits = {"focalcal": lambda val=val: fc.TemperatureScaling().fit(val).temperature_, **theirs}
        seconds = medians(fits, seconds=4, quick=quick)
        reached = {name: nll_at(logits, labels, fit()) for name, fit in fits.items()}
        fastest = min(theirs, key=seconds.__getitem__)
        add_row(
            table,
            f"temperature by NLL, {samples:,}×{classes:,}",
            seconds["focalcal"],
            (seconds[fastest], fastest),
            f"NLL − theirs {reached['focalcal'] - min(reached.values()):+.1e}",
        )


def grid_fit(table: Table, quick: bool) -> None:
    samples, classes = (300, 5) if quick else (10_000, 100)
    logits, labels = over_confident(samples, classes)
    val = fc.Predictions.from_logits(logits, labels)
    fits = {
        "focalcal": lambda: fc.TemperatureScaling(objective="ece").fit(val).temperature_,
        "loop": lambda: peers.naive_grid(logits, labels, GRID),
    }
    seconds = medians(fits, seconds=6, quick=quick)
    title, found = f"temperature by ECE grid, {samples:,}×{classes}", f"T = {fits['focalcal']()} and {fits['loop']()}"
    add_row(table, title, seconds["focalcal"], (seconds["loop"], "loop of softmax + ECE"), found)


def evaluation(table: Table, quick: bool) -> None:
    samples, classes = (300, 10) if quick else (50_000, 1_000)
    logits, labels = over_confident(samples, classes)
    preds, probs = fc.Predictions.from_logits(logits, labels), torch.softmax(logits, 1)
    ours = {
        "focalcal": lambda: fc.evaluate(preds, intervals=False),
        "with intervals": lambda: fc.evaluate(preds),
        "softmax": lambda: torch.softmax(logits, 1),
    }
    # The second takes most of a minute: once is enough.
    ece = peers.installed({"torchmetrics": lambda: peers.torchmetrics_ece(probs, labels)})
    others = peers.installed({"torch-uncertainty": lambda: peers.torch_uncertainty_errors(probs, labels)})
    seconds = medians({**ours, **ece}, seconds=8, quick=quick) | medians(others, seconds=0, fewest=1, quick=quick)
    both = (seconds["torchmetrics"] + seconds["torch-uncertainty"]) if ece and others else None
    passes = f"{seconds['focalcal'] / seconds['softmax']:.1f} × one softmax pass ({_ms(seconds['softmax'])})"
    names = "torchmetrics ECE + torch-uncertainty AdaECE, classwise-ECE"
    add_row(table, f"evaluate, all metrics, {samples:,}×{classes:,}", seconds["focalcal"], (both, names), passes)
    passes = f"{seconds['with intervals'] / seconds['softmax']:.1f} × one softmax pass"
    title = f"evaluate, all metrics and intervals, {samples:,}×{classes:,}"
    table.add_row(title, _ms(seconds["with intervals"]), "no peer has them", "", passes)


def resampling(table: Table, quick: bool) -> None:
    samples, classes, times = (300, 5, 50) if quick else (10_000, 100, 1000)
    logits, labels = over_confident(samples, classes)
    preds, probs = fc.Predictions.from_logits(logits, labels), torch.softmax(logits, 1)
    names, peer = ["ece", "ada_ece", "classwise_ece"], "uncertainty-calibration"
    bootstrap = peers.installed({peer: lambda: peers.uncertainty_calibration_bootstrap(probs.numpy(), labels.numpy())})
    ours = {"focalcal": lambda: fc.bootstrap(preds, metrics=names, bootstrap=times)}
    seconds = medians({**ours, **bootstrap}, seconds=8, quick=quick)
    title = f"bootstrap, {times:,} × (ECE, AdaECE, classwise), {samples:,}×{classes}"
    add_row(table, title, seconds["focalcal"], (seconds.get(peer), f"{peer}, 100 × ECE"), "")


def add_row(table: Table, title: str, ours: float, peer: tuple[float | None, str], note: str) -> None:
    """Add a row; a peer without a time is not installed."""
    theirs, name = peer
    if theirs is None:
        table.add_row(title, _ms(ours), f"not installed: {name}", "", note)
    else:
        table.add_row(title, _ms(ours), f"{_ms(theirs)} ({name})", f"{theirs / ours:.1f}", note)


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:,.1f} ms"


def main(quick: bool = False) -> None:
    torch.set_num_threads(2)
    console = Console(width=160)
    console.print("Metrics and calibration, medians;", machine())
    for part in (grid_fit, resampling, temperature_fits, evaluation):
        table = Table("what", "focalcal", "peer", "times faster", "beside")
        part(table, quick)
        console.print(table)


if __name__ == "__main__":
    main()
