import hashlib

import pytest

from focalcal.data.check import check_data
from focalcal.data.data_files import MissingDataError

TEST = "cifar10/plain_text/test-00000-of-00001.parquet"


def test_everything_is_counted(small_cifar):
    checked = check_data("cifar10", root=small_cifar)
    assert checked.sizes == {"train": 180, "val": 20, "test": 40}
    assert checked.classes == 10
    assert checked.files[str(small_cifar / TEST)] == hashlib.sha256((small_cifar / TEST).read_bytes()).hexdigest()


def test_a_file_that_has_changed_since_its_download_is_named(small_cifar):
    record = small_cifar / f"{TEST}.sha256"
    record.write_text(hashlib.sha256((small_cifar / TEST).read_bytes()).hexdigest() + "  a name\n")
    check_data("cifar10", root=small_cifar)
    record.write_text("0" * 64)
    with pytest.raises(ValueError, match="has changed since it was downloaded"):
        check_data("cifar10", root=small_cifar)


def test_what_is_made_of_another_set_needs_that_one(small_cifar, tmp_path):
    checked = check_data("cifar10_c", root=small_cifar)
    assert checked.sizes == {"test": 40}
    assert "Generated here" in checked.notes[0]
    with pytest.raises(MissingDataError, match="focalcal data fetch cifar10_c"):
        check_data("cifar10_c", root=tmp_path / "empty")


def test_an_unknown_name_gets_a_suggestion():
    with pytest.raises(ValueError, match="did you mean 'svhn'"):
        check_data("shvn")


def test_a_file_of_the_users_own_is_not_checked_here():
    with pytest.raises(MissingDataError, match="a file of your own"):
        check_data("text")
