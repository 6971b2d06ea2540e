"""Masked classes in every format, and in files that were written when they were text in the provenance."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import safetensors.numpy
from safetensors import safe_open

from focalcal.predictions import Predictions, open_predictions
from oracles.predictions import FORMATS

LOGITS = np.array([[1.0, 3.0, 2.0, 0.0], [0.0, -1.0, 1.0, 5.0]])
LABELS = np.array([2, 0])
RESULTS = Path(__file__).parents[3] / "results"


def write_old(path, masked):
    """Write a file as focalcal did when masked classes were text in the provenance."""
    provenance = {"masked_classes": masked, "model": "tree"}
    text = {"focalcal": "1", "kind": "logits", "provenance": json.dumps(provenance)}
    if path.suffix == ".safetensors":
        safetensors.numpy.save_file({"logits": LOGITS, "labels": LABELS}, path, text)
    elif path.suffix == ".npz":
        np.savez(path, logits=LOGITS, labels=LABELS, provenance=json.dumps(provenance))
    elif path.suffix == ".parquet":
        table = pa.table({"logits": list(LOGITS), "labels": LABELS})
        pq.write_table(table.replace_schema_metadata(text), path)
    else:
        names = [f"logits_{k}" for k in range(4)] + ["labels", "provenance:masked_classes", "provenance:model"]
        rows = [[*map(str, row), str(label), f'"{masked}"', "tree"] for row, label in zip(LOGITS, LABELS, strict=True)]
        path.write_text("\n".join(",".join(row) for row in [names, *rows]) + "\n")


@pytest.mark.parametrize("ending", FORMATS)
@pytest.mark.parametrize(("text", "masked"), [("1", (1,)), ("3,1", (1, 3)), ("", ())])
def test_files_written_before_still_load(tmp_path, ending, text, masked):
    path = tmp_path / f"old{ending}"
    write_old(path, text)
    for loaded in (open_predictions(path), Predictions.load(path), *open_predictions(path).blocks(1)):
        assert loaded.masked_classes == masked
        assert loaded.provenance == {"model": "tree"}
    Predictions.load(path).save(tmp_path / f"new{ending}")
    assert Predictions.load(tmp_path / f"new{ending}").masked_classes == masked


@pytest.mark.parametrize("ending", FORMATS)
@pytest.mark.parametrize("text", ["x", "4", "0,1,2", "-1", "1,,2", "1.0"])
def test_an_old_file_that_names_no_classes_is_refused(tmp_path, ending, text):
    path = tmp_path / f"old{ending}"
    write_old(path, text)
    with pytest.raises(ValueError, match=rf"old{ending}: The provenance calls '{text}' masked, .* from 0 to 3"):
        open_predictions(path)


def test_a_committed_file_of_the_old_form_still_loads():
    file = open_predictions(RESULTS / "sst_authors/predictions/cross-entropy-seed-0/test.safetensors")
    assert (file.masked_classes, "masked_classes" in file.provenance) == ((1,), False)
    assert repr(file).endswith("3 classes, logits, masked_classes=(1,))")


@pytest.mark.parametrize("ending", [".safetensors", ".parquet"])
def test_an_older_focalcal_refuses_what_it_would_not_mask(tmp_path, ending):
    """It looks at the layout's number, which stays 1 for files that it reads as they are meant."""
    for masked, number in (((), "1"), ((1,), "2")):
        path = tmp_path / f"preds{ending}"
        Predictions.from_logits(LOGITS, LABELS, masked_classes=masked).save(path)
        if ending == ".parquet":
            assert pq.read_schema(path).metadata[b"focalcal"] == number.encode()
        else:
            with safe_open(path, "np") as file:
                assert file.metadata()["focalcal"] == number


@pytest.mark.parametrize("wrong", ['{"1": 2}', '["a"]', "[1.5]", "[9]", "[[1]]", "3", "[0, 1, 2]"])
@pytest.mark.parametrize("ending", [".safetensors", ".csv"])
def test_damaged_masked_classes_are_one_sentence(tmp_path, ending, wrong):
    path = tmp_path / f"preds{ending}"
    if ending == ".csv":
        cell = wrong.replace('"', '""')
        path.write_text(f'logits_0,logits_1,logits_2,labels,focalcal:masked_classes\n1,2,3,0,"{cell}"\n')
    else:
        text = {"focalcal": "2", "kind": "logits", "masked_classes": wrong}
        safetensors.numpy.save_file({"logits": LOGITS, "labels": LABELS}, path, text)
    with pytest.raises(ValueError, match=r"preds.*masked_classes .*\.$"):
        open_predictions(path)


def test_damaged_masked_classes_in_an_npz(tmp_path):
    np.savez(tmp_path / "preds.npz", logits=LOGITS, labels=LABELS, masked_classes=np.array([0.5]))
    with pytest.raises(ValueError, match=r"preds\.npz: masked_classes is \(0\.5,\)"):
        open_predictions(tmp_path / "preds.npz")
