import json
from pathlib import Path

import pytest

from focalcal.sweeps import Plan
from focalcal.sweeps.finished import FinishedRun, finished_run, read_index, write_index


def test_a_run_directory_and_a_folder_of_kept_predictions_say_the_same(trained: Plan, tmp_path):
    runs = [finished_run(run) for run in trained.runs()]
    write_index(tmp_path, runs)
    found = read_index(tmp_path)
    assert [run.facts() for run in found] == [run.facts() for run in runs]
    assert [run.folder for run in found] == [tmp_path / run.name for run in runs]
    assert all(run.selections == ("best", "last") and run.shown == "best" for run in runs)
    assert all(run.splits("last") == ("val", "test") for run in runs)
    assert all(run.selections == () for run in found)


def test_the_last_epoch_has_a_folder_of_its_own_where_another_was_selected():
    def run(select, **epochs):
        return FinishedRun("fl-3", 0, "digits", "mlp", select, epochs, Path("x"))

    assert run("nll", best=2, last=3).file("val", "best") == Path("x/val.safetensors")
    assert run("nll", best=2, last=3).file("val", "last") == Path("x/last/val.safetensors")
    assert run("nll", best=3, last=3).file("val", "last") == Path("x/val.safetensors")
    assert run("last", last=3).file("val", "last") == Path("x/val.safetensors")


@pytest.mark.parametrize("content", ["{", "[1]", '[{"loss": "fl-3", "seed": 0}]', '[{"seed": 0}]'])
def test_a_damaged_index_is_refused(tmp_path, content):
    (tmp_path / "runs.json").write_text(content)
    with pytest.raises(ValueError, match=r"runs\.json is damaged .*; collect the runs again\.$"):
        read_index(tmp_path)


def test_a_folder_without_an_index_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"holds no predictions of runs: it has no runs\.json\.$"):
        read_index(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"epochs": {"last": 3}},
        {"epochs": {"best": "3", "last": 3}},
        {"epochs": [3]},
        {"seed": "0"},
        {"loss": "../x"},
        {"more": 1},
    ],
)
def test_an_index_that_is_damaged_names_itself(tmp_path, change):
    run = {
        "loss": "fl-3",
        "seed": 0,
        "data": "digits",
        "model": "mlp",
        "select": "nll",
        "epochs": {"best": 2, "last": 3},
    }
    (tmp_path / "runs.json").write_text(json.dumps([run]))
    assert read_index(tmp_path)[0].epochs == {"best": 2, "last": 3}
    (tmp_path / "runs.json").write_text(json.dumps([run, {**run, **change}]))
    with pytest.raises(ValueError, match=r"runs\.json is damaged"):
        read_index(tmp_path)
