"""Automatic calibration: cross-validates the calibrators that may be right and mixes them by their log-loss."""

import math
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple, get_args

import numpy as np
import torch
from scipy.special import logsumexp
from torch import Tensor, nn

from focalcal.base.markdown import markdown_table
from focalcal.calibrators.affine import warn_of_missing_classes
from focalcal.calibrators.base import CalibrationWarning, Calibrator, LogitCalibrator, NoInformationWarning
from focalcal.calibrators.binary import BetaCalibration, PlattScaling, QuadraticScaling
from focalcal.calibrators.calibrator_file import learned_number
from focalcal.calibrators.cross_validation import (
    Build,
    draw_folds,
    log_losses,
    mean_and_error,
    predict_held_out,
    without_weight_zero,
)
from focalcal.calibrators.ensemble import (
    Array,
    MixedMembers,
    fit_mixture_weights,
    label_log_probs,
    label_shares,
)
from focalcal.calibrators.focal_inverse import FocalTemperatureScaling
from focalcal.calibrators.identity import Identity
from focalcal.calibrators.structured import MOST_CLASSES_OF_A_MATRIX, StructuredScaling
from focalcal.calibrators.temperature_scaling import TemperatureScaling
from focalcal.calibrators.uniform_mixture import effective_samples, has_zeros
from focalcal.predictions import Predictions
from focalcal.temperature import fit_inverse_temperature

Combine = Literal["mix", "choose"]

# Members of a mixture with a smaller weight are left out, and the others take their share.
_SMALLEST_WEIGHT = 0.01
# Samples' worth of likelihood that every candidate has in advance.
_PSEUDO_COUNT = 0.1
_FEWEST_SAMPLES = 10
_ZEROS = "some probabilities are exactly 0, which leaves no room for a mistake"


class _Option(NamedTuple):
    """A calibrator that may be chosen; options are listed from the simplest to the richest."""

    name: str
    build: Build


class _UniformShare(TemperatureScaling):
    """No calibration but a share of 1/(n + 1) of the uniform distribution; saved as the temperature scaling it is."""

    def _learn(self, preds: Predictions) -> None:
        self.temperature_ = 1.0
        self.uniform_share_ = 1.0 / (effective_samples(preds.weights, len(preds)) + 1.0)


def options_for(classes: int, *, keep_argmax: bool, zeros: bool = False, masked: bool = False) -> list[_Option]:
    """List what is tried for this many classes, from the simplest to the richest.

    Args:
        classes: K.
        keep_argmax: Only what never changes the predicted class.
        zeros: Saved probabilities are exactly 0 somewhere: whatever is taken needs a share of the uniform distribution,
            because one mistake with probability 0 costs more than all else can gain, and few samples may show none.
        masked: One of two classes is masked somewhere (logit −inf), which leaves no score to regress on.
    """
    found = [_Option("identity", Identity)]
    if zeros:
        found.append(_Option("identity with a uniform share", lambda: _UniformShare(mix_uniform=True)))
    else:
        found.append(_Option("temperature", lambda: TemperatureScaling(mix_uniform=False)))
    found.append(_Option("temperature with a uniform share", lambda: TemperatureScaling(mix_uniform=True)))
    if not zeros:
        found.append(_Option("focal-temperature", FocalTemperatureScaling))
    if keep_argmax:
        return found
    found += [_make_structured("vector", strength) for strength in (4.0, 1.0, 0.25)]
    if classes == 2:
        if masked:
            return found
        return [*found, *(_Option(kind.method, kind) for kind in (PlattScaling, BetaCalibration, QuadraticScaling))]
    if classes <= MOST_CLASSES_OF_A_MATRIX:
        found += [_make_structured("matrix", strength) for strength in (4.0, 1.0, 0.25, 0.06)]
    return found


def _make_structured(kind: Literal["vector", "matrix"], strength: float) -> _Option:
    return _Option(f"structured-{kind}, strength {strength:g}", lambda: StructuredScaling(kind, strength=strength))


@dataclass(frozen=True)
class Candidate:
    """A calibrator that was tried.

    Attributes:
        name: Name of the calibrator, with its strength.
        log_loss: Mean log-loss of held-out samples, in nats; inf where a true class got probability 0.
        error: Standard error of ``log_loss``.
        weight: Share in the result; 0 where it was not taken.
        note: Why it could not be taken; empty where it could.
        seconds: Time for its cross-validation; not kept in files, which are the same for the same fit.
    """

    name: str
    log_loss: float
    error: float
    weight: float = 0.0
    note: str = ""
    seconds: float | None = field(default=None, compare=False)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> "Candidate":
        """Read what a file has: null is an infinite loss."""
        numbers = {
            name: math.inf if content[name] is None else learned_number(content, name) for name in ("log_loss", "error")
        }
        weight = learned_number(content, "weight", 0, 1)
        return cls(str(content["name"]), **numbers, weight=weight, note=str(content["note"]))


class AutoCalibration(LogitCalibrator):
    """Try several calibrators by cross-validation and mix them, or choose one, by log-loss on held-out samples.

    Tried are no calibration, temperature scaling (also with a share of the uniform distribution), focal temperature
    scaling, structured vector and matrix scaling of several strengths, and Platt, beta and quadratic calibration for
    two classes. On its own cross-validation the result is never worse than no calibration; where saved probabilities
    are exactly 0, than no calibration with a share of 1/(n + 1) of the uniform distribution.

    Args:
        combine: "mix" takes the mixture of probabilities with the greatest likelihood on held-out samples, in which
            each candidate starts with a tenth of a sample; "choose" takes the simplest candidate that is not worse than
            the best by more than one standard error of the difference.
        keep_argmax: Try only calibrators that never change the predicted class.
        folds: Number of folds.
        seed: Seed for the folds.

    Attributes:
        members_: The calibrators that were taken, each with its weight.
        candidates_: All that were tried, from the simplest to the richest.

    Examples:
        >>> from focalcal.predictions import Predictions
        >>> val = Predictions.from_logits([[4.0, 0.0], [0.0, 4.0]] * 50, [0, 1, 0, 0] * 25)
        >>> auto = AutoCalibration(combine="choose", keep_argmax=True).fit(val)
        >>> auto.describe()
        'temperature was chosen: held-out log-loss 0.564 ± 0.048, uncalibrated 1.018 ± 0.174'
    """

    method: ClassVar[str] = "auto"
    members_: tuple[tuple[float, Calibrator], ...]
    candidates_: tuple[Candidate, ...]

    def __init__(self, *, combine: Combine = "mix", keep_argmax: bool = False, folds: int = 5, seed: int = 0) -> None:
        self.combine = combine
        self.keep_argmax = keep_argmax
        self.folds = folds
        self.seed = seed
        self.keeps_argmax = keep_argmax

    def _check_parameters(self) -> None:
        if self.combine not in get_args(Combine):
            raise ValueError(f"combine must be 'mix' or 'choose', not {self.combine!r}.")
        if not isinstance(self.folds, int) or self.folds < 2:
            raise ValueError(f"folds must be a whole number of at least 2, not {self.folds!r}.")
        if not isinstance(self.keep_argmax, bool) or not isinstance(self.seed, int):
            raise ValueError("keep_argmax must be True or False, and seed a whole number.")

    def _learn(self, preds: Predictions) -> None:
        preds = without_weight_zero(preds)
        zeros = has_zeros(preds)
        masked = preds.kind == "logits" and bool(torch.isneginf(preds.values).any())
        options = options_for(preds.num_classes, keep_argmax=self.keep_argmax, zeros=zeros, masked=masked)
        folds = draw_folds(preds, self.folds, self.seed)
        few = len(preds) < _FEWEST_SAMPLES
        fallback = 1 if zeros else 0
        tried = [_try(option, preds, folds) for option in (options[: fallback + 1] if few else options)]
        if zeros:
            tried[0] = tried[0]._replace(note=_ZEROS)
        weights = self._weights(tried, label_shares(preds.labels, preds.weights))
        self.candidates_ = tuple(
            Candidate(one.name, *one.score, weight, one.note, one.seconds)
            for one, weight in zip(tried, weights, strict=True)
        )
        self.members_ = tuple(
            (weight, _fit(option, preds)) for option, weight in zip(options, weights, strict=False) if weight > 0
        )
        if few or all(one.note for one in tried[fallback + 1 :]):
            _warn_uncalibrated(len(preds), few=few, zeros=zeros)
        if few:
            return
        warn_of_missing_classes(preds, type(self).__name__, stacklevel=4)
        if fit_inverse_temperature(preds.logits(), preds.labels, preds.weights).bound == "upper":
            _warn_of_no_information()

    def _weights(self, tried: Sequence["_Tried"], shares: Array) -> list[float]:
        # The first that can be taken is what changes least.
        usable = [number for number, one in enumerate(tried) if not one.note] or [0]
        weights = np.zeros(len(tried))
        if len(usable) == 1:
            weights[usable] = 1.0
        else:
            log_probs = np.stack([tried[number].log_probs for number in usable], axis=1)
            weights[usable] = (_mixture if self.combine == "mix" else _simplest)(log_probs, shares)
            worse_than_nothing = _mean_loss(log_probs, weights[usable], shares) > -float(shares @ log_probs[:, 0])
            if worse_than_nothing:
                weights = np.eye(len(tried))[usable[0]]
        return [float(weight) for weight in weights]

    def _module(self) -> nn.Module:
        modules = [member._module() for _, member in self.members_]
        return modules[0] if len(modules) == 1 else MixedMembers([weight for weight, _ in self.members_], modules)

    @property
    def _why_not_linear(self) -> str:
        return "mixes several calibrators" if len(self.members_) > 1 else self.members_[0][1]._why_not_linear

    def _linear_map(self, classes: int) -> tuple[Tensor, Tensor] | None:
        return self.members_[0][1]._linear_map(classes) if len(self.members_) == 1 else None

    def _description(self) -> str:
        taken = sorted((one for one in self.candidates_ if one.weight > 0), key=lambda one: -one.weight)
        plain = self.candidates_[0]
        if len(taken) == 1:
            best = f"{taken[0].name} was chosen: held-out log-loss {_loss_text(taken[0])}"
            return best if taken[0] is plain else f"{best}, uncalibrated {_loss_text(plain)}"
        parts = ", ".join(f"{one.weight:.0%} {one.name}" for one in taken[:3])
        more = f" and {len(taken) - 3} more" if len(taken) > 3 else ""
        best_single = min(taken, key=lambda one: one.log_loss)
        return (
            f"a mixture of {parts}{more}, by held-out log-loss: {best_single.name} alone {_loss_text(best_single)}, "
            f"uncalibrated {_loss_text(plain)}"
        )

    def to_markdown(self) -> str:
        """Write the table of candidates."""
        self._check_ready()
        rows = [
            [
                one.name,
                f"{one.log_loss:.4f}",
                f"{one.error:.4f}",
                f"{one.weight:.2f}",
                "" if one.seconds is None else f"{one.seconds:.2f}",
                one.note,
            ]
            for one in self.candidates_
        ]
        return markdown_table(["candidate", "held-out log-loss", "± se", "weight", "seconds", "note"], rows)

    def _learned(self) -> dict[str, Any]:
        members = [
            {"weight": weight, "method": one.method, "parameters": one.get_params(), "learned": one._learned()}
            for weight, one in self.members_
        ]
        table = [{key: value for key, value in asdict(one).items() if key != "seconds"} for one in self.candidates_]
        return {"members": members, "candidates": table}

    def _restore(self, learned: Mapping[str, Any]) -> None:
        members = [(learned_number(one, "weight", 0, 1), self._restore_member(one)) for one in learned["members"]]
        if abs(sum(weight for weight, _ in members) - 1) > 1e-6:
            raise ValueError("the members' weights do not sum to 1")
        self.members_ = tuple(members)
        self.candidates_ = tuple(Candidate.from_dict(content) for content in learned["candidates"])
        if not any(one.weight > 0 for one in self.candidates_):
            raise ValueError("no candidate was taken")

    def _restore_member(self, content: Mapping[str, Any]) -> Calibrator:
        member = _MEMBERS[content["method"]](**content["parameters"])
        member._check_parameters()
        member.record_ = self.record_
        member._restore(content["learned"])
        return member


_MEMBERS: dict[str, type[Calibrator]] = {
    kind.method: kind
    for kind in (
        BetaCalibration,
        FocalTemperatureScaling,
        Identity,
        PlattScaling,
        QuadraticScaling,
        StructuredScaling,
        TemperatureScaling,
    )
}


class _Tried(NamedTuple):
    """A candidate's log-probabilities of the held-out labels, and why it cannot be taken."""

    name: str
    log_probs: Array
    score: tuple[float, float]
    note: str
    seconds: float


def _try(option: _Option, preds: Predictions, folds: Tensor) -> _Tried:
    start = time.perf_counter()
    held_out = predict_held_out(option.build, preds, folds)
    score = mean_and_error(log_losses(held_out.log_probs, preds.labels), preds.weights)
    note = "" if math.isfinite(score[0]) else "a true class got probability 0"
    if not held_out.bounded:
        note = "no finite optimum"
    log_probs = label_log_probs(held_out.log_probs, preds.labels)
    return _Tried(option.name, log_probs, score, note, time.perf_counter() - start)


def _mixture(log_probs: Array, shares: Array) -> Array:
    """Compute weights of greatest held-out likelihood, without the negligible ones."""
    # A tenth of a sample is as much more as the samples are fewer, counted by their weights.
    weights = fit_mixture_weights(log_probs, shares, _PSEUDO_COUNT * float(shares @ shares))
    weights = np.where(weights < _SMALLEST_WEIGHT, 0.0, weights)
    normalised: Array = weights / weights.sum()
    return normalised


def _simplest(log_probs: Array, shares: Array) -> Array:
    """Return all weight on the simplest candidate within one standard error of the best."""
    best = log_probs[:, int(np.argmax(shares @ log_probs))]
    for number in range(log_probs.shape[1]):
        excess = best - log_probs[:, number]
        mean = float(shares @ excess)
        if mean <= math.sqrt(float(shares**2 @ (excess - mean) ** 2)):
            chosen: Array = np.eye(log_probs.shape[1])[number]
            return chosen
    raise AssertionError("the best candidate is within any error of itself")


def _mean_loss(log_probs: Array, weights: Array, shares: Array) -> float:
    return -float(shares @ logsumexp(log_probs, axis=1, b=weights))


def _fit(option: _Option, preds: Predictions) -> Calibrator:
    """Fit on all samples; what is missing or has no optimum was seen in cross-validation."""
    calibrator = option.build()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        calibrator._learn(preds)
    return calibrator


def _warn_uncalibrated(samples: int, *, few: bool, zeros: bool) -> None:
    if few:
        reason = f"{samples} samples are too few to compare calibrators (at least {_FEWEST_SAMPLES} are needed)"
    else:
        reason = "no candidate has a finite optimum, because the label (nearly) always has the largest logit"
    done = "only mixes in a little of the uniform distribution" if zeros else "changes nothing"
    warnings.warn(f"AutoCalibration {done}: {reason}.", CalibrationWarning, stacklevel=4)


def _warn_of_no_information() -> None:
    warnings.warn(
        "The logits say nothing about the labels, or the opposite of what they should: no temperature is better than "
        "chance; check the labels and the validation data.",
        NoInformationWarning,
        stacklevel=4,
    )


def _loss_text(candidate: Candidate) -> str:
    return f"{candidate.log_loss:.3f} ± {candidate.error:.3f}"
