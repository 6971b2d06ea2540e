"""Nothing but a regular file is ever opened: a device would fill the memory, a pipe would wait for ever."""

import ast
import os
import socket
from pathlib import Path

import pytest

import focalcal
from focalcal.base.files import atomic_writer, open_appending, read_bytes, regular_file
from focalcal.calibrators import load_calibrator
from focalcal.data.glove import read_vectors
from focalcal.data.newsgroups import read_newsgroups
from focalcal.data.own_texts import read_text_table
from focalcal.data.parallel_text import read_lines
from focalcal.plots.training_history import training_curves
from focalcal.predictions import Predictions, open_predictions
from focalcal.predictions.token_predictions import TokenPredictions
from focalcal.recipes import load_recipe
from focalcal.sweeps.result_rows import read_rows
from focalcal.sweeps.single_run import train_run
from focalcal.training.checkpoints import read_checkpoint
from focalcal.training.run_directory import open_run, read_evaluation, read_history

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has none of these.")

READERS = {
    "p.npz": Predictions.load,
    "p.npy": lambda path: open_predictions(path, kind="logits", labels=[0]),
    "p.safetensors": Predictions.load,
    "p.parquet": Predictions.load,
    "p.csv": Predictions.load,
    "labels.npy": lambda path: Predictions.load(path.with_name("real.npz"), labels=path),
    "tokens.safetensors": TokenPredictions.load,
    "c.json": load_calibrator,
    "r.yaml": load_recipe,
    "table.csv": read_rows,
    "checkpoint.safetensors": read_checkpoint,
    "history.jsonl": training_curves,
    "evaluation.json": read_evaluation,
    "glove.100d.txt": lambda path: read_vectors(path, ["a"]),
    "news.tar.gz": read_newsgroups,
    "texts.csv": lambda path: read_text_table(path, "text", "label"),
    "lines.gz": read_lines,
}


def make(kind, path):
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(str(path))
    else:
        path.symlink_to(kind)


@pytest.mark.parametrize("kind", ["/dev/zero", "/dev/urandom", "pipe", "socket"])
@pytest.mark.parametrize("name", READERS)
def test_every_reader_refuses(tmp_path, monkeypatch, name, kind):
    monkeypatch.chdir(tmp_path)  # the path of a socket must be short
    Predictions.from_probs([[0.5, 0.5]], [0]).save("real.npz")
    make(kind, Path(name))
    with pytest.raises(ValueError, match=rf"{name}.*is a (device|pipe|socket), not a file"):
        READERS[name](tmp_path / name)


@pytest.mark.parametrize("name", ["config.yaml", "history.jsonl", "evaluation.json", "environment.json"])
def test_a_run_directory_with_a_pipe_in_it(tmp_path, name):
    (tmp_path / "config.yaml").write_text("data: digits\nmodel: mlp\nepochs: 1\n")
    (tmp_path / name).unlink(missing_ok=True)
    os.mkfifo(tmp_path / name)
    if name == "config.yaml":
        with pytest.raises(ValueError, match="is not a run directory"):
            open_run(tmp_path)
        return
    run = open_run(tmp_path)
    assert not run.files.is_finished
    assert read_history(run.files.history) == []


@pytest.mark.parametrize("target", ["/dev/null", "/dev/full"])
def test_a_device_is_never_replaced_by_a_file(target):
    before = os.stat(target)
    with pytest.raises(ValueError, match="is not a file but a device"), atomic_writer(target) as file:
        file.write(b"x")
    assert os.stat(target).st_rdev == before.st_rdev


def test_a_file_that_is_too_large_is_not_read_to_its_end(tmp_path):
    with open(tmp_path / "large", "wb") as file:
        file.truncate(2**40)  # it takes no room on the disk
    with pytest.raises(ValueError, match=r"large has more than 1,000 bytes"):
        read_bytes(tmp_path / "large", 1000)


def test_names_that_no_file_can_have(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    for path in (tmp_path / "loop", "a\0b"):
        with pytest.raises(ValueError, match="cannot be read"):
            regular_file(path)


# Functions that open what they are given. Each call must name regular_file, or hold a file that is open already.
OPENERS = {
    "open", "gzip.open", "zipfile.ZipFile", "tarfile.open", "safe_open", "load_file", "np.load", "pq.ParquetFile",
    "pyarrow.parquet.read_table", "pyarrow.parquet.read_schema", "pyarrow.csv.open_csv", "pyarrow.csv.read_csv",
    "Image.open", "pq.read_table", "pd.read_csv",
}  # fmt: skip
METHODS = ("read_text", "read_bytes")
NO_PATH = (
    "io.BytesIO(",
    "files(",
    "resources.",
    "packaged",
    "_LIBRARY.",
    "stream",
)  # in memory, or a file of focalcal itself


def unguarded_reads(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        subject = ast.unparse(node.args[0]) if node.args else ""
        if called in OPENERS:
            modes = [arg.value for arg in node.args[1:2] if isinstance(arg, ast.Constant)]
            if any(set(mode) & set("wax") for mode in modes if isinstance(mode, str)):
                continue
        elif isinstance(node.func, ast.Attribute) and node.func.attr in METHODS:
            subject = ast.unparse(node.func.value)
        else:
            continue
        is_open = any(keyword.arg == "fileobj" for keyword in node.keywords)
        if not is_open and not subject.startswith(NO_PATH) and "regular_file(" not in subject:
            yield f"{path.name}, line {node.lineno}: {called}({subject})"


def bare_writes(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        modes = [one.value for one in node.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
        is_open = ast.unparse(node.func) == "open" and any(set(mode) & set("wax+") for mode in modes[-1:])
        if is_open or name in ("mkdir", "makedirs", "write_text", "write_bytes", "touch"):
            yield f"{path.name}, line {node.lineno}: {ast.unparse(node)}"


def test_everything_that_is_written_goes_through_one_place():
    """Elsewhere a name that a pipe or a folder has is a hang, or an error that names nothing."""
    folder = Path(focalcal.__file__).parent
    own = {"files.py": "the place", "download.py": "its errors are DownloadError", "ray_runs.py": "a marker of its own"}
    found = [line for path in sorted(folder.rglob("*.py")) if path.name not in own for line in bare_writes(path)]
    assert found == []


@pytest.mark.parametrize("kind", ["pipe", "socket", "folder"])
def test_a_log_that_is_no_file(tmp_path, monkeypatch, kind):
    """A run whose train.log was a pipe waited for ever for somebody who reads it."""
    monkeypatch.chdir(tmp_path)
    Path("train.log").mkdir() if kind == "folder" else make(kind, Path("train.log"))
    with pytest.raises(ValueError, match=r"train\.log is (a folder|not a file but a device, a pipe or a socket)"):
        open_appending("train.log")
    ending, reason = train_run(load_recipe("digits/mlp", ["epochs=1"]), tmp_path, [])
    assert (ending.name, "train.log is " in reason) == ("REFUSED", True)


def test_everything_that_is_read_goes_through_one_guard():
    folder = Path(focalcal.__file__).parent
    found = [line for path in sorted(folder.rglob("*.py")) for line in unguarded_reads(path)]
    assert found == []
