"""Draws the pictures of the documentation from the code that they are about: ``make docs`` runs it."""

from pathlib import Path

from matplotlib import rcParams
from matplotlib.figure import Figure

from focalcal.plots import draw_gradient_factor, gradient_factor_curves

IMAGES = Path(__file__).parent / "images"


def main() -> None:
    """Writes each picture; the bytes depend on the code alone."""
    rcParams["svg.hashsalt"] = "focalcal"
    IMAGES.mkdir(exist_ok=True)
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    draw_gradient_factor(gradient_factor_curves(), figure.subplots())
    figure.savefig(IMAGES / "gradient-factor.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
