"""Diagnosis of a set of predictions, in memory or in a file, alone or with the validation set that goes with it."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import torch

from focalcal.base.files import distinct_names
from focalcal.base.measures import measure, name_event
from focalcal.diagnosis import pairs, single
from focalcal.diagnosis.findings import Finding, Patient
from focalcal.predictions import Predictions, PredictionsFile, concatenate, open_predictions
from focalcal.predictions.read_options import ReadOptions

Source = Predictions | PredictionsFile | str | os.PathLike[str]

# Outputs that are examined at most: 256 MB of float32, of which the checks make copies.
_MOST_VALUES = 2**26
_ORDER = {"problem": 0, "warning": 1, "info": 2}


@dataclass(frozen=True, repr=False)
class Diagnosis:
    """Facts and findings.

    Attributes:
        facts: Kind, shape, labels and origin of the predictions, by name.
        findings: Problems first, then warnings, then what is only worth knowing.
    """

    facts: Mapping[str, Any]
    findings: tuple[Finding, ...]

    @property
    def problems(self) -> tuple[Finding, ...]:
        """The findings that make numbers wrong."""
        return tuple(finding for finding in self.findings if finding.severity == "problem")

    def to_dict(self) -> dict[str, Any]:
        """Return facts and findings, for JSON."""
        findings = [finding.to_dict() for finding in self.findings]
        return {**self.facts, "findings": findings, "problems": len(self.problems)}

    def __repr__(self) -> str:
        shape = f"{self.facts['samples']:,} samples, {self.facts['classes']} classes, {self.facts['kind']}"
        return "\n".join([f"Diagnosis of {shape}", *(f"  {finding}" for finding in self.findings)])


def diagnose(data: Source, *, val: Source | None = None, bins: int = 15, **reading: Unpack[ReadOptions]) -> Diagnosis:
    """Look for what makes the metrics of predictions wrong or doubtful.

    Finds probabilities that are called logits, values that were rounded to float16, labels that are shifted, missing
    or no better than chance, samples that occur twice, a temperature without an optimum, too few samples for the bins;
    and with ``val``, validation data that overlaps the test data or has other classes.

    Args:
        data: Predictions, or a file of them. Of a very large file, the first samples are examined.
        val: The validation predictions that a calibrator is, or will be, fitted on.
        bins: Number of bins that the ECE will have.
        **reading: Options of `open_predictions`, for files. Labels and split are those of ``data``.

    Returns:
        Facts and findings, each finding with its severity, a sentence, and what to do.

    Raises:
        ValueError: A file cannot be read.

    Examples:
        >>> probs = torch.tensor([[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.3, 0.3, 0.4]]).repeat(20, 1)
        >>> found = diagnose(Predictions.from_logits(probs, [0, 1, 2] * 20))
        >>> found.problems[0].what
        'The logits lie between 0 and 1 and every row sums to 1: they are probabilities.'
        >>> found.problems[0].advice
        'Construct them with Predictions.from_probs.'
    """
    source = _open(data, reading)
    preds, is_part = _first_samples(source)
    findings: list[Finding] = []
    if is_part:
        findings.append(Finding("info", "part_of_file", f"Only the first {len(preds):,} samples were examined."))
    key = None if isinstance(source, Predictions) else str(reading.get("logits_key") or "logits")
    patient = Patient(preds, bins, key)
    for check in single.checks_for(preds.of):
        findings += check(patient)
    facts = _facts(source, patient)
    if val is not None:
        other = _open(val, {**reading, "labels": None, "split": None})
        names, (val_preds, _) = _names(source, other), _first_samples(other)
        for compare in pairs.CHECKS:
            findings += compare(preds, val_preds, names)
    return Diagnosis(facts, tuple(sorted(findings, key=lambda finding: _ORDER[finding.severity])))


def _open(data: Source, reading: ReadOptions) -> Predictions | PredictionsFile:
    if isinstance(data, Predictions | PredictionsFile):
        return data
    # An id that occurs twice is a finding here, not a reason to stop.
    options: ReadOptions = {**reading, "allow_duplicate_ids": True}
    file = open_predictions(data, **options)
    file.check_labels()
    return file


def _first_samples(source: Predictions | PredictionsFile) -> tuple[Predictions, bool]:
    """Read all samples of a file, or as many of the first as fit into memory easily; and whether there are more."""
    if isinstance(source, Predictions):
        return source, False
    parts: list[Predictions] = []
    values = 0
    for block in source.blocks():
        if parts and values + block.values.numel() > _MOST_VALUES:
            return concatenate(parts), True
        parts.append(block)
        values += block.values.numel()
    return concatenate(parts), False


def _names(test: Predictions | PredictionsFile, val: Predictions | PredictionsFile) -> tuple[str, str]:
    """Name two sets for sentences: by their files where both have one."""
    if isinstance(test, PredictionsFile) and isinstance(val, PredictionsFile):
        first, second = distinct_names([Path(test.path), Path(val.path)])
        return first, second
    return "test", "val"


def _facts(source: Predictions | PredictionsFile, patient: Patient) -> dict[str, Any]:
    """Collect what is not a finding, in the order in which it is shown."""
    preds, statistics = patient.preds, patient.statistics
    return {
        **({} if isinstance(source, Predictions) else _file_facts(source)),
        "kind": preds.kind,
        "of": preds.of,
        "measured": measure(preds.of, name_event(preds.of, preds.class_names)).sentence,
        "samples": len(preds),
        "classes": preds.num_classes,
        "dtype": str(preds.values.dtype).removeprefix("torch."),
        "split": preds.split,
        "class_names": None if preds.class_names is None else list(preds.class_names),
        "labels": "class probabilities" if preds.has_soft_labels else "classes",
        "samples_by_class": torch.bincount(preds.hard_labels, minlength=preds.num_classes).tolist(),
        "masked_classes": list(preds.masked_classes),
        "ids": preds.ids is not None,
        "weights": preds.weights is not None,
        "provenance": dict(preds.provenance),
        "accuracy": _mean(statistics.right, statistics.weight),
        "mean_confidence": _mean(statistics.confidence, statistics.weight),
    }


def _file_facts(file: PredictionsFile) -> dict[str, Any]:
    path = Path(file.path)
    return {
        "file": path.name,
        "format": path.suffix.lower().removeprefix("."),
        "bytes": os.path.getsize(path),
        "samples_in_file": file.num_samples,
    }


def _mean(values: torch.Tensor, weight: torch.Tensor | None) -> float:
    return float(values.double().mean() if weight is None else (values * weight).sum() / weight.sum())
