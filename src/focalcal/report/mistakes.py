"""Wrong predictions that the model was most sure of, their pictures, and which classes it takes for which."""

from __future__ import annotations

import heapq
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from focalcal.metrics.samples import SampleStatistics

if TYPE_CHECKING:
    from torch import Tensor

    from focalcal.data.image_files import ImageFiles

# Small pictures are shown larger, so that a pixel can be seen; by a whole factor, so that it stays sharp.
_SMALLEST_SIDE = 64


@dataclass(frozen=True, order=True)
class Mistake:
    """One wrong prediction; the more confident is the larger, the earlier on ties."""

    confidence: float
    order: int
    id: str
    label: int
    prediction: int


@dataclass(frozen=True)
class Confusion:
    """All wrong predictions of one class for another: how many (or their weight), and their mean confidence."""

    label: int
    prediction: int
    count: float
    confidence: float


class MistakesSoFar:
    """Keeps the most confident mistakes of samples that come in blocks, and sums by pair of classes.

    Args:
        num_classes: K.
        most: Number of single mistakes to keep.
    """

    def __init__(self, num_classes: int, most: int = 24) -> None:
        self._num_classes, self._most = num_classes, most
        self._worst: list[Mistake] = []
        self._pairs = torch.zeros(0, dtype=torch.int64)
        self._sums = torch.zeros(2, 0, dtype=torch.float64)
        self._samples = 0

    def add(self, stats: SampleStatistics, ids: Sequence[str] | None) -> None:
        """Add samples; without ids they are called by their number."""
        weight = torch.ones_like(stats.confidence) if stats.weight is None else stats.weight
        wrong = (~stats.right & (weight > 0)).nonzero()[:, 0]
        for i in wrong[stats.confidence[wrong].argsort(descending=True, stable=True)[: self._most]].tolist():
            number = self._samples + i
            name = f"#{number}" if ids is None else ids[i]
            self._keep(
                Mistake(float(stats.confidence[i]), -number, name, int(stats.label[i]), int(stats.prediction[i]))
            )
        pairs = stats.label[wrong] * self._num_classes + stats.prediction[wrong]
        self._add_pairs(pairs, torch.stack([weight[wrong], weight[wrong] * stats.confidence[wrong]]))
        self._samples += len(stats)

    def _keep(self, mistake: Mistake) -> None:
        if len(self._worst) < self._most:
            heapq.heappush(self._worst, mistake)
        else:
            heapq.heappushpop(self._worst, mistake)

    def _add_pairs(self, pairs: torch.Tensor, terms: torch.Tensor) -> None:
        pairs, place = torch.unique(torch.cat([self._pairs, pairs]), return_inverse=True)
        together = torch.cat([self._sums, terms], dim=1)
        self._sums = torch.zeros(2, len(pairs), dtype=torch.float64).index_add_(1, place, together)
        self._pairs = pairs

    def worst(self) -> list[Mistake]:
        """Return the most confident mistakes, the worst first."""
        return sorted(self._worst, reverse=True)

    def confusions(self, most: int = 12) -> list[Confusion]:
        """Find the pairs of classes with the most confidence in wrong predictions, summed, the worst first."""
        order = self._sums[1].argsort(descending=True, stable=True)[:most]
        found = []
        for pair, count, confidence in zip(self._pairs[order].tolist(), *self._sums[:, order].tolist(), strict=True):
            label, prediction = divmod(pair, self._num_classes)
            found.append(Confusion(label, prediction, count, confidence / count))
        return found


class Thumbnails(Mapping[str, bytes]):
    """PNG images by the sample's id.

    Args:
        images: (N, C, H, W) uint8, or files.
        ids: N ids.
    """

    def __init__(self, images: Tensor | ImageFiles, ids: Sequence[int | str]) -> None:
        self._images = images
        self._places = {str(name): place for place, name in enumerate(ids)}

    def __getitem__(self, name: str) -> bytes:
        from PIL import Image

        pixels = self._images[self._places[name]].permute(1, 2, 0).squeeze(-1).numpy()
        picture = Image.fromarray(pixels)
        factor = max(1, _SMALLEST_SIDE // picture.width)
        file = io.BytesIO()
        picture.resize((factor * picture.width, factor * picture.height), Image.Resampling.NEAREST).save(file, "PNG")
        return file.getvalue()

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def run_thumbnails(sources: Sequence[Path]) -> Mapping[str, bytes]:
    """Find the test images of run directories that all have the same data set of images; none otherwise.

    A data set that is no longer there does not stop a report: it goes without pictures.
    """
    from focalcal.data import load_data
    from focalcal.recipes import load_recipe
    from focalcal.training import RunDirectory

    configs = [RunDirectory(path).config for path in sources]
    if not configs or not all(config.is_file() for config in configs):
        return {}
    try:
        settings = [load_recipe(config).data for config in configs]
        if any(one != settings[0] for one in settings) or not hasattr(settings[0], "augment"):
            return {}
        options = settings[0].options() | ({"ood": ()} if hasattr(settings[0], "ood") else {})
        test = load_data(settings[0].name, seed=options.pop("split_seed"), **options).evaluation["test"]
    except (ValueError, OSError):
        return {}
    images = getattr(test, "images", None)
    return {} if images is None else Thumbnails(images, getattr(test, "names", None) or test.ids.tolist())
