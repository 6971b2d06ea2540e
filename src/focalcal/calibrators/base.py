"""Base of all calibrators: fit on validation predictions, transform others, save, become a module."""

import inspect
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from focalcal.base.suggestions import did_you_mean
from focalcal.calibrators.calibrator_file import FORMAT, FORMAT_VERSION, write_json
from focalcal.calibrators.record import Described, FitRecord, Quality, quality
from focalcal.predictions import Predictions


class CalibrationWarning(UserWarning):
    """A fit has given an answer that should not be used without a look at the data."""


class NoOptimumWarning(CalibrationWarning):
    """A fit has no finite optimum (the label always has the largest logit) and stopped where it is too confident."""


class NoInformationWarning(CalibrationWarning):
    """The logits say nothing about the labels: the fit stopped where they hardly count, which is a safe answer."""


class Calibrator(ABC):
    """A map from predictions to calibrated predictions, learned from labelled validation predictions.

    As in scikit-learn: ``__init__`` only stores its arguments, :meth:`fit` checks them, learns attributes whose names
    end in ``_`` and returns the calibrator, and :meth:`transform` before :meth:`fit` raises ``NotFittedError``.

    Attributes:
        method: Name in the registry and in files.
        needs_fit: False where there is nothing to learn, so that transform may come first.
        keeps_argmax: True where the predicted class never changes.
        record_: What the calibrator was fitted on, and NLL and ECE there before and after; None before the fit.
    """

    method: ClassVar[str]
    needs_fit: ClassVar[bool] = True
    keeps_argmax: bool = False
    record_: FitRecord | None = None

    def fit(self, preds: Predictions, *, allow_test: bool = False) -> Self:
        """Learn from labelled predictions of data that the network was not trained on.

        Args:
            preds: Validation predictions; their weights count, and their labels may be soft.
            allow_test: Fit even on predictions whose split is "test", which makes every later figure on them too good.
        """
        if not isinstance(preds, Predictions):
            raise TypeError(f"fit needs Predictions, not {type(preds).__name__}: use Predictions.from_logits.")
        if (preds.split or "").strip().lower() == "test" and not allow_test:
            raise ValueError(
                f"These predictions have split {preds.split!r}; fit on validation predictions, or pass "
                "allow_test=True to fit on the test set anyway."
            )
        self.record_ = None
        self._check_parameters()
        self._learn(preds)
        before, after = self._quality(preds)
        self.record_ = FitRecord.of_fit(preds, before, after)
        return self

    def transform(self, preds: Predictions) -> Predictions:
        """Calibrate: the same samples, labels, ids, split and names, with new values."""
        self._check_ready()
        if not isinstance(preds, Predictions):
            raise TypeError(f"transform needs Predictions, not {type(preds).__name__}: use Predictions.from_logits.")
        self._check_fits(preds)
        return self._apply(preds)

    def fit_transform(self, preds: Predictions, *, allow_test: bool = False) -> Predictions:
        """Fit and transform the same predictions."""
        return self.fit(preds, allow_test=allow_test).transform(preds)

    def to_module(self) -> nn.Module:
        """Return a module from logits (N, K) or (N, K, d1, ...) to calibrated ones, to append to a network."""
        self._check_ready()
        return self._module()

    def linear_map(self, classes: int | None = None) -> tuple[Tensor, Tensor]:
        """Return the linear map W z + b that gives the calibrated logits, for folding it into a network's last layer.

        Args:
            classes: K, for a calibrator that was never fitted; otherwise that of the fit.

        Returns:
            W, (K, K), and b, (K,), float64; the probabilities are those of :meth:`transform`.

        Raises:
            ValueError: the calibrator is not a linear map of logits.
        """
        self._check_ready()
        size = classes if self.record_ is None else self.record_.classes
        if size is None:
            raise ValueError(f"This {type(self).__name__} was never fitted; say how many classes there are.")
        found = self._linear_map(size)
        if found is None:
            raise ValueError(f"{type(self).__name__} {self._why_not_linear} and cannot be folded into a linear layer.")
        return found

    def describe(self) -> str:
        """Say in words what was learned.

        Examples:
            >>> from focalcal.calibrators import TemperatureScaling
            >>> TemperatureScaling().fit(Predictions.from_logits([[4.0, 0.0]] * 4, [0, 0, 0, 1])).describe()
            'all logits are divided by T = 3.641'
        """
        self._check_ready()
        return self._description()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to a JSON file, read again by :func:`focalcal.load_calibrator`; the same fit gives the same bytes."""
        self._check_ready()
        write_json(
            {
                "format": FORMAT,
                "format_version": FORMAT_VERSION,
                "method": self.method,
                "parameters": self.get_params(),
                "learned": self._learned(),
                "fitted_on": None if self.record_ is None else self.record_.to_dict(),
            },
            path,
        )

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Return the calibrator that `save` wrote; KeyError, TypeError or ValueError if the content cannot be one."""
        calibrator = cls(**content["parameters"])
        calibrator._check_parameters()
        record = content["fitted_on"]
        if record is None and cls.needs_fit:
            raise ValueError("fitted_on is missing")
        calibrator.record_ = None if record is None else FitRecord.from_dict(record)
        calibrator._restore(content["learned"])
        return calibrator

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's arguments by name; ``deep`` is there because scikit-learn passes it."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self, **parameters: Any) -> Self:
        """Replace arguments of the constructor, by name, for scikit-learn's grid search; fit again afterwards."""
        known = self.get_params()
        for name in parameters:
            if name not in known:
                raise ValueError(f"{type(self).__name__} has no argument {name!r}{did_you_mean(name, known)}")
        type(self).__init__(self, **{**known, **parameters})
        self.record_ = None
        return self

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.get_params().items())})"

    def _check_ready(self) -> None:
        if self.needs_fit and self.record_ is None:
            from sklearn.exceptions import NotFittedError  # importing scikit-learn takes a second

            raise NotFittedError(f"This {type(self).__name__} is not fitted yet; call fit with validation predictions.")
        self._check_parameters()

    def _check_fits(self, described: Described) -> None:
        """Refuse predictions, or a description of them, of another network than the one that it was fitted on."""
        if self.record_ is not None:
            # What never changes the predicted class treats all classes alike.
            self.record_.check(described, self.method, by_class=not self.keeps_argmax)

    def _quality(self, preds: Predictions) -> tuple[Quality, Quality]:
        """Compute NLL and ECE of the fitting data before and after."""
        return quality(preds), quality(self._apply(preds))

    @property
    def _why_not_linear(self) -> str:
        return "is not a linear map of the logits"

    def _linear_map(self, classes: int) -> tuple[Tensor, Tensor] | None:
        """Return W and b of this many classes, or None."""
        return None

    def _description(self) -> str:
        return self.method

    def _check_parameters(self) -> None:  # noqa: B027
        """Raise ValueError or TypeError if an argument of the constructor is wrong."""

    @abstractmethod
    def _learn(self, preds: Predictions) -> None:
        """Set the learned attributes."""

    @abstractmethod
    def _apply(self, preds: Predictions) -> Predictions: ...

    @abstractmethod
    def _module(self) -> nn.Module: ...

    @abstractmethod
    def _learned(self) -> dict[str, Any]:
        """Return the learned attributes for JSON: numbers, tensors, lists."""

    @abstractmethod
    def _restore(self, learned: Mapping[str, Any]) -> None:
        """Undo `_learned`, with checks."""


class LogitModule(nn.Module):
    """Logits calibrated along axis 1, whatever axes follow.

    Attributes:
        inner_type: Type that is computed in where many digits matter; see `compute_in_float32`.
    """

    inner_type: torch.dtype = torch.float64

    def calibrate(self, logits: Tensor) -> Tensor:
        """Calibrate logits (N, K)."""
        raise NotImplementedError

    def forward(self, logits: Tensor) -> Tensor:
        """Calibrate logits (N, K) or (N, K, d1, ...), in their own type; half precision is raised inside."""
        if logits.ndim <= 2:
            return self.calibrate(logits)
        rows = logits.movedim(1, -1)
        return self.calibrate(rows.reshape(-1, rows.shape[-1])).reshape(rows.shape).movedim(-1, 1)


def compute_in_float32(module: nn.Module) -> nn.Module:
    """Let a calibrator's module do without float64, which not every device has; fewer digits are right then."""
    for part in module.modules():
        if isinstance(part, LogitModule):
            part.inner_type = torch.float32
    return module.float()


def at_least_float32(logits: Tensor) -> Tensor:
    """Raise half precision to float32; float64 stays."""
    return logits if logits.dtype == torch.float64 else logits.float()


class LogitCalibrator(Calibrator):
    """A calibrator whose transform is its module, applied to logits (or to log p) block by block."""

    def _apply(self, preds: Predictions) -> Predictions:
        module, values, start = self._module(), torch.empty_like(preds.values), 0
        for block in preds.blocks():
            calibrated = values[start : start + len(block)]
            with torch.no_grad():
                calibrated.copy_(module(block.logits()))
            if self.keeps_argmax:
                keep_argmax(block.values, calibrated)
            start += len(block)
        return preds.with_values(values, "logits")


def keep_argmax(before: Tensor, after: Tensor) -> None:
    """Undo, in place, what rounding does to near ties: two neighbouring floats can become one, and the first one wins.

    Args:
        before: Values (N, K), whose first maximum is the prediction.
        after: Values (N, K) of a map that increases in exact arithmetic.
    """
    prediction = before.argmax(1)
    rows = (after.argmax(1) != prediction).nonzero().squeeze(1)
    largest = after[rows].amax(1)
    after[rows, prediction[rows]] = largest.nextafter(torch.full_like(largest, torch.inf))
