import csv
import io
import json

import pytest

from focalcal.paper import TABLES, build_table, find_results
from focalcal.paper.published import Published, published_rows
from focalcal.paper.table_formats import to_csv, to_json, to_latex, to_markdown, write_tables
from focalcal.paper.table_names import COMMAND_NAMES, named_tables
from focalcal.paper.tables import check_filled, footnotes
from focalcal.sweeps.result_rows import Row
from paper.small_results import sweep_rows


@pytest.mark.slow
def test_there_are_17_tables_and_they_print_every_published_number():
    assert len(TABLES) == 17
    shown = sum(cell.published is not None for name in TABLES.values() for cell in _cells(build_table(name)))
    assert shown == len(published_rows()) == 1643


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES.values(), ids=TABLES)
def test_each_published_number_stands_in_its_place(name):
    printed = {
        (*row.key, row.table.partition(":")[2]): row.figure
        for row in published_rows()
        if row.table.partition(":")[0] == name.printed
    }
    criteria = {"ECE": "ece", "NLL": "nll", "error": "error", "none: the last epoch": "full"}
    found = {}
    for line in build_table(name).lines:
        columns = [(method, metric, scaling) for method in name.methods for metric, scaling, _ in name.columns]
        criterion = criteria.get(line.heads[2], "") if name.name == "early-stopping" else ""
        for column, cell in zip(columns, line.cells, strict=True):
            if cell.published is not None:
                found[(*line.heads[:2], *column, criterion)] = cell.published
    assert found == printed


def _cells(table):
    return [cell for line in table.lines for cell in line.cells]


def test_our_figures_stand_beside_the_published(result_folder, tmp_path):
    result_folder()
    table = build_table(TABLES["ece"], find_results([tmp_path / "results"]))
    assert len(table.lines) == 11
    line = table.lines[-1]
    assert line.heads == ("SST Binary", "Tree-LSTM", "sst")
    assert line.cells[0].text() == "7.37 · 7.50 ± 0.71 ✓"
    assert line.cells[1].text() == "2.62 (1.8) · 2.00 ± 0.00 (2) ✗"
    assert line.cells[2].text() == "9.01†"
    assert table.lines[0].cells[0].text() == "17.52†"
    assert "| SST Binary | Tree-LSTM | sst | 7.37 · 7.50 ± 0.71 ✓ |" in to_markdown(table)


def test_several_folders_and_other_networks_have_rows_of_their_own(result_folder, tmp_path):
    result_folder("a")
    result_folder("b", [*sweep_rows(seeds=1), *sweep_rows("Digits", "MLP", seeds=1)])
    lines = build_table(TABLES["error"], find_results([tmp_path / "results"])).lines
    assert [line.heads for line in lines[-3:]] == [
        ("SST Binary", "Tree-LSTM", "a"),
        ("SST Binary", "Tree-LSTM", "b"),
        ("Digits", "MLP", "b"),
    ]
    assert lines[-2].cells[0].text() == "12.85 · 13.00 [12.00, 15.00] ✓"
    assert lines[-1].cells[0].text() == "– · 13.00 [12.00, 15.00]"


def test_the_epoch_can_be_chosen(result_folder, tmp_path):
    last = [Row(**{**vars(row), "selection": "last", "value": row.value + 1}) for row in sweep_rows(seeds=1)]
    result_folder(rows=[*sweep_rows(seeds=1), *last])
    found = find_results([tmp_path / "results"])
    for epoch, expected in ((None, 13.0), ("best", 13.0), ("last", 14.0)):
        assert build_table(TABLES["error"], found, epoch=epoch).lines[-1].cells[0].ours.value == expected


def test_top_1_accuracy_is_one_minus_the_error(result_folder, tmp_path):
    head = ("CIFAR-100", "ResNet-50", "cross-entropy", 0, "last")
    result_folder(rows=[Row(*head, "error", "", 23.0, 22.0, 25.0), Row(*head, "top5_accuracy", "", 94.0)])
    line = build_table(TABLES["top5"], find_results([tmp_path / "results"])).lines[0]
    assert line.cells[0].text() == "76.70 · 77.00 [75.00, 78.00] ✓"
    assert line.cells[1].text() == "93.77 · 94.00"


def test_out_of_distribution_figures_stay_apart(result_folder, tmp_path):
    head = ("ResNet-110", "cross-entropy", 0, "last")
    rows = [
        Row("CIFAR-10/SVHN", *head, "ood_auroc", "pre", 60.0),
        Row("CIFAR-10/CIFAR-10-C", *head, "ece", "pre", 30.0),
        Row("CIFAR-10/CIFAR-10-C severity 1", *head, "ood_auroc", "pre", 50.0),
        Row("CIFAR-10", *head, "ece", "pre", 4.0),
    ]
    result_folder(rows=rows)
    found = find_results([tmp_path / "results"])
    assert [
        line.cells[0].ours.value for line in build_table(TABLES["ood-auroc"], found).lines if line.cells[0].ours
    ] == [60]
    assert [line.cells[0].ours.value for line in build_table(TABLES["ece"], found).lines if line.cells[0].ours] == [4]


@pytest.mark.slow
def test_contradictions_and_slips_are_footnotes():
    texts = [note.text for note in footnotes(TABLES["ada-ece"])]
    assert texts[0].startswith("CIFAR-100, ResNet-50, FLSD-53, pre T: 4.5 here, 4.39 in the paper's other table")
    assert any("repeats its ECE" in text for text in texts)
    assert "4.5 in the paper's other table" in footnotes(TABLES["ada-ece-variants"])[0].text
    (note,) = footnotes(TABLES["mce-post"])
    assert len(note.keys) == 11
    rows = {row.key: row.figure.value for row in published_rows() if row.metric == "mce"}
    assert all(rows[key] == rows[*key[:4], "pre"] for key in note.keys)
    assert "0.99 or more" in footnotes(TABLES["s99"])[0].text
    assert footnotes(TABLES["ece"]) == []
    marked = [cell for cell in _cells(build_table(TABLES["ada-ece"])) if cell.notes]
    assert Published(5.08, None) not in [cell.published for cell in marked]


def test_formats(result_folder, tmp_path):
    result_folder("my_run & 50%")
    found = find_results([tmp_path / "results"])
    table = build_table(TABLES["ece"], found)
    latex = to_latex(table)
    assert r"my\_run \& 50\%" in latex
    assert r"7.37 $\cdot$ 7.50 $\pm$ 0.71 $\in$" in latex
    assert latex.count("&") == latex.count(r"\&") + sum(row.count(" & ") for row in latex.split("\n"))
    assert not set("✓✗†·±–|").intersection(latex)
    rows = list(csv.DictReader(io.StringIO(to_csv(table))))
    assert len(rows) == 11 * 12
    ours = [row for row in rows if row["value"]]
    assert [row["published_inside"] for row in ours] == ["True", "False", "False", "False"]
    content = json.loads(to_json(table))
    assert len(content["cells"]) == 132
    assert content["cells"][0]["value"] is None


@pytest.mark.slow
def test_all_tables_are_written(result_folder, tmp_path):
    result_folder()
    found = find_results([tmp_path / "results"])
    for format, ending in (("markdown", "md"), ("latex", "tex"), ("csv", "csv"), ("json", "json")):
        files = write_tables(found, tmp_path / format, format)
        assert [file.name for file in files] == [f"{name}.{ending}" for name in TABLES]
        assert all(file.stat().st_size > 300 for file in files)


def test_an_unknown_name_lists_each_name_once():
    with pytest.raises(ValueError, match="There is no table 'foo'; known are ") as refused:
        named_tables("foo")
    listed = str(refused.value).partition("known are ")[2].rstrip(".").split(", ")
    assert len(listed) == len(set(listed))
    assert {"nll", "nll-pre", "translation"} <= set(listed)


def test_names():
    assert len(COMMAND_NAMES) == 11
    assert [one.name for one in named_tables("mce")] == ["mce-pre", "mce-post"]
    with pytest.raises(ValueError, match="There is no table 'eec'; did you mean 'ece'"):
        named_tables("eec")
    with pytest.raises(ValueError, match="The table top5 has no variants"):
        named_tables("top5", variants=True)


def test_folders_without_what_a_table_needs_are_refused(result_folder, tmp_path):
    folder = result_folder()
    found = find_results([folder])
    with pytest.raises(ValueError, match=r"sst holds nothing for the table ood-auroc: it needs runs with.*data\.ood="):
        check_filled(build_table(TABLES["ood-auroc"], found), found)
    check_filled(build_table(TABLES["ece"], found), found)
    without = find_results([result_folder("without", test=False)])
    with pytest.raises(ValueError, match=r"early-stopping: it needs runs that measured.*record\.test_every=1"):
        check_filled(build_table(TABLES["early-stopping"], without), without)


def test_two_tables_are_one_document():
    both = [build_table(name) for name in named_tables("nll")]
    assert [one["name"] for one in json.loads(to_json(*both))] == ["nll-pre", "nll-post"]
    rows = list(csv.DictReader(io.StringIO(to_csv(*both))))
    assert len(rows) == 2 * 121
    assert {row["table"] for row in rows} == {"nll-pre", "nll-post"}
    assert to_markdown(*both).count("## NLL") == 2
    assert to_latex(*both).count(r"\begin{table*}") == 2


def test_a_name_cannot_become_an_option_of_latex(result_folder, tmp_path):
    result_folder("odd", sweep_rows("[3pt] *~^\\{x}", "Net<1|2>", seeds=1))
    line = to_latex(build_table(TABLES["error"], find_results([tmp_path / "results"]))).split("\n")[-6]
    assert line.startswith(
        r"{}[3pt] *\textasciitilde{}\textasciicircum{}\textbackslash{}\{x\} & Net$<$1$|$2$>$ & odd & "
    )
