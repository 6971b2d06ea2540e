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
    assert data.model_options == {"num_classes": 4}
    assert torch.cat([samples.ids for samples in (data.train, *data.evaluation.values())]).tolist() == list(range(24))
    assert data.class_names == ("class 0", "class 1", "class 2", "class 3")
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
    "soft labels": (lambda: [(INPUTS, torch.eye(6).long())], ValueError, "one number a sample"),
    "words": (lambda: [("word", 0), ("other", 1)], TypeError, "inputs must be tensors or arrays, got str"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_used_gets_a_sentence(case):
    make, kind, words = BAD[case]
    with pytest.raises(kind, match=words) as caught:
        own_data(train=(INPUTS, LABELS), val=make(), class_names=["a", "b", "c"])
    assert str(caught.value).startswith("val: ")
