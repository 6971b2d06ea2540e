"""Reading and writing histories."""

import pytest

from focalcal.training.history import read_history, write_history


def test_round_trip(tmp_path):
    epochs = [{"epoch": 0, "val": {"ece": 0.1, "nll_wrong": None}}, {"epoch": 1}]
    write_history(tmp_path / "history.jsonl", epochs)
    assert read_history(tmp_path / "history.jsonl") == epochs
    assert read_history(tmp_path / "nothing.jsonl") == []


def test_damaged_line(tmp_path):
    (tmp_path / "history.jsonl").write_text('{"epoch": 0}\n{"epo\n')
    with pytest.raises(ValueError, match=r"history\.jsonl, line 2, is not JSON"):
        read_history(tmp_path / "history.jsonl")
