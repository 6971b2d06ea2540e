"""Calibrators by name, and from files."""

import inspect
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from focalcal.base.suggestions import nearest_name, shorten
from focalcal.calibrators.affine import DirichletCalibration, MatrixScaling, VectorScaling
from focalcal.calibrators.auto import AutoCalibration
from focalcal.calibrators.base import Calibrator
from focalcal.calibrators.binary import BetaCalibration, PlattScaling, QuadraticScaling
from focalcal.calibrators.calibrator_file import read_json
from focalcal.calibrators.ensemble import EnsembleTemperatureScaling
from focalcal.calibrators.focal_inverse import FocalInverse, FocalTemperatureScaling
from focalcal.calibrators.identity import Identity
from focalcal.calibrators.one_vs_rest import HistogramBinning, IsotonicCalibration
from focalcal.calibrators.structured import StructuredScaling
from focalcal.calibrators.temperature_scaling import TemperatureScaling


class _Entry(NamedTuple):
    kind: type[Calibrator]
    fixed: Mapping[str, Any]


_CLASSES: tuple[type[Calibrator], ...] = (
    AutoCalibration,
    BetaCalibration,
    DirichletCalibration,
    EnsembleTemperatureScaling,
    FocalInverse,
    FocalTemperatureScaling,
    HistogramBinning,
    Identity,
    IsotonicCalibration,
    MatrixScaling,
    PlattScaling,
    QuadraticScaling,
    StructuredScaling,
    TemperatureScaling,
    VectorScaling,
)
_ENTRIES = {
    **{kind.method: _Entry(kind, {}) for kind in _CLASSES if kind is not StructuredScaling},
    "structured-matrix": _Entry(StructuredScaling, {"kind": "matrix"}),
    "structured-vector": _Entry(StructuredScaling, {"kind": "vector"}),
    "temperature-ece": _Entry(TemperatureScaling, {"objective": "ece"}),
}
METHODS = tuple(sorted(_ENTRIES))


def build_calibrator(name: str, **options: Any) -> Calibrator:
    """Build an unfitted calibrator by its name.

    Args:
        name: One of ``METHODS``: "temperature", "temperature-ece" (the paper's grid), "ensemble-temperature",
            "structured-vector", "structured-matrix", "vector", "matrix", "dirichlet", "platt", "beta", "quadratic",
            "isotonic", "histogram", "identity", "focal-inverse", "focal-temperature", or "auto", which chooses.
        options: Arguments of its constructor.

    Raises:
        ValueError: there is no such calibrator.
        TypeError: the calibrator has no such option, or needs one that is missing.

    Examples:
        >>> build_calibrator("temperature-ece", bins=25)
        TemperatureScaling(objective='ece', grid=None, bins=25, mix_uniform=None)
        >>> build_calibrator("temprature")
        Traceback (most recent call last):
        ValueError: There is no calibrator 'temprature'; did you mean 'temperature'?
    """
    if name not in _ENTRIES:
        close = nearest_name(name, METHODS)
        hint = f"did you mean {close!r}?" if close else f"there are {', '.join(METHODS)}."
        raise ValueError(f"There is no calibrator {name!r}; {hint}")
    kind, fixed = _ENTRIES[name]
    allowed = {key: value for key, value in inspect.signature(kind).parameters.items() if key not in fixed}
    unknown = [key for key in options if key not in allowed]
    if unknown:
        takes = ", ".join(allowed) or "none"
        raise TypeError(f"The calibrator {name!r} has no option {unknown[0]!r}; its options are: {takes}.")
    missing = [key for key, value in allowed.items() if value.default is value.empty and key not in options]
    if missing:
        raise TypeError(f"The calibrator {name!r} needs the option {missing[0]!r}.")
    return kind(**fixed, **options)


def load_calibrator(path: str | os.PathLike[str]) -> Calibrator:
    """Read a calibrator that was saved with its ``save`` method.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: one sentence with the file's name, for a file that is damaged or not a calibrator.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     FocalInverse(gamma=3.0).save(f"{folder}/inverse.json")
        ...     load_calibrator(f"{folder}/inverse.json")
        FocalInverse(gamma=3.0)
    """
    content = read_json(path)
    kinds = {kind.method: kind for kind in _CLASSES}
    method = content.get("method")
    if not isinstance(method, str) or method not in kinds:
        raise ValueError(
            f"{Path(path)} holds a calibrator {shorten(repr(method))} that this focalcal does not have; upgrade it."
        )
    try:
        return kinds[method].from_dict(content)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error).rstrip(".")
        raise ValueError(f"{Path(path)} is a damaged calibrator ({shorten(reason)}); save it again.") from None
