"""The sentences at the top of a report: what is wrong, what repairs it, what to do next."""

from __future__ import annotations

from scipy.special import ndtri

from focalcal.report.examination import Examined
from focalcal.report.readings import written
from focalcal.report.temperature import Scaling
from focalcal.report.verdict import BALANCED, shows_miscalibration, tendency, verdict

# Of the ECE that was there, what may be left for a repair to count as most of it, or as some of it.
_MOST, _SOME = 0.5, 0.9
_FEW_SAMPLES = 1000


def headline(model: Examined) -> str:
    """A few words for the top of the page."""
    if shows_miscalibration(model.before) is False:
        return "No miscalibration shown"
    words = tendency(model.before)
    return "Right on average, and yet miscalibrated" if words in ("", BALANCED) else words


def sentences(model: Examined) -> list[str]:
    """The verdict, and what a temperature does about it."""
    first, *others = verdict(model.before)
    # What the headline has said need not be said again.
    first = first.removeprefix(f"{headline(model)}: ")
    return [
        f"{first[0].upper()}{first[1:]}",
        *others,
        *([_repair(model)] if model.after is not None else model.notes[:1]),
    ]


def fitted_on(scaling: Scaling) -> str:
    """Where the temperature comes from, in a few words."""
    if scaling.source == "val":
        return f"fitted on {scaling.fitted_samples:,} validation samples"
    parts = len(scaling.temperatures)
    share = {2: "half", 5: "fifth"}[parts]
    return f"cross-fitted: each {share} of these samples is scaled by a temperature fitted on the rest"


def _repair(model: Examined) -> str:
    after, scaling = model.after, model.scaling
    assert after is not None
    assert scaling is not None
    was, now = model.before.values["ece"], after.values["ece"]
    move = f"ECE {'falls' if now < was else 'rises'} from {written('ece', was)} to {written('ece', now)}"
    temperature = f"A temperature of T = {scaling.temperature:.3g}"
    how = f"({fitted_on(scaling)})"
    if not shows_miscalibration(model.before):
        worse = shows_miscalibration(after) and now > was
        return f"{temperature} {how} {'would make it worse' if worse else 'is not needed'}: {move}."
    done = "repairs most of it" if now < _MOST * was else "repairs some of it" if now < _SOME * was else "is no repair"
    left = "more than a perfect model would show at this sample size"
    if not shows_miscalibration(after):
        left = "within what a perfect model would show at this sample size"
    return f"{temperature} {how} {done}: {move}, which is {left}."


def next_steps(model: Examined) -> list[str]:
    """What to do, the most useful first."""
    steps = [*_about_repair(model), *_about_classes(model)]
    if model.before.n < _FEW_SAMPLES:
        floor = written("ece_floor", model.before.values["ece_floor"])
        steps.append(f"Evaluate on more samples: with {model.before.n:,}, chance alone makes an ECE of {floor}.")
    return steps


def _about_repair(model: Examined) -> list[str]:
    scaling, after = model.scaling, model.after
    if not shows_miscalibration(model.before):
        return ["Use the confidences as they are; more samples could show errors that are smaller than these."]
    if scaling is None or after is None:
        return ["Collect validation predictions that a temperature can be fitted on."]
    steps = []
    if after.values["ece"] < _SOME * model.before.values["ece"]:
        steps.append(f"Divide the logits by T = {scaling.temperature:.4g} before the softmax: accuracy stays the same.")
    if scaling.source == "cross":
        steps.append("Fit T on validation predictions before you use it: focalcal calibrate VAL TEST --out FILE.")
    if shows_miscalibration(after):
        steps.append(
            "One temperature is not enough: try --method vector, dirichlet or isotonic with focalcal calibrate, or "
            "train with a focal loss (flsd-53)."
        )
    return steps


def _about_classes(model: Examined) -> list[str]:
    """The class whose confidence is farthest off, where chance does not explain it and the whole is far less off."""
    classes, overall = model.classes, model.before.values["signed_gap"]
    spread = (classes.confidence * (1 - classes.confidence) / classes.count).sqrt()
    # As many tests as classes: the level is shared by all of them.
    needed = float(ndtri(1 - 0.05 / (2 * len(spread))))
    told = (classes.gap.abs() > needed * spread) & (classes.gap.abs() > max(0.05, 2 * abs(overall)))
    if not bool(told.any()):
        return []
    worst = int(classes.gap.abs().where(told, -1).argmax())
    gap, name = float(classes.gap[worst]), model.class_names[worst]
    way = "over" if gap > 0 else "under"
    return [f"Look at class {name!r}: {way}-confident by {abs(100 * gap):.0f} points, far more than the whole."]
