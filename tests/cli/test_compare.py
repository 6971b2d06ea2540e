import json

import pytest

_TINY = ["digits/mlp", "epochs=2", "data.train_size=50", "model.hidden=[8]", "--losses", "cross-entropy,fl-3"]


def test_compare_prints_a_table_and_writes_files(focalcal, tmp_path):
    done = focalcal("compare", *_TINY, "--bootstrap", "50", "--out", tmp_path / "c")
    assert done.code == 0, done.err
    assert "Digits, MLP" in done.out
    assert "has the lowest error" in done.out
    again = focalcal("compare", *_TINY, "--bootstrap", "50", "--json", "--quiet", "--out", tmp_path / "c")
    content = json.loads(again.out)
    assert list(content["table"]) == ["cross-entropy", "fl-3"]
    assert content["failed"] == []
    assert (tmp_path / "c" / "table.csv").is_file()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["digits/mlp"], "--out is missing"),
        (["digits/nothing", "--out", "x"], "There is no recipe digits/nothing"),
        (["digits/mlp", "--losses", "cross-entropy,focal", "--out", "x"], "There is no loss 'focal'"),
        (["digits/mlp", "--losses", ",", "--out", "x"], "There is no loss to train with"),
        (["digits/mlp", "loss=fl-3", "--out", "x"], "loss=fl-3 does not belong here"),
        (["digits/mlp", "epochs=0", "--out", "x"], "epochs"),
    ],
)
def test_bad_input_is_one_sentence(focalcal, tmp_path, monkeypatch, arguments, sentence):
    monkeypatch.chdir(tmp_path)
    done = focalcal("compare", *arguments)
    assert done.code == 2
    assert sentence in done.err
    assert "Traceback" not in done.err
    assert list(tmp_path.iterdir()) == []


def test_a_failed_run_is_exit_code_1(focalcal, tmp_path):
    done = focalcal("compare", *_TINY, "optimizer.lr=1e30", "--quiet", "--out", tmp_path / "c")
    assert done.code in (1, 2)
    assert "finite" in done.err
