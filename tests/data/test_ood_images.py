import io
import tarfile

import numpy as np
import pytest
import torch

from focalcal.data import load_data, ood_images
from image_files import encoded, write_parquet


def add_svhn(folder):
    path = folder / "svhn/cropped_digits/test-00000-of-00001.parquet"
    write_parquet(path, [encoded(seed=row)[1] for row in range(9)], list(range(9)), image_column="image")


def official():
    """The layout of the official files in blocks of 10, with the severity as every pixel."""
    pixels = np.repeat(np.arange(1, 6, dtype=np.uint8), 10)[:, None, None, None]
    return np.broadcast_to(pixels, (50, 32, 32, 3)), np.tile(np.arange(10), 5).astype(np.uint8)


def test_svhn_is_normalised_like_the_set_that_was_learnt(small_cifar):
    add_svhn(small_cifar)
    data = load_data("cifar10", root=small_cifar, ood=["svhn"])
    assert data.evaluation["svhn"].normalisation == data.train.normalisation
    assert data.facts["ood"]["svhn"]["note"] == "Partial file: 9 of 26,032 test images."
    assert len(data.evaluation["svhn"]) == 9


def test_noise_is_made_where_the_official_files_are_not_here(small_cifar):
    data, again = (load_data("cifar10", root=small_cifar, ood=["cifar10_c"]) for _ in range(2))
    facts = data.facts["ood"]["cifar10_c"]
    assert facts["generated"] is True
    assert facts == again.facts["ood"]["cifar10_c"]
    clean, noisy = data.evaluation["test"].images, data.evaluation["cifar10_c"].images
    middle = (clean > 100) & (clean < 156)  # where the noise is not clipped
    difference = noisy.float()[middle] - clean.float()[middle]
    assert float(difference.std()) == pytest.approx(25.5, rel=0.03)
    assert float(difference.mean()) == pytest.approx(-0.5, abs=0.5)  # what is past a whole byte is cut off
    assert torch.equal(data.evaluation["cifar10_c"].labels, data.evaluation["test"].labels)


def test_the_official_arrays_are_used_where_they_are(small_cifar, monkeypatch):
    monkeypatch.setattr(ood_images, "_BLOCK", 10)
    pixels, labels = official()
    (small_cifar / "cifar10_c").mkdir()
    np.save(small_cifar / "cifar10_c/gaussian_noise.npy", pixels)
    np.save(small_cifar / "cifar10_c/labels.npy", labels)
    data = load_data("cifar10", root=small_cifar, ood=["cifar10_c"])
    found = data.evaluation["cifar10_c"]
    assert len(found) == 10
    assert found.images.unique().tolist() == [5]
    assert found.ids[[0, -1]].tolist() == [40, 49]
    assert data.facts["ood"]["cifar10_c"]["generated"] is False
    np.save(small_cifar / "cifar10_c/labels.npy", labels[:7])
    with pytest.raises(ValueError, match=r"labels\.npy 50,000 labels"):
        load_data("cifar10", root=small_cifar, ood=["cifar10_c"])
    header = b"{'descr': '<i8', 'fortran_order': False, 'shape': (50,"  # Python that does not parse
    for content in (b"no array", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header):
        (small_cifar / "cifar10_c/labels.npy").write_bytes(content)
        with pytest.raises(ValueError, match=r"labels\.npy is not a whole \.npy file"):
            load_data("cifar10", root=small_cifar, ood=["cifar10_c"])


def test_the_official_archive_is_read_without_unpacking_it(tmp_path, monkeypatch):
    monkeypatch.setattr(ood_images, "_BLOCK", 4)
    path = tmp_path / "cifar10_c/CIFAR-10-C.tar"
    path.parent.mkdir()
    arrays = {"gaussian_noise": np.zeros((20, 32, 32, 3), np.uint8), "labels": np.arange(20) % 10}
    with tarfile.open(path, "w") as archive:
        for name, array in arrays.items():
            file = io.BytesIO()
            np.save(file, array)
            member = tarfile.TarInfo(f"CIFAR-10-C/{name}.npy")
            member.size = file.tell()
            archive.addfile(member, io.BytesIO(file.getvalue()))
    images, facts = ood_images.read_ood("cifar10_c", tmp_path, None)
    assert images.labels.tolist() == [6, 7, 8, 9]
    assert facts["generated"] is False
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(ValueError, match=r"CIFAR-10-C\.tar"):
        ood_images.read_ood("cifar10_c", tmp_path, None)
