"""What a temperature would do to the predictions, and whether there are enough of them for an ECE."""

from collections.abc import Iterator

import torch

from focalcal.cli.examination.finding import Examined, Finding
from focalcal.metrics.binning import equal_width_sums
from focalcal.metrics.calibration_error import mean_gap
from focalcal.metrics.floor import ece_floor_from_statistics
from focalcal.metrics.temperature_search import fit_inverse_temperature, logits_of

# The paper's grid of temperatures; networks that are trained and saved properly stay well inside.
_USUAL_TEMPERATURES = (0.1, 10.0)
# If chance alone gives an ECE of so much, the data can show nothing smaller.
_HIGH_FLOOR = 0.02


def temperature(examined: Examined) -> Iterator[Finding]:
    """The best T for these samples themselves, and whether there is one."""
    preds, statistics = examined.preds, examined.statistics
    if preds.kind == "logits" and bool(torch.isinf(statistics.nll).any()):
        return  # a masked label has no finite loss at any temperature, which is a finding of its own
    fit = fit_inverse_temperature(logits_of(preds), preds.labels, preds.weights)
    best = f"{fit.temperature:.3g}"
    if fit.bound == "lower":
        what = f"The best temperature is at its lower bound {best}: the label (nearly) always has the largest output."
        yield Finding("warning", "temperature_at_bound", what, "Fit calibrators on data with some wrong predictions.")
    elif fit.bound == "upper":
        what = f"The best temperature is at its upper bound {best}: the outputs do not speak for the labels."
        yield Finding("problem", "temperature_at_bound", what, "Check that outputs and labels are of the same samples.")
    elif not _USUAL_TEMPERATURES[0] <= fit.temperature <= _USUAL_TEMPERATURES[1]:
        what = f"The best temperature is {best}, far from 1: the outputs are scaled, or are no logits."
        yield Finding("warning", "unusual_temperature", what, "Check what the outputs are before you calibrate.")
    else:
        yield Finding("info", "temperature", f"The best temperature for these samples is {best}{_meaning(best)}.")


def too_few_samples(examined: Examined) -> Iterator[Finding]:
    """Whether chance alone explains the ECE."""
    statistics = examined.statistics
    sums = equal_width_sums(statistics.confidence, statistics.correct, examined.bins, statistics.weight)
    ece, floor = mean_gap(sums), ece_floor_from_statistics(statistics, examined.bins)
    chance = f"chance alone gives a perfectly calibrated model {100 * floor:.2f}%"
    if floor >= _HIGH_FLOOR:
        what = f"ECE in {examined.bins} bins is {100 * ece:.2f}%, of which {chance}"
        advice = "Take more samples or fewer bins, and read the debiased or smooth ECE with its interval."
        yield Finding("warning", "too_few_samples", f"{what}: too few samples.", advice)
    elif floor >= ece:
        yield Finding("info", "ece_within_floor", f"ECE is {100 * ece:.2f}%; {chance}: nothing is shown.")


def _meaning(best: str) -> str:
    temperature = float(best)
    return "" if temperature == 1 else f": they are {'over' if temperature > 1 else 'under'}-confident"
