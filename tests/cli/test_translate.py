"""``focalcal translate``: lines, splits, references, and one sentence for what does not fit."""

import io
import json

import pytest

from focalcal.training import train

CHANGES = {"data.synthetic": 12, "epochs": 1, "batch_tokens": 100, "schedule.warmup_epochs": 0.5}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return train(
        "multi30k/transformer_tiny", overrides=CHANGES, out=tmp_path_factory.mktemp("run") / "a", progress=False
    )


def test_a_line_for_every_line(focalcal, run, tmp_path):
    file = tmp_path / "some.en"
    file.write_text("ba de\n\nki lo mu\n")
    ran = focalcal("translate", run.path, "--input", file, "--beam", 2, "--temperature", 1.1)
    assert (ran.code, ran.out.count("\n"), ran.out.split("\n")[1]) == (0, 3, "")
    assert "Empty lines, whose translations are empty: 1." in ran.err


def test_a_split_is_measured(focalcal, run, tmp_path):
    out = tmp_path / "test.de"
    ran = focalcal("translate", run.path, "--split", "test", "--beam", 1, "--out", out)
    assert ran.out.startswith("BLEU ")
    assert "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp" in ran.out
    assert len(out.read_text().splitlines()) == 12


def test_json(focalcal, run, tmp_path):
    source, reference = tmp_path / "a.en", tmp_path / "a.de"
    source.write_text("ba de\nki\n")
    reference.write_text("de ba\nki\n")
    ran = focalcal("translate", run.path, "--input", source, "--reference", reference, "--beam", 1, "--json")
    found = json.loads(ran.out)
    assert len(found["translations"]) == 2
    assert set(found["bleu"]) == {"score", "signature", "lower_cased"}
    assert found["empty_lines"] == 0


def test_stdin_is_read_like_a_file(focalcal, run, tmp_path, monkeypatch):
    content = "\ufeffba\rde\r\nki\u2028lo\n".encode()
    (tmp_path / "a.en").write_bytes(content)
    (tmp_path / "a.de").write_text("de ba\nki\n")
    ran = {}
    for name in (tmp_path / "a.en", "-"):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
        ran[name] = focalcal("translate", run.path, "--input", name, "--reference", tmp_path / "a.de", "--beam", 1)
        assert ran[name].code == 0
    assert len({one.out for one in ran.values()}) == 1
    assert ran["-"].out.count("\n") == 2


def test_bad_stdin_is_one_sentence(refused, run, tmp_path, monkeypatch):
    def given(content, *arguments):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
        return refused("translate", run.path, "--input", "-", *arguments)

    (tmp_path / "a.de").write_text("ba\n")
    assert "stdin, line 2 is not UTF-8" in given(b"ba\nd\xe9\n")
    assert "stdin has 2 lines and a.de 1" in given(b"ba\nde\n", "--reference", tmp_path / "a.de")
    assert "cannot be both --input and --reference" in given(b"ba\n", "--reference", "-")


def test_what_does_not_fit_is_one_sentence(refused, run, tmp_path):
    (tmp_path / "a.en").write_text("ba\nde\n")
    (tmp_path / "a.de").write_text("ba\n")
    assert "Name either --input" in refused("translate", run.path)
    assert "There is no file" in refused("translate", run.path, "--input", tmp_path / "missing")
    both = ("--input", tmp_path / "a.en", "--reference", tmp_path / "a.de")
    assert "a.en has 2 lines and a.de 1" in refused("translate", run.path, *both)
    assert "has no split 'tset'" in refused("translate", run.path, "--split", "tset")
    assert "temperature must be a number above 0" in refused(
        "translate", run.path, "--input", tmp_path / "a.en", "--temperature", "0"
    )
    assert "is not a run directory" in refused("translate", tmp_path, "--split", "test")
