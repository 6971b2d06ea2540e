"""Files of every format: what was saved is loaded, whole or in blocks; what is broken is refused in one sentence."""

import os
import resource
import stat
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from focalcal.predictions import Predictions, concatenate, open_predictions
from oracles.predictions import FORMATS, any_predictions, same

every_format = pytest.mark.parametrize("ending", FORMATS)
# The same folder serves all examples: each writes its file anew.
many_examples = settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])


def example(samples=20):
    rng = np.random.default_rng(7)
    return Predictions.from_logits(
        rng.standard_normal((samples, 4)).astype(np.float32),
        rng.integers(1, 9, (samples, 4)),
        labels_are="counts",
        groups={"region": [f"r{i % 3}" for i in range(samples)], "month": np.arange(samples) % 12},
        clusters=np.arange(samples) // 2,
        ids=[f"image-{i}" for i in range(samples)],
        weights=rng.random(samples),
        split="val",
        class_names=["cat", "dog", 'a "quoted", name', "naïve\nline"],
        masked_classes=[2],
        provenance={"model": "resnet50", "seed": "0"},
    )


@every_format
@many_examples
@given(preds=any_predictions(), rows=st.integers(1, 4))
def test_what_was_saved_is_loaded_whole_and_in_blocks(tmp_path, ending, preds, rows):
    path = tmp_path / f"preds{ending}"
    preds.save(path)
    assert same(Predictions.load(path), preds)
    file = open_predictions(path)
    assert (file.kind, file.num_classes, file.num_samples) == (preds.kind, preds.num_classes, len(preds))
    described = ("split", "class_names", "masked_classes", "provenance")
    assert [getattr(file, name) for name in described] == [getattr(preds, name) for name in described]
    blocks = list(file.blocks(rows))
    assert max(len(block) for block in blocks) <= rows
    assert same(concatenate(blocks), preds)


@every_format
def test_bfloat16_probabilities_keep_their_tolerance(tmp_path, ending):
    torch.manual_seed(0)
    preds = Predictions.from_probs(torch.softmax(torch.randn(50, 3), 1).bfloat16(), torch.zeros(50, dtype=torch.int64))
    assert float((preds.values.double().sum(1) - 1).abs().max()) > 0.0011
    preds.save(tmp_path / f"preds{ending}")
    assert same(Predictions.load(tmp_path / f"preds{ending}"), preds)


@every_format
def test_the_same_predictions_give_the_same_bytes_without_date_or_path(tmp_path, ending, monkeypatch):
    first, second = tmp_path / f"first{ending}", tmp_path / "elsewhere" / f"second{ending}"
    second.parent.mkdir()
    example().save(first)
    monkeypatch.setattr("time.time", lambda: 2_000_000_000.0)
    example().save(second)
    assert first.read_bytes() == second.read_bytes()
    assert str(tmp_path).encode() not in first.read_bytes()


@every_format
@many_examples
@given(data=st.data())
def test_a_truncated_file_is_refused_in_one_sentence_or_still_complete(tmp_path, ending, data):
    path, preds = tmp_path / f"preds{ending}", example()
    preds.save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1), label="bytes kept")])
    try:
        assert same(Predictions.load(path), preds)
    except ValueError as error:
        assert_one_sentence(error, path)


@every_format
@many_examples
@given(data=st.data())
def test_damaged_bytes_never_cause_anything_but_one_sentence(tmp_path, ending, data):
    path = tmp_path / f"preds{ending}"
    example().save(path)
    damaged = bytearray(path.read_bytes())
    positions = st.integers(0, len(damaged) - 1) | st.integers(0, 300) | st.integers(-500, -1)
    for position in data.draw(st.lists(positions, min_size=1, max_size=6)):
        damaged[position] = data.draw(st.integers(0, 255))
    path.write_bytes(damaged)
    try:
        Predictions.load(path)
    except ValueError as error:
        assert_one_sentence(error, path)


@pytest.mark.parametrize("ending", [".safetensors", ".npz", ".parquet", ".csv", ".npy"])
@pytest.mark.parametrize(
    "content",
    [b"", b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 9, b"\x80\x04cos\nsystem\n.", b"PK\x03\x04", b"{}", b"\n\n"],
)
def test_a_file_of_another_kind_is_refused_in_one_sentence(tmp_path, ending, content):
    path = tmp_path / f"preds{ending}"
    path.write_bytes(content)
    options = {"kind": "logits", "labels": [0]} if ending == ".npy" else {}
    with pytest.raises(ValueError, match="preds") as refused:
        Predictions.load(path, **options)
    assert_one_sentence(refused.value, path)


@every_format
def test_a_missing_file_and_a_folder(tmp_path, ending):
    with pytest.raises(FileNotFoundError, match=f"There is no file .*nowhere{ending}"):
        Predictions.load(tmp_path / f"nowhere{ending}")
    folder = tmp_path / f"folder{ending}"
    folder.mkdir()
    with pytest.raises(ValueError, match="is a folder"):
        Predictions.load(folder)
    with pytest.raises(ValueError, match="is a folder"):
        example().save(folder)


def test_an_unknown_ending_is_refused_both_ways(tmp_path):
    (tmp_path / "preds.pt").write_bytes(b"anything")
    with pytest.raises(ValueError, match=r"preds\.pt ends in none of \.safetensors, \.npz"):
        Predictions.load(tmp_path / "preds.pt")
    with pytest.raises(ValueError, match="ends in none of"):
        example().save(tmp_path / "preds.pkl")
    with pytest.raises(ValueError, match=r"save to \.npz"):
        example().save(tmp_path / "preds.npy")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
@every_format
def test_a_file_that_may_not_be_read(tmp_path, ending):
    path = tmp_path / f"preds{ending}"
    example().save(path)
    path.chmod(0)
    with pytest.raises(ValueError, match=r"cannot be read: Permission denied\."):
        Predictions.load(path)


@every_format
def test_nothing_is_left_of_a_save_for_which_there_is_no_room(tmp_path, ending):
    path = tmp_path / f"preds{ending}"
    example().save(path)
    before = path.read_bytes()
    with (
        files_limited_to(len(before)),
        pytest.raises(ValueError, match=rf"preds{ending} cannot be written: File too large"),
    ):
        example(samples=5000).save(path)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


@contextmanager
def files_limited_to(size):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_saved_file_has_the_usual_permissions_and_a_link_stays_a_link(tmp_path):
    (tmp_path / "plain").write_bytes(b"")
    link = tmp_path / "link.npz"
    link.symlink_to(tmp_path / "target.npz")
    example().save(link)
    assert link.is_symlink()
    assert stat.S_IMODE((tmp_path / "target.npz").stat().st_mode) == stat.S_IMODE((tmp_path / "plain").stat().st_mode)


@every_format
def test_content_is_checked_while_it_streams_and_the_row_is_named(tmp_path, ending):
    wrong = example()
    wrong.values[17, 2] = float("nan")
    path = tmp_path / f"preds{ending}"
    wrong.save(path)
    blocks = open_predictions(path).blocks(rows=5)
    assert [len(next(blocks)) for _ in range(3)] == [5, 5, 5]
    with pytest.raises(ValueError, match=rf"preds{ending}: The logits of row 17 hold NaN"):
        next(blocks)
    with pytest.raises(ValueError, match="row 17 hold NaN"):
        Predictions.load(path)


@every_format
def test_duplicate_ids_in_distant_blocks_are_found(tmp_path, ending):
    ids = [f"i{i}" for i in range(20)]
    ids[19] = "i3"
    values, labels = np.zeros((20, 2)), np.zeros(20, np.int64)
    path = tmp_path / f"preds{ending}"
    Predictions.from_logits(values, labels, ids=ids, allow_duplicate_ids=True).save(path)
    for read in (lambda: list(open_predictions(path).blocks(rows=4)), lambda: Predictions.load(path)):
        with pytest.raises(ValueError, match="id 'i3' occurs twice, in rows 3 and 19"):
            read()
    assert len(list(open_predictions(path, allow_duplicate_ids=True).blocks(rows=4))) == 5
    assert Predictions.load(path, allow_duplicate_ids=True).ids == tuple(ids)


@every_format
def test_ignored_labels_are_dropped_and_empty_blocks_skipped(tmp_path, ending):
    labels = torch.tensor([0, -100, -100, 1])
    path = tmp_path / f"preds{ending}"
    Predictions(values=torch.eye(4)[:, :2].contiguous(), kind="logits", labels_or_none=labels).save(path)
    assert [block.labels.tolist() for block in open_predictions(path).blocks(rows=1)] == [[0], [1]]
    assert open_predictions(path).num_samples == 4
    assert Predictions.load(path).labels.tolist() == [0, 1]
    with pytest.raises(ValueError, match="row 1 is -100"):
        Predictions.load(path, ignore_index=None)


@every_format
def test_options_replace_what_the_file_says(tmp_path, ending):
    path = tmp_path / f"preds{ending}"
    example().save(path)
    names = ["a", "b", "c", "d"]
    loaded = Predictions.load(path, split="test", class_names=names, masked_classes=[], labels=np.arange(20) % 4)
    assert (loaded.split, loaded.class_names, loaded.masked_classes) == ("test", tuple(names), ())
    assert loaded.labels.tolist() == (np.arange(20) % 4).tolist()
    with pytest.raises(ValueError, match="3 class_names for 4 classes"):
        open_predictions(path, class_names=names[:3])
    with pytest.raises(ValueError, match="labels that were passed have shape"):
        Predictions.load(path, labels=[0, 1])


@every_format
def test_labels_from_another_file_in_step_with_the_blocks(tmp_path, ending):
    path, labels_path = tmp_path / f"preds{ending}", tmp_path / "counts.npy"
    example().save(path)
    counts = np.random.default_rng(0).integers(1, 50, (20, 4))
    np.save(labels_path, counts)
    blocks = list(open_predictions(path, labels=labels_path, labels_are="counts").blocks(rows=3))
    np.testing.assert_allclose(concatenate(blocks).labels, counts / counts.sum(1, keepdims=True), rtol=1e-15)
    labels_path.write_bytes(b"no array")
    with pytest.raises(ValueError, match=r"counts\.npy"):
        open_predictions(path, labels=labels_path)
    with pytest.raises(FileNotFoundError, match=r"missing\.npy"):
        open_predictions(path, labels=tmp_path / "missing.npy")


def test_an_option_that_does_not_exist(tmp_path):
    with pytest.raises(TypeError, match=r"There is no option 'logit_key'.*logits_key"):
        open_predictions(tmp_path / "preds.npz", logit_key="z")


def test_options_that_contradict_each_other(tmp_path):
    with pytest.raises(ValueError, match="not both"):
        open_predictions(tmp_path / "preds.npz", logits_key="a", probs_key="b")
    with pytest.raises(ValueError, match="contradicts"):
        open_predictions(tmp_path / "preds.npz", logits_key="a", kind="probs")
    with pytest.raises(ValueError, match="kind must be"):
        open_predictions(tmp_path / "preds.npz", kind="scores")


def test_weights_that_are_all_zero_are_found_at_the_end_of_the_stream(tmp_path):
    np.savez(tmp_path / "preds.npz", logits=np.zeros((4, 2)), labels=np.zeros(4, np.int64), weights=np.zeros(4))
    with pytest.raises(ValueError, match=r"preds\.npz: All weights are 0"):
        list(open_predictions(tmp_path / "preds.npz").blocks(2))
    np.savez(tmp_path / "preds.npz", logits=np.zeros((4, 2)), labels=np.zeros(4, np.int64), weights=[0, 0, 0, 1])
    assert len(list(open_predictions(tmp_path / "preds.npz").blocks(2))) == 2


def assert_one_sentence(error, path):
    message = str(error)
    assert message.startswith(str(path))
    assert "\n" not in message
    assert message.endswith(".")
    assert ". " not in message.removeprefix(str(path))
