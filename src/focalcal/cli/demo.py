"""``focalcal demo``: the paper's losses on a bundled data set, in a minute."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from focalcal.cli.compare import PAPER_LOSSES, print_outcome, report_of_comparison, run_comparison
from focalcal.cli.output import results

_BEFORE = """\
Six small networks learn to read 8×8 digits, the same in everything but their loss. Each says how sure it is; the
question is whether it is right that often.
"""
_AFTER = """
How to read it: error is how often a network is wrong. ECE is how far its confidence is from its accuracy, on average:
0 is perfect. T is the temperature that repairs confidence on validation data: above 1 the network was over-confident,
below 1 it was under-confident. After → are the figures with that T. This is a small data set: an interval tells how far
another test set might move a figure, and ≈ marks what cannot be told from the best.

What to try next:
  every metric of one network, with intervals   focalcal evaluate {folder}/cross-entropy/seed-0
  repair its confidence                         focalcal calibrate {folder}/cross-entropy/seed-0
  the same with three seeds                     focalcal compare digits/mlp --seeds 3 --out runs/digits
  larger data sets and networks                 focalcal recipes
"""


def demo(
    out: Annotated[
        Path | None, typer.Option(help="Where the runs go; a new temporary folder if it is not given.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
) -> None:
    """Train the paper's losses on a bundled data set, and show in one table what they do to confidence.

    Takes less than a minute on two cores and needs no network.

    Examples:
      focalcal demo
      focalcal demo --out runs/demo
    """
    from focalcal.comparison import Plan
    from focalcal.comparison.plan import chosen_losses

    console = results()
    console.print(_BEFORE)
    folder = Path(tempfile.mkdtemp(prefix="focalcal-demo-")) if out is None else out
    plan = Plan("digits/mlp", (), chosen_losses(PAPER_LOSSES), (0,), folder)
    found = run_comparison(plan, jobs=None, bootstrap=1000, quiet=quiet)
    print_outcome(found)
    console.print(_AFTER.format(folder=folder), soft_wrap=True)
    console.print(report_of_comparison(plan, found, bootstrap=1000), soft_wrap=True)
