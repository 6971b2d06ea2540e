"""A file that has lost a part is not read as if it had never had it, although its values are whole."""

import json
import struct
import zipfile

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from focalcal.predictions import Predictions

FULL = Predictions.from_logits(
    torch.tensor([[2.0, 1.0, 0.0], [0.0, 1.0, 2.0], [1.0, 0.0, 3.0], [0.5, 0.25, 0.0]]),
    [0, 2, 1, 0],
    weights=[1.0, 2.0, 0.5, 1.0],
    ids=["a", "b", "c", "d"],
    split="val",
    class_names=["cat", "dog", "eel"],
    masked_classes=[],
    provenance={"model": "small"},
)
PARTS = ("weights", "ids", "split", "class_names", "provenance")
LOST = r"(is missing|not what it was written with|not those that it was written with): it is damaged"


def spoil(content, old, new):
    assert len(old) == len(new)
    assert content.count(old)
    return content.replace(old, new)


def refused(path):
    with pytest.raises(ValueError, match=LOST) as error:
        Predictions.load(path)
    assert path.name in str(error.value)


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("ending", ["npz", "parquet", "safetensors"])
def test_a_name_that_was_damaged(tmp_path, ending, part):
    path = tmp_path / f"preds.{ending}"
    FULL.save(path)
    assert Predictions.load(path).split == "val"
    content = path.read_bytes()
    if ending == "npz":
        content = spoil(content, f"{part}.npy".encode(), f"{part}.npz".encode())  # is no array any more
    elif ending == "safetensors":
        content = spoil(content, f'"{part}":'.encode(), f'"{part[:-1]}_":'.encode())
    else:
        content = rename_in_parquet(path, part)
    path.write_bytes(content)
    refused(path)


def rename_in_parquet(path, part):
    table = pq.read_table(path)
    written = table.schema.metadata
    if part in table.column_names:
        table = table.rename_columns([name if name != part else f"{name}_" for name in table.column_names])
    metadata = {key: value for key, value in written.items() if key != part.encode()}
    pq.write_table(table.replace_schema_metadata(metadata), path, use_dictionary=False)
    return path.read_bytes()


@pytest.mark.parametrize("ending", ["parquet", "safetensors"])
def test_the_mark_of_our_files_that_was_damaged(tmp_path, ending):
    path = tmp_path / f"preds.{ending}"
    FULL.save(path)
    if ending == "parquet":
        path.write_bytes(rename_in_parquet(path, "focalcal"))
    else:
        path.write_bytes(spoil(path.read_bytes(), b'"focalcal":', b'"focalcbl":'))
    refused(path)


@pytest.mark.parametrize("ending", ["parquet", "safetensors"])
def test_a_split_that_was_damaged(tmp_path, ending):
    path = tmp_path / f"preds.{ending}"
    FULL.save(path)
    if ending == "parquet":
        table = pq.read_table(path)
        metadata = {**table.schema.metadata, b"split": b"vbl"}
        pq.write_table(table.replace_schema_metadata(metadata), path, use_dictionary=False)
    else:
        path.write_bytes(spoil(path.read_bytes(), b'"split":"val"', b'"split":"vbl"'))
    refused(path)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("weights", "weighty"),
        ("ids", "idt"),
        ("split", "splat"),
        ("logits:cat", "logits:cbt"),
        ("provenance:", "provenanco:"),
    ],
)
def test_a_column_of_a_csv_that_was_damaged(tmp_path, old, new):
    path = tmp_path / "preds.csv"
    FULL.save(path)
    header, _, rows = path.read_text().partition("\n")
    path.write_text(f"{spoil(header, old, new)}\n{rows}")
    refused(path)


def test_columns_may_be_added_and_a_statement_removed(tmp_path):
    path = tmp_path / "preds.csv"
    FULL.save(path)
    lines = [f"{i},{line},more" for i, line in enumerate(path.read_text().splitlines())]
    path.write_text("\n".join(lines))
    assert Predictions.load(path).ids == FULL.ids
    path.write_text("\n".join(lines).replace("focalcal:header", "anything").replace("weights", "unused"))
    assert Predictions.load(path).weights is None
    np.savez(tmp_path / "a.npz", **dict(np.load(save(tmp_path / "preds.npz"))))
    with zipfile.ZipFile(tmp_path / "a.npz") as archive:
        assert archive.comment == b""
    assert Predictions.load(tmp_path / "a.npz").weights.tolist() == FULL.weights.tolist()


def save(path):
    FULL.save(path)
    return path


def test_files_of_older_versions_state_nothing(tmp_path):
    path = save(tmp_path / "preds.safetensors")
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    del header["__metadata__"]["contents"]
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + content[8 + length :])
    assert Predictions.load(path).class_names == FULL.class_names
