import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from focalcal.data import load_data
from focalcal.data.data_files import cache_folder
from image_files import encoded, write_parquet

TRAIN = "cifar10/plain_text/train-00000-of-00001.parquet"


def test_images_and_labels_keep_their_order(small_cifar):
    data = load_data("cifar10", root=small_cifar)
    assert data.facts["sizes"] == {"train": 180, "val": 20, "test": 40}
    assert "Partial files: 200 and 40 images" in data.facts["notes"][0]
    test = data.evaluation["test"]
    for row in (0, 7, 39):
        assert torch.equal(test.images[row], torch.from_numpy(encoded(seed=row)[0]).permute(2, 0, 1))
    assert test.ids.tolist() == list(range(200, 240))
    assert test.labels.tolist() == [row % 10 for row in range(40)]


@pytest.mark.parametrize("kind", ["PNG", "WEBP", "JPEG"])
def test_decodes_what_the_hub_has(tmp_path, small_cifar, kind):
    write_parquet(tmp_path / TRAIN, [encoded(seed=row, kind=kind)[1] for row in range(20)], [0, 1] * 10)
    assert load_data("cifar10", root=small_cifar).facts["sizes"]["train"] == 18


def broken(case, path):
    whole = path.read_bytes()
    good = [encoded(seed=row)[1] for row in range(20)]
    labels = [row % 10 for row in range(20)]
    if case == "truncated":
        path.write_bytes(whole[: len(whole) // 2])
    elif case == "not parquet":
        path.write_bytes(b"hello")
    elif case == "damaged inside":
        path.write_bytes(whole[:1000] + bytes(2000) + whole[3000:])
    elif case == "label":
        write_parquet(path, good, [*labels[:-1], 10])
    elif case == "no label":
        write_parquet(path, good, [*labels[:-1], None])
    elif case == "column":
        write_parquet(path, good, labels, image_column="picture")
    elif case == "size":
        write_parquet(path, [*good[:-1], encoded(size=28)[1]], labels)
    elif case == "no image":
        write_parquet(path, [*good[:-1], b"no image"], labels)
    elif case == "null":
        write_parquet(path, [*good[:-1], None], labels)
    elif case == "half an image":
        write_parquet(path, [*good[:-1], good[-1][: len(good[-1]) // 2]], labels)
    elif case == "empty":
        write_parquet(path, [], [])


CASES = {
    "truncated": "not a whole parquet file",
    "not parquet": "not a whole parquet file",
    "damaged inside": r"not an image|not a whole parquet file",
    "label": "row 19: label 10 is not one of 0 to 9",
    "no label": "1 rows without a label",
    "column": "has no column 'img'; it has picture, label",
    "size": "row 19: the image has 28 × 28 pixels instead of 32 × 32",
    "no image": "row 19: not an image",
    "null": "row 19: not an image",
    "half an image": "row 19: not an image, or a damaged one",
    "empty": "holds no images",
}


@pytest.mark.parametrize("case", CASES)
def test_bad_files_are_named_in_one_sentence(small_cifar, case):
    broken(case, small_cifar / TRAIN)
    with pytest.raises(ValueError, match=CASES[case]) as caught:
        load_data("cifar10", root=small_cifar)
    assert str(small_cifar / TRAIN) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_decoded_images_come_from_the_cache_only_for_the_same_bytes(small_cifar):
    load_data("cifar10", root=small_cifar)
    stored = sorted((cache_folder() / "decoded").iterdir())
    assert len(stored) == 2
    for path in stored:  # all black: proof that the second load reads the cache
        kept = load_file(path)
        save_file({"images": torch.zeros_like(kept["images"]), "labels": kept["labels"]}, path)
    assert int(load_data("cifar10", root=small_cifar).train.images.max()) == 0
    write_parquet(small_cifar / TRAIN, [encoded(seed=row + 1)[1] for row in range(20)], [0, 1] * 10)
    assert int(load_data("cifar10", root=small_cifar).train.images.max()) > 0


def test_too_few_images_for_a_validation_split_are_refused(small_cifar):
    write_parquet(small_cifar / TRAIN, [encoded(seed=row)[1] for row in range(10)], list(range(10)))
    with pytest.raises(ValueError, match="10 training images are too few"):
        load_data("cifar10", root=small_cifar)


def test_a_second_load_is_the_same(small_cifar):
    first, second = (load_data("cifar10", root=small_cifar) for _ in range(2))
    assert np.array_equal(first.train.images, second.train.images)
    assert first.facts == second.facts
