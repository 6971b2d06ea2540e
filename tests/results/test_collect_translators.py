"""Collecting a sweep of translators: tables, curves and translations are kept, and the paper's pages use them."""

import pytest

from collect import collect
from focalcal.paper.figures import build_figure
from focalcal.paper.result_folders import find_results
from focalcal.paper.studies import STUDIES, study_markdown
from focalcal.paper.table_names import TABLES
from focalcal.paper.tables import build_table
from focalcal.sweeps import sweep

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("translators")
    changes = {"data.synthetic": 30, "epochs": 1, "batch_tokens": 120, "schedule.warmup_epochs": 0.5}
    losses = ["cross-entropy", "ls-0.1", "fl-1"]
    sweep("multi30k/transformer_tiny", changes, losses=losses, out=folder / "runs", jobs=2, progress=False)
    collect(folder / "runs", "multi30k", "focalcal sweep multi30k/transformer_tiny", results=folder / "results")
    return folder / "results"


def test_everything_that_can_be_kept_is_kept(results):
    folder = results / "multi30k"
    assert {file.name for file in folder.iterdir()} == {
        *("README.md", "curves.csv", "histories", "table.csv", "table_nll.csv", "translations")
    }
    assert (folder / "translations" / "fl-1-seed-0-post.txt").is_file()
    assert "Made by `focalcal sweep multi30k/transformer_tiny`" in (folder / "README.md").read_text()


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
