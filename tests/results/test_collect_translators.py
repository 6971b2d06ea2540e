"""Collecting a sweep of translators: tables, curves and translations are kept, and the paper's pages use them."""

import shutil

import pytest

from collect import again, collect
from focalcal.paper.figures import build_figure
from focalcal.paper.result_folders import find_results
from focalcal.paper.studies import STUDIES, study_markdown
from focalcal.paper.table_names import TABLES
from focalcal.paper.tables import build_table
from focalcal.sweeps import sweep
from focalcal.sweeps.bleu_differences import find_difference, read_differences
from focalcal.sweeps.result_rows import read_rows
from focalcal.training import open_run
from focalcal.translation import compare_bleu, measure_bleu

pytestmark = pytest.mark.slow


CHANGES = {"data.synthetic": 30, "epochs": 1, "batch_tokens": 120, "schedule.warmup_epochs": 0.5}
COMMAND = "focalcal sweep multi30k/transformer_tiny"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("translators")
    losses = ["cross-entropy", "ls-0.1", "fl-1"]
    sweep("multi30k/transformer_tiny", CHANGES, losses=losses, out=folder, jobs=2, progress=False)
    return folder


@pytest.fixture(scope="module")
def results(runs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    collect(runs, "multi30k", COMMAND, results=folder)
    return folder


@pytest.fixture(scope="module")
def added(runs, tmp_path_factory):
    """Two losses collected, their run directories lost, and the third added."""
    folder = tmp_path_factory.mktemp("added")
    first = _part(runs, folder / "first", ["cross-entropy", "ls-0.1"])
    collect(first, "multi30k", COMMAND, results=folder / "results")
    shutil.rmtree(first)
    collect(_part(runs, folder / "second", ["fl-1"]), "multi30k", f"{COMMAND} -x", add=True, results=folder / "results")
    return folder / "results"


def _part(runs, out, losses):
    """Some losses of a finished sweep, as a sweep of their own."""
    for loss in losses:
        shutil.copytree(runs / loss, out / loss)
    sweep("multi30k/transformer_tiny", CHANGES, losses=losses, out=out, measure_only=True, progress=False)
    return out


def test_everything_that_can_be_kept_is_kept(results):
    folder = results / "multi30k"
    assert {file.name for file in folder.iterdir()} == {
        *("README.md", "bleu_differences.csv", "curves.csv", "histories", "table.csv", "table_nll.csv", "translations")
    }
    (row,) = (
        row
        for row in read_rows(folder / "table.csv")
        if (row.method, row.metric, row.temperature_scaling) == ("fl-1", "bleu", "post")
    )
    assert (folder / "translations" / "fl-1-seed-0-T1.txt").is_file()
    assert (folder / "translations" / f"fl-1-seed-0-T{row.temperature:.6g}.txt").is_file()
    assert f"Made by `{COMMAND}`" in (folder / "README.md").read_text()


def test_runs_are_added_where_the_run_directories_of_the_others_are_gone(results, added):
    whole, joined = results / "multi30k", added / "multi30k"
    for name in ("bleu_differences.csv", "curves.csv", "table.csv", "table_nll.csv"):
        assert (joined / name).read_text() == (whole / name).read_text(), name
    for folder in ("translations", "histories"):
        assert {file.name: file.read_bytes() for file in (joined / folder).iterdir()} == {
            file.name: file.read_bytes() for file in (whole / folder).iterdir()
        }
    readme, page = ((folder / "README.md").read_text() for folder in (joined, whole))
    assert readme.partition("## How")[0] == page.partition("## How")[0]
    assert readme.count("Made by `") == 2


def test_differences_are_the_paired_bootstrap_of_the_kept_translations(results, runs):
    folder = results / "multi30k"
    references = list(open_run(runs / "fl-1" / "seed-0").data().evaluation["test"].references)
    systems = {
        loss: (folder / "translations" / f"{loss}-seed-0-T1.txt").read_text().splitlines()
        for loss in ("cross-entropy", "fl-1")
    }
    expected = compare_bleu(systems, references)[1]
    found = find_difference(read_differences(folder / "bleu_differences.csv"), ("cross-entropy", 1.0), ("fl-1", 1.0), 0)
    assert -found.difference == pytest.approx(
        measure_bleu(systems["fl-1"], references).score - measure_bleu(systems["cross-entropy"], references).score,
        abs=1e-5,
    )
    assert found.sacrebleu_p_value == pytest.approx(expected.p_value, rel=1e-5)
    assert found.p_value == pytest.approx(expected.difference.p_value, rel=1e-5)
    low, high = expected.difference.interval
    assert (found.low, found.high) == pytest.approx((-high, -low), rel=1e-5, abs=1e-9)


def test_translations_are_compared_again_without_the_runs(results, runs, tmp_path, monkeypatch):
    shutil.copytree(results / "multi30k", tmp_path / "multi30k")
    (tmp_path / "multi30k" / "bleu_differences.csv").unlink()
    data = open_run(runs / "fl-1" / "seed-0").data()
    monkeypatch.setattr("collect_translators.load_data", lambda name: {"multi30k": data}[name])
    again("multi30k", results=tmp_path)
    for file in (results / "multi30k").rglob("*.*"):
        assert (tmp_path / file.relative_to(results)).read_bytes() == file.read_bytes(), file


def test_translations_of_another_test_set_are_refused(added, runs, tmp_path):
    shutil.copytree(added / "multi30k", tmp_path / "multi30k")
    file = tmp_path / "multi30k" / "translations" / "cross-entropy-seed-0-T1.txt"
    lines = file.read_text().splitlines()
    reference = list(open_run(runs / "fl-1" / "seed-0").data().evaluation["test"].references)
    file.write_text("".join(f"{line}\n" for line in [reference[0], *lines[1:]]))
    before = {one: one.read_bytes() for one in (tmp_path / "multi30k").rglob("*") if one.is_file()}
    with pytest.raises(ValueError, match=r"cross-entropy-seed-0-T1\.txt does not have the BLEU that curves\.csv gives"):
        collect(_part(runs, tmp_path / "part", ["fl-1"]), "multi30k", COMMAND, add=True, results=tmp_path)
    assert {one: one.read_bytes() for one in (tmp_path / "multi30k").rglob("*") if one.is_file()} == before


def test_a_result_about_other_data_is_refused(results, runs, tmp_path):
    shutil.copytree(results / "multi30k", tmp_path / "other")
    for name in ("table.csv", "table_nll.csv"):
        table = tmp_path / "other" / name
        table.write_text(table.read_text().replace("Multi30k En-De", "WMT14 En-De"))
    with pytest.raises(ValueError, match="other is about WMT14 En-De with Transformer"):
        collect(_part(runs, tmp_path / "part", ["fl-1"]), "other", COMMAND, add=True, results=tmp_path)


def test_the_papers_table_figure_and_study_are_made_from_it(results):
    found = find_results([results])
    assert "Multi30k En-De" in str(build_table(TABLES["translation"], found))
    figure = build_figure("bleu-temperature", [results / "multi30k"])
    assert [panel.title for panel in figure.panels] == ["BLEU of the test set", "ECE of validation tokens"]
    assert {series.name for series in figure.panels[0].series} == {"cross-entropy", "ls-0.1", "fl-1"}
    study = STUDIES["translation"]
    claims = study.claims(found)
    assert all(claim.verdict != "cannot be tested here" for claim in claims)
    assert "T of highest BLEU" in study_markdown(study, found, claims)


@pytest.mark.parametrize("name", [name for name in STUDIES if name != "theory"])
def test_other_studies_leave_translators_out_where_they_have_nothing_for_them(results, name):
    assert all(claim.verdict for claim in STUDIES[name].claims(find_results([results])))
