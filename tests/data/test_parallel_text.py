"""Parallel text: files of lines and parquet, and one sentence for each thing that may be wrong with them."""

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from focalcal.data.parallel_text import ParallelText, read_lines, read_parallel


def write(folder, name, text, encoding="utf-8"):
    path = Path(folder, name)
    content = text.encode(encoding)
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return path


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_two_files_of_lines(tmp_path, ending):
    paths = [
        write(tmp_path, f"a.en{ending}", "a dog\na cat\n"),
        write(tmp_path, f"a.de{ending}", "ein Hund\neine Katze"),
    ]
    assert read_parallel(paths) == ParallelText(["a dog", "a cat"], ["ein Hund", "eine Katze"])


def test_a_parquet_file_of_the_hub(tmp_path):
    path = tmp_path / "part.parquet"
    rows = [{"de": "ein Hund", "en": "a dog"}, {"de": None, "en": "a cat"}]
    pq.write_table(pa.table({"translation": rows}), path)
    assert read_parallel([path]) == ParallelText(["a dog", "a cat"], ["ein Hund", ""])
    assert read_parallel([path, path], ("de", "en")).target == ["a dog", "a cat"] * 2


@pytest.mark.parametrize("mark", ["\u2028", "\x0b", "\x1c", "\x85"])
def test_only_a_line_feed_ends_a_line(tmp_path, mark):
    assert read_lines(write(tmp_path, "a.en", f"one{mark}line\r\nanother")) == [f"one{mark}line", "another"]


def test_a_byte_order_mark_is_no_text(tmp_path):
    assert read_lines(write(tmp_path, "a.en", "\ufeffone\n")) == ["one"]


def test_empty_lines_are_left_out_with_their_translation():
    text, kept = ParallelText(["a", "\t", "c", "d"], ["x", "y", "", "z"]).without_empty()
    assert (text.source, text.target, kept) == (["a", "d"], ["x", "z"], [0, 3])


def broken(folder, name):
    path = Path(folder, name)
    path.write_bytes(b"no archive")
    return path


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda f: [write(f, "a.en", "a\nb\n"), write(f, "a.de", "x\n")], "a.en has 2 lines and a.de 1"),
        (lambda f: [Path(f, "missing.en"), Path(f, "missing.de")], "There is no file .*missing.en"),
        (lambda f: [write(f, "a.en", "a\n")], "two files of lines or a parquet file, and 1 were given"),
        (lambda f: [write(f, "a.en", ""), write(f, "a.de", "")], "a.en and a.de have no lines"),
        (lambda f: [write(f, "a.en", "a\nü\n", "latin-1"), write(f, "a.de", "x\ny\n")], "a.en, line 2 is not UTF-8"),
        (lambda f: [broken(f, "a.en.gz"), write(f, "a.de", "x\n")], "a.en.gz cannot be read"),
        (lambda f: [broken(f, "a.parquet")], "a.parquet cannot be read"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, make, sentence):
    with pytest.raises(ValueError, match=sentence):
        read_parallel(make(tmp_path))


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ({"text": ["a"]}, "has no column 'translation' that holds a text per language"),
        ({"translation": ["a"]}, "has no column 'translation' that holds a text per language"),
        ({"translation": [{"en": "a", "fr": "b"}]}, "has no language 'de'; it has en, fr"),
    ],
)
def test_a_parquet_file_of_another_kind_is_named(tmp_path, table, sentence):
    path = tmp_path / "part.parquet"
    pq.write_table(pa.table(table), path)
    with pytest.raises(ValueError, match=sentence):
        read_parallel([path])
