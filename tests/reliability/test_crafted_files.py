"""Files that were made to break a reader: each is one sentence that names the file, and takes no more than it holds."""

import io
import json
import re
import struct
import tracemalloc
import zipfile
from functools import partial
from itertools import pairwise

import numpy as np
import pytest

from focalcal.base.files import make_folder, parse_json
from focalcal.calibrators import AutoCalibration, TemperatureScaling, load_calibrator
from focalcal.data.encoded_images import read_parquet_images
from focalcal.data.own_texts import read_text_table
from focalcal.data.parallel_text import read_parallel
from focalcal.metrics import evaluate
from focalcal.plots.training_history import training_curves
from focalcal.predictions import Predictions, open_predictions
from focalcal.predictions.formats import jsonl
from focalcal.recipes import load_recipe
from focalcal.training.run_directory import open_run, read_evaluation, read_history
from reliability.checks import limited

READ_TEXTS = partial(read_text_table, text_column="text", label_column="label")
READ_IMAGES = partial(read_parquet_images, image_column="img", label_column="label", num_classes=9, size=8)
DEEP = 100_000 * "["
PREDS = Predictions.from_probs([[0.9, 0.1], [0.4, 0.6], [0.7, 0.3]], [0, 1, 1], ids=["a", "b", "c"], weights=[1, 2, 3])


def refusal(read, path, error=ValueError):
    with pytest.raises(error) as refused:
        read(path)
    assert path.name in str(refused.value)
    return str(refused.value)


def test_work_is_bounded_by_the_rows_that_are_there_and_not_by_those_that_are_declared(tmp_path):
    path = tmp_path / "rows.csv"
    PREDS.save(path)
    for zeros in (12, 20, 5000):
        assert path.read_text().count('"3"') == len(PREDS)
        (tmp_path / "many.csv").write_text(path.read_text().replace('"3"', f'"1{"0" * zeros}"'))
        file = tmp_path / "many.csv"
        assert "rows" in refusal(lambda path: evaluate(open_predictions(path), intervals=False), file)
        assert "rows" in refusal(Predictions.load, file)


@pytest.mark.filterwarnings("ignore::focalcal.calibrators.base.CalibrationWarning")
@pytest.mark.parametrize("classes", [100, 1000])
def test_one_hot_probabilities_with_soft_labels(classes):
    numbers = np.random.default_rng(0)
    probs = np.eye(classes, dtype=np.float32)[numbers.integers(0, classes, 5)]
    preds = Predictions.from_probs(probs, numbers.dirichlet(np.ones(classes), 5))
    assert evaluate(preds, intervals=False)["nll"] > 0
    assert TemperatureScaling().fit(preds).temperature_ > 0


HEADERS = {
    "unclosed": b"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2)",
    "token": b"{'descr': '<f4', 'fortran_order': False, 'shape': (3L, 2), '''",
    "deep": b"{'descr': " + 3000 * b"[" + b"'<f4'",
    "escape": b"{'descr': '\\d', 'fortran_order': False, 'shape': (3, 2), }",
    "nul": b"{'descr': '<f4\0', 'fortran_order': False, 'shape': (3, 2), }",
    "other": b"[1, 2]",
    "huge": b"{'descr': '<f4', 'fortran_order': False, 'shape': (10000000000000000000000, 2), }",
    "negative": b"{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 2), }",
    "truth": b"{'descr': '<f4', 'fortran_order': False, 'shape': (True, 2), }",
    "fields": b"{'descr': [('a', '<f4'), ('b', '<f4')], 'fortran_order': False, 'shape': (3,), }",
    "date": b"{'descr': '<M8[ns]', 'fortran_order': False, 'shape': (3,), }",
    "void": b"{'descr': '|V8', 'fortran_order': False, 'shape': (3,), }",
}


def npy(header, data=bytes(24)):
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


@pytest.mark.parametrize("header", HEADERS)
def test_a_damaged_header_of_an_array(tmp_path, header):
    content = npy(HEADERS[header])
    (tmp_path / "values.npy").write_bytes(content)
    refusal(lambda path: Predictions.load(path, kind="logits", labels=[0, 1, 1]), tmp_path / "values.npy")
    with zipfile.ZipFile(tmp_path / "values.npz", "w") as archive:
        archive.writestr("logits.npy", content)
        archive.writestr("labels.npy", npy(b"{'descr': '<i8', 'fortran_order': False, 'shape': (3,), }"))
    refusal(Predictions.load, tmp_path / "values.npz")


def test_ids_that_are_no_unicode(tmp_path):
    ids = np.frombuffer(struct.pack("<3I", 0x110000, 0xFFFFFFFF, 0x41), "<U1")
    np.savez(tmp_path / "ids.npz", logits=np.eye(3), labels=np.arange(3), ids=ids)
    refusal(Predictions.load, tmp_path / "ids.npz")
    np.savez(tmp_path / "names.npz", logits=np.eye(3), labels=np.arange(3), class_names=ids)
    refusal(Predictions.load, tmp_path / "names.npz")


def save_safetensors(path, tensors):
    header, data = {}, b""
    for name, (dtype, array) in tensors.items():
        content = array.tobytes()
        offsets = [len(data), len(data) + len(content)]
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": offsets}
        data += content
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


@pytest.mark.parametrize("shape", [(), (0,), (1,), (2, 2), (5,)])
def test_offsets_of_ids_of_another_shape(tmp_path, shape):
    path = tmp_path / "ids.safetensors"
    tensors = {"logits": ("F64", np.eye(3)), "labels": ("I64", np.arange(3)), "ids": ("U8", np.zeros(3, np.uint8))}
    save_safetensors(path, {**tensors, "ids_offsets": ("I64", np.zeros(shape, np.int64))})
    refusal(Predictions.load, path)


ENTRIES = {"logits": ("F64", [2, 2], [0, 32]), "labels": ("I64", [2], [32, 48])}


def safetensors(path, entries, metadata=None):
    header = {
        name: dict(zip(("dtype", "shape", "data_offsets"), entry, strict=True)) for name, entry in entries.items()
    }
    text = json.dumps(header if metadata is None else {"__metadata__": metadata, **header}).encode()
    data = np.array([1.0, 2, 2, 1]).tobytes() + np.array([1, 0, 0, 0]).tobytes()
    ends = [entry[2][1] for entry in entries.values()]
    path.write_bytes(struct.pack("<Q", len(text)) + text + data[: max(ends)])


def test_arrays_that_overlap_or_leave_a_hole(tmp_path):
    path = tmp_path / "p.safetensors"
    safetensors(path, ENTRIES)
    assert Predictions.load(path).labels.tolist() == [1, 0]
    for offsets in ([16, 32], [40, 56], [48, 64]):
        safetensors(path, {**ENTRIES, "labels": ("I64", [2], offsets)})
        assert "do not lie one behind the other" in refusal(Predictions.load, path)


@pytest.mark.parametrize("tolerance", ["inf", "nan", "-1", "x" * 10_000, "1e400"])
def test_a_tolerance_that_no_sum_can_miss(tmp_path, tolerance):
    entries = {"probs": ENTRIES["logits"], "labels": ENTRIES["labels"]}
    facts = {"focalcal": "1", "kind": "probs", "row_sum_tolerance": tolerance}
    safetensors(tmp_path / "p.safetensors", entries, facts)
    assert "row_sum_tolerance must be a number" in refusal(Predictions.load, tmp_path / "p.safetensors")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_an_archive_with_two_arrays_of_one_name(tmp_path):
    with zipfile.ZipFile(tmp_path / "p.npz", "w") as archive:
        for name, array in (("logits", np.eye(2)), ("labels", np.arange(2)), ("labels", np.arange(2)[::-1])):
            content = io.BytesIO()
            np.save(content, array)
            archive.writestr(f"{name}.npy", content.getvalue())
    assert "it holds two arrays 'labels'" in refusal(Predictions.load, tmp_path / "p.npz")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"candidates": []}, "no candidate was taken"),
        ({"members": []}, "do not sum to 1"),
        ({"weight": float("nan")}, "weight is not a number"),
        ({"weight": -0.5}, "weight is -0.5"),
    ],
)
def test_a_damaged_mixture(tmp_path, change, reason):
    path = tmp_path / "auto.json"
    content = mixture(path)
    if "weight" in change:
        content["learned"]["members"][0].update(change)
    else:
        content["learned"].update(change)
    path.write_text(json.dumps(content))
    assert reason in refusal(load_calibrator, path)


@pytest.mark.parametrize("key", ["log_loss", "error", "weight"])
@pytest.mark.parametrize("value", ["nan", "0.5", True, [1], {}])
def test_a_candidate_with_a_number_that_is_none(tmp_path, key, value):
    """The text "nan" was read as a number, and saved as one that could not be read again."""
    path = tmp_path / "auto.json"
    content = mixture(path)
    content["learned"]["candidates"][0][key] = value
    path.write_text(json.dumps(content))
    assert f"{key} is not a number" in refusal(load_calibrator, path)


@pytest.mark.parametrize("key", ["format_version", "method", "parameters", "learned"])
def test_a_calibrator_with_a_long_text(tmp_path, key):
    path, text = tmp_path / "t.json", "x" * 100_000
    TemperatureScaling().fit(Predictions.from_logits([[4.0, 0.0]] * 4, [0, 0, 0, 1])).save(path)
    content = json.loads(path.read_text())
    content[key] = {"parameters": {"objective": text}, "learned": {"temperature": [text]}}.get(key, text)
    path.write_text(json.dumps(content))
    assert len(refusal(load_calibrator, path)) < 600


def test_a_mixture_of_equal_shares_is_loaded(tmp_path):
    """Members of the same weight were compared with each other."""
    path = tmp_path / "auto.json"
    content = mixture(path)
    member = content["learned"]["members"][0]
    content["learned"]["members"] = [{**member, "weight": 0.5}, {**member, "weight": 0.5}]
    path.write_text(json.dumps(content))
    assert [weight for weight, _ in load_calibrator(path).members_] == [0.5, 0.5]


def mixture(path):
    logits = np.random.default_rng(0).normal(size=(60, 3)) + np.eye(3)[np.arange(60) % 3]
    AutoCalibration(combine="choose").fit(Predictions.from_logits(logits, np.arange(60) % 3)).save(path)
    return json.loads(path.read_text())


def parquet_with_metadata(path, key, value):
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({"logits": [[1.0, 2.0], [2.0, 1.0]], "labels": [0, 1]})
    pq.write_table(table.replace_schema_metadata({"focalcal": "1", "kind": "logits", key: value}), path)


@pytest.mark.parametrize("key", ["class_names", "provenance", "masked_classes"])
@pytest.mark.parametrize("text", [DEEP, 3000 * '{"a":' + "1" + 3000 * "}", 300 * "[" + 300 * "]"])
def test_deep_nesting_in_the_text_of_a_file(tmp_path, key, text):
    parquet_with_metadata(tmp_path / "deep.parquet", key, text)
    refusal(Predictions.load, tmp_path / "deep.parquet")
    header = {"__metadata__": {"focalcal": "1", "kind": "logits", key: text}}
    content = json.dumps(header).encode()
    (tmp_path / "deep.safetensors").write_bytes(struct.pack("<Q", len(content)) + content)
    refusal(Predictions.load, tmp_path / "deep.safetensors")
    np.savez(tmp_path / "deep.npz", logits=np.eye(2), labels=[0, 1], **{key: text})
    refusal(Predictions.load, tmp_path / "deep.npz")


def test_deep_nesting_everywhere_else(tmp_path):
    for name, content, read in (
        ("lists.csv", f'logits,labels\n"{DEEP}",0\n', Predictions.load),
        ("header.safetensors", struct.pack("<Q", len(DEEP)) + DEEP.encode(), Predictions.load),
        ("calibrator.json", DEEP, load_calibrator),
        ("calibrator2.json", '{"a":' * 500 + "1" + "}" * 500, load_calibrator),
        ("recipe.yaml", DEEP, load_recipe),
        ("recipe2.yaml", "a: " + 300 * "{b: " + "1" + 300 * "}", load_recipe),
        ("history.jsonl", DEEP + "\n", read_history),
        ("history2.jsonl", DEEP + "\n", training_curves),
        ("evaluation.json", DEEP, read_evaluation),
    ):
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        refusal(read, tmp_path / name)


def test_a_run_with_an_evaluation_that_is_nested_deeply(tmp_path):
    (tmp_path / "config.yaml").write_text("data: digits\nmodel: mlp\nepochs: 1\n")
    for text in (DEEP, "[]", '{"splits": 1, "epoch": 1e400}', '{"splits": [], "epoch": ' + "9" * 400 + "}"):
        (tmp_path / "evaluation.json").write_text(text)
        assert not open_run(tmp_path).files.is_finished


def test_a_chain_of_three_thousand_recipes(tmp_path):
    for number in range(3000):
        (tmp_path / f"{number}.yaml").write_text(f"extends: {number + 1}.yaml\n")
    refusal(load_recipe, tmp_path / "0.yaml")


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [x, x, x, x, x, x, x, x, x]\n"
        + "".join(f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]\n" for a, b in zip("abcdefghi", "bcdefghij", strict=True)),
        "epochs: &a [*a]\n",
        "epochs: !!bool x\n",
        "epochs: !!timestamp x\n",
        "epochs: !!int x\n",
        "epochs: !!binary x\n",
        "epochs: !!omap x\n",
        "? [a, b]\n: 1\n",
        "a: &a {x: 1, y: 2}\n"
        + "".join(f"{b}: &{b} {{<<: [{', '.join([f'*{a}'] * 9)}]}}\n" for a, b in pairwise("abcdefghij")),
        f"epochs: 1{':59' * 100_000}\n",
        f"epochs: 0x{'f' * 9000}\n",
        f"epochs: !!int '0b{'1' * 9000}'\n",
        f"epochs: {'9' * 500}.5\n",
        f"data: {'x' * 100_000}\n",
        f"data: {{name: {'x' * 100_000}}}\n",
        f"extends: {'x' * 5000}\n",
        f"extends: {'x' * 5000}.yaml\n",
        "extends: ../../../../x\n",
        'extends: "digits/\\0mlp"\n',
    ],
)
def test_a_recipe_that_is_a_bomb_or_has_a_wrong_tag(tmp_path, text):
    (tmp_path / "recipe.yaml").write_text(text)
    with limited(20):
        assert len(refusal(load_recipe, tmp_path / "recipe.yaml")) < 1000


def test_aliases_and_merge_keys_of_a_plausible_size(tmp_path):
    (tmp_path / "recipe.yaml").write_text(
        "extends: digits/mlp\noptimizer: &o {name: sgd, lr: 0.1}\nprotocols: {long: {optimizer: {<<: *o, lr: 0.2}}}\n"
    )
    assert load_recipe(tmp_path / "recipe.yaml", ["protocol=long"]).optimizer.lr == 0.2


@pytest.mark.parametrize("change", ["!!bool x", "!!timestamp x", "!!int 'x'", "!!float x", DEEP, "&a [*a]"])
def test_an_override_that_cannot_be_read_is_named_with_its_key(change):
    with pytest.raises(ValueError, match=r"The value of epochs=.* is (not valid YAML|nested)") as refused:
        load_recipe("digits/mlp", [f"epochs={change}"])
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize("number", ["1e400", "1" + 400 * "0", "1" + 5000 * "0", "NaN", "-Infinity", "1e-400"])
def test_a_calibrator_with_a_number_that_is_none(tmp_path, number):
    path = tmp_path / "t.json"
    TemperatureScaling().fit(Predictions.from_logits([[4.0, 0.0]] * 4, [0, 0, 0, 1])).save(path)
    content = json.loads(path.read_text())
    assert set(content["learned"]) == {"temperature"}
    text = json.dumps({**content, "learned": {"temperature": "HERE"}}).replace('"HERE"', number)
    path.write_text(text)
    refusal(load_calibrator, path)
    path.write_text(text.replace(f'"samples": {content["fitted_on"]["samples"]}', f'"samples": {number}'))
    refusal(load_calibrator, path)


ROW = '{"logits": [1.5, 0.5], "labels": 0}\n'
LINES = {
    "a key twice": ('{"logits": [1.5, 0.5], "labels": 0, "labels": 1}\n', "row 1 is not JSON .it has a key twice"),
    "millions of lists": (
        '{"logits": [1.5, 0.5], "labels": 0, "x": [' + "[]," * 1_000_000 + "[]]}\n",
        "row 1 is not JSON .it has more than 1,000,000 lists",
    ),
    "a label that no class has": ('{"logits": [1.5, 0.5], "labels": 1e30}\n', "The label of row 1 is 1e.30;"),
    "a label of 400 digits": ('{"logits": [1.5, 0.5], "labels": ' + 400 * "9" + "}\n", "The label of row 1 is inf;"),
}


@pytest.mark.parametrize("line", LINES)
def test_lines_of_json_that_others_would_read_as_something_else(tmp_path, line):
    text, sentence = LINES[line]
    (tmp_path / "p.jsonl").write_text(ROW + text)
    assert re.search(sentence, refusal(Predictions.load, tmp_path / "p.jsonl"))


def test_a_line_of_json_without_an_end(tmp_path, monkeypatch):
    monkeypatch.setattr(jsonl, "_LONGEST_LINE", 1000)
    (tmp_path / "p.jsonl").write_text(ROW + '{"logits": [' + 2000 * "1.5, ")
    assert "row 1 has more than 1,000 bytes" in refusal(Predictions.load, tmp_path / "p.jsonl")


def test_only_what_is_needed_of_a_line_is_kept_in_memory(tmp_path):
    note = 100_000 * "a"
    (tmp_path / "p.jsonl").write_text(500 * f'{{"logits": [1.5, 0.5], "labels": 0, "note": "{note}"}}\n')
    tracemalloc.start()
    try:
        assert len(Predictions.load(tmp_path / "p.jsonl")) == 500
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "name", [" weights", "weights ", "\tids", " logits_2", "labels\0", "\u200blabel", "logits_2\u00a0"]
)
def test_a_column_whose_name_has_something_invisible_in_it(tmp_path, name):
    """A header with a space behind each comma: the weights were left out in silence."""
    (tmp_path / "p.csv").write_text(f"logits_0,logits_1,{name}\n1,2,1\n")
    assert repr(name) in refusal(Predictions.load, tmp_path / "p.csv")
    (tmp_path / "p.jsonl").write_text(json.dumps({"logits_0": 1.5, "logits_1": 2.5, name: 1}))
    assert repr(name) in refusal(Predictions.load, tmp_path / "p.jsonl")


def test_a_column_with_a_space_in_its_name_can_be_named(tmp_path):
    (tmp_path / "p.csv").write_text("logits_0,logits_1,labels, weights\n1,2,1,5\n")
    assert Predictions.load(tmp_path / "p.csv", weights_key=" weights").weights.tolist() == [5]


@pytest.mark.parametrize("name", ["logits_99999999999", "logits_" + 5000 * "9", "logits_3"])
def test_a_column_with_the_number_of_no_class(tmp_path, name):
    (tmp_path / "p.csv").write_text(f"logits_0,logits_1,{name},labels\n1,2,3,1\n")
    assert "are not numbered 0 to 2" in refusal(Predictions.load, tmp_path / "p.csv")


def test_numbers_of_json_are_never_larger_than_floats():
    assert parse_json("[1, -9223372036854775808, 18446744073709551615]") == [1, -(2**63), 2**64 - 1]
    assert parse_json("1" + 4000 * "0") == float("inf")
    assert isinstance(parse_json(str(2**64)), float)


def test_a_folder_whose_name_a_file_has(tmp_path):
    (tmp_path / "predictions").write_text("mine")
    with pytest.raises(ValueError, match=r"The folder .*predictions cannot be made: a file has that name\."):
        make_folder(tmp_path / "predictions")


def test_an_archive_of_numpy_that_is_empty_or_is_none(tmp_path):
    for name, content in (
        ("a.npz", b"PK\x05\x06" + bytes(18)),
        ("b.npz", b"\x80\x04."),
        ("c.npz", b""),
    ):
        (tmp_path / name).write_bytes(content)
        refusal(Predictions.load, tmp_path / name)


@pytest.mark.parametrize("read", ["texts", "pairs", "images"])
def test_names_in_a_parquet_footer_that_are_no_text(tmp_path, read):
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {
        "texts": ({"text": ["a", "b"], "label": ["x", "y"], "column": [1, 2]}, READ_TEXTS),
        "pairs": ({"translation": [{"en": "a", "de": "b"}], "column": [1]}, lambda path: read_parallel([path])),
        "images": ({"img": [{"bytes": b"x", "path": "y"}], "label": [1], "column": [1]}, READ_IMAGES),
    }
    path, (columns, reader) = tmp_path / "file.parquet", kinds[read]
    pq.write_table(pa.table(columns), path, store_schema=False)
    assert path.read_bytes().count(b"column") >= 2
    path.write_bytes(path.read_bytes().replace(b"column", b"col\x80\xffn"))
    refusal(reader, path)
