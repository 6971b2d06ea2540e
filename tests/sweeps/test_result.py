import json
import shutil

import pytest

from focalcal.sweeps import Plan, measure_plan, write_result
from focalcal.sweeps.finished import finished_run
from focalcal.sweeps.result import _caption
from focalcal.sweeps.result_rows import read_rows


def test_everything_is_written(trained: Plan, tmp_path):
    found = measure_plan(trained, bootstrap=50)
    write_result(found, tmp_path)
    assert {file.name for file in tmp_path.iterdir()} == {"table.csv", "table_nll.csv", "table.json", "table.md"}
    rows = read_rows(tmp_path / "table.csv")
    assert {(row.method, row.seed, row.selection) for row in rows} == {
        (loss, seed, selection)
        for loss in ("cross-entropy", "fl-3")
        for seed in (0, 1)
        for selection in ("best", "last")
    }
    grid = {row.temperature for row in rows if row.temperature is not None}
    assert all(abs(10 * t - round(10 * t)) < 1e-9 for t in grid)
    assert {row.temperature for row in read_rows(tmp_path / "table_nll.csv")} != {row.temperature for row in rows}
    content = json.loads((tmp_path / "table.json").read_text())
    assert content["title"] == "Digits, MLP"
    assert list(content["table"]) == ["cross-entropy", "fl-3"]
    assert found.to_markdown() == (tmp_path / "table.md").read_text()
    assert "± " in found.lines["fl-3"]["error"].markdown()


def test_a_loss_without_a_finished_run_is_left_out(trained: Plan):
    wider = Plan(trained.recipe, trained.overrides, ("cross-entropy", "brier"), (0,), trained.out)
    found = measure_plan(wider, bootstrap=0)
    assert found.losses == ("cross-entropy",)


def test_the_caption_counts_the_seeds_that_are_finished(trained: Plan):
    assert "mean ± standard deviation of 2 seeds." in measure_plan(trained, bootstrap=0).caption
    first = Plan(trained.recipe, trained.overrides, trained.losses, (0, 7), trained.out)
    assert "; 90% confidence intervals. Bold" in measure_plan(first, bootstrap=50).caption
    assert "as in the paper). Bold" in measure_plan(first, bootstrap=0).caption


def test_losses_may_have_different_numbers_of_seeds(trained: Plan, tmp_path):
    uneven = Plan(trained.recipe, trained.overrides, trained.losses, trained.seeds, tmp_path)
    for run in trained.runs():
        if (run.loss, run.seed) != ("fl-3", 1):
            shutil.copytree(run.path, tmp_path / run.loss / f"seed-{run.seed}")
    found = measure_plan(uneven, bootstrap=50)
    assert "over seeds (2 for cross-entropy) and 90% confidence intervals of the losses with one seed." in found.caption
    assert "± " in found.lines["cross-entropy"]["ece"].markdown()
    assert "[" in found.lines["fl-3"]["ece"].markdown()
    assert (
        "and"
        not in _caption(finished_run(next(iter(trained.runs()))), {"fl-3": 3, "brier": 2}, 0.9).partition("over seeds")[
            2
        ]
    )


def test_runs_of_different_data_are_not_compared(trained: Plan, tmp_path):
    copied = Plan(trained.recipe, trained.overrides, trained.losses, trained.seeds, tmp_path)
    shutil.copytree(trained.out, tmp_path, dirs_exist_ok=True)
    file = tmp_path / "fl-3" / "seed-1" / "environment.json"
    content = json.loads(file.read_text())
    content["data"]["split_sha256"]["test"] = "0" * 64
    file.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"cross-entropy/seed-0 and .*fl-3/seed-1 were trained with different splits"):
        measure_plan(copied, bootstrap=0)


@pytest.mark.parametrize("content", ["[]", "null", "{", '{"splits": {}}', '{"splits": {"test": {}}, "epoch": null}'])
def test_a_run_whose_evaluation_is_damaged_is_not_finished(trained: Plan, tmp_path, content):
    copied = Plan(trained.recipe, trained.overrides, trained.losses, (0,), tmp_path)
    shutil.copytree(trained.out, tmp_path, dirs_exist_ok=True)
    (tmp_path / "fl-3" / "seed-0" / "evaluation.json").write_text(content)
    assert measure_plan(copied, bootstrap=0).losses == ("cross-entropy",)
