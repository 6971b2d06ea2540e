"""Csv as others write it, and what its own layout is."""

import numpy as np
import pandas
import pytest

from focalcal.predictions import Predictions, concatenate, open_predictions
from focalcal.predictions.formats.rewriting import save_like


def load(tmp_path, text, **options):
    path = tmp_path / "preds.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return Predictions.load(path, **options)


def test_the_layout_that_is_written(tmp_path):
    preds = Predictions.from_probs(
        np.array([[0.1, 0.9], [0.5, 0.5]], np.float32),
        [1, 0],
        class_names=["cat", 'a "b", c'],
        ids=["x", "y,z"],
        weights=[1, 0.5],
        split="val",
        provenance={"model": "small"},
    )
    preds.save(tmp_path / "preds.csv")
    assert (tmp_path / "preds.csv").read_text() == (
        'probs:cat,"probs:a ""b"", c",labels,weights,ids,split,provenance:model,'
        "focalcal:dtype,focalcal:header,focalcal:rows\n"
        '0.1,0.9,1,1,"x","val","small","float32","x91bdade9","2"\n'
        '0.5,0.5,0,0.5,"y,z","val","small","float32","x91bdade9","2"\n'
    )


def test_pandas_reads_what_is_written_and_back(tmp_path):
    path = tmp_path / "preds.csv"
    preds = Predictions.from_logits(np.random.default_rng(0).standard_normal((5, 3)), [0, 1, 2, 0, 1])
    preds.save(path)
    frame = pandas.read_csv(path)
    assert frame[["logits_0", "logits_1", "logits_2"]].to_numpy().tolist() == preds.values.tolist()
    frame.to_csv(path)  # with pandas' own index column in front
    assert Predictions.load(path).values.tolist() == preds.values.tolist()


@pytest.mark.parametrize("name", [8 * ";", 8 * "\t", '";;;;;;;;;"', "a;;;;\n;;;;;b", 'a"\n";;;;;;;;'])
def test_names_full_of_what_separates_columns_elsewhere(tmp_path, name):
    """What focalcal had written it took for a table with semicolons."""
    preds = Predictions.from_probs([[0.25, 0.75]], [1], class_names=["b", name], groups={name: ["x"]})
    preds.save(tmp_path / "preds.csv")
    read = Predictions.load(tmp_path / "preds.csv")
    assert read.class_names == ("b", name)
    assert list(read.groups) == [name]
    (tmp_path / "table.csv").write_text('probs_0,probs_1,labels,"' + name.replace('"', '""') + '"\n0.25,0.75,1,x\n')
    assert save_like(open_predictions(tmp_path / "table.csv"), preds, tmp_path / "again.csv")
    assert (tmp_path / "again.csv").read_text() == (tmp_path / "table.csv").read_text()


@pytest.mark.parametrize(
    "text",
    [
        "probs_0,probs_1,label\n0.25,0.75,1\n",
        "probs_1,label,probs_0\r\n0.75,1,0.25\r\n",
        "\ufeffprobs_0,probs_1,ground_truth\n0.25,0.75,1",
        'predictions,labels\n"[0.25, 0.75]",1\n',
        "probs,labels\n0.75,1\n",
        "probs_0,labels\n0.75,1\n",
    ],
)
def test_layouts_of_others(tmp_path, text):
    preds = load(tmp_path, text)
    assert preds.values.tolist() == [[0.25, 0.75]]
    assert preds.labels.tolist() == [1]
    assert preds.kind == "probs"


def test_special_numbers_in_text(tmp_path):
    preds = load(tmp_path, "logits_0,logits_1,labels\n-inf,1e-300,0\n-0.0,3,1\n")
    assert preds.values.tolist() == [[-np.inf, 1e-300], [-0.0, 3.0]]
    with pytest.raises(ValueError, match="row 1 hold NaN"):
        load(tmp_path, "logits_0,logits_1,labels\n0,0,0\nnan,3,1\n")


def test_soft_labels_as_lists_and_as_columns(tmp_path):
    for text in ('probs,labels\n"[0.5,0.5]","[1, 3]"\n', "probs_0,probs_1,labels_0,labels_1\n0.5,0.5,1,3\n"):
        assert load(tmp_path, text, labels_are="counts").labels.tolist() == [[0.25, 0.75]]


def test_columns_by_prefix_or_one_by_one(tmp_path):
    assert load(tmp_path, "score_0,score_1,y\n1,2,0\n", logits_key="score", labels_key="y").kind == "logits"
    preds = load(tmp_path, "cat,dog,label\n0.9,0.1,0\n", probs_key=("dog", "cat"))
    assert (preds.values.tolist(), preds.class_names) == ([[0.1, 0.9]], ("dog", "cat"))
    with pytest.raises(ValueError, match="it has no 'logits' or 'probs' or 'predictions' but 'label', 'cat', 'dog'"):
        load(tmp_path, "cat,dog,label\n0.9,0.1,0\n")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("probs_0,probs_1,label\n0.5,0.5,0\n0.5,,0\n", "its column 'probs_1' has '' in row 1, which is not a number"),
        ("probs_0,probs_1,label\n0.5,x,0\n", "its column 'probs_1' has 'x' in row 0, which is not a number"),
        ("probs_0,probs_1,label\n0.5,0.5,0.5\n", "The label of row 0 is 0.5; pass whole numbers"),
        ("probs_0,probs_1,label\n0.5,0.5,1\n0.5,0.5,1.0\n", "'label' has '1.0' in row 1, which is not a whole number"),
        ("probs_0,probs_1,label\n0.5,0.5\n", "Expected 3 columns, got 2"),
        ("probs_0,probs_1,label\n", "it has no samples"),
        ("probs_0,probs_1,label", ""),
        ('probs,label\n"[0.5, 0.5",0\n', r"'probs' has '\[0.5, 0.5', which is not a JSON list"),
        ('probs,label\n"[0.5, 0.5]",0\n7,0\n', "'7', which is not a JSON list"),
        ('probs,label\n"[0.5, ""x""]",0\n', "not a JSON list"),
        ('probs,label\n"[0.5, 0.5]",0\n"[1]",0\n', r"1 values in row 1 and 2 before"),
        ("probs,label,label\n0.5,0,0\n", "several columns 'label'"),
        ("probs,label,split\n0.5,0,a\n0.5,0,b\n", "'split' has both 'a' and 'b'"),
        (b"probs,label\n0.5,0\n\xff,0\n", ""),
        ("probs,label,focalcal:rows\n0.5,0,2\n", "has 1 rows but says that it had 2"),
        ("probs,label,focalcal:rows\n0.5,0,many\n", "'many', which is not a number of rows"),
        ("probs,label,focalcal:rows\n0.5,0,\n", "'', which is not a number of rows"),
        ("probs,label,focalcal:row_sum_tolerance\n0.5,0,x\n", "row_sum_tolerance must be a number, not 'x'"),
    ],
)
def test_what_is_refused(tmp_path, text, words):
    with pytest.raises(ValueError, match=rf"preds\.csv.*{words}") as refused:
        load(tmp_path, text)
    assert "\n" not in str(refused.value)


def test_a_wrong_cell_far_into_the_file_is_named(tmp_path):
    rows = ["0.5,0.5,0"] * 200_000
    rows[150_003] = "0.5,?,0"
    with pytest.raises(ValueError, match=r"'probs_1' has '\?' in row 150003"):
        load(tmp_path, "\n".join(["probs_0,probs_1,label", *rows]))


def test_rows_longer_than_a_usual_block(tmp_path):
    values = np.random.default_rng(0).standard_normal((3, 60_000)).tolist()
    text = "logits,labels\n" + "".join(f'"{row}",{label}\n' for label, row in enumerate(values))
    assert len(text) > 3 * 2**20
    assert load(tmp_path, text).values.tolist() == values


def test_a_file_without_a_count_is_counted(tmp_path):
    path = tmp_path / "preds.csv"
    path.write_text("probs,label,note\n" + '0.5,0,"a\nb"\n' * 12345)
    file = open_predictions(path)
    assert file.num_samples == 12345
    assert len(concatenate(list(file.blocks(rows=1000)))) == 12345
