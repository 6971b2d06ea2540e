"""Evaluation of networks token by token, streamed: the logits of a whole split are never held."""

from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from focalcal.base.chunks import IN_MEMORY, chunks
from focalcal.base.files import make_folder, null_for_nan
from focalcal.data.sentence_pairs import SentencePairs
from focalcal.metrics.streaming.token_calibration import evaluate_tokens, fit_token_temperature
from focalcal.predictions import Predictions
from focalcal.predictions.token_predictions import TokenPredictions
from focalcal.temperature import fit_inverse_temperature
from focalcal.training.batches import evaluation_batches, load_batch
from focalcal.training.devices import gather_rows
from focalcal.training.evaluating import Evaluator, evaluation_mode, summarize
from focalcal.training.run_directory import RunDirectory
from focalcal.training.state import RunningOutputs, statistics_from
from focalcal.training.stopping import Diverged

_OBJECTIVES: tuple[Literal["nll", "ece"], ...] = ("nll", "ece")


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
            after = {f"after_{name}": _values(tokens, t) for name, t in temperatures.items()}
            splits[split] = {"before": _values(tokens, 1.0), **after}
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


def _values(tokens: TokenPredictions, temperature: float) -> dict[str, float | None]:
    values: dict[str, float | None] = null_for_nan(evaluate_tokens(tokens, temperature=temperature).values)
    return values
