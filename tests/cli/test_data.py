"""``focalcal data``: through the sub-app, as the command line calls it."""

import json

import pytest
import typer

from focalcal.cli.data import data_app
from focalcal.cli.failures import run
from image_files import encoded, write_parquet


@pytest.fixture
def focalcal_data(monkeypatch, tmp_path, capsys):
    """Run ``focalcal data …``; gives the exit code, stdout and stderr."""
    monkeypatch.setenv("FOCALCAL_OFFLINE", "1")
    monkeypatch.setenv("FOCALCAL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("FOCALCAL_DATA", str(tmp_path))
    app = typer.Typer()
    app.add_typer(data_app)
    app.callback()(lambda: None)

    def call(*arguments):
        monkeypatch.setattr("sys.argv", ["focalcal", "data", *arguments])
        code = run(app)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def add_cifar(folder, labels=range(100)):
    for split in ("train", "test"):
        path = folder / f"cifar10/plain_text/{split}-00000-of-00001.parquet"
        write_parquet(path, [encoded(seed=row)[1] for row in labels], [row % 10 for row in labels])
    return path


def test_the_list_says_what_is_here(focalcal_data, tmp_path):
    add_cifar(tmp_path)
    code, out, _ = focalcal_data("list", "--json")
    rows = {row["name"]: row for row in json.loads(out)["data"]}
    assert code == 0
    assert rows["cifar10"]["complete"] is True
    assert rows["digits"]["complete"] is True
    assert rows["tiny_imagenet"]["missing"] == ["tiny_imagenet/tiny-imagenet-200.zip"]
    code, out, _ = focalcal_data("list")
    assert code == 0
    assert all(name in out for name in rows)
    assert "not here; takes 1 file(s), 248" in out


def test_a_whole_set_passes(focalcal_data, tmp_path):
    add_cifar(tmp_path)
    code, out, _ = focalcal_data("check", "cifar10", "--json")
    assert code == 0
    assert json.loads(out)["sizes"] == {"train": 90, "val": 10, "test": 100}
    code, out, _ = focalcal_data("check", "cifar10")
    assert code == 0
    assert "cifar10: 10 classes, whole" in out


def test_a_damaged_set_is_exit_code_1_and_a_missing_one_2(focalcal_data, tmp_path):
    path = add_cifar(tmp_path)
    path.write_bytes(path.read_bytes()[:2000])
    code, _, err = focalcal_data("check", "cifar10")
    assert code == 1
    assert "not a whole parquet file" in err
    assert err.count("\n") == 1
    for arguments in (("check", "svhn"), ("fetch", "svhn"), ("check", "nothing")):
        code, _, err = focalcal_data(*arguments)
        assert code == 2
        assert err.count("\n") == 1


def test_fetch_says_where_files_are(focalcal_data, tmp_path):
    path = add_cifar(tmp_path)
    code, out, _ = focalcal_data("fetch", "cifar10")
    assert code == 0
    assert out.splitlines()[-1] == str(path)
    code, out, _ = focalcal_data("fetch", "digits")
    assert code == 0
    assert "needs no file: it comes with scikit-learn" in out
