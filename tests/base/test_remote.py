import fsspec
import pytest

from focalcal.base.remote import LocalCopy, find_remote, is_remote, remote_exists, write_remote


@pytest.fixture
def memory():
    """Storage that lives in memory, and is empty again afterwards."""
    storage = fsspec.filesystem("memory")
    yield storage
    storage.store.clear()
    storage.pseudo_dirs[:] = [""]


def test_a_copy_is_there_as_long_as_it_is_needed(memory):
    memory.pipe("/a/test.csv", b"one")
    copy = LocalCopy("memory://a/test.csv")
    path = copy.path
    assert (path.name, path.read_bytes()) == ("test.csv", b"one")
    del copy
    assert not path.parent.exists()


def test_patterns_and_writing(memory, tmp_path):
    for name in ("b", "a", "c"):
        (tmp_path / "file").write_text(name)
        write_remote(f"memory://preds/{name}.parquet", tmp_path / "file")
    assert find_remote("memory://preds/*.parquet") == [f"memory:///preds/{name}.parquet" for name in "abc"]
    assert find_remote("memory://preds/*.csv") == []
    assert remote_exists("memory://preds/a.parquet")
    assert not remote_exists("memory://preds/x.parquet")


@pytest.mark.parametrize(
    ("url", "kind", "sentence"),
    [
        ("memory://nowhere/test.csv", FileNotFoundError, "There is no file memory://nowhere/test.csv."),
        (
            "s3://bucket/test.csv",
            ImportError,
            r"Paths s3:// need s3fs, which is not installed: pip install 'focalcal\[s3\]'",
        ),
        (
            "gs://bucket/test.csv",
            ImportError,
            r"Paths gs:// need gcsfs, which is not installed: pip install 'focalcal\[gs\]'",
        ),
        ("nothing://bucket/test.csv", ValueError, "a kind of storage that fsspec does not know"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(url, kind, sentence):
    with pytest.raises(kind, match=sentence):
        LocalCopy(url)


def test_windows_paths_and_names_are_not_remote():
    assert not any(map(is_remote, ("C:\\a\\test.csv", "a:b", "runs/a=b", "test.csv")))


def test_hadoop_says_what_it_takes(monkeypatch):
    def without_java(url):
        raise OSError("Unable to load libjvm")

    monkeypatch.setattr("fsspec.core.url_to_fs", without_java)
    with pytest.raises(ValueError, match=r"cannot be read: Unable to load libjvm \(hdfs:// takes Java and Hadoop's"):
        find_remote("hdfs://host/*.parquet")
