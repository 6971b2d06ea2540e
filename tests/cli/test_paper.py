import json
import shutil

import pytest

from focalcal.sweeps.result_rows import Row, write_rows


@pytest.fixture
def sweep_table(tmp_path, monkeypatch):
    """A folder results/sst in the current directory, with one run."""
    monkeypatch.chdir(tmp_path)
    head = ("SST Binary", "Tree-LSTM", "cross-entropy", 0, "best")
    file = tmp_path / "results" / "sst" / "table.csv"
    file.parent.mkdir(parents=True)
    write_rows(
        file,
        [
            Row(*head, "error", "", 13.0, 12.0, 15.0),
            Row(*head, "ece", "pre", 7.0, 6.0, 8.0),
            Row(*head, "ece", "post", 2.0, temperature=1.5),
        ],
    )
    return file


def test_a_sweep_beside_the_paper(focalcal, refused, sweep_table):
    ran = focalcal("paper", "table", sweep_table, "--metrics", "ece")
    assert ran.code == 0
    assert "7.37 → 2.62 (1.8)" in ran.out
    assert "12.85" not in ran.out
    assert "There is no table of bleu" in refused("paper", "table", sweep_table, "--metrics", "bleu")
    assert "--metrics is empty" in refused("paper", "table", sweep_table, "--metrics", "")
    sweep_table.write_text("a,b\n1,2\n")
    assert "it has no column dataset" in refused("paper", "table", sweep_table)


@pytest.mark.slow
def test_tables(focalcal, refused, sweep_table, tmp_path):
    assert "7.37 · 7.00 [6.00, 8.00] ✓" in focalcal("paper", "table", "ece").out
    assert "FLSc-531" in focalcal("paper", "table", "ece", "--variants").out
    assert focalcal("paper", "table", "nll", "--format", "latex").out.count(r"\begin{table*}") == 2
    assert focalcal("paper", "table", "error", "--results", "results", "--format", "csv").out.startswith("table,data,")
    shutil.copytree("results/sst", "more/other")
    both = focalcal("paper", "table", "error", "--results", "results", "more", "--format", "csv").out
    assert {"sst", "other"} <= {field for line in both.splitlines() for field in line.split(",")}
    assert "too is one argument too many; folders go after --results" in refused("paper", "table", "error", "too")
    assert "nowhere is not a folder" in refused("paper", "table", "error", "--results", "results", "nowhere")
    assert "did you mean 'mce'?" in refused("paper", "table", "mec")
    assert "holds nothing for the table top5" in refused("paper", "table", "top5", "--results", "results/sst")
    ran = focalcal("paper", "tables", "--out", tmp_path / "tables")
    assert ran.out == f"17 tables are in {tmp_path / 'tables'}.\n"
    assert len(list((tmp_path / "tables").glob("*.md"))) == 17


def test_published_tables(focalcal, refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shown = focalcal("paper", "show", "ada-ece").out
    assert "4.50[a, c]†" in shown
    assert "4.39 in the paper's other table" in shown
    assert "There is no folder results here" in refused("paper", "table", "ece")


def test_figures_studies_theory_and_runs(focalcal, refused, sweep_table, tmp_path):
    ran = focalcal("paper", "figure", "optimum", "--out", tmp_path / "optimum.svg")
    assert ran.code == 0
    assert (tmp_path / "optimum.csv").read_text().startswith("panel,series,x,y")
    assert "must end with .png, .svg or .pdf" in refused("paper", "figure", "optimum", "--out", tmp_path / "a.gif")
    assert "did you mean 'optimum'" in refused("paper", "figure", "optimun", "--out", tmp_path / "a.png")
    assert "cannot be tested here" in focalcal("paper", "study", "ood").out
    assert json.loads(focalcal("paper", "study", "confident", "--json").out)["claims"]
    assert "Proposition 2" in focalcal("paper", "theory", "--points", "100").out
    listed = focalcal("paper", "run", "training", "--only", "digits/mlp", "--dry-run", "--json")
    assert [one["loss"] for one in json.loads(listed.out)["runs"]] == ["cross-entropy"]
    assert "wmt14/transformer_base" in focalcal("paper", "run", "translation", "--dry-run").out


def test_runs_are_trained_once(focalcal, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = ("paper", "run", "training", "--only", "digits/mlp", "--out", "runs")
    assert "1 runs, 1 to be trained" in focalcal(*arguments).out
    assert (tmp_path / "runs" / "digits_mlp" / "table.csv").is_file()
    assert "1 runs, 0 to be trained" in focalcal(*arguments).out
