"""What tests of data sets share: no network, a cache of their own, small files in the published layouts."""

import os
from pathlib import Path

import pytest

from image_files import encoded, write_parquet


@pytest.fixture(autouse=True)
def _no_network_and_own_cache(monkeypatch, tmp_path_factory):
    monkeypatch.setenv("FOCALCAL_OFFLINE", "1")
    monkeypatch.setenv("FOCALCAL_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def real_data():
    """The folder of real data sets, if this machine has one."""
    folder = os.environ.get("FOCALCAL_DATA")
    if not folder:
        pytest.skip("FOCALCAL_DATA is not set: there are no real data sets to read.")
    return Path(folder)


@pytest.fixture
def small_cifar(tmp_path):
    """A CIFAR-10 of 200 and 40 images, in the layout of the published files."""
    for split, count in (("train", 200), ("test", 40)):
        images = [encoded(seed=number)[1] for number in range(count)]
        path = tmp_path / f"cifar10/plain_text/{split}-00000-of-00001.parquet"
        write_parquet(path, images, [number % 10 for number in range(count)])
    return tmp_path
