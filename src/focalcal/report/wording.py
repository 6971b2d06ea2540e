"""Sentences at the top of a report: what is wrong, what repairs it, what to do next."""

from __future__ import annotations

import numpy as np

from focalcal.metrics import Evaluation
from focalcal.report.readings import format_value, pluralise
from focalcal.report.reported_model import ReportedModel
from focalcal.report.scaling import FEWEST_SAMPLES, Scaling
from focalcal.report.verdict import is_balanced, is_undecided, shows_miscalibration, tendency, verdict

# Of the ECE that was there, what may be left for a repair to count as most of it, or as some of it.
_MOST, _SOME = 0.5, 0.9
_FEW_SAMPLES = 1000
_USE = "Use the confidences uncalibrated; more samples could show errors that are smaller than these."
_WAIT = "Do not rely on the confidences yet: these samples show neither that they are right nor that they are wrong."
_COLLECT = "Collect validation predictions that a temperature can be fitted on."


def headline(model: ReportedModel) -> str:
    """Write a few words for the top of the page."""
    words = tendency(model.before)
    if shows_miscalibration(model.before) is False:
        if model.impossible:
            return "Infinite loss: labels were given probability 0"
        return "Too few samples to tell" if is_undecided(model.before) else "No miscalibration detected"
    if is_undecided(model.before):
        return "Miscalibrated, in a direction that these samples do not show"
    return "Right on average, and yet miscalibrated" if not words or is_balanced(model.before) else words


def mood(model: ReportedModel) -> str:
    """Choose the colour of the verdict: "fine", "off", or "open" where the samples do not tell."""
    if shows_miscalibration(model.before) is not False or model.impossible:
        return "off"
    return "fine" if is_balanced(model.before) else "open"


def sentences(model: ReportedModel) -> list[str]:
    """Write the verdict, and what a temperature does about it."""
    first, *others = verdict(model.before, model.impossible)
    # What the headline has said need not be said again.
    first = first.removeprefix(f"{headline(model)}: ")
    return [
        f"{first[0].upper()}{first[1:]}",
        *others,
        *([_repair(model)] if model.after is not None else model.notes[:1]),
    ]


def how_fitted(scaling: Scaling) -> str:
    """Say in a few words by what, and on what, the temperature was fitted."""
    if scaling.source == "val":
        return f"by {scaling.criterion}, fitted on {pluralise(scaling.fitted_samples, 'validation sample')}"
    parts = len(scaling.temperatures)
    share = {2: "half", 5: "fifth"}[parts]
    how = f"each {share} of these samples is scaled by a temperature fitted on the rest"
    return f"by {scaling.criterion}, cross-fitted: {how}"


def _repair(model: ReportedModel) -> str:
    after, scaling = model.after, model.scaling
    assert after is not None
    assert scaling is not None
    was, now = model.before.values["ece"], after.values["ece"]
    move = f"ECE {'falls' if now < was else 'rises'} from {format_value('ece', was)} to {format_value('ece', now)}"
    temperature = f"A temperature of T = {scaling.temperature:.3g}"
    how = f"({how_fitted(scaling)})"
    if not shows_miscalibration(model.before):
        worse = shows_miscalibration(after) and now > was
        return f"{temperature} {how} {'would make it worse' if worse else 'is not needed'}: {move}."
    done = (
        "repairs most of it"
        if now < _MOST * was
        else "repairs some of it"
        if now < _SOME * was
        else "does not repair it"
    )
    return f"{temperature} {how} {done}: {move}. {_afterwards(after)}"


def _afterwards(after: Evaluation) -> str:
    test = after.calibration_test
    assert test is not None
    left = "it is still miscalibrated" if shows_miscalibration(after) else "no miscalibration detected any more"
    return f"Then a perfectly calibrated model would show {test.range_text}: {left} ({test.p_text})."


def next_steps(model: ReportedModel) -> list[str]:
    """Write what to do, the most useful first."""
    steps = [*_about_repair(model), *_about_classes(model)]
    if model.before.n < _FEW_SAMPLES:
        test = model.before.calibration_test
        # For a model that is always certain chance makes no ECE, which says nothing about how many samples it takes.
        why = f"{model.before.n:,} are few"
        if test is not None and test.expected[1] > 0:
            why = f"with {model.before.n:,}, chance alone makes an ECE of {test.range_text}"
        steps.append(f"Evaluate on more samples: {why}.")
    if model.has_soft_labels:
        steps.append(
            "Mind that the labels are soft: accuracy and ECE take the most probable class for the label, while NLL and "
            "the Brier score use all of the probabilities."
        )
    return steps


def _about_repair(model: ReportedModel) -> list[str]:
    scaling, after = model.scaling, model.after
    steps = ["Clip or smooth the probabilities: no label may have probability 0."] if model.impossible else []
    if not shows_miscalibration(model.before):
        return steps or [_USE if is_balanced(model.before) else _WAIT]
    if scaling is None or after is None:
        return [*steps, _no_temperature(model) if _could_be_fitted(model) else _COLLECT]
    if after.values["ece"] < _SOME * model.before.values["ece"]:
        temperature = f"T = {scaling.temperature:.4g} (by {scaling.criterion})"
        steps.append(f"Divide the logits by {temperature} before the softmax: accuracy stays the same.")
        if scaling.source == "cross":
            steps.append("Fit T on validation predictions before you use it: focalcal calibrate VAL TEST --out FILE.")
    if shows_miscalibration(after):
        steps.append(f"One temperature is not enough: {_other_methods(model)}, or train with a focal loss (flsd-53).")
    return steps or [f"One temperature hardly changes it: {_other_methods(model)}."]


def _other_methods(model: ReportedModel) -> str:
    """Name methods for such data: one number per sample has no classes to tell apart."""
    methods = "vector, dirichlet" if model.before.of == "top" else "platt, beta"
    return f"try --method {methods} or isotonic with focalcal calibrate"


def _no_temperature(model: ReportedModel) -> str:
    advice = _other_methods(model)
    return f"No temperature is best here: {advice}, on samples that are right and samples that are wrong."


def _could_be_fitted(model: ReportedModel) -> bool:
    """Return whether there were enough samples for a temperature, so that there is none for another reason."""
    return model.source.val is not None or model.before.n >= FEWEST_SAMPLES


def _about_classes(model: ReportedModel) -> list[str]:
    """Name the predicted class whose confidence is farthest off, where chance does not explain it."""
    classes, overall = model.classes.predicted, model.before.values["signed_gap"]
    sizes = np.nan_to_num(np.abs(classes.gap))
    told = classes.significant & (sizes > max(0.05, 2 * abs(overall)))
    if not told.any():
        return []
    worst = int(np.where(told, sizes, -1).argmax())
    gap, name = float(classes.gap[worst]), model.class_names[worst]
    low, high = (_points(float(end)) for end in (classes.low[worst], classes.high[worst]))
    way = "over" if gap > 0 else "under"
    return [
        f"Look at class {name!r}, where it is predicted: {way}-confident by {abs(100 * gap):.0f} points (confidence − "
        f"accuracy {low} to {high}), far more than the whole."
    ]


def _points(share: float) -> str:
    return f"{100 * share:.0f}".replace("-", "−")
