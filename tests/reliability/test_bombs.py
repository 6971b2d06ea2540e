"""Small files that unpack to gigabytes: refused by a sentence that names the cap, before the memory is taken."""

import gzip
import tarfile
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest

from focalcal.base.files import read_at_most
from focalcal.cli import inputs
from focalcal.data import data_files
from focalcal.data.encoded_images import read_parquet_images
from focalcal.data.glove import read_vectors
from focalcal.data.newsgroups import read_newsgroups
from focalcal.data.ood_images import read_ood
from focalcal.data.own_arrays import load_arrays
from focalcal.data.own_texts import read_text_table
from focalcal.data.parallel_text import read_lines, read_parallel
from focalcal.predictions import Predictions

GIGABYTES = 1_600_000_000


@pytest.fixture(scope="module")
def zeros():
    """The deflated form of 1.6 GB of zero bytes, 1.6 MB, and their checksum; made in pieces."""
    squeeze, checksum, parts = zlib.compressobj(9, zlib.DEFLATED, -15), 0, []
    piece = bytes(2**20)
    for _ in range(GIGABYTES // len(piece) + 1):
        parts.append(squeeze.compress(piece))
        checksum = zlib.crc32(piece, checksum)
    return b"".join([*parts, squeeze.flush()]), checksum


def npy_header(descr, shape):
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


def bomb(path, name, descr, shape, **arrays):
    """Write an npz whose array ``name`` is a header, and a claim of what the rest would unpack to."""
    np.savez_compressed(path, **arrays)
    header = npy_header(descr, shape)
    size = np.dtype(descr).itemsize * int(np.prod(shape))
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"{name}.npy", header + bytes(1000))
    content = bytearray(path.read_bytes())
    for signature, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        start = content.rindex(signature)  # of the last member: its size, in the local header and in the directory
        content[start + offset : start + offset + 4] = (len(header) + size).to_bytes(4, "little")
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("name", "descr", "shape"),
    [
        ("class_names", "<U200000000", (2,)),
        ("class_names", "<U2", (200_000_000,)),
        ("split", "<U400000000", ()),
        ("provenance", "|S1600000000", ()),
        ("ids", "<U133333333", (3,)),
        ("ids", "<U5000", (3,)),
        ("weights", "<f8", (400_000_000,)),
    ],
)
def test_arrays_of_an_npz(tmp_path, name, descr, shape):
    path = tmp_path / "bomb.npz"
    bomb(path, name, descr, shape, logits=np.eye(3), labels=np.arange(3))
    assert path.stat().st_size < 10_000
    with pytest.raises(ValueError, match=rf"bomb\.npz: its {name} (takes|unpacks|has entries of).* [\d,]+ ") as refused:
        Predictions.load(path)
    assert "corrupt" not in str(refused.value)


def gz(content, checksum):
    size = (GIGABYTES // 2**20 + 1) * 2**20
    return (
        b"\x1f\x8b\x08\x00" + bytes(4) + b"\x02\xff" + content + checksum.to_bytes(4, "little")
        + (size % 2**32).to_bytes(4, "little")
    )  # fmt: skip


@pytest.mark.slow
def test_texts_in_a_gz(tmp_path, zeros):
    path = tmp_path / "glove.100d.txt.gz"
    path.write_bytes(gz(*zeros))
    with pytest.raises(ValueError, match=r"glove\.100d\.txt\.gz, line 1 has more than 1,048,576 bytes"):
        read_vectors(path, ["a"])
    with pytest.raises(ValueError, match=r"glove\.100d\.txt\.gz unpacks to more than 15\d,\d+,\d+ bytes"):
        read_lines(path)


def test_a_small_gz_may_unpack_to_anything_plausible(tmp_path, monkeypatch):
    monkeypatch.setattr(data_files, "_ALWAYS_PLAUSIBLE", 10_000)
    path = tmp_path / "lines.gz"
    path.write_bytes(gzip.compress(b"word\n" * 1900))
    assert len(read_lines(path)) == 1900
    path.write_bytes(gzip.compress(b"word\n" * 2100))
    with pytest.raises(ValueError, match=r"lines\.gz unpacks to more than 10,000 bytes"):
        read_lines(path)


def tar_claiming(name, size):
    member = tarfile.TarInfo(name)
    member.size = size
    return member.tobuf(tarfile.GNU_FORMAT) + bytes(10 * 512)


def test_members_of_archives(tmp_path):
    path = tmp_path / "news.tar.gz"
    path.write_bytes(gzip.compress(tar_claiming("20_newsgroups/sci.med/1", 3 * 2**30)))
    with pytest.raises(
        ValueError, match=r"news\.tar\.gz is not a whole tar\.gz file \(.*3,221,225,472 bytes, more than"
    ):
        read_newsgroups(path)
    folder = tmp_path / "cifar10_c"
    folder.mkdir()
    with open(folder / "CIFAR-10-C.tar", "wb") as file:
        file.write(tar_claiming("CIFAR-10-C/gaussian_noise.npy", 3 * 2**30))
        file.truncate(4 * 2**30)  # it takes no room on the disk
    with pytest.raises(ValueError, match=r"noise\.npy has more than 160,000,000 bytes: it is not the original"):
        read_ood("cifar10_c", tmp_path, None)


def test_rows_of_a_parquet(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    same = pa.DictionaryArray.from_arrays(pa.repeat(0, 10_000_000), [0.5]).cast(pa.float64())
    table = pa.table({"probs_0": same, "probs_1": same, "labels": pa.repeat(0, 10_000_000)})
    path = tmp_path / "rows.parquet"
    with pq.ParquetWriter(path, table.schema) as writer:
        for _ in range(5):
            writer.write_table(table)
    assert path.stat().st_size < 1_000_000
    with pytest.raises(ValueError, match=r"rows\.parquet: its rows unpacks from [\d,]+ to 1,200,000,000 bytes"):
        Predictions.load(path)


class Stream:
    """Ten bytes, and the sizes that were asked for: a file of Python's takes that much memory before it reads."""

    def __init__(self):
        self.left, self.asked = b"0123456789", []

    def read(self, size):
        self.asked.append(size)
        piece, self.left = self.left[:size], self.left[size:]
        return piece


def test_memory_is_taken_for_what_is_read_and_not_for_what_may_be(tmp_path):
    """A file of three lines to be translated took 16 GB, where memory was limited, and was refused."""
    stream = Stream()
    assert read_at_most(stream, 16 * 2**30) == b"0123456789"
    assert max(stream.asked) <= 2**20
    assert [read_at_most(Stream(), most) for most in (0, 3, 9, 10)] == [b"0", b"0123", b"0123456789", b"0123456789"]


def test_what_is_no_bomb_is_read(tmp_path):
    ids = np.array(["x" * 4096, "b", "c"])
    np.savez_compressed(tmp_path / "ids.npz", logits=np.eye(3), labels=np.arange(3), ids=ids)
    assert Predictions.load(tmp_path / "ids.npz").ids == tuple(ids.tolist())
    np.savez_compressed(tmp_path / "large.npz", logits=np.zeros((100_000, 10)), labels=np.zeros(100_000, np.int64))
    assert len(Predictions.load(tmp_path / "large.npz")) == 100_000


def test_an_input_without_an_end(monkeypatch):
    """As of ``focalcal evaluate - < /dev/zero``."""
    with open("/dev/zero", encoding="utf-8") as endless:
        monkeypatch.setattr(inputs, "_LARGEST_INPUT", 3 * 2**20)
        monkeypatch.setattr("sys.stdin", endless)
        with pytest.raises(
            ValueError, match=r"stdin gave more than 3,145,728 bytes; save larger predictions to a file"
        ):
            inputs.predictions_file(Path("-"))


def test_a_text_that_stands_in_every_row(tmp_path):
    """A parquet file stores it once, and Python would have it in every row."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    def repeat(values):
        return pa.DictionaryArray.from_arrays(pa.repeat(0, 20_000), values)

    path = tmp_path / "texts.parquet"
    pq.write_table(pa.table({"text": repeat(["x" * 100_000]), "label": repeat(["a"])}), path)
    assert path.stat().st_size < 1_000_000
    with pytest.raises(ValueError, match=r"texts\.parquet unpacks to more than 1,073,741,824 bytes"):
        read_text_table(path, "text", "label")
    pairs = pa.StructArray.from_arrays([repeat(["x" * 100_000]), repeat(["y"])], ["en", "de"])
    pq.write_table(pa.table({"translation": pairs}), path)
    with pytest.raises(ValueError, match=r"texts\.parquet unpacks to more than 1,073,741,824 bytes"):
        read_parallel([path])


def test_pictures_that_are_declared(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    cells = pa.repeat(pa.scalar({"bytes": b"x", "path": None}, kind), 400_000)
    path = tmp_path / "images.parquet"
    pq.write_table(pa.table({"img": cells, "label": pa.repeat(0, 400_000)}), path)
    assert path.stat().st_size < 1_000_000
    with pytest.raises(ValueError, match=r"images\.parquet: its images unpacks from [\d,]+ to 1,228,800,000 bytes"):
        read_parquet_images(path, image_column="img", label_column="label", num_classes=2, size=32)


def test_arrays_of_ones_own(tmp_path):
    path = tmp_path / "own.npz"
    bomb(path, "x", "<f8", (400_000_000,), y=np.arange(3))
    with pytest.raises(ValueError, match=r"own\.npz: its x\.npy unpacks from [\d,]+ to 3,200,000,\d+ bytes"):
        load_arrays(path=path)
