import json
import shutil

from focalcal.comparison import Plan, outcome, write_outcome
from focalcal.comparison.rows import read_rows


def test_everything_is_written(trained: Plan, tmp_path):
    found = outcome(trained, bootstrap=50)
    write_outcome(found, tmp_path)
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
    assert found.markdown() == (tmp_path / "table.md").read_text()
    assert "± " in found.lines["fl-3"]["error"].markdown()


def test_a_loss_without_a_finished_run_is_left_out(trained: Plan):
    wider = Plan(trained.recipe, trained.changes, ("cross-entropy", "brier"), (0,), trained.out)
    found = outcome(wider, bootstrap=0)
    assert found.losses == ("cross-entropy",)


def test_the_caption_counts_the_seeds_that_are_finished(trained: Plan):
    assert "mean ± standard deviation of 2 seeds." in outcome(trained, bootstrap=0).caption
    first = Plan(trained.recipe, trained.changes, trained.losses, (0, 7), trained.out)
    assert "90% bootstrap intervals." in outcome(first, bootstrap=0).caption


def test_losses_may_have_different_numbers_of_seeds(trained: Plan, tmp_path):
    uneven = Plan(trained.recipe, trained.changes, trained.losses, trained.seeds, tmp_path)
    for run in trained.runs():
        if (run.loss, run.seed) != ("fl-3", 1):
            shutil.copytree(run.path, tmp_path / run.loss / f"seed-{run.seed}")
    found = outcome(uneven, bootstrap=50)
    assert "over seeds (2 for cross-entropy), and 90% bootstrap intervals of the losses with one seed." in found.caption
    assert "± " in found.lines["cross-entropy"]["ece"].markdown()
    assert "[" in found.lines["fl-3"]["ece"].markdown()
