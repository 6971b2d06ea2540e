"""``focalcal demo``: the paper's losses on a bundled data set, in a minute."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from focalcal.cli.options import Quiet
from focalcal.cli.output import results
from focalcal.cli.sweep import print_sweep, report_of_sweep, run_sweep

_BEFORE = """\
Six small networks learn to read 8×8 digits, the same in everything but their loss. Each says how sure it is; the
question is whether it is right that often.
"""
_AFTER = """
How to read it: error is how often a network is wrong. ECE is how far its confidence is from its accuracy, on average:
0 is perfect. T is the temperature that repairs confidence on validation data (the one with the lowest validation ECE,
as in the paper): above 1 the network was over-confident, below 1 it was under-confident. After → are the figures with
that T. This is a small data set: a confidence interval tells how far another test set might move a figure, and ≈ marks
what is statistically indistinguishable from the best.

What to try next:
  every metric of one network, with intervals   focalcal evaluate {folder}/cross-entropy/seed-0
  repair its confidence                         focalcal calibrate {folder}/cross-entropy/seed-0
  two networks compared                         focalcal compare {folder}/cross-entropy/seed-0 {folder}/flsd-53/seed-0
  the same sweep with three seeds               focalcal sweep digits/mlp --seeds 3 --out runs/digits
  larger data sets and networks                 focalcal recipes
"""


def demo(
    out: Annotated[
        Path | None, typer.Option(help="Where the runs go; a new temporary folder if it is not given.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Train the paper's losses on a bundled data set, and show in one table what they do to confidence.

    Takes less than a minute on two cores and needs no network.

    Examples:
      focalcal demo
      focalcal demo --out runs/demo
    """
    console = results()
    console.print(_BEFORE)
    folder = Path(tempfile.mkdtemp(prefix="focalcal-demo-")) if out is None else out
    result = run_sweep("digits/mlp", folder, quiet)
    print_sweep(result)
    console.print(_AFTER.format(folder=folder), soft_wrap=True)
    console.print(report_of_sweep(result, folder, bootstrap=1000), soft_wrap=True)
    if result.failed:
        raise typer.Exit(1)
