import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from collect import again, collect, main
from focalcal.metrics import ece
from focalcal.predictions import Predictions
from focalcal.sweeps.result_rows import Row, read_rows, write_rows

_COMMAND = "focalcal sweep digits/mlp --out runs/digits"
_SCRIPT = Path(__file__).parents[2] / "results" / "collect.py"


def _contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


def _figures(rows: list[Row]) -> dict[tuple[object, ...], str]:
    """As tables print them."""
    keys = ("dataset", "method", "seed", "selection", "metric", "temperature_scaling")
    return {tuple(getattr(row, key) for key in keys): f"{row.value:.2f} {row.temperature or 0:.2f}" for row in rows}


def test_a_comparison_is_collected_and_made_again_from_what_is_kept_alone(digits, tmp_path, capsys):
    collect(digits, "small", _COMMAND, bootstrap=20, results=tmp_path / "results")
    folder = tmp_path / "results" / "small"
    names = [f"{loss}-seed-{seed}" for seed in (0, 1) for loss in ("cross-entropy", "fl-3")]
    assert sorted(file.stem for file in (folder / "histories").iterdir()) == sorted(names)
    assert not (folder / "recorded").exists()
    for name in names:
        kept = Predictions.load(folder / "predictions" / name / "test.safetensors")
        loss, _, seed = name.rpartition("-seed-")
        original = Predictions.load(digits / loss / f"seed-{seed}" / "predictions" / "test.safetensors")
        assert (kept.labels == original.labels).all()
        assert float((kept.probs() - original.probs()).abs().max()) < 1e-3
        assert kept.ids is None
    for table in ("table.csv", "table_nll.csv"):
        rows = read_rows(folder / table)
        assert _figures(rows) == _figures(read_rows(digits / table))
        # "normal" is Wilson's interval, of a share whose resamples are all alike.
        assert {row.interval_method for row in rows if row.low is not None} - {"normal"} == {"basic", "honest"}
    readme = (folder / "README.md").read_text()
    assert readme.startswith("# Digits, MLP\n\n| loss | error | ECE ")
    assert f"Made by `{_COMMAND}`." in readme
    assert "4 runs, begun" in readme
    before = _contents(folder)
    moved = tmp_path / "clone"
    shutil.copytree(tmp_path / "results", moved)
    assert "fl-3-seed-1: 0.0" in capsys.readouterr().out
    again("small", bootstrap=20, results=moved)
    assert _contents(moved / "small") == before
    assert "rows measured again; 0 stay" in capsys.readouterr().out


def test_the_last_epoch_is_kept_where_it_was_not_the_selected_one(digits, tmp_path, capsys):
    collect(digits, "small", _COMMAND, bootstrap=0, results=tmp_path)
    apart = {
        facts["loss"] + f"-seed-{facts['seed']}": facts["epochs"]["best"] != facts["epochs"]["last"]
        for facts in json.loads((tmp_path / "small" / "predictions" / "runs.json").read_text())
    }
    assert True in apart.values()
    for name, is_apart in apart.items():
        assert (tmp_path / "small" / "predictions" / name / "last" / "val.safetensors").is_file() == is_apart
    tables = {name: content for name, content in _contents(tmp_path / "small").items() if name.endswith(".csv")}
    capsys.readouterr()
    collect(digits, "small", _COMMAND, bootstrap=0, without_last=True, results=tmp_path)
    assert not list((tmp_path / "small").rglob("last"))
    stayed = int(capsys.readouterr().out.split("measured again; ")[1].split()[0])
    assert stayed > 0
    assert _figures(read_rows(tmp_path / "small" / "table.csv")) == _figures(read_rows(digits / "table.csv"))
    assert "The last epoch is left out for its size in" in (tmp_path / "small" / "README.md").read_text()
    assert tables.keys() == {"table.csv", "table_nll.csv"}


def _part(sweep: Path, out: Path, loss: str, seeds: tuple[int, ...]) -> Path:
    """Some runs of a finished sweep, as a sweep of their own."""
    for seed in seeds:
        shutil.copytree(sweep / loss / f"seed-{seed}", out / loss / f"seed-{seed}")
    for table in ("table.csv", "table_nll.csv"):
        write_rows(out / table, [row for row in read_rows(sweep / table) if row.method == loss and row.seed in seeds])
    return out


def test_runs_of_two_sweeps_make_one_result(digits, tmp_path):
    """Whether runs are collected together or one sweep after the other makes no difference to tables and files."""
    at_once, in_turn = tmp_path / "at_once", tmp_path / "in_turn"
    collect(digits, "small", _COMMAND, bootstrap=20, results=at_once)
    focal = _part(digits, tmp_path / "focal", "fl-3", (0, 1))
    one = _part(digits, tmp_path / "one", "cross-entropy", (0,))
    both = _part(digits, tmp_path / "both", "cross-entropy", (0, 1))
    collect(focal, "small", "the first command", bootstrap=20, results=in_turn)
    collect(one, "small", "the second command", bootstrap=20, add=True, results=in_turn)
    collect(both, "small", "the third command", bootstrap=20, add=True, results=in_turn)
    expected, found = _contents(at_once / "small"), _contents(in_turn / "small")
    assert found.keys() == expected.keys()
    tables = [name for name in expected if name.endswith(".csv")]
    assert len(tables) == 2
    assert all(found[name] == expected[name] for name in tables)
    assert all(found[name] == expected[name] for name in expected if name.endswith((".safetensors", ".jsonl")))
    readme = found["README.md"].decode()
    assert readme.split("## How it was made")[0] == expected["README.md"].decode().split("## How it was made")[0]
    assert [readme.count(f"Made by `the {one} command`.") for one in ("first", "second", "third")] == [1, 1, 1]
    assert readme.count("`table.csv`: every figure") == 1


def test_a_loss_without_predictions_stays_in_the_table_without_ties(digits, tmp_path):
    collect(digits, "small", _COMMAND, bootstrap=0, results=tmp_path)
    for table in ("table.csv", "table_nll.csv"):
        file = tmp_path / "small" / table
        old = [line for line in file.read_text().splitlines() if ",cross-entropy," in line]
        with open(file, "a") as lines:
            lines.writelines(line.replace(",cross-entropy,", ",brier,") + "\n" for line in old)
    collect(digits, "small", _COMMAND, bootstrap=0, add=True, results=tmp_path)
    assert {row.method for row in read_rows(tmp_path / "small" / "table.csv")} == {"cross-entropy", "brier", "fl-3"}
    readme = (tmp_path / "small" / "README.md").read_text()
    assert "| brier |" in readme
    assert "not all of them kept their predictions" in readme


def test_out_of_distribution_sets_are_kept_but_for_the_lower_severities(cifar, tmp_path):
    collect(cifar, "noisy", _COMMAND, bootstrap=20, without_ood=["fl-3"], results=tmp_path)
    kept = {
        name: sorted(file.stem for file in (tmp_path / "noisy" / "predictions" / name).iterdir())
        for name in ("cross-entropy-seed-0", "fl-3-seed-0")
    }
    assert kept == {"cross-entropy-seed-0": ["cifar10_c", "svhn", "test", "val"], "fl-3-seed-0": ["test", "val"]}
    rows, original = read_rows(tmp_path / "noisy" / "table.csv"), read_rows(cifar / "table.csv")
    assert _figures(rows) == _figures(original)
    stay = [row for row in original if "severity" in row.dataset or (row.method == "fl-3" and "/" in row.dataset)]
    assert len(stay) == 2 * 4 * 5 + 2 + 5
    assert set(stay) <= set(rows)
    readme = (tmp_path / "noisy" / "README.md").read_text()
    assert "Of CIFAR-10-C only severity 5 is kept" in readme
    assert "No out-of-distribution set is kept for fl-3" in readme
    assert readme.count("\n| cross-entropy |") == 1


def test_what_runs_recorded_is_collected(cifar, tmp_path):
    collect(cifar, "noisy", _COMMAND, bootstrap=0, results=tmp_path)
    for loss in ("cross-entropy", "fl-3"):
        run, kept = cifar / loss / "seed-0", tmp_path / "noisy" / "recorded" / f"{loss}-seed-0"
        norms = (run / "recorded" / "gradient-norms.jsonl").read_text()
        assert norms
        assert (kept / "gradient-norms.jsonl").read_text() == norms
        snapshots = json.loads((kept / "snapshots.json").read_text())
        files = sorted((run / "predictions" / "train").iterdir())
        assert [f"epoch-{one['epoch']:05d}.safetensors" for one in snapshots] == [file.name for file in files]
        for one, file in zip(snapshots, files, strict=True):
            gaps = [abs(sure - right) for sure, right in zip(one["confidence"], one["correct"], strict=True)]
            assert sum(gaps) / sum(one["count"]) == pytest.approx(ece(Predictions.load(file), bins=25))
    assert "`recorded/`: histograms of gradient norms" in (tmp_path / "noisy" / "README.md").read_text()


def test_a_figure_that_cannot_be_measured_again_stays_and_others_are_replaced(digits, tmp_path):
    collect(digits, "small", _COMMAND, bootstrap=0, results=tmp_path)
    table = tmp_path / "small" / "table.csv"
    lines = table.read_text().splitlines()
    table.write_text("\n".join([lines[0], lines[1].replace(",epoch,,", ",epoch,,9"), *lines[2:]]) + "\n")
    foreign = "Digits/Letters,MLP,fl-3,0,best,ood_auroc,pre,71.5,70,73,percentile,"
    with open(table, "a") as file:
        file.write(foreign + "\n")
    again("small", bootstrap=0, results=tmp_path)
    assert table.read_text().splitlines() == [*lines, foreign]


def test_the_command_says_what_is_wrong_in_one_sentence(cifar, tmp_path, capsys):
    for arguments, sentence in (
        (["--again", "nothing"], "holds no predictions of runs: it has no runs.json"),
        ([str(cifar), "x", "y", "--without-ood", "brier"], "--without-ood names brier, which the sweep does not"),
        ([str(tmp_path), "x", "y"], f"There is no file {tmp_path / 'table.csv'}."),
    ):
        with pytest.raises(SystemExit) as left:
            main(arguments)
        said = capsys.readouterr().err
        assert left.value.code == 2
        assert sentence in said
        assert said.count("\n") == 1
    assert not (_SCRIPT.parent / "x").exists()


@pytest.mark.parametrize("arguments", [[], ["runs/a", "b"], ["runs/a", "b", "c", "--again", "b"]])
def test_the_script_explains_its_use(arguments):
    ran = subprocess.run([sys.executable, str(_SCRIPT), *arguments], capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert "give SWEEP NAME 'focalcal sweep …', or --again NAME alone." in ran.stderr
