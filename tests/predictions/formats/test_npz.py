"""npz and npy as numpy writes them, under the keys of others, compressed or not, never unpickled."""

import io
import os
import pathlib
import pickle
import zipfile

import numpy as np
import pytest
import torch

from focalcal.predictions import Predictions, concatenate, open_predictions

LOGITS = np.random.default_rng(0).standard_normal((7, 3)).astype(np.float32)
PROBS = np.exp(LOGITS) / np.exp(LOGITS).sum(axis=1, keepdims=True)
LABELS = np.array([0, 1, 2, 0, 1, 2, 0])


@pytest.mark.parametrize("labels_key", ["labels", "label", "ground_truth"])
@pytest.mark.parametrize("values_key", ["logits", "probs", "predictions"])
def test_the_usual_keys(tmp_path, values_key, labels_key):
    path = tmp_path / "preds.npz"
    np.savez(path, **{values_key: LOGITS if values_key == "logits" else PROBS, labels_key: LABELS})
    preds = Predictions.load(path)
    assert preds.kind == ("logits" if values_key == "logits" else "probs")
    assert preds.labels.tolist() == LABELS.tolist()


def test_other_keys_by_name(tmp_path):
    path = tmp_path / "preds.npz"
    np.savez(path, z=LOGITS, p=PROBS, y=LABELS, w=np.arange(7), names=np.array(list("abcdefg")))
    preds = Predictions.load(path, logits_key="z", labels_key="y", weights_key="w", ids_key="names")
    assert preds.values.tolist() == LOGITS.tolist()
    assert preds.weights.tolist() == list(range(7))
    assert preds.ids == tuple("abcdefg")
    assert Predictions.load(path, probs_key="p", labels_key="y").kind == "probs"
    with pytest.raises(ValueError, match=r"preds\.npz: it has no 'logits' or 'probs' or 'predictions' but 'z', 'p'"):
        Predictions.load(path)
    with pytest.raises(ValueError, match="it has no 'q', which logits_key names"):
        Predictions.load(path, logits_key="q")
    with pytest.raises(ValueError, match=r"preds\.npz: it has no 'labels' or 'ground_truth' but 'z', 'p', 'y'"):
        open_predictions(path, logits_key="z").check_labels()


def test_ambiguity_is_an_error_that_a_key_or_kind_resolves(tmp_path):
    path = tmp_path / "preds.npz"
    np.savez(path, logits=LOGITS, probs=PROBS, labels=LABELS)
    with pytest.raises(
        ValueError, match="it has 'logits' and 'probs'; say which one to read with logits_key or probs_key"
    ):
        Predictions.load(path)
    assert Predictions.load(path, logits_key="logits").kind == "logits"
    assert Predictions.load(path, kind="probs").kind == "probs"
    np.savez(path, logits=LOGITS, labels=LABELS, ground_truth=LABELS[::-1])
    with pytest.raises(ValueError, match="'labels' and 'ground_truth'; say which one to read with labels_key"):
        Predictions.load(path)
    assert Predictions.load(path, labels_key="ground_truth").labels.tolist() == LABELS[::-1].tolist()


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("order", ["C", "F"])
def test_blocks_of_stored_and_deflated_members_in_both_orders(tmp_path, save, order):
    path = tmp_path / "preds.npz"
    save(path, logits=np.asarray(LOGITS, order=order), labels=LABELS)
    blocks = list(open_predictions(path).blocks(rows=3))
    assert [len(block) for block in blocks] == [3, 3, 1]
    assert concatenate(blocks).values.tolist() == LOGITS.tolist()
    assert Predictions.load(path).values.tolist() == LOGITS.tolist()


def test_a_large_array_in_fortran_order_cannot_be_streamed_but_loaded(tmp_path, monkeypatch):
    monkeypatch.setattr("focalcal.predictions.formats.sources._FORTRAN_LIMIT", LOGITS.nbytes - 1)
    path = tmp_path / "preds.npz"
    np.savez_compressed(path, logits=np.asfortranarray(LOGITS), labels=LABELS)
    with pytest.raises(ValueError, match=r"preds\.npz: it holds a large array in Fortran order.*ascontiguousarray"):
        next(open_predictions(path).blocks(rows=6))
    assert Predictions.load(path).values.tolist() == LOGITS.tolist()


class Trap:
    """Touches a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return pathlib.Path.touch, (pathlib.Path(self.path),)


@pytest.mark.parametrize("key", ["logits", "labels", "ids", "class_names", "split"])
def test_python_objects_are_never_unpickled(tmp_path, key):
    path, touched = tmp_path / "preds.npz", tmp_path / "touched"
    arrays = {"logits": LOGITS, "labels": LABELS, key: np.array([Trap(str(touched))] * 7, dtype=object)}
    np.savez(path, **arrays)
    pickle.loads(pickle.dumps(Trap(str(touched))))
    assert touched.exists(), "the trap itself must work"
    touched.unlink()
    with pytest.raises(
        ValueError, match=rf"preds\.npz: its {key} holds Python objects, which focalcal never unpickles"
    ):
        Predictions.load(path)
    assert not touched.exists()


def test_objects_under_a_key_that_is_not_needed_do_no_harm(tmp_path):
    path, touched = tmp_path / "preds.npz", tmp_path / "touched"
    np.savez(path, logits=LOGITS, labels=LABELS, config=np.array([Trap(str(touched))], dtype=object))
    assert len(Predictions.load(path)) == 7
    assert not touched.exists()


def test_a_pickle_named_npy_or_npz(tmp_path):
    touched = tmp_path / "touched"
    for name, options in (("preds.npz", {}), ("preds.npy", {"kind": "logits", "labels": LABELS})):
        (tmp_path / name).write_bytes(pickle.dumps(Trap(str(touched))))
        with pytest.raises(ValueError, match=name):
            Predictions.load(tmp_path / name, **options)
    np.save(tmp_path / "preds.npy", np.array([Trap(str(touched))], dtype=object))
    with pytest.raises(ValueError, match="never unpickles"):
        Predictions.load(tmp_path / "preds.npy", kind="logits", labels=LABELS)
    assert not touched.exists()


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_changed_number_is_found_by_the_checksum(tmp_path, compression):
    path = tmp_path / "preds.npz"
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, array in (("logits", np.zeros((50, 4))), ("labels", np.zeros(50, np.int64))):
            content = io.BytesIO()
            np.save(content, array)
            archive.writestr(f"{name}.npy", content.getvalue())
    damaged = bytearray(path.read_bytes())
    position = damaged.index(b"\x93NUMPY") + 500 if compression == zipfile.ZIP_STORED else 30 + len("logits.npy") + 60
    damaged[position] ^= 1
    path.write_bytes(damaged)
    for read in (Predictions.load, lambda path: list(open_predictions(path).blocks(rows=7))):
        with pytest.raises(ValueError, match=r"preds\.npz"):
            read(path)


def test_a_header_that_promises_more_than_there_is(tmp_path):
    path, content = tmp_path / "preds.npz", io.BytesIO()
    np.lib.format.write_array_header_1_0(content, {"descr": "<f8", "fortran_order": False, "shape": (10**12, 10**6)})
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("logits.npy", content.getvalue() + bytes(80))
    with pytest.raises(ValueError, match="its logits is truncated or corrupt"):
        Predictions.load(path, labels=LABELS)


def test_integer_and_bytes_ids(tmp_path):
    path = tmp_path / "preds.npz"
    np.savez(path, logits=LOGITS, labels=LABELS, ids=np.arange(7))
    assert Predictions.load(path).ids == tuple("0123456")
    np.savez(path, logits=LOGITS, labels=LABELS, id=np.array([b"a", b"b", b"c", b"d", b"e", b"f", b"g"]))
    assert Predictions.load(path).ids == tuple("abcdefg")


def test_class_predictions_are_not_taken_for_probabilities(tmp_path):
    path = tmp_path / "preds.npz"
    np.savez(path, predictions=LABELS, labels=LABELS)
    with pytest.raises(ValueError, match="probabilities are of type int64; pass floating-point"):
        Predictions.load(path)


def test_npy_needs_kind_and_may_have_labels(tmp_path):
    path = tmp_path / "values.npy"
    np.save(path, LOGITS.astype(np.float16))
    np.save(tmp_path / "labels.npy", LABELS)
    with pytest.raises(ValueError, match=r"values\.npy: an npy does not say what it holds; pass kind="):
        Predictions.load(path, labels=LABELS)
    assert not Predictions.load(path, kind="logits").has_labels
    preds = concatenate(list(open_predictions(path, kind="logits", labels=tmp_path / "labels.npy").blocks(rows=2)))
    assert torch.equal(preds.values, torch.from_numpy(LOGITS).half().float())
    assert preds.labels.tolist() == LABELS.tolist()


def real_predictions():
    folder = os.environ.get("FOCALCAL_DATA")
    if folder is None:
        pytest.skip("FOCALCAL_DATA does not say where the real data is")
    return pathlib.Path(folder)


@pytest.mark.parametrize(
    ("name", "classes", "right"), [("wideresnet-16-4-cifar-10", 10, None), ("densenet-bc-100-cifar-100", 100, None)]
)
def test_the_softmax_outputs_of_real_networks(name, classes, right):
    path = real_predictions() / "predictions" / f"{name}.npz"
    with np.load(path, allow_pickle=False) as stored:
        probs, labels = stored["predictions"], stored["ground_truth"]
    preds = Predictions.load(path)
    assert (len(preds), preds.num_classes, preds.kind) == (10_000, classes, "probs")
    assert np.array_equal(preds.values.numpy(), probs)
    assert np.array_equal(preds.labels.numpy(), labels)


def test_human_label_counts_for_a_real_network():
    folder = real_predictions()
    counts = np.load(folder / "cifar10h" / "cifar10h-counts.npy", allow_pickle=False)
    preds = Predictions.load(
        folder / "predictions" / "wideresnet-16-4-cifar-10.npz",
        labels=folder / "cifar10h" / "cifar10h-counts.npy",
        labels_are="counts",
    )
    assert preds.has_soft_labels
    np.testing.assert_allclose(preds.labels, counts / counts.sum(axis=1, keepdims=True), rtol=1e-15)
    assert float((preds.hard_labels == preds.values.argmax(1)).double().mean()) > 0.9


@pytest.mark.parametrize("ending", ["npz", "safetensors", "parquet", "csv"])
def test_many_groups_and_long_facts_are_read_again(tmp_path, ending):
    """The limit for an id was applied to the names of all groups and to provenance: they could not be read again."""
    preds = Predictions.from_logits(
        np.random.default_rng(0).standard_normal((1500, 2)),
        np.arange(1500) % 2,
        groups={"user": [f"user {number}" for number in range(1500)]},
        class_names=["a" * 5000, "b"],
        provenance={"note": "x" * 20_000},
        split="s" * 6000,
    )
    preds.save(tmp_path / f"p.{ending}")
    read = Predictions.load(tmp_path / f"p.{ending}")
    assert read.groups["user"].names == preds.groups["user"].names
    assert (read.class_names, read.provenance, read.split) == (preds.class_names, preds.provenance, preds.split)


def test_an_id_that_would_not_be_read_again_is_not_written(tmp_path):
    preds = Predictions.from_logits(np.eye(2), [0, 1], ids=["a" * 5000, "b"])
    with pytest.raises(
        ValueError, match=r"its ids has entries of 5,000 characters.* Save to \.safetensors or \.parquet"
    ):
        preds.save(tmp_path / "p.npz")
    assert list(tmp_path.iterdir()) == []
    preds.save(tmp_path / "p.parquet")
    assert Predictions.load(tmp_path / "p.parquet").ids == preds.ids
