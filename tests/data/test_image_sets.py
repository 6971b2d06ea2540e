"""Every image set: its splits, its options, its random stand-in, and the real files where there are any."""

import pytest
import torch

from focalcal.data import DATA_NAMES, load_data
from focalcal.data.data_files import MissingDataError
from focalcal.data.data_sets import CATALOGUE

CPU = torch.device("cpu")
SHAPES = {
    "digits": (10, 1, 8),
    "fashion_mnist": (10, 1, 28),
    "cifar10": (10, 3, 32),
    "cifar100": (100, 3, 32),
    "tiny_imagenet": (200, 3, 64),
}


def check_splits(data, whole):
    """Nothing is in two splits, the hashes are of the ids, and every label is a class."""
    everything = {"train": data.train, **data.evaluation}
    ids = torch.cat([everything[split].ids for split in ("train", "val", "test")])
    assert len(ids.unique()) == len(ids) == whole
    for name, samples in everything.items():
        assert data.facts["sizes"][name] == len(samples)
        assert 0 <= int(samples.labels.min()) <= int(samples.labels.max()) < len(data.class_names)
    assert len(set(data.facts["split_sha256"].values())) == len(everything)


def test_every_name_is_in_the_catalogue():
    assert set(DATA_NAMES) <= set(CATALOGUE)


@pytest.mark.parametrize("name", SHAPES)
def test_random_images_have_the_right_shape(name):
    classes, channels, size = SHAPES[name]
    data = load_data(name, synthetic=6)
    assert data.model_options == {"num_classes": classes, "in_channels": channels, "image_size": size}
    assert data.facts["sizes"] == {"train": 6, "val": 6, "test": 6}
    batch = data.train.batch(torch.arange(6), device=CPU, generator=torch.Generator().manual_seed(0))
    assert batch.inputs.shape == (6, channels, size, size)
    assert "no file was read" in data.facts["notes"][0]
    again = load_data(name, synthetic=6)
    assert torch.equal(again.train.images, data.train.images)


def test_digits_are_split_by_class_and_their_test_split_is_always_the_same():
    first, other = load_data("digits"), load_data("digits", seed=1)
    check_splits(first, 1797)
    hashes, others = first.facts["split_sha256"], other.facts["split_sha256"]
    assert hashes["test"] == others["test"]
    assert hashes["val"] != others["val"]
    assert first.train.augmentation.padding == 0
    counts = first.evaluation["test"].labels.bincount()
    assert int(counts.min()) >= 43


def test_a_subset_of_the_training_split_leaves_the_others_as_they_are():
    whole, part = load_data("digits"), load_data("digits", train_size=100)
    assert part.train.labels.bincount().tolist() == [10] * 10
    assert set(part.train.ids.tolist()) < set(whole.train.ids.tolist())
    assert part.facts["split_sha256"]["val"] == whole.facts["split_sha256"]["val"]
    with pytest.raises(ValueError, match="between 1 and 1078"):
        load_data("digits", train_size=1079)


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("cifar-10", {}, "did you mean 'cifar10'"),
        ("svhn", {}, "evaluation only"),
        ("digits", {"trainsize": 5}, "did you mean 'train_size'"),
        ("digits", {"ood": ["svhn"]}, "it has none"),
        ("cifar10", {"ood": ["mnist"]}, "those are svhn, cifar10_c"),
        ("digits", {"synthetic": 0}, "at least 1"),
    ],
)
def test_a_wrong_request_gets_a_sentence(name, options, words):
    with pytest.raises(ValueError, match=words):
        load_data(name, **options)


def test_ood_is_a_list():
    with pytest.raises(TypeError, match=r"write \['svhn'\]"):
        load_data("cifar10", ood="svhn", synthetic=2)
    with pytest.raises(TypeError, match="is a string"):
        load_data(3)


def test_what_is_missing_is_asked_for_in_one_sentence(tmp_path):
    with pytest.raises(MissingDataError, match="put the file from http") as caught:
        load_data("tiny_imagenet", root=tmp_path)
    assert str(tmp_path / "tiny_imagenet/tiny-imagenet-200.zip") in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_folder_comes_before_the_cache(tmp_path, monkeypatch, small_cifar):
    monkeypatch.setenv("FOCALCAL_DATA", str(tmp_path / "empty"))
    with pytest.raises(MissingDataError):
        load_data("cifar10")
    monkeypatch.setenv("FOCALCAL_DATA", str(small_cifar))
    check_splits(load_data("cifar10"), 240)


def test_real_cifar10_is_split_like_the_papers(real_data):
    data = load_data("cifar10", root=real_data, ood=["svhn", "cifar10_c"])
    check_splits(data, 60_000)
    assert [data.facts["sizes"][split] for split in ("train", "val", "test")] == [45_000, 5_000, 10_000]
    assert data.evaluation["val"].labels.bincount().tolist() == [500] * 10
    assert data.facts["ood"]["cifar10_c"]["generated"] is True
    # The official training images begin with a frog and two trucks.
    first = torch.cat([data.train.labels, data.evaluation["val"].labels])
    order = torch.cat([data.train.ids, data.evaluation["val"].ids]).argsort()
    assert [data.class_names[label] for label in first[order][:3]] == ["frog", "truck", "truck"]
    again = load_data("cifar10", root=real_data)  # from the cache of decoded images
    assert torch.equal(again.train.images, data.train.images)


def test_real_partial_sets_say_so(real_data):
    hundred, tiny = load_data("cifar100", root=real_data), load_data("tiny_imagenet", root=real_data)
    check_splits(hundred, sum(hundred.facts["sizes"].values()))
    check_splits(tiny, sum(tiny.facts["sizes"].values()))
    for data in (hundred, tiny):
        share = data.facts["sizes"]["val"] / (data.facts["sizes"]["val"] + data.facts["sizes"]["train"])
        assert share == pytest.approx(0.1)
    if tiny.facts["sizes"]["train"] < 90_000:
        assert "Partial file: 10 of 200 classes" in tiny.facts["notes"][0]
        assert tiny.model_options["num_classes"] == 10
