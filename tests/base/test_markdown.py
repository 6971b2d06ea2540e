from focalcal.base.markdown import markdown_table


def test_bars_in_cells_do_not_cut_them():
    table = markdown_table(["a|b", "n"], [["|S99|", "1"]], left=2)
    assert table.splitlines() == [r"| a\|b | n |", "| :-- | :-- |", r"| \|S99\| | 1 |"]
