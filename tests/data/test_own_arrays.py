"""Own arrays: .npz files become splits; images are normalised, features pass unchanged, texts name classes."""

import numpy as np
import pytest
import torch

from focalcal.data import load_data

CPU = torch.device("cpu")
RANDOM = np.random.default_rng(0)
IMAGES = RANDOM.integers(0, 256, (40, 6, 6, 3), dtype=np.uint8)
FEATURES = RANDOM.normal(size=(40, 5))
NUMBERS = np.arange(40) % 4
TEXTS = np.array(["dog", "cat", "9", "10"])[NUMBERS]


def saved(path, **arrays):
    np.savez(path, **arrays)
    return path


def test_features_pass_unchanged(tmp_path):
    data = load_data("arrays", path=saved(tmp_path / "a.npz", x=FEATURES, y=NUMBERS))
    assert data.model_options == {"num_classes": 4, "num_features": 5}
    assert data.facts["sizes"] == {"train": 32, "val": 4, "test": 4}
    batch = data.train.batch(torch.arange(32), device=CPU, generator=None)
    assert torch.equal(batch.inputs, torch.from_numpy(FEATURES.astype(np.float32))[data.train.ids])
    assert torch.equal(batch.targets, torch.from_numpy(NUMBERS)[data.train.ids])
    ids = torch.cat([part.ids for part in (data.train, *data.evaluation.values())])
    assert sorted(ids.tolist()) == list(range(40))


@pytest.mark.parametrize(
    ("pixels", "channels"),
    [(IMAGES, 3), (IMAGES.transpose(0, 3, 1, 2), 3), (IMAGES[..., 0], 1), (IMAGES[..., :1], 1)],
    ids=["nhwc", "nchw", "nhw", "nhw1"],
)
def test_images_of_bytes_are_normalised_in_any_layout(tmp_path, pixels, channels):
    data = load_data("arrays", path=saved(tmp_path / "a.npz", x=pixels, y=NUMBERS))
    assert data.model_options == {"num_classes": 4, "in_channels": channels, "image_size": 6}
    expected = torch.from_numpy(IMAGES.transpose(0, 3, 1, 2)[:, :channels].copy())[data.train.ids]
    assert torch.equal(data.train.images, expected)
    inputs = data.train.batch(torch.arange(32), device=CPU, generator=None).inputs
    assert inputs.mean((0, 2, 3)).abs().max() < 1e-5


def test_texts_name_the_classes(tmp_path):
    data = load_data("arrays", path=saved(tmp_path / "a.npz", x=FEATURES, y=TEXTS))
    assert data.class_names == ("9", "10", "cat", "dog")
    numbers = {"9": 0, "10": 1, "cat": 2, "dog": 3}
    assert data.train.labels.tolist() == [numbers[TEXTS[row]] for row in data.train.ids.tolist()]


def test_splits_in_one_file_or_in_several(tmp_path):
    one = saved(
        tmp_path / "one.npz", x_train=FEATURES, y_train=TEXTS, x_test=FEATURES[:6], y_test=TEXTS[:6], other=NUMBERS
    )
    assert load_data("arrays", path=one).facts["sizes"] == {"train": 36, "val": 4, "test": 6}
    train = saved(tmp_path / "train.npz", images=IMAGES, kinds=NUMBERS)
    val = saved(tmp_path / "val.npz", images=IMAGES[:5], kinds=NUMBERS[:5])
    data = load_data("arrays", path=train, val_path=val, inputs="images", labels="kinds")
    assert data.facts["sizes"] == {"train": 36, "val": 5, "test": 4}
    assert data.evaluation["val"].ids.tolist() == list(range(40, 45))
    assert torch.equal(data.evaluation["val"].labels, torch.from_numpy(NUMBERS[:5]))
    with pytest.raises(ValueError, match=r"one.npz has x_test, and data.test_path is given, too"):
        load_data("arrays", path=one, test_path=one)


BAD = {
    "no x": ({"y": NUMBERS}, {}, "has no array 'x', but y; name the arrays with data.inputs and data.labels"),
    "no y": ({"x": FEATURES}, {}, "has no array 'y', but x"),
    "lengths": ({"x": FEATURES, "y": NUMBERS[:7]}, {}, "has 40 x but 7 y; each input needs one label"),
    "empty": ({"x": FEATURES[:0], "y": NUMBERS[:0]}, {}, "x is empty"),
    "floats": ({"x": FEATURES, "y": NUMBERS / 2}, {}, "train: labels must be whole numbers, got torch.float64"),
    "negative": ({"x": FEATURES, "y": NUMBERS - 1}, {}, "train: label -1 is negative"),
    "one-hot": ({"x": FEATURES, "y": np.eye(4, dtype=int)[NUMBERS]}, {}, "labels must be one number per sample"),
    "nan": ({"x": np.where(FEATURES > 2, np.nan, FEATURES), "y": NUMBERS}, {}, "holds NaN or infinity in row"),
    "words": ({"x": TEXTS, "y": NUMBERS}, {}, "x holds <U3, not numbers"),
    "objects": ({"x": FEATURES, "y": np.array([{}] * 40)}, {}, "arrays of Python objects are not read"),
    "wide": ({"x": IMAGES[:, :4], "y": NUMBERS}, {"layout": "nhwc"}, "the images have 4 × 6 pixels"),
    "unclear": ({"x": IMAGES[:, :3], "y": NUMBERS}, {}, r"which axis of \(40, 3, 6, 3\) has the channels is not clear"),
    "single": ({"x": np.float64(3), "y": NUMBERS}, {}, "x is a single value"),
    "augment": ({"x": FEATURES, "y": NUMBERS}, {"augment": True}, "data.augment is for images of uint8"),
    "too few": ({"x": FEATURES[:4], "y": NUMBERS[:4]}, {}, "4 training samples are too few to hold out val"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_used_gets_a_sentence(case, tmp_path):
    arrays, options, words = BAD[case]
    with pytest.raises((ValueError, TypeError), match=words) as caught:
        load_data("arrays", path=saved(tmp_path / "a.npz", **arrays), **options)
    assert "\n" not in str(caught.value)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(ValueError, match=r"There is no file .*b.npz"):
        load_data("arrays", path=tmp_path / "b.npz")
    with pytest.raises(ValueError, match=r"needs path, a .npz file with the arrays x and y"):
        load_data("arrays")
    (tmp_path / "c.npz").write_bytes(saved(tmp_path / "a.npz", x=FEATURES, y=NUMBERS).read_bytes()[:300])
    with pytest.raises(ValueError, match=r"c.npz is not a whole .npz file"):
        load_data("arrays", path=tmp_path / "c.npz")
    np.save(tmp_path / "d.npy", FEATURES)
    with pytest.raises(ValueError, match=r"d.npy is a single array"):
        load_data("arrays", path=tmp_path / "d.npy")


def test_splits_that_differ_in_shape(tmp_path):
    train = saved(tmp_path / "a.npz", x=FEATURES, y=NUMBERS)
    val = saved(tmp_path / "b.npz", x=FEATURES[:, :3], y=NUMBERS)
    with pytest.raises(ValueError, match=r"val: inputs are torch.float32 \(3,\), but those of train .* \(5,\)"):
        load_data("arrays", path=train, val_path=val)
