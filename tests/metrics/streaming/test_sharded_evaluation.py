"""Shards give what one process gives for all rows one after another."""

import math
from itertools import pairwise

import fsspec
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from focalcal.metrics import Accumulator, evaluate, evaluate_shards
from focalcal.predictions import Predictions
from oracles.known_truth import logits_and_labels


def make(rows=3000, classes=4, **options):
    logits, labels = logits_and_labels(rows, classes)
    return Predictions.from_logits(2 * logits, labels, **options)


def save_parts(preds, folder, cuts, ending="npz"):
    edges = [0, *cuts, len(preds)]
    names = []
    for number, (low, high) in enumerate(pairwise(edges)):
        names.append(folder / f"part-{number:02d}.{ending}")
        preds.select(list(range(low, high))).save(names[-1])
    return names


def assert_same(found, expected):
    assert found.n == expected.n
    assert found.values == pytest.approx(expected.values, rel=1e-12, abs=1e-12, nan_ok=True)
    assert list(found.intervals) == list(expected.intervals)
    for name, ends in found.intervals.items():
        assert ends == pytest.approx(expected.intervals[name], rel=1e-9, abs=1e-12, nan_ok=True), name


@pytest.mark.parametrize("weighted", [False, True])
def test_one_process_over_all_rows_gives_the_same(tmp_path, weighted):
    weights = torch.arange(3000) % 7 * 0.3 if weighted else None
    whole = make(weights=weights)
    save_parts(whole, tmp_path, [1, 700, 1999, 2000])
    found = evaluate_shards(tmp_path / "part-*.npz", workers=1)
    one = Accumulator(4, compact=True)
    one.add(whole)
    assert_same(found, one.compute())
    exact = evaluate(whole, bootstrap=0)
    for name, value in found.values.items():
        assert abs(value - exact.values[name]) <= found.bounds.get(name, 0.0) + 1e-9, name
    for name in ("ece", "mce"):
        assert found.intervals[name] == pytest.approx(exact.intervals[name], rel=1e-9)


@settings(max_examples=15)
@given(cuts=st.lists(st.integers(1, 199), min_size=1, max_size=12, unique=True), seed=st.integers(0, 5))
def test_any_cuts_give_the_same(tmp_path_factory, cuts, seed):
    folder = tmp_path_factory.mktemp("cuts")
    logits, labels = logits_and_labels(200, 3, seed=seed)
    whole = Predictions.from_logits(logits, labels)
    whole.save(folder / "whole.npz")
    save_parts(whole, folder, sorted(cuts))
    assert_same(evaluate_shards(folder / "part-*.npz", workers=1), evaluate_shards(folder / "whole.npz", workers=1))


def test_processes_give_the_same_bits(tmp_path):
    save_parts(make(500), tmp_path, range(30, 500, 30))  # more than join at a time
    here = evaluate_shards(tmp_path / "*.npz", workers=1)
    there = evaluate_shards(tmp_path / "*.npz", workers=2)
    assert there.values == here.values
    assert there.intervals == here.intervals


def test_formats_may_be_mixed_and_remote(tmp_path):
    whole = make(60)
    storage = fsspec.filesystem("memory")
    try:
        for part, ending in enumerate(("npz", "csv", "parquet", "safetensors")):
            path = tmp_path / f"{part}.{ending}"
            whole.select(list(range(15 * part, 15 * part + 15))).save(path)
            storage.put_file(str(path), f"/mixed/{path.name}")
        local = evaluate_shards([tmp_path / "0.npz", str(tmp_path / "[123].*")], workers=1)
        remote = evaluate_shards("memory://mixed/*", workers=1)
    finally:
        storage.store.clear()
        storage.pseudo_dirs[:] = [""]
    assert local.n == 60
    assert remote.values == local.values


def test_a_bad_shard_is_named_or_skipped(tmp_path):
    names = save_parts(make(300), tmp_path, [100, 200], "parquet")
    content = bytearray(names[1].read_bytes())
    content[len(content) // 2] ^= 0xFF
    names[1].write_bytes(content)  # damage that shows when the rows are read
    with pytest.raises(ValueError, match=r"part-01\.parquet cannot be read: .*checksum"):
        evaluate_shards(tmp_path / "*.parquet", workers=1)
    (tmp_path / "part-99.parquet").write_bytes(b"nothing")  # and one that shows at once
    with pytest.raises(ValueError, match=r"part-99\.parquet is corrupt or truncated"):
        evaluate_shards(tmp_path / "*.parquet", workers=1)
    found = evaluate_shards(tmp_path / "*.parquet", workers=1, skip_bad_shards=True)
    assert found.n == 200
    assert "2 of 4 shards were skipped" in found.notes[0]
    assert "part-01.parquet" in found.notes[0]
    assert "part-99.parquet" in found.notes[0]


def test_nothing_but_bad_shards(tmp_path):
    (tmp_path / "a.npz").write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"None of 1 shards can be read; the first: .*a\.npz"):
        evaluate_shards(tmp_path / "*.npz", workers=1, skip_bad_shards=True)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"metrics": ["ecs"]}, "did you mean"),
        ({"metrics": ["debiased_ece"]}, "debiased_ece cannot be computed from shards"),
        ({"on": "dask"}, "on must be 'local' or 'ray'"),
        ({"workers": 0}, "workers must be at least 1"),
        ({"address": "auto"}, "pass on='ray' as well"),
        ({"level": 1.5}, "level"),
        ({"labels": [0, 1]}, "belong to one file"),
    ],
)
def test_bad_arguments(tmp_path, options, sentence):
    make(20).save(tmp_path / "a.npz")
    with pytest.raises(ValueError, match=sentence):
        evaluate_shards(tmp_path / "a.npz", **{"workers": 1, **options})


def test_the_state_is_small(tmp_path):
    sizes = {}
    for classes in (10, 1000):
        state = Accumulator(classes, compact=True).state_dict()
        sizes[classes] = sum(part.numel() * part.element_size() for part in state.values())
    assert sizes[10] < 1_000_000
    assert sizes[1000] < 5_000_000


def test_masked_classes_and_metrics_by_name(tmp_path):
    logits, labels = logits_and_labels(400, 5)
    labels = torch.where(labels == 2, 0, labels)
    whole = Predictions.from_logits(logits, labels, masked_classes=[2])
    save_parts(whole, tmp_path, [150])
    found = evaluate_shards(tmp_path / "*.npz", workers=1, metrics=["error", "ece"], intervals=False)
    assert list(found.values) == ["error", "ece"]
    assert found.values == pytest.approx(evaluate(whole, metrics=["error", "ece"], intervals=False).values, rel=1e-12)


def test_compact_accumulators_do_not_go_with_others():
    with pytest.raises(ValueError, match="Only one of the two accumulators is compact"):
        Accumulator(3).merge(Accumulator(3, compact=True))


def test_infinite_weights_and_scales(tmp_path):
    whole = make(100, weights=np.geomspace(1e-300, 1e300, 100))
    save_parts(whole, tmp_path, [50])
    found = evaluate_shards(tmp_path / "*.npz", workers=1)
    exact = evaluate(whole, bootstrap=0)
    assert found["nll"] == pytest.approx(exact["nll"], rel=1e-12)
    assert math.isfinite(found["ece"])
