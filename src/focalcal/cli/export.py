"""``focalcal export``: a trained network with its calibrator as one ONNX file."""

from __future__ import annotations

import json as json_text
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from focalcal.base.files import check_destination
from focalcal.base.progress import note, spinner
from focalcal.cli.calibrate import fit_calibrator
from focalcal.cli.options import Json
from focalcal.cli.output import print_json, results

if TYPE_CHECKING:
    from torch import Tensor, nn

    from focalcal.calibrators import Calibrator
    from focalcal.data import DataSet
    from focalcal.data.data_types import Samples
    from focalcal.integrations.onnx import OnnxFile
    from focalcal.training import Run

# Rows of the run's own data that the file is compared on; the batch itself may have any size.
_ROWS = 16


def export(
    source: Annotated[
        Path, typer.Argument(metavar="RUN|CHECKPOINT", help="A run directory, or one of the files in its checkpoints/.")
    ],
    out: Annotated[Path, typer.Option(help="The file to write: model.onnx.")],
    calibrator: Annotated[
        Path | None, typer.Option(help="A calibrator that focalcal calibrate --save-calibrator wrote.")
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            help="Fit this on the run's validation predictions instead: temperature (the default), auto, identity, …",
            show_default=False,
        ),
    ] = None,
    pixels: Annotated[
        bool, typer.Option("--pixels", help="The file takes bytes 0 to 255 of images, and normalises them itself.")
    ] = False,
    float32: Annotated[
        bool, typer.Option("--float32", help="Compute in float32 everywhere, for devices without float64.")
    ] = False,
    json: Json = False,
) -> None:
    """Write the network of a run and its calibrator to one ONNX file: calibrated logits and probabilities.

    The batch may have any size. The file is compared with torch by onnxruntime on 16 samples of the run's own data, in
    several batch sizes, and kept if they agree. Needs focalcal[onnx].

    Examples:
      focalcal export runs/a --out model.onnx
      focalcal export runs/a --calibrator t.json --out model.onnx --float32
      focalcal export runs/a --method identity --pixels --out uncalibrated.onnx
    """
    if calibrator is not None and method is not None:
        raise ValueError("--calibrator brings its method with it; leave out --method.")
    check_destination(out, [source, *([] if calibrator is None else [calibrator])])
    from focalcal.integrations.onnx import export_onnx

    run, checkpoint = _open(source)
    chosen, said = _calibrator(run, calibrator, method, is_selected=checkpoint is None)
    data = run.data()
    network = run.network(data=data, checkpoint=checkpoint)
    example = _example(run, data)
    metadata = _metadata(run, data)
    if pixels:
        network, example = _from_pixels(run, data, network)
    with spinner("exporting"):
        written = export_onnx(network, chosen, example, out, float32=float32, metadata=metadata)
    for warning in said:
        note(f"warning: {warning}")
    if json:
        print_json({**_record(written, chosen), "metadata": metadata, "warnings": said})
    else:
        _print(written, chosen, metadata, pixels=pixels, is_fitted=calibrator is None)


def _open(source: Path) -> tuple[Run, Path | None]:
    from focalcal.training import RunDirectory, open_run

    if source.is_dir():
        return open_run(source), None
    if not source.is_file():
        raise ValueError(f"There is no run directory and no checkpoint {source}.")
    folder = source.resolve().parent.parent
    if source.suffix != ".safetensors" or not RunDirectory(folder).config.is_file():
        raise ValueError(
            f"{source} is not a checkpoint of a run: it must lie in the folder checkpoints/ of a run directory; export "
            "other networks in Python with focalcal.export_onnx."
        )
    return open_run(folder), source


def _calibrator(run: Run, saved: Path | None, method: str | None, *, is_selected: bool) -> tuple[Calibrator, list[str]]:
    """Load the saved calibrator, or fit one on the run's validation predictions; return warnings, too."""
    from focalcal.calibrators import build_calibrator, load_calibrator

    if saved is not None:
        return load_calibrator(saved), []
    chosen = build_calibrator(method or "temperature")
    if not chosen.needs_fit:
        return chosen, []
    if not is_selected:
        raise ValueError(
            "The run's validation predictions are those of its selected epoch, not of this checkpoint; give a "
            "--calibrator, or --method identity for none."
        )
    path = run.files.predictions("val")
    if not path.is_file():
        raise ValueError(f"{run.path} has no validation predictions to fit on; give a --calibrator.")
    return chosen, fit_calibrator(chosen, run.predictions("val"), allow_test=False)


def _example(run: Run, data: DataSet) -> Tensor:
    """Return some of the run's own inputs."""
    import torch

    samples = next(iter(data.evaluation.values()), data.train)
    batch = samples.batch(_first(samples), device=torch.device("cpu"), generator=None)
    if not isinstance(batch.inputs, torch.Tensor):
        raise ValueError(
            f"The network {run.recipe.model.name} of {run.path} takes {type(batch.inputs).__name__}, which ONNX does "
            "not have; only networks that take a tensor can be exported."
        )
    return batch.inputs


def _first(samples: Samples) -> Tensor:
    import torch

    return torch.arange(min(_ROWS, len(samples)))


def _metadata(run: Run, data: DataSet) -> dict[str, str]:
    """Collect what somebody who only has the file needs to know."""
    found = {"model": run.recipe.model.name, "data": data.name, "loss": run.recipe.loss}
    if data.class_names:
        found["class_names"] = json_text.dumps(list(data.class_names))
    normalisation = getattr(data.train, "normalisation", None)
    if normalisation is not None:
        found["pixel_mean"], found["pixel_std"] = (json_text.dumps(list(part)) for part in vars(normalisation).values())
    return found


def _from_pixels(run: Run, data: DataSet, network: nn.Module) -> tuple[nn.Module, Tensor]:
    """Put the data's normalisation before the network."""
    from torch import nn

    from focalcal.data.images import ImageSamples, NormalisedPixels

    samples = next(iter(data.evaluation.values()), data.train)
    if not isinstance(samples, ImageSamples):
        raise ValueError(f"--pixels is for images that are kept as bytes, which those of {run.path} are not.")
    return nn.Sequential(NormalisedPixels(samples.normalisation), network), samples.images.index_select(
        0, _first(samples)
    )


def _record(written: OnnxFile, calibrator: Calibrator) -> dict[str, Any]:
    return {
        "out": written.path.name,
        "bytes": written.path.stat().st_size,
        "inputs": {name: list(shape) for name, shape in written.inputs.items()},
        "outputs": list(written.outputs),
        "calibrator": calibrator.method,
        "description": calibrator.describe(),
        "rows_compared": written.rows,
        "largest_difference": written.difference,
        "largest_logit_difference": written.logit_difference,
    }


def _print(
    written: OnnxFile, calibrator: Calibrator, metadata: dict[str, str], *, pixels: bool, is_fitted: bool
) -> None:
    console = results()
    source = ", fitted on the run's validation predictions" if is_fitted and calibrator.needs_fit else ""
    what = "none" if calibrator.method == "identity" else f"{calibrator.method}{source}: {calibrator.describe()}"
    console.print(f"Calibrator: {what}.", soft_wrap=True)
    for name, shape in written.inputs.items():
        kind = "bytes 0 to 255" if pixels else "pixels normalised as (x / 255 − mean) / std"
        about = f": {kind}" if "pixel_mean" in metadata else ""
        console.print(f"Input {name} ({', '.join(map(str, shape))}){about}.", soft_wrap=True)
    if "pixel_mean" in metadata and not pixels:
        console.print(f"  mean {metadata['pixel_mean']}, std {metadata['pixel_std']}", soft_wrap=True)
    console.print(f"Outputs: {' and '.join(written.outputs)}.")
    console.print(
        f"onnxruntime agrees with torch on {written.rows} rows: probabilities to {written.difference:.1e}, logits to "
        f"{written.logit_difference:.1e}.",
        soft_wrap=True,
    )
    console.print(f"Wrote {written.path} ({written.path.stat().st_size / 1e3:,.0f} kB).", soft_wrap=True)
