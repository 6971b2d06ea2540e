"""Thumbnails of a run's samples: made when they are asked for, which only a few are."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from focalcal.data.image_files import ImageFiles

# Small pictures are shown larger, so that a pixel can be seen; by a whole factor, so that it stays sharp.
_SMALLEST_SIDE = 64


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
