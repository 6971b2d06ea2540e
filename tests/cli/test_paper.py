from focalcal.comparison.rows import Row, write_rows


def test_the_command_prints_ours_beside_the_papers(focalcal, refused, tmp_path):
    head = ("SST Binary", "Tree-LSTM", "cross-entropy", 0, "best")
    file = tmp_path / "table.csv"
    write_rows(
        file,
        [
            Row(*head, "error", "", 13.0, 12.0, 15.0),
            Row(*head, "ece", "pre", 7.0, 6.0, 8.0),
            Row(*head, "ece", "post", 2.0, temperature=1.5),
        ],
    )
    ran = focalcal("paper", "table", file, "--metrics", "ece")
    assert ran.code == 0
    assert "7.37 → 2.62 (1.8)" in ran.out
    assert "12.85" not in ran.out
    assert "There is no table of bleu" in refused("paper", "table", file, "--metrics", "bleu")
    assert "--metrics names no metric" in refused("paper", "table", file, "--metrics", "")
    file.write_text("a,b\n1,2\n")
    assert "it has no column dataset" in refused("paper", "table", file)
