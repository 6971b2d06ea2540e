import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from focalcal.data import as_samples, own_data

CPU = torch.device("cpu")
INPUTS, LABELS = torch.arange(12.0).view(6, 2), torch.tensor([0, 1, 2, 0, 1, 2])


class MapStyle:
    def __len__(self):
        return 6

    def __getitem__(self, row):
        if row >= 6:
            raise AssertionError("asked for a row that is not there")
        return INPUTS[row].numpy(), int(LABELS[row])


FORMS = {
    "tensors": lambda: (INPUTS, LABELS),
    "arrays": lambda: (INPUTS.numpy(), LABELS.numpy().astype(np.uint8)),
    "tensor and list": lambda: (INPUTS, LABELS.tolist()),
    "list of two": lambda: [INPUTS, LABELS],
    "data set": lambda: TensorDataset(INPUTS, LABELS),
    "map style": MapStyle,
    "loader": lambda: DataLoader(TensorDataset(INPUTS, LABELS), batch_size=4),
    "samples": lambda: list(zip(INPUTS, LABELS.tolist(), strict=True)),
    "generator": lambda: ((row, label) for row, label in zip(INPUTS, LABELS, strict=True)),
    "list of batches": lambda: [(INPUTS[:4], LABELS[:4]), (INPUTS[4:], LABELS[4:])],
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_samples(form):
    samples = as_samples(FORMS[form]())
    assert samples.labels.tolist() == LABELS.tolist()
    assert samples.labels.dtype == torch.int64
    assert samples.ids.tolist() == list(range(6))
    batch = samples.batch(torch.tensor([5, 0]), device=CPU, generator=torch.Generator())
    assert torch.equal(batch.inputs, INPUTS[[5, 0]])
    assert batch.targets.tolist() == [2, 0]


def test_samples_stay_what_they_are():
    samples = as_samples((INPUTS, LABELS))
    assert as_samples(samples) is samples
    with pytest.raises(ValueError, match="a transform goes with inputs"):
        as_samples(samples, transform=lambda inputs, generator: inputs)


def test_a_transform_is_for_training_only():
    data = own_data(train=(INPUTS, LABELS), val=(INPUTS, LABELS), transform=lambda inputs, generator: inputs + 1)
    rows, generator = torch.arange(6), torch.Generator()
    assert torch.equal(data.train.batch(rows, device=CPU, generator=generator).inputs, INPUTS + 1)
    assert torch.equal(data.train.batch(rows, device=CPU, generator=None).inputs, INPUTS)
    assert torch.equal(data.evaluation["val"].batch(rows, device=CPU, generator=generator).inputs, INPUTS)


def test_a_data_set_of_ones_own():
    data = own_data(train=(INPUTS, LABELS), val=(INPUTS, LABELS), test=(INPUTS, LABELS + 1), shifted=MapStyle())
    assert list(data.evaluation) == ["val", "test", "shifted"]
    assert data.model_options == {"num_classes": 4, "num_features": 2}
    assert torch.cat([samples.ids for samples in (data.train, *data.evaluation.values())]).tolist() == list(range(24))
    assert data.class_names == ()
    named = own_data(train=(INPUTS, LABELS), val=(INPUTS, LABELS), class_names=["a", "b", "c"])
    assert named.class_names == ("a", "b", "c")


BAD = {
    "lengths": (lambda: (INPUTS, LABELS[:5]), ValueError, "val: there are 6 inputs but 5 labels"),
    "empty": (lambda: (INPUTS[:0], LABELS[:0]), ValueError, "val: there are no samples"),
    "no items": (list, ValueError, "val: there are no samples"),
    "negative": (lambda: (INPUTS, LABELS - 1), ValueError, "label -1 is negative"),
    "floats": (lambda: (INPUTS, LABELS.float()), TypeError, "labels must be whole numbers, got torch.float32"),
    "name": (lambda: (INPUTS, LABELS + 5), ValueError, "val: label 7 has no name among 3 class names"),
    "shapes": (lambda: [(INPUTS[0], 0), (INPUTS[:, :1].flatten(), 1)], ValueError, "the same shape"),
    "items": (lambda: [1, 2, 3], TypeError, "each item must be"),
    "number": (lambda: 7, TypeError, "is needed, got int"),
    "text": (lambda: "data.csv", TypeError, "is needed, got str"),
    "soft labels": (lambda: [(INPUTS, torch.eye(6).long())], ValueError, "one number per sample"),
    "one-hot": (lambda: (INPUTS, torch.eye(6)), ValueError, r"one number per sample, got shape \(6, 6\)"),
    "one column": (lambda: (INPUTS, LABELS.view(6, 1).numpy()), ValueError, r"got shape \(6, 1\)"),
    "no label": (lambda: [(INPUTS[0], None)], TypeError, "labels must be whole numbers from 0 on, or texts, got None"),
    "ragged labels": (lambda: (INPUTS, [[0], [1, 2]] * 3), TypeError, "labels must be whole numbers"),
    "nan": (
        lambda: (INPUTS.index_fill(0, torch.tensor(4), torch.nan), LABELS),
        ValueError,
        "row 4 .* holds NaN or inf",
    ),
    "infinity": (lambda: (INPUTS / INPUTS, LABELS), ValueError, "row 0 .* holds NaN or infinity"),
    "beyond float32": (lambda: (np.full((6, 2), 1e300), LABELS), ValueError, "row 0 .* holds NaN or infinity"),
    "other shape": (lambda: (INPUTS[:, :1], LABELS), ValueError, r"shape \(1,\), but those of train \(2,\)\."),
    "other type": (lambda: (INPUTS.long(), LABELS), ValueError, "are torch.int64, but those of train torch.float32"),
    "single number": (lambda: (torch.tensor(1.0), LABELS), ValueError, "one row per sample, got a single number"),
    "words": (lambda: [("word", 0), ("other", 1)], TypeError, "inputs must be tensors or arrays, got str"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_used_gets_a_sentence(case):
    make, kind, words = BAD[case]
    with pytest.raises(kind, match=words) as caught:
        own_data(train=(INPUTS, LABELS), val=make(), class_names=["a", "b", "c"])
    assert str(caught.value).startswith("val: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("split", ["../evil", "a/b", "", ".", "..", "a b", "a\n", "last", "é"])
def test_a_split_that_cannot_be_a_file_is_refused(split):
    with pytest.raises(ValueError, match="cannot be the name of a split") as caught:
        own_data(**{"train": (INPUTS, LABELS), "val": (INPUTS, LABELS), split: (INPUTS, LABELS)})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ({"name": (INPUTS, LABELS)}, "name is what the data set is called, a string, and not a split; got tuple"),
        ({"transform": (INPUTS, LABELS)}, "transform is a function of a batch, and not a split; got tuple"),
        ({"class_names": "abc"}, "class_names must be a list with one name per class, got str"),
        ({"class_names": [0, 1, 2]}, "class_names must be strings that are not empty, got 0"),
    ],
)
def test_arguments_that_are_something_else(argument, words):
    with pytest.raises(TypeError, match=words):
        own_data(train=(INPUTS, LABELS), val=(INPUTS, LABELS), **argument)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (torch.float64, torch.float32),
        (torch.float16, torch.float32),
        (torch.float32, torch.float32),
        (torch.int64, torch.int64),
        (torch.uint8, torch.uint8),
    ],
)
def test_floating_point_inputs_become_float32_and_whole_numbers_stay(given, kept):
    for inputs in (INPUTS.to(given), INPUTS.to(given).numpy()):
        samples = as_samples((inputs, LABELS))
        assert samples.inputs.dtype == kept
        assert torch.equal(samples.inputs, INPUTS.to(kept))


def test_inputs_of_one_number_a_sample():
    assert as_samples((INPUTS[:, 0], LABELS)).inputs.shape == (6,)
    with pytest.raises(ValueError, match="row 2 "):
        as_samples((torch.tensor([0.0, 1.0, torch.nan]), LABELS[:3]))


NAMED = {
    "list": (INPUTS, ["cow", "ant", "cat", "ant", "cat", "cow"]),
    "array": (INPUTS.numpy(), np.array(["cow", "ant", "cat", "ant", "cat", "cow"])),
    "samples": list(zip(INPUTS, ["cow", "ant", "cat", "ant", "cat", "cow"], strict=True)),
    "batches": [(INPUTS[:4], ["cow", "ant", "cat", "ant"]), (INPUTS[4:], ("cat", "cow"))],
    "mappings": [{"x": x, "label": y} for x, y in zip(INPUTS, ["cow", "ant", "cat", "ant", "cat", "cow"], strict=True)],
}


@pytest.mark.parametrize("form", NAMED)
def test_labels_that_are_texts_name_the_classes(form):
    data = own_data(train=NAMED[form], val=(INPUTS[:2], ["cat", "ant"]))
    assert data.class_names == ("ant", "cat", "cow")
    assert data.train.labels.tolist() == [2, 0, 1, 0, 1, 2]
    assert data.evaluation["val"].labels.tolist() == [1, 0]
    assert data.model_options["num_classes"] == 3


def test_tables_of_pandas():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"a": [0.5, 1.0], "b": [2.0, 3.0], "kind": ["x", "y"]})
    data = own_data(train=(table[["a", "b"]], table["kind"]), val=(table[["a", "b"]], table["kind"]))
    assert data.class_names == ("x", "y")
    assert data.train.inputs.tolist() == [[0.5, 2.0], [1.0, 3.0]]


def test_class_names_order_texts_and_numbers_alike():
    data = own_data(train=(INPUTS, LABELS), val=(INPUTS[:2], ["b", "c"]), class_names=["c", "b", "a"])
    assert data.evaluation["val"].labels.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({"val": (INPUTS[:1], ["cow"])}, ValueError, "val, row 1: the label 'cow' does not occur in train"),
        ({"val": (INPUTS[:1], [1])}, TypeError, "train: labels are text, but those of val are numbers"),
        (
            {"val": (INPUTS[:1], ["ant"]), "class_names": ["dog", "emu"]},
            ValueError,
            "row 1: the label .* in class_names",
        ),
        (
            {"val": [{"x": INPUTS[0], "y": 1}]},
            ValueError,
            "val: each item must have one input and one label, and has x, y",
        ),
        ({"val": [{"x": INPUTS[0], "z": 1, "label": 1}]}, ValueError, "and has x, z, label; keep two columns"),
    ],
)
def test_texts_that_name_no_class_get_a_sentence(options, kind, words):
    with pytest.raises(kind, match=words):
        own_data(train=(INPUTS, ["ant", "cat"] * 3), **options)


def test_text_labels_of_one_split_ask_for_the_classes():
    with pytest.raises(ValueError, match=r"labels are text; say which classes there are: class_names"):
        as_samples((INPUTS, ["ant", "cat"] * 3))
    assert as_samples((INPUTS, ["ant", "cat"] * 3), class_names=["cat", "ant"]).labels.tolist() == [1, 0] * 3


def test_pictures_become_numbers_between_0_and_1():
    image = pytest.importorskip("PIL.Image")
    pictures = [(image.new("RGB", (4, 4), (255, 0, 51)), 0), (image.new("RGB", (4, 4)), 1)]
    data = own_data(train=pictures, val=pictures)
    assert data.model_options == {"num_classes": 2, "in_channels": 3, "image_size": 4}
    assert data.train.inputs[0, :, 0, 0].tolist() == pytest.approx([1.0, 0.0, 0.2])


def test_a_label_that_is_no_class_takes_no_memory():
    with pytest.raises(
        ValueError, match=r"train: label 1073741824 would make 1,073,741,825 classes, more than 1,048,576"
    ):
        own_data(train=([[1.0], [2.0]], torch.tensor([0, 2**30])), val=([[1.0], [2.0]], [0, 1]))
