"""Hugging Face's Trainer: losses, metrics and γ schedules.

Needs ``pip install 'focalcal[transformers]'``.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from focalcal.base.optional import import_optional
from focalcal.integrations.gamma_schedules import focal_losses, set_epoch, warn_of_unreached_phases
from focalcal.losses import build_loss
from focalcal.metrics.evaluating import evaluate
from focalcal.metrics.refinement import nll_split
from focalcal.metrics.streaming.fixed_sums import SCALED, FixedSums, batch_predictions, choose_metrics
from focalcal.predictions import Predictions

# Before 4.49, num_items_in_batch was wrong or missing in some steps.
import_optional("transformers", extra="transformers", what="The tools for Hugging Face's Trainer", at_least="4.49")
from transformers import TrainerCallback  # noqa: E402 (a sentence about the extra comes first)

__all__ = ["EvaluationMetrics", "GammaCallback", "LossFunction", "calibration_metrics", "loss_function"]

# Labels with this number are not counted in num_items_in_batch.
_NOT_COUNTED = -100


class LossFunction:
    """A loss as the Trainer's ``compute_loss_func`` wants it; made by `loss_function`.

    Attributes:
        loss: The loss itself, as it was given.
    """

    def __init__(self, loss: nn.Module, *, causal: bool = False, class_dim: int = -1) -> None:
        self.loss, self.causal, self.class_dim = loss, causal, class_dim
        self._binary = isinstance(loss, nn.BCEWithLogitsLoss)

    def __call__(self, outputs: Any, labels: Tensor | None, num_items_in_batch: Tensor | int | None = None) -> Tensor:
        """Compute the loss of a batch: its sum divided by ``num_items_in_batch``, or its mean without one.

        The Trainer adds up the gradients of several batches, and ``num_items_in_batch`` is the number of labels in all
        of them: a mean of each would be too large by their number.
        """
        if labels is None:
            raise ValueError("The batch has no labels; the loss needs a column named labels in the data set.")
        logits = outputs["logits"] if isinstance(outputs, Mapping) else outputs[0]
        if not self._binary:
            logits, labels = _align(logits, labels, self.causal, self.class_dim)
        elif labels.dtype != logits.dtype:
            labels = labels.to(logits.dtype)
        # A copy shares weights and γ with the loss, and leaves its reduction as it is.
        loss: Any = copy.copy(self.loss)
        loss.reduction = "mean" if num_items_in_batch is None else "sum"
        total: Tensor = loss(logits, labels)
        if num_items_in_batch is None:
            return total
        items = (
            num_items_in_batch.reshape(-1)[0].to(total.device)
            if torch.is_tensor(num_items_in_batch)
            else (num_items_in_batch)
        )
        # Of class probabilities the Trainer counts every number, K in each row.
        soft = not self._binary and labels.is_floating_point()
        return total * logits.shape[1] / items if soft else total / items


def loss_function(
    loss: str | nn.Module, *, causal: bool = False, class_dim: int = -1, epochs: int | None = None
) -> LossFunction:
    """Make a loss for the Trainer's ``compute_loss_func``.

    Args:
        loss: A name such as "flsd-53", or a loss: ``FocalLoss``, ``BrierLoss``, ``MMCELoss``, ``LabelSmoothingLoss``,
            any other subclass of ``nn.CrossEntropyLoss``; ``BinaryFocalLoss`` for several labels per sample. MMCE
            belongs to a batch: with gradient accumulation it is computed for each step of it. Class weights weigh the
            sum, which is divided by the number of labels and not by their weight.
        causal: Whether position i predicts the label of position i + 1, as in causal language models.
        class_dim: Dimension of the classes in the logits: the last, or 1 for images (N, K, H, W).
        epochs: Length of the run, for "flsc-…" by name.

    Examples:
        >>> f = loss_function("fl-2")
        >>> logits, labels = torch.zeros(2, 3, 5), torch.tensor([[0, 1, 2], [3, 4, -100]])
        >>> f({"logits": logits}, labels), f({"logits": logits}, labels, num_items_in_batch=10)
        (tensor(1.0300), tensor(0.5150))
    """
    if isinstance(loss, str):
        loss = build_loss(loss, epochs=epochs)
    binary = isinstance(loss, nn.BCEWithLogitsLoss)
    if not binary and not isinstance(loss, nn.CrossEntropyLoss):
        raise TypeError(
            f"The loss must be a name or a loss such as FocalLoss, got {type(loss).__name__}; of a compiled loss pass "
            "the one before torch.compile."
        )
    if binary and causal:
        raise ValueError("A causal language model predicts one of many tokens: use FocalLoss, not a binary loss.")
    if not binary and loss.ignore_index != _NOT_COUNTED:
        raise ValueError(
            f"The loss ignores {loss.ignore_index}, but the Trainer counts all labels other than {_NOT_COUNTED}: "
            f"use ignore_index={_NOT_COUNTED} and that label."
        )
    return LossFunction(loss, causal=causal, class_dim=_check_class_dim(class_dim, causal))


def _check_class_dim(class_dim: int, causal: bool) -> int:
    if class_dim not in (-1, 1):
        raise ValueError(f"class_dim must be -1 (the last) or 1, got {class_dim}.")
    if causal and class_dim != -1:
        raise ValueError("causal needs logits (N, positions, K): leave class_dim at -1.")
    return class_dim


def _align(logits: Tensor, labels: Tensor, causal: bool, class_dim: int) -> tuple[Tensor, Tensor]:
    """Return logits and labels with the classes in dimension 1, shifted against each other in a causal model."""
    if causal:
        if logits.dim() != 3:
            raise ValueError(f"causal needs logits (N, positions, K), got {tuple(logits.shape)}.")
        logits, labels = logits[:, :-1], labels[:, 1:]
    if class_dim == -1 and logits.dim() > 2:
        soft = labels.shape == logits.shape
        return logits.movedim(-1, 1), labels.movedim(-1, 1) if soft else labels
    return logits, labels


class GammaCallback(TrainerCallback):
    """Tells a γ schedule the epoch.

    Args:
        loss: What `loss_function` made, or the loss itself.

    Examples:
        >>> loss = loss_function("flsc-531", epochs=35)
        >>> callback = GammaCallback(loss)  # Trainer(…, compute_loss_func=loss, callbacks=[callback])
    """

    def __init__(self, loss: LossFunction | nn.Module) -> None:
        self._losses = focal_losses([loss.loss if isinstance(loss, LossFunction) else loss])
        if not self._losses:
            raise TypeError("Only focal losses have a γ: pass a FocalLoss, or what loss_function made of one.")

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Warn of a schedule that is longer than the run."""
        if args.max_steps <= 0:
            warn_of_unreached_phases(self._losses, args.num_train_epochs)

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Move the schedule to the epoch that begins, also after a resume in the middle of one."""
        set_epoch(self._losses, int(state.epoch or 0))


class EvaluationMetrics:
    """Metrics as the Trainer's ``compute_metrics`` wants them; made by `calibration_metrics`."""

    def __init__(
        self,
        metrics: Sequence[str] | None,
        *,
        logits: bool,
        bins: int,
        causal: bool,
        class_dim: int,
    ) -> None:
        self.metrics, self.logits, self.bins = metrics, logits, bins
        self.causal, self.class_dim = causal, class_dim
        self._sums: FixedSums | None = None

    def __call__(self, evaluated: Any, compute_result: bool | None = None) -> dict[str, float]:
        """Measure everything at once, or with ``batch_eval_metrics=True`` batch by batch.

        Args:
            evaluated: The Trainer's ``EvalPrediction``. Where the model has several outputs, logits come first.
            compute_result: None without ``batch_eval_metrics``; else whether this batch is the last.
        """
        preds = self._predictions(evaluated)
        names = choose_metrics(self.metrics, preds.num_classes, preds.of)
        if compute_result is None:
            return self._measure(preds, names)
        if self._sums is None:
            self._sums = FixedSums.for_metrics(names, preds.num_classes, self.bins)
        self._sums.add(preds)
        if not compute_result:
            return {}
        sums, self._sums = self._sums, None
        return sums.compute(names)

    def _predictions(self, evaluated: Any) -> Predictions:
        outputs, labels = evaluated.predictions, evaluated.label_ids
        outputs = outputs[0] if isinstance(outputs, tuple | list) else outputs
        if isinstance(labels, tuple | list):
            raise ValueError("The model has several labels per sample; measure one of them with focalcal.evaluate.")
        outputs, labels = (torch.as_tensor(each).detach().cpu() for each in (outputs, labels))
        outputs, labels = _align(outputs, labels, self.causal, self.class_dim)
        return batch_predictions(outputs, labels, logits=self.logits, ignore_index=_NOT_COUNTED)

    def _measure(self, preds: Predictions, names: Sequence[str]) -> dict[str, float]:
        plain = [name for name in names if name not in SCALED]
        found = dict(evaluate(preds, metrics=plain, bins=self.bins, intervals=False).values) if plain else {}
        if set(names) & set(SCALED):
            split = nll_split(preds)
            found |= {"scaled_nll": split.refinement, "temperature": split.temperature}
        return {name: found[name] for name in names}


def calibration_metrics(
    metrics: Sequence[str] | None = None,
    *,
    logits: bool = True,
    bins: int = 15,
    causal: bool = False,
    class_dim: int = -1,
) -> EvaluationMetrics:
    """Make metrics for the Trainer's ``compute_metrics``, with and without ``batch_eval_metrics=True``.

    Names get the Trainer's prefix: ``metric_for_best_model="eval_scaled_nll"`` (with ``greater_is_better=False``)
    chooses the checkpoint that is best after temperature scaling. Batch by batch the Trainer has gathered the outputs
    of all processes already, and memory does not grow with the data.

    Args:
        metrics: Names of metrics; None for all. ``scaled_nll`` is the NLL after temperature scaling, and
            ``temperature`` is that temperature.
        logits: Whether the model's outputs are logits; False for probabilities.
        bins: Number of bins of binned metrics.
        causal: Whether position i predicts the label of position i + 1.
        class_dim: Dimension of the classes in the outputs: the last, or 1 for images (N, K, H, W).

    Examples:
        >>> from transformers import EvalPrediction
        >>> measure = calibration_metrics(["error", "nll"])
        >>> measure(EvalPrediction(torch.zeros(2, 2).numpy(), torch.tensor([0, 1]).numpy()))
        {'error': 0.5, 'nll': 0.6931471805599453}
    """
    if not isinstance(logits, bool):
        raise TypeError(f"logits must be True (logits) or False (probabilities), got {logits!r}.")
    return EvaluationMetrics(
        metrics, logits=logits, bins=bins, causal=causal, class_dim=_check_class_dim(class_dim, causal)
    )
