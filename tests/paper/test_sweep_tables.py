import pytest

from focalcal.paper import paper_tables
from focalcal.sweeps.result_rows import Row


def _rows(selection="best"):
    rows = []
    for seed, value in enumerate((7.0, 8.0)):
        head = ("SST Binary", "Tree-LSTM", "cross-entropy", seed, selection)
        rows.append(Row(*head, "error", "", 13.0 + seed, 12.0, 15.0))
        rows.append(Row(*head, "ece", "pre", value, value - 1, value + 1))
        rows.append(Row(*head, "ece", "post", 2.0, temperature=1.5 + seed))
    return rows


def test_ours_stand_beside_the_papers():
    error, ece = paper_tables([*_rows("best"), *_rows("last")])
    assert error.columns == ("paper", "ours, best epoch", "ours, last epoch")
    assert error.lines[0].cells[:2] == ("12.85", "13.50 ± 0.71 [12.0, 15.0]")
    assert ece.lines[0].cells[0] == "7.37 → 2.62 (1.8)"
    assert ece.lines[0].cells[1] == "7.50 ± 0.71 [6.5, 8.5] → 2.00 ± 0.00 (2)"
    assert "| cross-entropy | 7.37 → 2.62 (1.8) |" in ece.markdown()


def test_two_data_sets_are_refused():
    other = Row("Digits", "MLP", "fl-3", 0, "best", "error", "", 1.0)
    with pytest.raises(ValueError, match="one data set and one network, not of 2"):
        paper_tables([*_rows(), other])
    with pytest.raises(ValueError, match="holds no error of any loss"):
        paper_tables([])
