import gzip
import struct
from dataclasses import replace

import numpy as np
import pytest

from focalcal.data import fashion_mnist, load_data
from focalcal.data.data_sets import FASHION_MNIST


def write_set(folder, size=28, train_labels=range(100), images=100):
    generator = np.random.default_rng(0)
    labels = {"train": [label % 10 for label in train_labels], "t10k": [label % 10 for label in range(20)]}
    for split, values in labels.items():
        count = images if split == "train" else 20
        pixels = generator.integers(0, 256, (count, size, size), dtype=np.uint8).tobytes()
        write(folder / f"{split}-images-idx3-ubyte.gz", (count, size, size), pixels)
        write(folder / f"{split}-labels-idx1-ubyte.gz", (len(values),), bytes(values))


def write(path, shape, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    header = bytes([0, 0, 8, len(shape)]) + struct.pack(f">{len(shape)}I", *shape)
    path.write_bytes(gzip.compress(header + content))


def test_reads_the_four_files(tmp_path):
    write_set(tmp_path / "fashion_mnist")
    data = load_data("fashion_mnist", root=tmp_path)
    assert data.facts["sizes"] == {"train": 90, "val": 10, "test": 20}
    assert len(data.facts["files"]) == 4
    assert data.evaluation["test"].ids.tolist() == list(range(100, 120))
    assert data.train.augmentation.flip


def test_a_package_of_the_system_is_found(tmp_path, monkeypatch):
    write_set(tmp_path / "system")
    files = tuple(replace(file, system=str(tmp_path / "system")) for file in FASHION_MNIST)
    monkeypatch.setattr(fashion_mnist, "FASHION_MNIST", files)
    monkeypatch.setenv("FOCALCAL_DATA", str(tmp_path / "elsewhere"))
    assert len(load_data("fashion_mnist").evaluation["test"]) == 20


def test_wrong_sizes_and_labels_are_named(tmp_path):
    folder = tmp_path / "fashion_mnist"
    write_set(folder, size=27)
    with pytest.raises(ValueError, match=r"train-images-idx3-ubyte\.gz has images of 27 × 27 pixels, not 28 × 28"):
        load_data("fashion_mnist", root=tmp_path)
    write_set(folder, train_labels=range(99))
    with pytest.raises(ValueError, match=r"has 100 images, but train-labels-idx1-ubyte\.gz 99 labels"):
        load_data("fashion_mnist", root=tmp_path)
    write_set(folder)
    write(folder / "train-labels-idx1-ubyte.gz", (100,), bytes([10] * 100))
    with pytest.raises(ValueError, match=r"train-labels-idx1-ubyte\.gz must hold labels from 0 to 9"):
        load_data("fashion_mnist", root=tmp_path)
