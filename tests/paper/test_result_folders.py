import pytest

from focalcal.paper import find_results


def test_the_default_is_results_in_the_current_directory(result_folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="There is no folder results here"):
        find_results()
    result_folder()
    (result,) = find_results()
    assert result.name == "sst"
    assert [run.name for run in result.runs] == [
        "cross-entropy, seed 0",
        "fl-3, seed 0",
        "cross-entropy, seed 1",
        "fl-3, seed 1",
    ]
    assert len(result.runs[0].history) == 4
    assert result.runs[0].gradient_norms == result.runs[0].snapshots == []


def test_what_is_not_a_folder_of_results_is_refused(result_folder, tmp_path):
    folder = result_folder()
    with pytest.raises(ValueError, match="is not a folder"):
        find_results([tmp_path / "nowhere"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"holds no results: neither a table.csv"):
        find_results([tmp_path / "empty"])
    with pytest.raises(ValueError, match="sst is given twice"):
        find_results([folder, tmp_path / "results"])


def test_sweeps_and_single_runs_are_read_like_results(trained):
    (swept,) = find_results([trained])
    assert [(run.loss, run.dataset, run.model) for run in swept.runs] == [
        (loss, "Digits", "MLP") for loss in ("cross-entropy", "fl-1", "fl-3")
    ]
    (single,) = find_results([trained / "fl-3" / "seed-0"])
    (run,) = single.runs
    assert single.rows == ()
    assert run.history == swept.runs[2].history
    assert [one["after_epochs"] for one in run.gradient_norms] == [1, 4]
    assert [(one["epoch"], sum(one["count"])) for one in run.snapshots] == [(2, 100), (4, 100)]
    assert run.finished.predictions("test", "last").num_classes == 10
