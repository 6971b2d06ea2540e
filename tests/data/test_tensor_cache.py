"""What is kept in files comes back; what is damaged, or cannot be written, is made anew."""

import os

import torch

from focalcal.data.tensor_cache import load_or_make


def test_a_damaged_file_is_made_again_and_a_place_that_cannot_be_written_done_without(tmp_path):
    place, made = tmp_path / "some" / "x-1.safetensors", {"a": torch.arange(3)}
    assert torch.equal(load_or_make(place, lambda: made)["a"], made["a"])
    assert torch.equal(load_or_make(place, lambda: {"a": torch.zeros(1)})["a"], made["a"])
    place.write_bytes(b"damaged")
    assert load_or_make(place, lambda: {"a": torch.ones(2)})["a"].tolist() == [1, 1]
    assert [path.name for path in place.parent.iterdir()] == [place.name]
    (tmp_path / "file").touch()
    assert load_or_make(tmp_path / "file" / "x-1.safetensors", lambda: made) is made


def test_only_the_files_of_a_kind_that_were_used_last_are_kept(tmp_path):
    def use(name):
        path = tmp_path / f"{name}.safetensors"
        load_or_make(path, lambda: {"a": torch.zeros(1)}, at_most=3)
        use.clock += 1
        os.utime(path, (use.clock, use.clock))  # files made in one tick of the clock would have the same time

    use.clock = 0
    for name in ("x-1", "y-1", "x-2", "x-3"):
        use(name)
    os.utime(tmp_path / "x-1.safetensors", (9, 9))  # as if it had been used again
    use.clock = 9
    use("x-4")
    assert sorted(path.stem for path in tmp_path.iterdir()) == ["x-1", "x-3", "x-4", "y-1"]
