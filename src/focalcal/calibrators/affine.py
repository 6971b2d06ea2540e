"""Vector, matrix and Dirichlet calibration: a linear map of logits or log-probabilities instead of one temperature."""

import math
import warnings
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from focalcal.calibrators.base import CalibrationWarning, LogitCalibrator, LogitModule, at_least_float32
from focalcal.calibrators.calibrator_file import learned_tensor
from focalcal.calibrators.solver import Affine, Regression, Ridge
from focalcal.calibrators.temperature_scaling import warn_at_bound
from focalcal.calibrators.uniform_mixture import UniformMixture, effective_samples, fit_uniform_mixture, has_zeros
from focalcal.predictions import Predictions
from focalcal.temperature import fit_inverse_temperature


class AffineCalibrator(LogitCalibrator):
    """A calibrator v = A x + b, by NLL plus a ridge that draws towards temperature scaling.

    x is the logits, the log-probabilities or the centred logits. Where saved probabilities are exactly 0, x is the
    logarithm of temperature scaling mixed with the uniform distribution (see :class:`TemperatureScaling`).

    Attributes:
        of_log_probs: True where x is the log-softmax of the logits.
        centred: True where the mean of each row is taken from x.
        takes_masked: True where a class may be masked (logit −inf).
        weight_: A, (K, K) with row i for class i, or its diagonal (K,); float64.
        bias_: b, (K,) float64, mean 0.
        mixture_: T and share of the mixture with the uniform distribution; None without one.
    """

    of_log_probs: ClassVar[bool] = False
    centred: ClassVar[bool] = False
    takes_masked: ClassVar[bool] = False
    weight_: Tensor
    bias_: Tensor
    mixture_: UniformMixture | None = None

    @property
    @abstractmethod
    def _diagonal(self) -> bool: ...

    @abstractmethod
    def _ridge(self, classes: int, samples: float) -> Ridge: ...

    def _learn(self, preds: Predictions) -> None:
        self._refuse_masks(preds)
        inputs, scale = self._scaled_inputs(preds)
        ridge = self._ridge(preds.num_classes, effective_samples(preds.weights, len(preds)))
        self._set(self._regression(inputs, preds, ridge).minimise(type(self).__name__), scale)
        warn_of_missing_classes(preds, type(self).__name__)

    def _scaled_inputs(self, preds: Predictions) -> tuple[Tensor, float]:
        """Divide x by the best temperature; the second value is one over it, or 1 where x has it inside."""
        logits, self.mixture_ = preds.logits(), None
        if has_zeros(preds):
            self.mixture_ = fit_uniform_mixture(logits, preds.labels, preds.weights)
            return self._inputs(logits), 1.0
        fit = fit_inverse_temperature(logits, preds.labels, preds.weights)
        if fit.bound is not None:
            warn_at_bound(fit, stacklevel=6)
        return self._inputs(logits).double() * fit.inverse_temperature, fit.inverse_temperature

    def _regression(self, inputs: Tensor, preds: Predictions, ridge: Ridge) -> Regression:
        masked = inputs == -math.inf
        any_masked = bool(masked.any())
        return Regression.around_identity(
            inputs.masked_fill(masked, 0.0) if any_masked else inputs,
            preds.labels,
            preds.weights,
            ridge,
            diagonal=self._diagonal,
            masked=masked if any_masked else None,
        )

    def _set(self, fitted: Affine, scale: float) -> None:
        self.weight_, self.bias_ = scale * fitted.scale, fitted.bias

    def _inputs(self, logits: Tensor) -> Tensor:
        return affine_inputs(logits, self.mixture_, of_log_probs=self.of_log_probs, centred=self.centred)

    def _apply(self, preds: Predictions) -> Predictions:
        self._refuse_masks(preds)
        return super()._apply(preds)

    def _refuse_masks(self, preds: Predictions) -> None:
        if not self.takes_masked and preds.kind == "logits" and bool(torch.isneginf(preds.values).any()):
            raise ValueError(
                f"{type(self).__name__} mixes the logits of all classes and cannot take −inf (a masked class); use "
                "TemperatureScaling, VectorScaling or StructuredScaling."
            )

    def _module(self) -> nn.Module:
        affine = Affine(self.weight_, self.bias_)
        return AffineLogits(affine, self.mixture_, of_log_probs=self.of_log_probs, centred=self.centred)

    @property
    def _why_not_linear(self) -> str:
        if self.mixture_ is not None:
            return "mixes in the uniform distribution, because saved probabilities are exactly 0,"
        return "is linear in log-probabilities, not in logits,"

    def _linear_map(self, classes: int) -> tuple[Tensor, Tensor] | None:
        if self.mixture_ is not None or self.of_log_probs:
            return None
        matrix = self.weight_ if self.weight_.ndim == 2 else torch.diag(self.weight_)
        return (matrix - matrix.mean(1, keepdim=True) if self.centred else matrix), self.bias_

    def _description(self) -> str:
        numbers = self.weight_.numel() + self.bias_.numel()
        mixed = "" if self.mixture_ is None else f"; {self.mixture_.sentence()}"
        return f"{self.method} with {numbers:,} fitted numbers{mixed}"

    def _learned(self) -> dict[str, Any]:
        mixture = {} if self.mixture_ is None else self.mixture_.to_dict()
        return {"weight": self.weight_, "bias": self.bias_, **mixture}

    def _restore(self, learned: Mapping[str, Any]) -> None:
        classes = 0 if self.record_ is None else self.record_.classes
        self.weight_ = learned_tensor(learned, "weight", (classes,) if self._diagonal else (classes, classes))
        self.bias_ = learned_tensor(learned, "bias", (classes,))
        self.mixture_ = UniformMixture.from_dict(learned)


def affine_inputs(logits: Tensor, mixture: UniformMixture | None, *, of_log_probs: bool, centred: bool) -> Tensor:
    """Compute inputs of the affine map, (N, K); a masked class stays −inf."""
    inputs = logits if mixture is None else mixture.log_probs(logits)
    if of_log_probs and mixture is None:
        inputs = inputs.log_softmax(1)
    if not centred:
        return inputs
    possible = inputs > -math.inf
    mean = torch.where(possible, inputs, 0.0).sum(1, keepdim=True) / possible.sum(1, keepdim=True)
    return inputs - mean


class AffineLogits(LogitModule):
    """A x + b, where x is logits, log-probabilities or centred logits; a masked class (−inf) stays masked."""

    weight: Tensor
    bias: Tensor

    def __init__(self, affine: Affine, mixture: UniformMixture | None, *, of_log_probs: bool, centred: bool) -> None:
        super().__init__()
        self.mixture = mixture
        self.of_log_probs = of_log_probs
        self.centred = centred
        self.register_buffer("weight", affine.scale.clone())
        self.register_buffer("bias", affine.bias.clone())

    def calibrate(self, logits: Tensor) -> Tensor:
        """Calibrate logits (N, K)."""
        inputs = affine_inputs(
            at_least_float32(logits), self.mixture, of_log_probs=self.of_log_probs, centred=self.centred
        )
        masked = logits == -math.inf
        affine = Affine(self.weight.to(inputs.dtype), self.bias.to(inputs.dtype))
        calibrated = affine(torch.where(masked, 0.0, inputs))
        return torch.where(masked, -math.inf, calibrated).to(logits.dtype)


class PenalisedScaling(AffineCalibrator):
    """An affine calibrator with one penalty per kind of parameter: None is the one that grows as samples get fewer."""

    off_diagonal_penalty: float | None = None
    intercept_penalty: float | None
    diagonal_penalty: float | None

    def _check_parameters(self) -> None:
        for name, value in self.get_params().items():
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if value is not None and not (is_number and 0 <= value < math.inf):
                raise ValueError(f"{name} must be a number of at least 0, or None, not {value!r}.")

    def _ridge(self, classes: int, samples: float) -> Ridge:
        scaled = scaled_ridge(classes, samples)
        given = (self.off_diagonal_penalty, self.intercept_penalty, self.diagonal_penalty)
        default = (scaled.off_diagonal, scaled.intercept, scaled.diagonal)
        return Ridge(*(b if a is None else a for a, b in zip(given, default, strict=True)))


def scaled_ridge(classes: int, samples: float, strength: float = 1.0) -> Ridge:
    """Weigh offsets and factors by k/n and what mixes classes by k(k − 1)/n: few samples stay near one temperature.

    Examples:
        >>> scaled_ridge(10, 1000)
        Ridge(off_diagonal=0.09, intercept=0.01, diagonal=0.01)
    """
    own = strength * classes / samples
    return Ridge(own * (classes - 1), own, own)


class VectorScaling(PenalisedScaling):
    """A factor and an offset for each class: softmax(a ∘ z + b), fitted by NLL plus a penalty.

    The penalty is μ · Σ b_i² + ν · Σ (T a_i − 1)², T being the best single temperature: it draws towards temperature
    scaling, and gives the factor of a class that the validation data separate an optimum. 2K numbers are learned. The
    predicted class may change. A masked class (logit −inf) stays masked.

    Args:
        intercept_penalty: μ ≥ 0; None is K/n, n being the number of samples.
        diagonal_penalty: ν ≥ 0; None is K/n. With μ = ν = 0 it is vector scaling as published.

    Attributes:
        weight_: a, (K,) float64.
        bias_: b, (K,) float64, mean 0.

    Examples:
        >>> from focalcal.predictions import Predictions
        >>> val = Predictions.from_logits([[2.0, 0.0], [2.0, 0.0], [0.0, 2.0], [0.0, 2.0]], [0, 1, 1, 1])
        >>> VectorScaling().fit(val).bias_.sign()
        tensor([-1.,  1.], dtype=torch.float64)
    """

    method: ClassVar[str] = "vector"
    takes_masked: ClassVar[bool] = True
    _diagonal = True

    def __init__(self, *, intercept_penalty: float | None = None, diagonal_penalty: float | None = None) -> None:
        self.intercept_penalty = intercept_penalty
        self.diagonal_penalty = diagonal_penalty


class FullMatrixScaling(PenalisedScaling):
    """A full matrix with its three penalties."""

    _diagonal = False

    def __init__(
        self,
        *,
        off_diagonal_penalty: float | None = None,
        intercept_penalty: float | None = None,
        diagonal_penalty: float | None = None,
    ) -> None:
        self.off_diagonal_penalty = off_diagonal_penalty
        self.intercept_penalty = intercept_penalty
        self.diagonal_penalty = diagonal_penalty


class MatrixScaling(FullMatrixScaling):
    """A linear map of the logits: softmax(W z + b), fitted by NLL plus off-diagonal and intercept penalties.

    The penalty is λ · Σ_{i≠j} (T w_ij)² + μ · Σ b_i² (ODIR of Kull et al. 2019) + ν · Σ (T w_ii − 1)², T being the best
    single temperature: the scale of the logits does not matter, and a large penalty gives temperature scaling. K² + K
    numbers are learned. The predicted class may change.

    Args:
        off_diagonal_penalty: λ ≥ 0; None is K(K − 1)/n, n being the number of samples.
        intercept_penalty: μ ≥ 0; None is K/n.
        diagonal_penalty: ν ≥ 0; None is K/n.

    Attributes:
        weight_: W, (K, K) float64; row i makes the logit of class i.
        bias_: b, (K,) float64, mean 0.

    Examples:
        >>> from focalcal.predictions import Predictions
        >>> val = Predictions.from_logits([[2.0, 0.0], [2.0, 0.0], [0.0, 2.0], [0.0, 2.0]], [0, 1, 1, 1])
        >>> MatrixScaling().fit(val).weight_.shape
        torch.Size([2, 2])
    """

    method: ClassVar[str] = "matrix"


class DirichletCalibration(FullMatrixScaling):
    """A linear map of the log-probabilities: softmax(W log p + b), by NLL plus ODIR penalties (Kull et al. 2019).

    It is what is right if the probability vectors of each class follow a Dirichlet distribution. Unlike matrix scaling
    it depends on the probabilities alone: a constant added to all logits of a sample changes nothing. The penalties are
    those of :class:`MatrixScaling`. The predicted class may change.

    Args:
        off_diagonal_penalty: λ ≥ 0; None is K(K − 1)/n, n being the number of samples.
        intercept_penalty: μ ≥ 0; None is K/n.
        diagonal_penalty: ν ≥ 0; None is K/n.

    Attributes:
        weight_: W, (K, K) float64; row i makes the logit of class i.
        bias_: b, (K,) float64, mean 0.

    Examples:
        >>> from focalcal.predictions import Predictions
        >>> val = Predictions.from_probs([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.2, 0.8]], [0, 1, 1, 1])
        >>> DirichletCalibration().fit(val).transform(val).kind
        'logits'
    """

    method: ClassVar[str] = "dirichlet"
    of_log_probs: ClassVar[bool] = True


def warn_of_missing_classes(
    preds: Predictions,
    what: str,
    stacklevel: int = 5,
    *,
    does: str = "can only lower their probabilities, as far as its penalty lets it",
) -> None:
    """Warn the caller of `fit` that some classes have no validation sample."""
    count = preds.labels.sum(0) if preds.has_soft_labels else torch.bincount(preds.labels, minlength=preds.num_classes)
    impossible = torch.isneginf(preds.values).all(0)
    impossible[list(preds.masked_classes)] = True
    missing = ((count == 0) & ~impossible).nonzero().squeeze(1).tolist()
    if not missing:
        return
    names = ", ".join(str(number) for number in missing[:3]) + (", …" if len(missing) > 3 else "")
    warnings.warn(
        f"{len(missing)} of {preds.num_classes} classes have no validation sample ({names}): {what} {does}; "
        "add samples of these classes if they occur elsewhere.",
        CalibrationWarning,
        stacklevel=stacklevel,
    )
