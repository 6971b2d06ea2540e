"""The canonical format, read and written with the library beside it."""

import json

import numpy as np
import pytest
import safetensors.numpy
import safetensors.torch
import torch
from safetensors import safe_open

from focalcal.predictions import Predictions, open_predictions

LOGITS = torch.tensor([[1.0, 2.0, 3.0], [0.0, -1.0, 1.0]])


def test_the_library_reads_what_is_written(tmp_path):
    path = tmp_path / "preds.safetensors"
    preds = Predictions.from_logits(
        LOGITS, [2, 0], ids=["ä", "bc"], weights=[1, 2], split="val", class_names=["x", "y", "z"], provenance={"a": "b"}
    )
    preds.save(path)
    tensors = safetensors.torch.load_file(path)
    assert sorted(tensors) == ["ids", "ids_offsets", "labels", "logits", "weights"]
    assert torch.equal(tensors["logits"], preds.values)
    assert torch.equal(tensors["labels"], preds.labels)
    assert torch.equal(tensors["weights"], preds.weights)
    assert bytes(tensors["ids"].tolist()).decode() == "äbc"
    assert tensors["ids_offsets"].tolist() == [0, 2, 4]
    with safe_open(path, "pt") as file:
        metadata = file.metadata()
    assert metadata["kind"] == "logits"
    assert metadata["split"] == "val"
    assert json.loads(metadata["class_names"]) == ["x", "y", "z"]
    assert json.loads(metadata["provenance"]) == {"a": "b"}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("label_type", [torch.int64, torch.int32, torch.uint8])
def test_what_the_library_writes_is_read(tmp_path, dtype, label_type):
    path = tmp_path / "preds.safetensors"
    tensors = {"logits": LOGITS.to(dtype), "labels": torch.tensor([2, 0], dtype=label_type)}
    safetensors.torch.save_file(tensors, path, metadata={"format": "pt"})
    preds = Predictions.load(path)
    assert preds.values.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert torch.equal(preds.values.to(dtype), LOGITS.to(dtype))
    assert preds.labels.tolist() == [2, 0]


def test_bfloat16_probabilities_of_the_library_get_the_tolerance_of_bfloat16(tmp_path):
    path = tmp_path / "preds.safetensors"
    probs = torch.tensor([[0.5, 0.51]], dtype=torch.bfloat16)
    safetensors.torch.save_file({"probs": probs, "labels": torch.tensor([0])}, path)
    assert Predictions.load(path).kind == "probs"
    safetensors.torch.save_file({"probs": probs.float(), "labels": torch.tensor([0])}, path)
    with pytest.raises(ValueError, match=r"sum to 1\.0"):
        Predictions.load(path)


def test_outputs_with_positions_are_read_sample_by_sample(tmp_path):
    path = tmp_path / "preds.safetensors"
    logits, labels = torch.randn(5, 3, 2, 2), torch.randint(0, 3, (5, 2, 2))
    labels[2] = -100
    safetensors.torch.save_file({"logits": logits, "labels": labels, "ids": torch.arange(5)}, path)
    whole = Predictions.from_logits(logits, labels, ids=range(5))
    file = open_predictions(path)
    assert (file.num_samples, file.num_classes) == (20, 3)
    blocks = list(file.blocks(rows=4))
    assert [len(block) for block in blocks] == [4, 4, 4, 4]
    assert torch.equal(torch.cat([block.values for block in blocks]), whole.values)
    assert sum((block.ids for block in blocks), ()) == whole.ids


def test_model_weights_are_no_predictions(tmp_path):
    path = tmp_path / "model.safetensors"
    safetensors.torch.save_file({f"layer{i}.weight": torch.zeros(2) for i in range(30)}, path)
    with pytest.raises(ValueError, match=r"model\.safetensors: it has no 'logits' or 'probs'.*and 22 more"):
        Predictions.load(path)


def test_lengths_that_do_not_agree(tmp_path):
    path = tmp_path / "preds.safetensors"
    safetensors.torch.save_file({"logits": LOGITS, "labels": torch.tensor([0])}, path)
    with pytest.raises(ValueError, match=r"its labels have shape \(1,\), but there are 2 samples"):
        open_predictions(path)


def write_raw(path, header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


ROW = {"dtype": "F32", "shape": [1, 2], "data_offsets": [0, 8]}


@pytest.mark.parametrize(
    "header",
    [
        [],
        {"logits": 3},
        {"logits": {**ROW, "dtype": "F99"}},
        {"logits": {**ROW, "dtype": ["F32"]}},
        {"logits": {**ROW, "shape": [1, -2]}},
        {"logits": {**ROW, "shape": [1.0, 2]}},
        {"logits": {**ROW, "shape": [10**18, 10**18]}},
        {"logits": {**ROW, "data_offsets": [0, 16]}},
        {"logits": {**ROW, "data_offsets": [8, 0]}},
        {"logits": {**ROW, "data_offsets": [0]}},
        {"logits": {**ROW, "data_offsets": [0, 7]}},
        {"logits": ROW, "__metadata__": {"focalcal": 1}},
        {"logits": ROW, "__metadata__": {"focalcal": "99"}},
        {"logits": ROW, "__metadata__": {"focalcal": "1", "class_names": "3"}},
        {"logits": ROW, "__metadata__": {"focalcal": "1", "provenance": "[]"}},
        {"logits": ROW, "__metadata__": {"focalcal": "1", "provenance": "{"}},
        b"[" * 100_000,
        b"\xff\xfe",
    ],
)
def test_a_header_that_lies_is_refused(tmp_path, header):
    path = tmp_path / "preds.safetensors"
    write_raw(path, header, bytes(8))
    with pytest.raises(ValueError, match=r"preds\.safetensors") as refused:
        Predictions.load(path, labels=[0])
    assert "\n" not in str(refused.value)


def test_ids_whose_offsets_lie_are_refused(tmp_path):
    path = tmp_path / "preds.safetensors"
    for offsets in ([0, 9, 3], [1, 2, 3], [0, -1, 3], [0, 2, 2**40]):
        tensors = {"logits": LOGITS.numpy(), "labels": np.array([0, 1]), "ids": np.frombuffer(b"abc", np.uint8)}
        safetensors.numpy.save_file({**tensors, "ids_offsets": np.array(offsets)}, path)
        with pytest.raises(ValueError, match="ids are corrupt"):
            Predictions.load(path)
