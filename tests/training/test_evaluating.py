"""Predictions of a network for a split: classes, labels and names fit together."""

import pytest
import torch
from lightning_fabric import Fabric

from focalcal.data import own_data
from focalcal.training.evaluating import Evaluator
from focalcal.training.preconditions import check_outputs
from tiny_runs import CLASSES, Net, vectors

INPUTS, LABELS = vectors(20, 0)


def predict(data, network, split="shifted"):
    return Evaluator(Fabric(accelerator="cpu", devices=1), data, batch_size=8).predict(network, split)


def splits(beyond=0, **options):
    return own_data(train=(INPUTS, LABELS), val=(INPUTS, LABELS), shifted=(INPUTS, LABELS + beyond), **options)


def test_classes_without_names_may_be_more_than_the_labels():
    data = splits()
    found = predict(data, Net(outputs=CLASSES + 2))
    assert found.class_names is None
    assert found.num_classes == CLASSES + 2
    assert torch.equal(found.labels, LABELS)


def test_names_are_kept():
    names = ("a", "b", "c", "d")
    assert predict(splits(class_names=names), Net(), "train").class_names == names


def test_a_label_without_an_output_names_its_split():
    words = rf"^The network has {CLASSES} outputs, but there is a label {CLASSES + 1} in the data's split shifted\.$"
    with pytest.raises(ValueError, match=words):
        predict(splits(beyond=2), Net())
    with pytest.raises(ValueError, match=words):
        check_outputs(Net()(INPUTS), LABELS, splits(beyond=2))
    check_outputs(Net(outputs=CLASSES + 2)(INPUTS), LABELS, splits(beyond=2))


def test_training_labels_without_an_output():
    with pytest.raises(ValueError, match="The network has 2 outputs, but there is a label 3 in the data's split train"):
        check_outputs(Net(outputs=2)(INPUTS), LABELS, splits())


def test_names_that_are_too_few_for_the_outputs():
    data = splits(class_names=["a", "b", "c", "d"])
    check_outputs(Net()(INPUTS), LABELS, data)
    with pytest.raises(ValueError, match=r"^The network has 5 outputs, but the data has 4 class names\.$"):
        check_outputs(Net(outputs=5)(INPUTS), LABELS, data)
