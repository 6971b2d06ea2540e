"""A user's own texts through the whole command line, as docs/text.md shows it."""

import json
import random

import pytest
import torch

import focalcal as fc
from focalcal.data import encode_texts, load_data

pytestmark = pytest.mark.slow

WORDS = {"good": ["lovely", "great", "laughed", "fine"], "bad": ["dull", "boring", "slept", "poor"]}


def write(path, rows=120, seed=0):
    chosen = random.Random(seed)
    lines = ["text,label"]
    for number in range(rows):
        label = ("good", "bad")[number % 2]
        text = " ".join(chosen.choices([*WORDS[label], "the", "film", "was"], k=chosen.randint(2, 12)))
        lines.append(f'"{text}, {number}",{label}')
    path.write_text("\n".join(lines) + "\n")
    return path


def arguments(file, *more):
    return ["text/gp_cnn", f"data.path={file}", "data.tokens=60", "model.channels=16", "epochs=3", *more]


@pytest.fixture
def trained(focalcal, tmp_path):
    file = write(tmp_path / "my.csv")
    long_enough = [change.replace("epochs=3", "epochs=15") for change in arguments(file, "batch_size=16")]
    done = focalcal("train", *long_enough, "--out", tmp_path / "run", "--no-report")
    assert done.code == 0, done.err
    assert "words begin at random" in done.err
    return tmp_path / "run", file


def test_train_evaluate_calibrate_and_new_texts(focalcal, trained):
    folder, file = trained
    refused = focalcal("export", folder, "--out", folder / "model.onnx")
    assert refused.code == 2
    assert "takes TextBatch, which ONNX does not have" in refused.err
    evaluation = json.loads((folder / "evaluation.json").read_text())
    shown = json.loads(focalcal("evaluate", folder, "--json").out)
    assert shown["values"]["ece"] == pytest.approx(evaluation["splits"]["test"]["before"]["ece"])
    assert json.loads(focalcal("calibrate", folder, "--json").out)["n"] == 12
    data = load_data("text", path=str(file), tokens=60)
    network = fc.open_run(folder).network(data=data)
    with torch.no_grad():
        probs = torch.softmax(network(encode_texts(["a great lovely film", "dull and boring"], data)), dim=1)
    assert data.class_names == ("bad", "good")
    assert probs[0, 1] > probs[1, 1]


def test_another_file_is_not_gone_on_with(focalcal, tmp_path):
    file = write(tmp_path / "my.csv")
    run = tmp_path / "run"
    assert focalcal("train", *arguments(file), "--out", run, "--no-report", "--quiet").code == 0
    (run / "evaluation.json").unlink()  # as if it had been interrupted at the end
    write(file, rows=100)
    done = focalcal("train", "--resume", "--out", run)
    assert done.code == 2
    assert "The files of the data have changed since the run in" in done.err
    assert "Traceback" not in done.err
    write(file)
    assert focalcal("train", "--resume", "--out", run, "--no-report", "--quiet").code == 0


def test_sweep_refuses_a_wrong_file_once_and_leaves_nothing(focalcal, tmp_path):
    (tmp_path / "my.csv").write_text("words,label\na,b\n")
    losses = ["--losses", "cross-entropy,fl-3"]
    done = focalcal("sweep", *arguments(tmp_path / "my.csv"), *losses, "--quiet", "--out", tmp_path / "c")
    assert done.code == 2
    assert done.err.count("there is no column 'text'") == 1
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("data.val_path={folder}/empty.csv", "empty.csv has no row"),
        ("data.glove={folder}/my.csv", "my.csv, line 1: 0 numbers follow the word, not 100"),
        (
            "data.text_column=body",
            "there is no column 'body' among text, label; name the columns with data.text_column",
        ),
    ],
)
def test_bad_input_is_one_sentence_and_leaves_no_run(focalcal, tmp_path, change, sentence):
    file = write(tmp_path / "my.csv")
    (tmp_path / "empty.csv").write_text("text,label\n")
    done = focalcal("train", *arguments(file, change.format(folder=tmp_path)), "--out", tmp_path / "run")
    assert done.code == 2
    assert sentence in done.err
    assert "Traceback" not in done.err
    assert not (tmp_path / "run").exists()


def test_sparse_gradients_take_no_momentum(focalcal, tmp_path):
    change = "embedding_optimizer={name: sgd}"
    done = focalcal("train", "sst/tree_lstm", "data.synthetic=10", change, "--out", tmp_path / "run")
    assert done.code == 2
    assert "sgd with momentum 0" in done.err
