import pytest

from focalcal.paper import TABLES, build_table, find_results
from focalcal.paper.early_stopping import CRITERIA, chosen_epoch, epochs_with_test
from paper.small_results import history_epochs


def test_each_criterion_chooses_its_least_epoch():
    chosen = {name: chosen_epoch(history_epochs(), name)["epoch"] + 1 for name in CRITERIA}
    assert chosen == {"ece": 2, "nll": 3, "error": 4, "scaled_nll": 1, "full": 4}


def test_rows_are_the_papers_and_one_more(result_folder, tmp_path):
    result_folder()
    lines = build_table(TABLES["early-stopping"], find_results([tmp_path / "results"])).lines
    assert len(lines) == 10
    assert [cell.text() for cell in lines[0].cells] == ["151†", "7.34†", "1.69†", "257†", "5.52†", "0.85†"]
    assert lines[5].heads == ("SST Binary", "Tree-LSTM", "ECE", "sst")
    assert [cell.text() for cell in lines[5].cells[:3]] == ["– · 2 ± 0", "– · 40.00 ± 0.00", "– · 10.00 ± 0.00"]


def test_runs_that_were_not_tested_every_epoch_are_left_out_or_refused(result_folder):
    folder = result_folder(test=False)
    found = find_results([folder])
    assert len(build_table(TABLES["early-stopping"], found).lines) == 5
    with pytest.raises(ValueError, match=r"train it with record\.test_every=1"):
        epochs_with_test(found[0].runs[0])
