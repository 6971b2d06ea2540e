"""Evaluation of a network during and after training: predictions for a split, and the metrics of an epoch and a run."""

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from focalcal.base.chunks import IN_MEMORY, chunks
from focalcal.base.files import make_folder, null_for_nan
from focalcal.calibrators import CalibrationWarning, TemperatureScaling
from focalcal.calibrators.temperature_scaling import Objective
from focalcal.data.data_types import DataSet, Samples
from focalcal.data.sentence_pairs import SentencePairs
from focalcal.metrics import evaluate
from focalcal.metrics.binning import equal_width_sums, mean_gap
from focalcal.metrics.ranking import RankedSamples
from focalcal.metrics.samples import SampleStatistics, sample_statistics
from focalcal.metrics.scores import mean_of
from focalcal.metrics.streaming.token_calibration import evaluate_tokens, fit_token_temperature
from focalcal.predictions import Predictions
from focalcal.predictions.token_predictions import TokenPredictions
from focalcal.recipes import Recipe
from focalcal.temperature import fit_inverse_temperature
from focalcal.training.batches import evaluation_batches, load_batch, prefetch
from focalcal.training.devices import broadcast_buffers, gather_rows, largest_over_processes
from focalcal.training.preconditions import check_labels, check_outputs
from focalcal.training.run_directory import RunDirectory
from focalcal.training.state import RunningOutputs, statistics_from
from focalcal.training.stopping import Diverged

_BINS = 15
_OBJECTIVES: tuple[Objective, ...] = ("nll", "ece")
_SMALLEST_BATCH = 256


class Evaluator:
    """Evaluates networks on the splits of a data set, one row of logits per sample.

    The loop knows nothing of what a sample is: it trains on rows of logits and their targets, and leaves everything
    else to the five public methods here. Samples of another kind, such as sequences that are measured token by token
    and are too large to be kept, need another class with the same methods; `build_evaluator` chooses.

    Args:
        fabric: The processes that share the work; all get the same results.
        data: The splits; ``train`` is the training set without augmentation.
        batch_size: Samples per forward pass.
        channels_last: Memory format of images.
    """

    def __init__(self, fabric: Fabric, data: DataSet, *, batch_size: int, channels_last: bool = False) -> None:
        self.fabric, self.data, self.batch_size, self.channels_last = fabric, data, batch_size, channels_last

    def check_outputs(self, logits: Tensor, targets: Tensor) -> None:
        """Refuse a network that does not fit the data; called with the outputs of the first step of an epoch."""
        check_outputs(logits, targets, self.data)

    def predict(self, model: nn.Module, split: str) -> Predictions:
        """Compute the network's logits for every sample of a split, in the split's order.

        The batches are the same on any number of processes, and each is computed by one of them: nothing is padded and
        nothing computed twice, so the result does not depend on how many there are.
        """
        samples = self._samples(split)
        logits = self._logits(model, samples, split)
        not_finite = (~logits.amax(dim=1).isfinite()).nonzero()  # −inf is the logit of a class that is masked
        if len(not_finite):
            raise Diverged.in_outputs(split, int(samples.ids[not_finite[0]]))
        return Predictions.from_logits(
            logits,
            samples.labels,
            ids=getattr(samples, "names", None) or samples.ids,
            split=split,
            class_names=self.data.class_names or None,
            ignore_index=None,
            masked_classes=self.data.facts.get("masked_classes", ()),
        )

    def measure(self, model: nn.Module, split: str) -> dict[str, float | None]:
        """Measure a network for the record of an epoch: `summarize`, the temperature of lowest NLL, and NLL with it."""
        return summarize_scaled(self.predict(model, split))

    def save(self, model: nn.Module, split: str, path: Path) -> None:
        """Write the predictions for a split to a file."""
        predictions = self.predict(model, split)
        if self.fabric.is_global_zero:
            make_folder(path.parent)
            predictions.save(path)

    def results(self, files: RunDirectory) -> dict[str, Any]:
        """Measure the saved predictions of validation and test set, before and after temperature scaling.

        There are no confidence intervals; ``focalcal evaluate`` computes them.
        """
        val = Predictions.load(files.predictions("val"))
        scalers = {objective: fit_temperature(objective, val) for objective in _OBJECTIVES}
        splits: dict[str, Any] = {}
        for split in ("val", "test"):
            if files.predictions(split).is_file():
                preds = Predictions.load(files.predictions(split))
                after = {f"after_{name}": _values(scaler.transform(preds)) for name, scaler in scalers.items()}
                splits[split] = {"before": _values(preds), **after}
        temperatures = {objective: scaler.temperature_ for objective, scaler in scalers.items()}
        return {"temperature": temperatures, "splits": splits}

    def _samples(self, split: str) -> Samples:
        samples: Samples = self.data.train if split == "train" else self.data.evaluation[split]
        for_evaluation = getattr(samples, "for_evaluation", None)
        return samples if for_evaluation is None else for_evaluation()

    def _logits(self, model: nn.Module, samples: Samples, split: str) -> Tensor:
        """Return (N, K) float32 logits on every process and on the CPU."""
        fabric = self.fabric
        broadcast_buffers(fabric, model)
        batches = evaluation_batches(samples, self.batch_size)
        outputs: list[Tensor] = []
        with evaluation_mode(model), torch.no_grad():  # in full precision, whatever the run trains in
            own_batches = batches[fabric.global_rank :: fabric.world_size]
            for positions, following in zip_longest(own_batches, own_batches[1:]):
                batch = load_batch(samples, positions, device=fabric.device, channels_last=self.channels_last)
                prefetch(samples, following)
                outputs.append(_check_rows(model(batch.inputs), positions).float())
        num_classes = largest_over_processes(fabric, outputs[0].shape[1] if outputs else 0)
        check_labels(split, samples, num_classes)
        own = torch.cat(outputs) if outputs else torch.empty(0, num_classes, device=fabric.device)
        in_order = torch.empty(len(samples), num_classes)
        for rank, rows in enumerate(gather_rows(fabric, own)):
            places = batches[rank :: fabric.world_size]
            if places:
                in_order[torch.cat(places)] = rows
        return in_order


def build_evaluator(fabric: Fabric, recipe: Recipe, data: DataSet) -> Evaluator:
    """Build what evaluates networks on a data set, with the settings of a recipe."""
    size = recipe.evaluation_batch_size or max(_SMALLEST_BATCH, recipe.batch_size)
    if isinstance(data.train, SentencePairs):
        return TokenEvaluator(fabric, data, batch_size=size)
    return Evaluator(fabric, data, batch_size=size, channels_last=recipe.channels_last)


def _check_rows(logits: Tensor, positions: Tensor) -> Tensor:
    if logits.ndim != 2 or len(logits) != len(positions):
        shape = tuple(logits.shape)
        raise ValueError(f"The network must give one row of logits for each of {len(positions)} samples, got {shape}.")
    return logits


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Evaluate, then train again."""
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)


def summarize(stats: SampleStatistics) -> dict[str, float | None]:
    """Compute error, NLL, calibration errors, and NLL, entropy and confidence of right and of wrong rows.

    A figure about no row at all (nothing is wrong, say) is null.
    """
    right, wrong = stats.correct, ~stats.correct
    figures = {
        "error": mean_of(wrong, stats),
        "nll": mean_of(stats.nll, stats),
        "ece": mean_gap(equal_width_sums(stats.confidence, stats.correct, _BINS, stats.weight)),
        "ada_ece": mean_gap(RankedSamples(stats).ranking(_BINS).equal_mass_bins()),
        "entropy": mean_of(stats.entropy, stats),
    }
    for name in ("nll", "entropy", "confidence"):
        values: Tensor = getattr(stats, name)
        figures |= {f"{name}_right": _mean(values[right]), f"{name}_wrong": _mean(values[wrong])}
    finite: dict[str, float | None] = null_for_nan(figures)
    return finite


def _mean(values: Tensor) -> float:
    return float(values.mean()) if len(values) else math.nan


def summarize_scaled(preds: Predictions) -> dict[str, float | None]:
    """Compute `summarize` of predictions, the temperature of lowest NLL, and NLL with it."""
    figures = summarize(sample_statistics(preds))
    try:
        fit = fit_inverse_temperature(preds.logits(), preds.labels, preds.weights)
    except (ArithmeticError, ValueError):  # no temperature fits, as where every output is the same
        return {**figures, "temperature": None, "scaled_nll": figures["nll"]}
    return {**figures, "temperature": fit.temperature, "scaled_nll": fit.nll}


def fit_temperature(objective: Objective, val: Predictions) -> TemperatureScaling:
    """Fit temperature scaling on validation predictions."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)  # T at its bound is there to be read in the result
        return TemperatureScaling(objective=objective).fit(val)


def _values(preds: Predictions) -> dict[str, float | None]:
    values: dict[str, float | None] = null_for_nan(evaluate(preds, bootstrap=0).values)
    return values


class TokenEvaluator(Evaluator):
    """Evaluates networks on sentence pairs: every token is predicted from the true ones before it (teacher forcing)."""

    def predict(self, model: nn.Module, split: str) -> Predictions:
        """Refuse: the logits of all tokens are too large to be kept."""
        raise ValueError("The logits of all tokens are too large to be kept: save() writes what gives them again.")

    def predict_tokens(self, model: nn.Module, split: str) -> TokenPredictions:
        """Compute what the last layer is given for every token of a split, in the order of the sentences."""
        samples = self._samples(split)
        assert isinstance(samples, SentencePairs)
        features = self._features(model, samples)
        if not bool(features.isfinite().all()):
            row = int((~features.isfinite().all(1)).nonzero()[0])
            raise Diverged.in_outputs(split, int(samples.sentences[row]))
        weight = model.get_parameter("classifier.weight").detach().float().cpu()
        train = self.data.train
        assert isinstance(train, SentencePairs)
        frequencies = torch.bincount(train.labels, minlength=len(weight))
        places = (samples.labels, samples.sentences, samples.places)
        return TokenPredictions(features, weight, *places, split, frequencies)

    def measure(self, model: nn.Module, split: str) -> dict[str, float | None]:
        """Measure a network for the record of an epoch: `summarize`, the temperature of lowest NLL, and NLL with it."""
        tokens = self.predict_tokens(model, split)
        outputs = RunningOutputs()
        for block in chunks(*tokens.shape, IN_MEMORY):
            outputs.add(tokens[block], tokens.labels[block])
        figures = summarize(statistics_from(outputs.tensors()))
        try:
            fit = fit_inverse_temperature(tokens, tokens.labels)
        except (ArithmeticError, ValueError):  # no temperature fits, as where every output is the same
            return {**figures, "temperature": None, "scaled_nll": figures["nll"]}
        return {**figures, "temperature": fit.temperature, "scaled_nll": fit.nll}

    def save(self, model: nn.Module, split: str, path: Path) -> None:
        """Write what gives the logits of a split's tokens again."""
        tokens = self.predict_tokens(model, split)
        if self.fabric.is_global_zero:
            make_folder(path.parent)
            tokens.save(path)

    def results(self, files: RunDirectory) -> dict[str, Any]:
        """Measure the saved tokens of validation and test sets, before and after temperature scaling."""
        val = TokenPredictions.load(files.predictions("val"))
        temperatures = {objective: fit_token_temperature(val, objective) for objective in _OBJECTIVES}
        splits: dict[str, Any] = {}
        for split in self.data.evaluation:
            tokens = val if split == "val" else TokenPredictions.load(files.predictions(split))
            after = {f"after_{name}": _token_values(tokens, t) for name, t in temperatures.items()}
            splits[split] = {"before": _token_values(tokens, 1.0), **after}
        return {"temperature": temperatures, "splits": splits}

    def _features(self, model: nn.Module, samples: SentencePairs) -> Tensor:
        """Compute (M, D) float32 on every process and on the CPU."""
        fabric, compute = self.fabric, getattr(model, "features", None)
        if compute is None:
            raise TypeError("A network for sentence pairs needs features() and a classifier, as fc.build_model's have.")
        batches = evaluation_batches(samples, self.batch_size)
        with evaluation_mode(model), torch.no_grad():  # in full precision, whatever the run trains in
            outputs = [
                compute(load_batch(samples, positions, device=fabric.device).inputs).float()
                for positions in batches[fabric.global_rank :: fabric.world_size]
            ]
        width = model.get_parameter("classifier.weight").shape[1]
        own = torch.cat(outputs) if outputs else torch.empty(0, width, device=fabric.device)
        in_order = torch.empty(len(samples.labels), width)
        for rank, rows in enumerate(gather_rows(fabric, own)):
            places = batches[rank :: fabric.world_size]
            if places:
                in_order[samples.output_rows(torch.cat(places))] = rows
        return in_order


def _token_values(tokens: TokenPredictions, temperature: float) -> dict[str, float | None]:
    values: dict[str, float | None] = null_for_nan(evaluate_tokens(tokens, temperature=temperature).values)
    return values
