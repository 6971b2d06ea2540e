"""Out-of-distribution test sets for CIFAR: SVHN, and CIFAR-10 under Gaussian noise."""

import hashlib
import io
import tarfile
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from focalcal.base.chunks import chunks
from focalcal.base.files import regular_file
from focalcal.data.data_sets import CIFAR10_C, CIFAR10_C_ARCHIVE, CIFAR10_C_SEVERITIES, SVHN
from focalcal.data.encoded_images import read_parquet_images
from focalcal.data.image_set import Images

# The official file has a block of images for each severity, from 1 to 5.
_BLOCK = 10_000
_LARGEST_MEMBER = 160_000_000  # bytes; the pixels have 153,600,128
# Standard deviations of the noise, of pixels in [0, 1], by severity.
_NOISE = {1: 0.04, 2: 0.06, 3: 0.08, 4: 0.09, 5: 0.10}

Array = npt.NDArray[Any]


def read_ood(name: str, root: Path | None, cifar10_test: Images | None) -> tuple[Images, dict[str, Any]]:
    """Read the images of an out-of-distribution set, and facts for the records of a run.

    Args:
        name: Svhn, cifar10_c (severity 5) or cifar10_c_1 to cifar10_c_4.
        root: Folder to look in.
        cifar10_test: Test images of CIFAR-10, if they have been read already.
    """
    return _svhn(root) if name == "svhn" else _cifar10_c(CIFAR10_C_SEVERITIES[name], root, cifar10_test)


def _svhn(root: Path | None) -> tuple[Images, dict[str, Any]]:
    path = SVHN[0].obtain(root)
    images, digest = read_parquet_images(path, image_column="image", label_column="label", num_classes=10, size=32)
    facts: dict[str, Any] = {"files": {path.name: digest}, "generated": False}
    if len(images.labels) != 26_032:
        facts["note"] = f"Partial file: {len(images.labels):,} of 26,032 test images."
    return images, facts


def _cifar10_c(severity: int, root: Path | None, cifar10_test: Images | None) -> tuple[Images, dict[str, Any]]:
    found = _official(severity, root)
    facts: dict[str, Any] = {"severity": severity, "generated": found is None}
    if found is None:
        found = _generate(severity, root, cifar10_test)
        facts |= {"noise": _NOISE[severity], "seed": severity}
        facts["note"] = "Generated here from the test images of CIFAR-10, as no official CIFAR-10-C was found."
    facts["images_sha256"] = hashlib.sha256(found.images.numpy().tobytes()).hexdigest()
    return found, facts


def _generate(severity: int, root: Path | None, cifar10_test: Images | None) -> Images:
    """Add noise with the severity as its seed, so that the noise of one severity is not a multiple of another's."""
    if cifar10_test is None:
        from focalcal.data.cifar import read_cifar10_test

        cifar10_test = read_cifar10_test(root)
    images = add_gaussian_noise(cifar10_test.images, _NOISE[severity], seed=severity)
    return Images.from_rows(images, cifar10_test.labels, (severity - 1) * _BLOCK)


def add_gaussian_noise(images: Tensor, deviation: float, seed: int) -> Tensor:
    """Compute clip(x + N(0, deviation²), 0, 1) of pixels x in [0, 1], as bytes again, rounded down.

    Examples:
        >>> add_gaussian_noise(torch.full((1, 1, 1, 3), 100, dtype=torch.uint8), 0.0, seed=0)
        tensor([[[[100, 100, 100]]]], dtype=torch.uint8)
    """
    generator = torch.Generator().manual_seed(seed)
    noisy = torch.empty_like(images)
    for some in chunks(len(images), budget=1000):  # floats take four times the memory; other sizes draw other noise
        noise = torch.randn(images[some].shape, generator=generator) * (deviation * 255)
        noisy[some] = (images[some] + noise).clamp_(0, 255).to(torch.uint8)
    return noisy


def _official(severity: int, root: Path | None) -> Images | None:
    paths = [file.locate(root) for file in CIFAR10_C]
    archive = CIFAR10_C_ARCHIVE.locate(root)
    if paths[0] is not None and paths[1] is not None:
        return _block(severity, _array(paths[0], str(paths[0])), _array(paths[1], str(paths[1])), paths[0])
    if archive is None:
        return None
    try:
        with tarfile.open(regular_file(archive), "r:") as tar:
            arrays = [_member(archive, tar, Path(file.path).name) for file in CIFAR10_C]
    except (tarfile.TarError, OSError, EOFError) as error:
        raise ValueError(f"{archive} is not a whole tar file: download it again.") from error
    return _block(severity, arrays[0], arrays[1], archive)


def _member(path: Path, tar: tarfile.TarFile, name: str) -> Array:
    # Read where it lies: nothing of the archive is unpacked to disk.
    try:
        content = tar.extractfile(f"CIFAR-10-C/{name}")
    except KeyError:
        content = None
    if content is None:
        raise ValueError(f"{path} lacks CIFAR-10-C/{name}.")
    if tar.getmember(f"CIFAR-10-C/{name}").size > _LARGEST_MEMBER:
        raise ValueError(f"{path}: {name} has more than {_LARGEST_MEMBER:,} bytes: it is not the original.")
    return _array(io.BytesIO(content.read()), f"{path}, {name}")


def _array(source: Path | IO[bytes], place: str) -> Array:
    try:
        array = np.load(
            regular_file(source) if isinstance(source, Path) else source,
            mmap_mode="r" if isinstance(source, Path) else None,
            allow_pickle=False,
        )
    except Exception as error:  # numpy parses headers as Python: what damage makes it raise has no end
        raise ValueError(f"{place} is not a whole .npy file: download it again.") from error
    if not isinstance(array, np.ndarray):
        raise ValueError(f"{place} is an archive of arrays, not an .npy file.")
    return array


def _block(severity: int, pixels: Array, labels: Array, place: Path) -> Images:
    if pixels.shape != (5 * _BLOCK, 32, 32, 3) or pixels.dtype != np.uint8 or labels.shape != (5 * _BLOCK,):
        raise ValueError(
            f"{place}: gaussian_noise.npy must hold 50,000 × 32 × 32 × 3 bytes and labels.npy 50,000 labels, "
            f"not {pixels.shape} {pixels.dtype} and {labels.shape}."
        )
    first = (severity - 1) * _BLOCK
    chosen = torch.from_numpy(labels[first : first + _BLOCK].astype(np.int64))
    if int(chosen.min()) < 0 or int(chosen.max()) > 9:
        raise ValueError(f"{place}: labels.npy must hold labels from 0 to 9.")
    images = torch.from_numpy(np.array(pixels[first : first + _BLOCK])).permute(0, 3, 1, 2).contiguous()
    return Images.from_rows(images, chosen, first)
