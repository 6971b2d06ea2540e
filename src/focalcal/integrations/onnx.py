"""ONNX files of a network with its calibrator, checked with onnxruntime. Needs ``focalcal[onnx]``."""

import copy
import importlib.metadata
import logging
import os
import tempfile
import warnings
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from focalcal._version import __version__
from focalcal.base.files import check_destination
from focalcal.base.optional import import_optional
from focalcal.calibrators.base import Calibrator, compute_in_float32
from focalcal.predictions.inference import compute_outputs, evaluation_mode, find_device
from focalcal.predictions.rows import Kind, check_kind

Output = Literal["logits", "probs"]
Array = npt.NDArray[Any]

_OLDEST = {"onnx": "1.17", "onnxscript": "0.3", "onnxruntime": "1.20"}
_CHECKED = "uncalibrated"
# Largest difference of probabilities between onnxruntime and torch from the same logits, and relative one of logits.
_TOLERANCE_OF_PROBS = {False: 1e-5, True: 1e-4}
_TOLERANCE_OF_LOGITS = {torch.float64: 1e-6, torch.float32: 1e-3}
_TOLERANCE_OF_HALF_PRECISION = 0.05
# A file with more weights than this keeps them in a second file beside it, because a protocol buffer ends at 2 GB.
_MOST_BYTES = 1_800_000_000


@dataclass(frozen=True)
class OnnxFile:
    """A file that was written and checked.

    Attributes:
        path: The file.
        inputs: Shape by input, with a name for what may vary.
        outputs: Names of the outputs, in order.
        rows: Number of rows that were compared.
        difference: Largest difference of a probability between onnxruntime and the calibrator in torch.
        logit_difference: Largest difference of an uncalibrated logit between onnxruntime and the network in torch.
    """

    path: Path
    inputs: Mapping[str, tuple[int | str, ...]]
    outputs: tuple[str, ...]
    rows: int
    difference: float
    logit_difference: float


def export_onnx(
    model: nn.Module,
    calibrator: Calibrator | None,
    example: Any,
    path: str | os.PathLike[str],
    *,
    kind: Kind = "logits",
    outputs: Collection[Output] = ("logits", "probs"),
    dynamic_axes: Collection[int] = (),
    float32: bool = False,
    metadata: Mapping[str, str] | None = None,
) -> OnnxFile:
    """Write a network with its calibrator to one ONNX file, whose batch may have any size.

    The file appears when onnxruntime has read it and gives the same logits and calibrated probabilities as torch on the
    example, on its first row alone and on the example twice; otherwise none is left.

    Args:
        model: A network, as :func:`focalcal.predict` takes it; exported in evaluation mode.
        calibrator: A fitted calibrator of any kind; None for the network alone.
        example: A batch of inputs, as for :func:`focalcal.predict`: a tensor, a tuple of tensors, or a dictionary.
        path: The file, ``….onnx``. Weights beyond 1.8 GB go to a second file, ``….onnx.data``.
        kind: Kind of the network's outputs: "logits", or "probs" if it ends in a softmax or sigmoid.
        outputs: What the file gives: "logits" (calibrated), "probs" (calibrated), or both.
        dynamic_axes: Axes of the inputs that may vary besides the batch, such as 1 for the length of texts.
        float32: Compute in float32 everywhere, for devices without float64. Isotonic and histogram calibration,
            mixtures and the focal inverse otherwise compute in float64 inside.
        metadata: Text by key, kept in the file with the calibrator's description and focalcal's version.

    Raises:
        ImportError: A package is missing; the sentence names the extra.
        ValueError: The network cannot be exported, or onnxruntime gives something else.

    Examples:
        >>> import onnxruntime  # doctest: +SKIP
        >>> written = export_onnx(network, scaler, inputs[:8], "model.onnx")  # doctest: +SKIP
        >>> written.difference < 1e-6  # doctest: +SKIP
        True
    """
    target = Path(path)
    _check_arguments(model, target, kind, outputs)
    about = {**({} if calibrator is None else {"calibrator": calibrator.describe()}), **(metadata or {})}
    for package, version in _OLDEST.items():
        import_optional(package, extra="onnx", what="ONNX files", at_least=version)
    with evaluation_mode(model), torch.no_grad():
        inputs = _at_least_two_rows(_tensors(example, find_device(model), float32))
        _check_axes(inputs, dynamic_axes)
        exported = _Exported.of(model, calibrator, inputs, kind, float32)
        with _beside(target) as folder:
            written = _write(exported, inputs, folder / target.name, tuple(outputs), dynamic_axes, about)
            found = _check(folder / target.name, folder / f"checked-{target.name}", exported, inputs)
            for name in written:
                os.replace(folder / name, target.with_name(name))
    shapes = _input_shapes(inputs, dynamic_axes)
    return OnnxFile(target, shapes, tuple(name for name in get_args(Output) if name in outputs), *found)


def _check_arguments(model: object, target: Path, kind: str, outputs: Collection[str]) -> None:
    if not isinstance(model, nn.Module):
        raise TypeError(f"export_onnx needs a network, a torch.nn.Module, not {type(model).__name__}.")
    check_kind(kind)
    if target.suffix.lower() != ".onnx":
        raise ValueError(f"{target} should end in .onnx.")
    if isinstance(outputs, str) or not outputs or not set(outputs) <= set(get_args(Output)):
        raise ValueError(f"outputs must be ('logits', 'probs') or one of them, not {outputs!r}.")
    check_destination(target)


def _tensors(example: Any, device: torch.device, float32: bool) -> dict[str, Tensor]:
    """Return the tensors of a batch by the names that the file's inputs will have."""
    if isinstance(example, Tensor):
        found: dict[str, Any] = {"input": example}
    elif isinstance(example, Mapping):
        found = {str(name): value for name, value in example.items() if value is not None}
    elif isinstance(example, tuple | list):
        found = {f"input_{place}": value for place, value in enumerate(example)}
    else:
        found = {"input": torch.as_tensor(example)} if isinstance(example, np.ndarray) else {"": example}
    if not found or not all(isinstance(value, Tensor) and value.ndim > 0 for value in found.values()):
        raise TypeError("example must be a batch of inputs: a tensor, a tuple of tensors, or a dictionary of tensors.")
    sizes = {len(value) for value in found.values()}
    if len(sizes) > 1 or 0 in sizes:
        raise ValueError("All tensors of the example must have the same number of rows, at least one.")
    wide = {name: value.dtype == torch.float64 and float32 for name, value in found.items()}
    return {name: (value.float() if wide[name] else value).detach().to(device) for name, value in found.items()}


def _check_axes(inputs: Mapping[str, Tensor], axes: Collection[int]) -> None:
    most = max(value.ndim for value in inputs.values())
    for axis in axes:
        if isinstance(axis, bool) or not isinstance(axis, int) or not 0 < axis < most:
            raise ValueError(f"dynamic_axes must be axes from 1 to {most - 1} besides the batch's, not {axis!r}.")


def _at_least_two_rows(inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Repeat a single row: from a batch of one, the exporter would conclude that it always is one."""
    return {name: torch.cat([value, value]) if len(value) == 1 else value for name, value in inputs.items()}


class _Exported(nn.Module):
    """Network and calibrator in one, from a dictionary of inputs to calibrated logits, probabilities, and logits."""

    def __init__(
        self, model: nn.Module, calibration: nn.Module, exact: nn.Module, as_given: type, kind: Kind, single: bool
    ) -> None:
        super().__init__()
        self.model, self.calibration = model, calibration
        # In a tuple it is not a part of what is exported: the check compares with it.
        self.exact = (exact,)
        self.as_given, self.kind, self.single = as_given, kind, single

    @classmethod
    def of(
        cls, model: nn.Module, calibrator: Calibrator | None, inputs: Mapping[str, Tensor], kind: Kind, float32: bool
    ) -> "_Exported":
        """Join them, and run them once on the example."""
        as_given = Tensor if list(inputs) == ["input"] else list if "input_0" in inputs else dict
        if float32 and any(part.dtype == torch.float64 for part in model.parameters()):
            model = copy.deepcopy(model).float()
        exact = nn.Identity() if calibrator is None else calibrator.to_module()
        calibration = copy.deepcopy(exact)
        if float32:
            calibration = compute_in_float32(calibration)
        device = find_device(model)
        joined = cls(model, calibration.to(device), exact.to(device), as_given, kind, single=False)
        outputs = compute_outputs(model, joined.arrange(inputs))
        joined.single = outputs.ndim == 1 or outputs.shape[1] == 1
        _check_classes(calibrator, joined.logits(inputs))
        return joined.eval()

    def arrange(self, inputs: Mapping[str, Tensor]) -> Any:
        """Return the inputs as the network takes them."""
        if self.as_given is Tensor:
            return inputs["input"]
        return list(inputs.values()) if self.as_given is list else dict(inputs)

    def logits(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """Compute uncalibrated logits; one number for two classes becomes two columns."""
        values = compute_outputs(self.model, self.arrange(inputs))
        if self.single:
            column = values[:, None] if values.ndim == 1 else values
            other = torch.zeros_like(column) if self.kind == "logits" else 1 - column
            values = torch.cat([other, column], dim=1)
        return values if self.kind == "logits" else values.clamp_min(torch.finfo(torch.float32).tiny).log()

    def forward(self, inputs: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """Compute calibrated logits, calibrated probabilities, uncalibrated logits."""
        logits = self.logits(inputs)
        calibrated = self.calibration(logits)
        return calibrated, calibrated.softmax(1), logits


def _check_classes(calibrator: Calibrator | None, logits: Tensor) -> None:
    record = None if calibrator is None else calibrator.record_
    if record is not None and logits.shape[1] != record.classes:
        raise ValueError(
            f"The calibrator was fitted on {record.classes} classes, and the network gives outputs of shape "
            f"{tuple(logits.shape)}; the classes must be on axis 1."
        )
    if not bool(torch.isfinite(logits.amax(1)).all()):
        raise ValueError("The network gives NaN or infinite logits for the example; pass another one.")


@contextmanager
def _beside(target: Path) -> Iterator[Path]:
    """Make a folder in which files are tried out before they are moved to where they belong."""
    with tempfile.TemporaryDirectory(prefix=f".{target.name[:100]}.", dir=target.parent) as folder:
        yield Path(folder)


def _write(
    exported: _Exported,
    inputs: dict[str, Tensor],
    path: Path,
    outputs: tuple[str, ...],
    dynamic_axes: Collection[int],
    metadata: Mapping[str, str],
) -> list[str]:
    """Write the file, and one to check with the uncalibrated logits as another output; return the files' names."""
    program = _convert(exported, inputs, dynamic_axes)
    program.model.producer_name, program.model.producer_version = "focalcal", __version__
    program.model.metadata_props.update({str(key): str(value) for key, value in metadata.items()})
    size = sum(part.numel() * part.element_size() for part in (*exported.parameters(), *exported.buffers()))
    program.save(path.with_name(f"checked-{path.name}"), external_data=size > _MOST_BYTES)
    graph = program.model.graph
    for value in list(graph.outputs):
        if value.name not in outputs:
            graph.outputs.remove(value)
    program.save(path, external_data=size > _MOST_BYTES)
    return [name for name in (f"{path.name}.data", path.name) if path.with_name(name).exists()]


def _convert(exported: _Exported, inputs: dict[str, Tensor], dynamic_axes: Collection[int]) -> Any:
    from focalcal.integrations.onnx_operators import translations

    shapes = {name: _dynamic(value, dynamic_axes) for name, value in inputs.items()}
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    try:
        logger.setLevel(logging.ERROR)  # it tells of packages that nobody asked for
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.onnx.export(
                exported,
                (),
                kwargs={"inputs": inputs},  # a dictionary among the arguments would be taken apart
                dynamo=True,
                input_names=list(inputs),
                output_names=[*get_args(Output), _CHECKED],
                dynamic_shapes={"inputs": shapes},
                custom_translation_table=translations(),
                verbose=False,
            )
    except Exception as error:  # the exporter has many kinds, with texts of hundreds of lines
        if _lacks_a_part_of_onnxscript(error):
            found = importlib.metadata.version("onnxscript")
            raise ImportError(
                f"ONNX files need a newer onnxscript for torch {torch.__version__}, and {found} is installed: "
                "pip install --upgrade 'focalcal[onnx]'.",
                name="onnxscript",
            ) from error
        raise ValueError(f"The network cannot be exported to ONNX: {_reason(error)}.") from error
    finally:
        logger.setLevel(level)


def _dynamic(value: Tensor, axes: Collection[int]) -> dict[int, str]:
    return {0: "batch", **{axis: f"axis_{axis}" for axis in axes if 0 < axis < value.ndim}}


def _input_shapes(inputs: Mapping[str, Tensor], axes: Collection[int]) -> dict[str, tuple[int | str, ...]]:
    return {
        name: tuple(_dynamic(value, axes).get(axis, size) for axis, size in enumerate(value.shape))
        for name, value in inputs.items()
    }


def _reason(error: BaseException) -> str:
    """Return the first line of the innermost error that says something."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__).rstrip(".")


def _lacks_a_part_of_onnxscript(error: BaseException | None) -> bool:
    """Tell whether torch's exporter looked for a part of onnxscript that an older one does not have."""
    while error is not None:
        if isinstance(error, ImportError) and str(error.name).startswith("onnxscript."):
            return True
        error = error.__cause__ or error.__context__
    return False


def _check(path: Path, with_logits: Path, exported: _Exported, inputs: dict[str, Tensor]) -> tuple[int, float, float]:
    """Run both files on batches of several sizes; return rows, and differences of probabilities and of logits."""
    tried, final = _session(with_logits), _session(path)
    rows, difference, logit_difference = 0, 0.0, 0.0
    for batch in (inputs, _rows(inputs, slice(1)), {name: torch.cat([value, value]) for name, value in inputs.items()}):
        found = _run(tried, batch)
        expected = exported.logits(batch).cpu()
        logits = torch.from_numpy(found[_CHECKED])
        scale = max(1.0, float(expected.double()[expected.isfinite()].abs().max()))
        allowed = scale * _TOLERANCE_OF_LOGITS.get(expected.dtype, _TOLERANCE_OF_HALF_PRECISION)
        gap = _largest_gap(logits, expected)
        _accept(gap, allowed, "logits of the network")
        probs = exported.exact[0](logits.to(find_device(exported.model))).double().softmax(1).cpu()
        float32 = getattr(exported.calibration, "inner_type", torch.float64) == torch.float32
        off = _largest_gap(torch.from_numpy(found["probs"]), probs)
        _accept(off, _TOLERANCE_OF_PROBS[float32], "calibrated probabilities")
        for name, values in _run(final, batch).items():
            again = _largest_gap(torch.from_numpy(values), torch.from_numpy(found[name]))
            _accept(again, allowed, f"{name} of the two files that were tried")
        rows, difference, logit_difference = rows + len(logits), max(difference, off), max(logit_difference, gap)
    return rows, difference, logit_difference


def _session(path: Path) -> Any:
    runtime = import_optional("onnxruntime", extra="onnx", what="ONNX files")
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    try:
        return runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise ValueError(f"onnxruntime cannot read the file that was written: {_reason(error)}.") from error


def _run(session: Any, inputs: Mapping[str, Tensor]) -> dict[str, Array]:
    names = [output.name for output in session.get_outputs()]
    taken = {one.name for one in session.get_inputs()}
    given = {name: value.cpu().numpy() for name, value in inputs.items() if name in taken}
    try:
        return dict(zip(names, session.run(None, given), strict=True))
    except Exception as error:
        raise ValueError(f"onnxruntime cannot run the file that was written: {_reason(error)}.") from error


def _rows(inputs: Mapping[str, Tensor], rows: slice) -> dict[str, Tensor]:
    return {name: value[rows] for name, value in inputs.items()}


def _largest_gap(found: Tensor, expected: Tensor) -> float:
    """Return the largest difference; NaN where the shapes differ, or where one is NaN or infinite and the other not."""
    if found.shape != expected.shape:
        return float("nan")
    found, expected = found.double(), expected.double()
    return float(torch.where(found == expected, 0.0, (found - expected).abs()).max())


def _accept(gap: float, allowed: float, what: str) -> None:
    if not gap <= allowed:
        raise ValueError(
            f"The ONNX file was not kept: the {what} differ between onnxruntime and torch by {gap:.2g}, and "
            f"{allowed:.2g} is allowed; leave out float32, or report the network's operators."
        )
