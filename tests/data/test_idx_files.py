import gzip
import struct

import pytest
import torch

from focalcal.data.fashion_mnist import read_idx


def idx(*shape, kind=8, extra=b"", short=0):
    content = bytes(range(torch.tensor(shape).prod().item()))
    return bytes([0, 0, kind, len(shape)]) + struct.pack(f">{len(shape)}I", *shape) + content[short:] + extra


def write(path, content):
    path.write_bytes(gzip.compress(content))
    return path


def test_reads_an_array(tmp_path):
    array = read_idx(write(tmp_path / "a.gz", idx(2, 3, 4)), 3)
    assert torch.equal(array, torch.arange(24, dtype=torch.uint8).view(2, 3, 4))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (idx(2, 3, 4, kind=9), "not an IDX file of bytes with 3 dimension"),
        (idx(24), "not an IDX file of bytes with 3 dimension"),
        (b"", "not an IDX file"),
        (idx(2, 3, 4, short=1), "holds less than the 24 bytes"),
        (idx(2, 3, 4, extra=b"x"), "holds more than the 24 bytes"),
        (bytes([0, 0, 8, 3]) + struct.pack(">3I", 2**31, 2**31, 9), "which no data set of this kind has"),
    ],
)
def test_a_bad_file_is_named_in_one_sentence(tmp_path, content, words):
    path = write(tmp_path / "bad-images.gz", content)
    with pytest.raises(ValueError, match=words) as caught:
        read_idx(path, 3)
    assert "bad-images.gz" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "damage", [lambda whole: whole[:-9], lambda whole: b"no gzip", lambda whole: whole[:30] + b"\0" * 20]
)
def test_a_damaged_gzip_file_is_named(tmp_path, damage):
    path = tmp_path / "broken.gz"
    path.write_bytes(damage(gzip.compress(idx(4, 5, 6))))
    with pytest.raises(ValueError, match=r"broken\.gz .*download it again"):
        read_idx(path, 3)
