"""Shards on a real Ray cluster of two nodes."""

import threading
import warnings

import pytest

from focalcal.metrics import evaluate_shards
from focalcal.predictions import Predictions
from oracles.known_truth import logits_and_labels
from ray_nodes import add_node, kill_node, two_nodes

pytest.importorskip("ray")
pytestmark = [pytest.mark.processes, pytest.mark.slow]


@pytest.fixture(scope="module")
def cluster():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Ray's own
        with two_nodes() as nodes:
            yield nodes


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shards")
    logits, labels = logits_and_labels(20_000, 10)
    whole = Predictions.from_logits(2 * logits, labels, split="test")
    for number in range(40):
        whole.select(list(range(500 * number, 500 * number + 500))).save(folder / f"{number:02d}.parquet")
    return folder


@pytest.fixture(scope="module")
def here(shards):
    return evaluate_shards(shards / "*.parquet", workers=1)


def test_the_same_bits_as_here(cluster, shards, here):
    found = evaluate_shards(shards / "*.parquet", on="ray")
    assert (found.n, found.values, found.intervals) == (here.n, here.values, here.intervals)


def test_a_killed_node_changes_nothing(cluster, shards, here):
    doomed = add_node(cluster)
    killer = threading.Timer(1.0, kill_node, (cluster, doomed))
    killer.start()
    try:
        for _ in range(3):  # whenever it dies
            found = evaluate_shards(shards / "*.parquet", on="ray")
            assert (found.n, found.values, found.intervals) == (here.n, here.values, here.intervals)
    finally:
        killer.join()


def test_bad_shards_are_named_or_skipped(cluster, shards, tmp_path):
    good = shards / "00.parquet"
    bad = tmp_path / "bad.parquet"
    bad.write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"bad\.parquet is corrupt or truncated"):
        evaluate_shards([good, bad], on="ray")
    found = evaluate_shards([good, bad], on="ray", skip_bad_shards=True)
    assert (found.n, "1 of 2 shards was skipped" in found.notes[0]) == (500, True)


def test_a_file_that_nodes_cannot_see(cluster, shards, tmp_path):
    with pytest.raises(ValueError, match=r"The node .* cannot see .*nowhere\.parquet, which this machine can"):
        evaluate_shards([shards / "00.parquet", tmp_path / "nowhere.parquet"], on="ray", skip_bad_shards=True)
