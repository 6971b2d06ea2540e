"""``focalcal demo``: the losses and the theory of γ, from the real code, in a few seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

_SAMPLES = {"right and sure, p = 0.95": 0.95, "right, barely, p = 0.55": 0.55, "wrong, p = 0.02": 0.02}
_GAMMAS = (0.0, 1.0, 2.0, 3.0, 5.0, 7.0)
_PROBABILITIES = (0.05, 0.1, 0.2, 0.25, 0.4, 0.5, 0.7, 0.9)


def demo() -> None:
    """Show the paper's losses on three predictions, and what γ does to their gradients.

    Example: focalcal demo
    """
    from rich.console import Console

    console = Console()
    console.print(_losses_table())
    console.print(
        "A sample that is already right costs a focal loss almost nothing, so it is not pushed towards ever higher "
        "confidence; one that is wrong costs about what it costs cross-entropy.\n"
    )
    console.print(_gamma_table())
    console.print(
        "g(p, γ) is how hard the focal loss pushes a sample compared with cross-entropy. It falls below 1 where γ "
        "exceeds γ*(p). FLSD-53 takes γ = 5 below p = 0.2 and γ = 3 from there on."
    )


def _losses_table() -> Table:
    import torch
    from rich.table import Table

    from focalcal.losses import LOSS_NAMES, build_loss

    table = Table("loss", title="Loss of one prediction among 10 classes, by the probability p of the true class")
    for sample in _SAMPLES:
        table.add_column(sample, justify="right")
    for name in LOSS_NAMES:
        loss, values = build_loss(name), []
        for p in _SAMPLES.values():
            probabilities = torch.full((1, 10), (1 - p) / 9, dtype=torch.float64)
            probabilities[0, 0] = p
            values.append(f"{loss(probabilities.log(), torch.tensor([0])).item():.4f}")
        table.add_row(name, *values)
    return table


def _gamma_table() -> Table:
    from rich.table import Table

    from focalcal.gamma import gamma_star, gradient_factor

    table = Table("p", title="g(p, γ), and the γ*(p) at which it is 1")
    for gamma in _GAMMAS:
        table.add_column(f"γ = {gamma:g}", justify="right")
    table.add_column("γ*(p)", justify="right")
    for p in _PROBABILITIES:
        row = [f"{gradient_factor(p, gamma):.3f}" for gamma in _GAMMAS]
        table.add_row(f"{p:g}", *row, f"{gamma_star(p):.2f}" if p < 0.5 else "—")
    return table
