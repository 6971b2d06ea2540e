"""A file is written whole or not at all."""

import pytest

from focalcal.base.files import atomic_writer


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, RuntimeError])
def test_an_interrupted_write_leaves_the_old_file_and_nothing_else(tmp_path, interruption):
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def interrupted_write():
        with atomic_writer(path) as file:
            file.write(b"half of the new")
            raise interruption

    with pytest.raises(interruption):
        interrupted_write()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_old_file_is_there_until_the_new_one_is_complete(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with atomic_writer(path) as file:
        file.write(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_does_not_exist_is_named(tmp_path):
    with (
        pytest.raises(ValueError, match="its folder does not exist; make it first"),
        atomic_writer(tmp_path / "nowhere" / "file"),
    ):
        pass


def test_a_very_long_name_is_written_too(tmp_path):
    with atomic_writer(tmp_path / ("n" * 250)) as file:
        file.write(b"x")
    assert (tmp_path / ("n" * 250)).read_bytes() == b"x"
