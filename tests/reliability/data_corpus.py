"""Small valid files of every kind of data set, of results and of sweeps, and what reads each of them."""

import gzip
import io
import json
import tarfile
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from PIL import Image
from safetensors.torch import save

from focalcal.data.encoded_images import read_parquet_images
from focalcal.data.fashion_mnist import read_idx
from focalcal.data.glove import read_vectors
from focalcal.data.image_files import decode_file, read_header
from focalcal.data.newsgroups import read_newsgroups
from focalcal.data.ood_images import read_ood
from focalcal.data.own_arrays import load_arrays
from focalcal.data.own_images import load_image_folder
from focalcal.data.own_texts import read_text_table
from focalcal.data.parallel_text import read_lines, read_parallel
from focalcal.data.sst import read_sst
from focalcal.data.subwords import SubwordVocabulary, learn_vocabulary
from focalcal.data.tensor_cache import load_or_make
from focalcal.data.tiny_imagenet import load_tiny_imagenet
from focalcal.data.trees import read_trees
from focalcal.predictions.token_predictions import TokenPredictions
from focalcal.sweeps import read_task
from focalcal.sweeps.finished import read_index
from focalcal.sweeps.result_rows import Row, read_rows, write_rows
from focalcal.sweeps.translated_run import CurvePoint, read_curves, write_curves
from reliability.corpus import Sample, token_predictions


def read_as_lines(path):
    """Read trees as they lie in the archive of the treebank."""
    return read_trees(path.read_text("utf-8", errors="replace").split("\n"), path.name)


def read_vocabulary(path):
    """Load subwords, and use them."""
    vocabulary = SubwordVocabulary.load(path)
    return vocabulary.decode(vocabulary.encode(["a small dog", "zz é 𝔘"]))


def read_picture(path):
    """Decode a picture as one in a folder per class is."""
    return read_header(path), decode_file(path, 3, 8)


def read_folder_of_pictures(path):
    """Read a picture among others, in folders of their classes."""
    whole = path.with_name("pictures")
    for name in ("ant", "bee"):
        (whole / name).mkdir(parents=True)
        for number in range(3):
            (whole / name / f"{number}.png").write_bytes(picture("PNG", seed=number))
    path.rename(whole / "bee" / path.name)
    return load_image_folder(path=whole, size=8, val_share=0.3, test_share=0.3)


def in_place_of(place, read):
    """Return a reader of a file that must lie at a place of its own in a folder of data."""

    def read_there(path):
        root = path.with_name("root")
        (root / place).parent.mkdir(parents=True)
        path.rename(root / place)
        return read(root)

    return read_there


READERS = {
    "texts.csv": lambda path: read_text_table(path, "text", "label"),
    "texts.parquet": lambda path: read_text_table(path, "text", "label"),
    "lines.gz": read_lines,
    "pairs.parquet": lambda path: read_parallel([path]),
    "vectors.txt": lambda path: read_vectors(path, ["good", "bad"], dimension=4),
    "vectors.zip": lambda path: read_vectors(path, ["good", "bad"], dimension=4),
    "trees.txt": read_as_lines,
    "treebank.zip": read_sst,
    "news.tar.gz": read_newsgroups,
    "idx.gz": lambda path: read_idx(path, 1),
    "own.npz": lambda path: load_arrays(path=path, inputs="x", labels="y"),
    "images.parquet": lambda path: read_parquet_images(
        path, image_column="img", label_column="label", num_classes=9, size=8
    ),
    "tiny-imagenet-200.zip": in_place_of(
        "tiny_imagenet/tiny-imagenet-200.zip", lambda root: load_tiny_imagenet(root=root)
    ),
    "CIFAR-10-C.tar": in_place_of("cifar10_c/CIFAR-10-C.tar", lambda root: read_ood("cifar10_c", root, None)),
    "picture.png": read_picture,
    "picture.jpg": read_picture,
    "picture.gif": read_picture,
    "picture.webp": read_picture,
    "picture.bmp": read_picture,
    "picture.tif": read_picture,
    "picture.ppm": read_picture,
    "among-others.png": read_folder_of_pictures,
    "vocabulary.model": read_vocabulary,
    "decoded-cache.safetensors": lambda path: load_or_make(path, dict),
    "tokens.safetensors": TokenPredictions.load,
    "table.csv": read_rows,
    "curves.csv": read_curves,
    "runs.json": lambda path: [(run.name, run.selections) for run in read_index(path.parent)],
    "tasks.jsonl": lambda path: read_task(path, 1),
}


def data_files(folder):
    """Make one valid file for each reader."""
    yield from texts_and_arrays()
    yield from archives()
    yield from pictures()
    yield from files_of_sweeps(folder)
    vocabulary = learn_vocabulary(["a small dog", "a small cat", "the dog"], 24)
    yield Sample("vocabulary.model", vocabulary.model)
    yield Sample("decoded-cache.safetensors", save({"images": torch.zeros(2, 3, 8, 8, dtype=torch.uint8)}))
    token_predictions().save(folder / "own-tokens.safetensors")
    yield Sample("tokens.safetensors", (folder / "own-tokens.safetensors").read_bytes())


def files_of_sweeps(folder):
    """Tables, curves, the index of results and the tasks of a job array."""
    rows = [Row("Digits", "MLP", loss, 0, "best", "ece", "pre", 1.5, 1.0, 2.0) for loss in ("fl-3", "brier")]
    write_rows(folder / "table.csv", rows)
    write_curves(folder / "curves.csv", [CurvePoint("fl-3", 0, *[0.5] * (len(CurvePoint.__dataclass_fields__) - 2))])
    about = {"loss": "fl-3", "seed": 0, "data": "digits", "model": "mlp", "select": "nll"}
    index = [{**about, "epochs": {"best": 3, "last": 9}}, {**about, "seed": 1, "epochs": {"last": 9}}]
    (folder / "runs.json").write_text(json.dumps(index, indent=1))
    task = {"recipe": "digits/mlp", "changes": ["epochs=3", "loss=fl-3"], "out": "fl-3/seed-0"}
    (folder / "tasks.jsonl").write_text(3 * (json.dumps(task) + "\n"))
    for name in ("table.csv", "curves.csv", "runs.json", "tasks.jsonl"):
        yield Sample(name, (folder / name).read_bytes())


def picture(kind, *, seed=0, size=8):
    """Encode random pixels."""
    file = io.BytesIO()
    pixels = np.random.default_rng(seed).integers(0, 256, (size, size, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(file, kind)
    return file.getvalue()


def pictures():
    """Encode one picture in each format, and some in a parquet file."""
    kinds = {"png": "PNG", "jpg": "JPEG", "gif": "GIF", "webp": "WEBP", "bmp": "BMP", "tif": "TIFF", "ppm": "PPM"}
    yield from (Sample(f"picture.{ending}", picture(kind)) for ending, kind in kinds.items())
    yield Sample("among-others.png", picture("PNG", seed=9))
    cells = [{"bytes": picture("PNG", seed=number), "path": None} for number in range(4)]
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    file = io.BytesIO()
    pq.write_table(pa.table({"img": pa.array(cells, kind), "label": [0, 1, 2, 1]}), file)
    yield Sample("images.parquet", file.getvalue())


def archives():
    """Pack archives of texts, trees, pictures and arrays."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(zipfile.ZipInfo("a.4d.txt"), b"good 1 2 3 4\nbad 4 3 2 1\n")
    yield Sample("vectors.zip", packed.getvalue())
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("train", "dev", "test"):
            archive.writestr(
                zipfile.ZipInfo(f"trees/{name}.txt"), "(3 (2 good) (1 (2 fun) (2 .)))\n(1 (2 too) (2 long))\n"
            )
    yield Sample("treebank.zip", packed.getvalue())
    yield Sample("tiny-imagenet-200.zip", tiny_imagenet())
    messages = {
        f"20_newsgroups/{group}/{10 + i}": b"From: me\n\ntext" for i, group in enumerate(("sci.med", "rec.autos"))
    }
    yield Sample("news.tar.gz", gzip.compress(tar(messages), mtime=0))
    arrays = {}
    for name, array in (("gaussian_noise", np.zeros((5, 2, 2, 3), np.uint8)), ("labels", np.arange(5))):
        file = io.BytesIO()
        np.save(file, array)
        arrays[f"CIFAR-10-C/{name}.npy"] = file.getvalue()
    yield Sample("CIFAR-10-C.tar", tar(arrays))


def tar(members):
    """Pack an archive."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for name, content in members.items():
            about = tarfile.TarInfo(name)
            about.size = len(content)
            archive.addfile(about, io.BytesIO(content))
    return file.getvalue()


def tiny_imagenet():
    """Pack two classes of eight pictures, and three for the test."""
    top, jpeg = "tiny-imagenet-200", picture("JPEG", size=64)
    members = {f"{top}/train/{one}/images/{one}_{i}.JPEG": jpeg for one in ("n01", "n02") for i in range(8)}
    members |= {f"{top}/wnids.txt": b"n01\nn02\n", f"{top}/words.txt": b"n01\tfish\nn02\tcrane\n"}
    lines = "".join(f"val_{i}.JPEG\tn0{1 + i % 2}\t0\t0\t62\t62\n" for i in range(3))
    members |= {f"{top}/val/val_annotations.txt": lines.encode()}
    members |= {f"{top}/val/images/val_{i}.JPEG": jpeg for i in range(3)}
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return file.getvalue()


def texts_and_arrays():
    """Write texts, pairs of sentences, word vectors, trees and arrays."""
    yield Sample("texts.csv", b"text,label\n" + b"".join(b'"good %d, fun",yes\nbad,no\n' % i for i in range(6)))
    file = io.BytesIO()
    pq.write_table(pa.table({"text": ["good fun", "too long"] * 6, "label": ["yes", "no"] * 6}), file)
    yield Sample("texts.parquet", file.getvalue())
    yield Sample("lines.gz", gzip.compress(b"one line\nanother\n" * 4, mtime=0))
    yield Sample(
        "vectors.txt", b"".join(b"%s 0.1 -0.2 0.3 4e-1\n" % word for word in (b"good", b"fun", b"bad", b"long"))
    )
    yield Sample("trees.txt", b"(3 (2 good) (1 (2 fun) (2 .)))\n(1 (2 too) (2 long))\n")
    yield Sample("idx.gz", gzip.compress(bytes([0, 0, 8, 1, 0, 0, 0, 9]) + bytes(range(9)), mtime=0))
    file = io.BytesIO()
    np.savez(file, x=np.eye(40, 3, dtype=np.float32), y=np.arange(40) % 2)
    yield Sample("own.npz", file.getvalue())
    file = io.BytesIO()
    pairs = [{"en": "a dog", "de": "ein Hund"}, {"en": "a cat", "de": "eine Katze"}] * 3
    pq.write_table(pa.table({"translation": pairs}), file)
    yield Sample("pairs.parquet", file.getvalue())
