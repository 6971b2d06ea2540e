"""From a network and a split to predictions: whether classes, labels and names go together."""

import pytest
import torch
from lightning_fabric import Fabric

from focalcal.data import own_data
from focalcal.training.evaluating import check_classes, check_outputs, split_predictions
from tiny_runs import CLASSES, Net, vectors

INPUTS, LABELS = vectors(20, 0)


def predicted(samples, network, class_names=None):
    return split_predictions(
        Fabric(accelerator="cpu", devices=1),
        network,
        samples,
        split="shifted",
        class_names=class_names,
        masked_classes=(),
        batch_size=8,
        prepare=lambda batch: batch,
    )


def splits(beyond=0, **options):
    return own_data(train=(INPUTS, LABELS), val=(INPUTS, LABELS), shifted=(INPUTS, LABELS + beyond), **options)


def test_classes_without_names_may_be_more_than_the_labels():
    data = splits()
    found = predicted(data.evaluation["shifted"], Net(outputs=CLASSES + 2), data.class_names)
    assert found.class_names is None
    assert found.num_classes == CLASSES + 2
    assert torch.equal(found.labels, LABELS)


def test_names_are_kept():
    names = ("a", "b", "c", "d")
    assert predicted(splits(class_names=names).train, Net(), names).class_names == names


def test_a_label_without_an_output_names_its_split():
    words = rf"^The network has {CLASSES} outputs, but there is a label {CLASSES + 1} in the data's split shifted\.$"
    with pytest.raises(ValueError, match=words):
        predicted(splits(beyond=2).evaluation["shifted"], Net())
    with pytest.raises(ValueError, match=words):
        check_classes(CLASSES, splits(beyond=2))
    check_classes(CLASSES + 2, splits(beyond=2))


def test_training_labels_without_an_output():
    with pytest.raises(ValueError, match="The network has 2 outputs, but there is a label 3 in the data's split train"):
        check_outputs(Net(outputs=2)(INPUTS), LABELS, splits().train)


def test_names_that_are_too_few_for_the_outputs():
    data = splits(class_names=["a", "b", "c", "d"])
    check_classes(4, data)
    with pytest.raises(ValueError, match=r"^The network has 5 outputs, but the data has 4 class names\.$"):
        check_classes(5, data)
