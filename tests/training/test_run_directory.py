"""Reading a run directory: its network, its history, the names of its files."""

import json

import pytest
import torch
from torch import nn

from focalcal.data import load_data
from focalcal.training import RunDirectory, open_run, train
from focalcal.training.run_directory import read_evaluation, read_history, write_history

_EPOCHS = ("selected", "last")
_TINY = {"epochs": 3, "data.train_size": 60, "model.hidden": [8]}


@pytest.mark.parametrize("change", [{}, {"select": "last"}, {"select": "last", "ema_decay": 0.9}, {"ema_decay": 0.9}])
def test_it_gives_the_predictions_of_the_run(tmp_path, change):
    run = train("digits/mlp", out=tmp_path / "a", overrides={**_TINY, **change}, progress=False)
    network = open_run(run.path).network()
    samples = load_data("digits", train_size=60).evaluation["test"]
    batch = samples.batch(torch.arange(len(samples)), device=torch.device("cpu"), generator=None)
    with torch.no_grad():
        logits = network(batch.inputs)
    assert not network.training
    torch.testing.assert_close(logits, run.predictions("test").values, atol=1e-5, rtol=1e-5)


def _write_texts(file, rows):
    file.write_text("\n".join(["text,label", *rows]) + "\n")


def test_texts_with_other_words_are_refused(tmp_path):
    rows = [f"word{i} word{i + 1},{'ab'[i % 2]}" for i in range(30)]
    file = tmp_path / "my.csv"
    _write_texts(file, rows)
    settings = {"data.path": str(file), "data.tokens": 20, "model.channels": 4, "epochs": 1}
    run = train("text/gp_cnn", out=tmp_path / "a", overrides=settings, progress=False)
    data = run.data()
    samples = data.evaluation["test"]
    batch = samples.batch(torch.arange(len(samples)), device=torch.device("cpu"), generator=None)
    with torch.no_grad():
        torch.testing.assert_close(run.network(data=data)(batch.inputs), run.predictions("test").values)
    for other, what in (
        ({"seed": 1, "tokens": 20}, "other words"),
        ({"tokens": 19}, "another number of tokens"),
        ({"tokens": 20, "words": 5}, "other words"),
    ):
        with pytest.raises(ValueError, match=f"The data has {what} than the run in .* was trained with"):
            run.network(data=load_data("text", path=file, **other))
    _write_texts(file, rows[::-1])
    with pytest.raises(ValueError, match="The data has other words"):
        run.network()


def test_data_of_ones_own_is_not_loaded(tmp_path):
    data = {"train": (torch.randn(8, 64), torch.arange(8) % 10), "val": (torch.randn(8, 64), torch.arange(8) % 10)}
    network = nn.Linear(64, 10)
    run = train("digits/mlp", out=tmp_path / "a", overrides={"epochs": 1}, model=network, data=data, progress=False)
    with pytest.raises(ValueError, match="data of your own, which it cannot load"):
        run.data()


def test_a_network_of_ones_own_gets_its_weights(tmp_path):
    torch.manual_seed(0)
    x, y = torch.randn(40, 3), torch.arange(40) % 2
    data = {"train": (x, y), "val": (x, y)}
    trained = nn.Linear(3, 2)
    run = train("digits/mlp", out=tmp_path / "a", overrides={"epochs": 1}, model=trained, data=data, progress=False)
    fresh = run.network(model=nn.Linear(3, 2))
    torch.testing.assert_close(fresh(x), run.predictions("val").values)
    with pytest.raises(ValueError, match="The saved weights do not fit the network"):
        run.network(model=nn.Linear(4, 2))


def test_a_compiled_network_gets_its_weights(tmp_path):
    x, y = torch.randn(40, 3), torch.arange(40) % 2
    data = {"train": (x, y), "val": (x, y)}
    network = torch.compile(nn.Linear(3, 2), backend="eager")
    run = train("digits/mlp", out=tmp_path / "a", overrides={"epochs": 1}, model=network, data=data, progress=False)
    torch.testing.assert_close(run.network(model=network)(x), run.predictions("val").values)
    with pytest.raises(ValueError, match=r"pass it, as in network\(model=…\)"):
        run.network()


def test_without_checkpoints_there_are_no_weights(tmp_path):
    run = train("digits/mlp", out=tmp_path / "a", overrides=_TINY, progress=False)
    for file in (run.path / "checkpoints").glob("epoch-*"):
        file.unlink()
    with pytest.raises(ValueError, match="holds no undamaged checkpoint"):
        run.network()


def test_history_round_trip(tmp_path):
    epochs = [{"epoch": 0, "val": {"ece": 0.1, "nll_wrong": None}}, {"epoch": 1}]
    write_history(tmp_path / "history.jsonl", epochs)
    assert read_history(tmp_path / "history.jsonl") == epochs
    assert read_history(tmp_path / "nothing.jsonl") == []


def test_damaged_history(tmp_path):
    (tmp_path / "history.jsonl").write_text('{"epoch": 0}\n{"epo\n')
    with pytest.raises(ValueError, match=r"history\.jsonl, line 2, is not JSON"):
        read_history(tmp_path / "history.jsonl")


def test_every_file_of_a_run_is_one_of_the_layout(tmp_path):
    recording = {"record.gradient_norms_at": [1], "record.snapshots_at": [2], "logging.to": ["csv"]}
    run = train("digits/mlp", out=tmp_path / "a", overrides={**_TINY, **recording}, progress=False)
    files = run.files
    known = {files.config, files.environment, files.history, files.evaluation, files.lock, files.gradient_norms}
    known |= {files.snapshot(2)} | {files.predictions(split, epoch) for split in ("val", "test") for epoch in _EPOCHS}
    written = {file for file in run.path.rglob("*") if file.is_file()}
    assert known <= written
    assert all(file.is_relative_to(files.checkpoints) or file.is_relative_to(files.logs) for file in written - known)
    assert files.is_finished
    files.predictions("test").unlink()
    assert not files.is_finished


SCALED = {name: {"error": 0.1, "nll": 0.5, "ece": None} for name in ("before", "after_nll", "after_ece")}
EVALUATION = {"epoch": 3, "temperature": {"nll": 1.5, "ece": 2}, "splits": {"val": SCALED, "test": SCALED}}


@pytest.mark.parametrize(
    "change",
    [
        {"epoch": "3"},
        {"epoch": True},
        {"epoch": -1},
        {"epoch": 1e300},
        {"epoch": 10**30},
        {"temperature": {"nll": 1.5}},
        {"temperature": {"nll": 1.5, "ece": "2"}},
        {"temperature": [1.5, 2]},
        {"splits": {}},
        {"splits": {"test": SCALED}},
        {"splits": {"val": 5}},
        {"splits": {"val": {**SCALED, "before": 5}}},
        {"splits": {"val": {**SCALED, "after_ece": {"error": 0.1, "nll": 0.5}}}},
        {"splits": {"val": {**SCALED, "before": {"error": 0.1, "nll": "0.5", "ece": 0.1}}}},
        {"splits": ["val", "test"]},
    ],
)
def test_an_evaluation_is_read_only_if_everything_in_it_is_what_it_should_be(tmp_path, change):
    """An epoch in quotes: the resumed run ended with "can only concatenate str (not "int") to str"."""
    files = RunDirectory(tmp_path)
    files.predictions_folder.mkdir()
    for split in ("val", "test"):
        files.predictions(split).touch()
    files.evaluation.write_text(json.dumps(EVALUATION))
    assert read_evaluation(files.evaluation) == EVALUATION
    assert files.is_finished
    files.evaluation.write_text(json.dumps({**EVALUATION, **change}))
    assert not files.is_finished
    with pytest.raises(ValueError, match=r"evaluation\.json is damaged: it is not an evaluation; resume the run"):
        read_evaluation(files.evaluation)


@pytest.mark.parametrize("split", ["../../x", "a\0b", "\ud800", 5000 * "a"])
def test_a_split_of_an_evaluation_that_no_file_can_be_named_after(tmp_path, split):
    files = RunDirectory(tmp_path)
    files.evaluation.write_text(json.dumps({**EVALUATION, "splits": {"val": SCALED, split: SCALED}}))
    assert not files.is_finished


def test_unknown_selection_of_predictions(tmp_path):
    with pytest.raises(ValueError, match="of the epoch 'selected' or 'last', got 'best'"):
        RunDirectory(tmp_path).predictions("test", "best")
