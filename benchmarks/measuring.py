"""Measuring and repairing beside the peers: temperature fits, evaluation, bootstrap; two threads, medians, one run."""

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
    """Logits of an over-confident model: labels are drawn from softmax(logits / 2)."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(samples, classes, generator=generator) * 3
    labels = torch.multinomial(torch.softmax(logits / 2, 1), 1, generator=generator).squeeze(1)
    return logits, labels


def nll_at(logits: Tensor, labels: Tensor, temperature: float) -> float:
    return float(functional.cross_entropy(logits.double() / temperature, labels))


def temperature_fits(table: Table) -> None:
    for samples, classes in ((5_000, 10), (10_000, 200), (50_000, 1_000)):
        logits, labels = over_confident(samples, classes)
        val = fc.Predictions.from_logits(logits, labels)
        fits = {
            "focalcal": lambda val=val: fc.TemperatureScaling().fit(val).temperature_,
            "scikit-learn": lambda z=logits, y=labels: peers.scikit_learn_temperature(z, y),
            "probmetrics": lambda z=logits, y=labels: peers.probmetrics_temperature(z, y),
        }
        seconds = medians(fits, seconds=4)
        reached = {name: nll_at(logits, labels, fit()) for name, fit in fits.items()}
        fastest = min(("scikit-learn", "probmetrics"), key=seconds.__getitem__)
        table.add_row(
            f"temperature by NLL, {samples:,}×{classes:,}",
            _ms(seconds["focalcal"]),
            f"{_ms(seconds[fastest])} ({fastest})",
            f"{seconds[fastest] / seconds['focalcal']:.1f}",
            f"NLL − theirs {reached['focalcal'] - min(reached.values()):+.1e}",
        )


def grid_fit(table: Table) -> None:
    logits, labels = over_confident(10_000, 100)
    val = fc.Predictions.from_logits(logits, labels)
    fits = {
        "focalcal": lambda: fc.TemperatureScaling(objective="ece").fit(val).temperature_,
        "loop": lambda: peers.naive_grid(logits, labels, GRID),
    }
    seconds = medians(fits, seconds=6)
    table.add_row(
        "temperature by ECE grid, 10,000×100",
        _ms(seconds["focalcal"]),
        f"{_ms(seconds['loop'])} (loop of softmax + ECE)",
        f"{seconds['loop'] / seconds['focalcal']:.1f}",
        f"T = {fits['focalcal']()} and {fits['loop']()}",
    )


def evaluation(table: Table) -> None:
    logits, labels = over_confident(50_000, 1_000)
    preds, probs = fc.Predictions.from_logits(logits, labels), torch.softmax(logits, 1)
    seconds = medians(
        {
            "focalcal": lambda: fc.evaluate(preds, bootstrap=0),
            "softmax": lambda: torch.softmax(logits, 1),
            "ece": lambda: peers.torchmetrics_ece(probs, labels),
        },
        seconds=8,
    )
    others = medians({"both": lambda: peers.torch_uncertainty_errors(probs, labels)}, seconds=1, fewest=1)["both"]
    theirs = others + seconds["ece"]
    table.add_row(
        "evaluate, all metrics, 50,000×1,000",
        _ms(seconds["focalcal"]),
        f"{_ms(theirs)} (torchmetrics ECE + torch-uncertainty AdaECE, classwise-ECE)",
        f"{theirs / seconds['focalcal']:.0f}",
        f"{seconds['focalcal'] / seconds['softmax']:.1f} × one softmax pass ({_ms(seconds['softmax'])})",
    )


def resampling(table: Table) -> None:
    logits, labels = over_confident(10_000, 100)
    preds, probs = fc.Predictions.from_logits(logits, labels), torch.softmax(logits, 1)
    names = ["ece", "ada_ece", "classwise_ece"]
    seconds = medians(
        {
            "focalcal": lambda: fc.metrics.bootstrap(preds, names, samples=1000),
            "uncertainty-calibration": lambda: peers.uncertainty_calibration_bootstrap(probs.numpy(), labels.numpy()),
        },
        seconds=8,
    )
    table.add_row(
        "bootstrap, 1,000 × (ECE, AdaECE, classwise), 10,000×100",
        _ms(seconds["focalcal"]),
        f"{_ms(seconds['uncertainty-calibration'])} (uncertainty-calibration, 100 × ECE)",
        f"{seconds['uncertainty-calibration'] / seconds['focalcal']:.1f}",
        "",
    )


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:,.1f} ms"


def main() -> None:
    peers.require()
    torch.set_num_threads(2)
    console = Console(width=160)
    console.print("Measure and repair, medians;", machine())
    for part in (grid_fit, resampling, temperature_fits, evaluation):
        table = Table("what", "focalcal", "peer", "times faster", "beside")
        part(table)
        console.print(table)


if __name__ == "__main__":
    main()
