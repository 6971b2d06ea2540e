"""Own images: folders become splits and classes, pixels are those of Pillow, and files decode as memory does."""

import shutil

import numpy as np
import pytest
import torch
from PIL import Image

from focalcal.data import load_data
from focalcal.data.image_files import ImageFiles, decode_file, read_header
from focalcal.data.images import compute_pixel_statistics

CPU = torch.device("cpu")


def write(path, seed, size=(12, 12), mode="RGB", **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    channels = {"RGB": 3, "RGBA": 4}.get(mode)
    shape = (size[1], size[0], channels) if channels else (size[1], size[0])
    pixels = np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)
    Image.fromarray(pixels, mode if mode in ("RGB", "RGBA") else None).save(path, **options)
    return pixels


@pytest.fixture
def folder(tmp_path):
    for number, name in enumerate(("cat", "ant", "9", "10")):
        for place in range(10):
            write(tmp_path / "pictures" / name / f"{place}.png", 100 * number + place)
    return tmp_path / "pictures"


def test_folders_are_classes_and_a_share_of_each_is_held_out(folder):
    data = load_data("images", path=folder)
    assert data.class_names == ("9", "10", "ant", "cat")
    assert data.model_options == {"num_classes": 4, "in_channels": 3, "image_size": 12}
    assert {split: len(samples) for split, samples in data.evaluation.items()} == {"val": 4, "test": 4}
    for samples in data.evaluation.values():
        assert samples.labels.bincount().tolist() == [1, 1, 1, 1]
    names = [name for samples in (data.train, *data.evaluation.values()) for name in samples.names]
    assert sorted(names) == sorted(str(file.relative_to(folder)) for file in folder.rglob("*.png"))
    assert all(
        name.split("/")[0] == data.class_names[label]
        for name, label in zip(data.train.names, data.train.labels.tolist(), strict=True)
    )


def test_another_seed_is_another_split_and_the_same_seed_the_same(folder):
    first, again, other = (load_data("images", path=folder, seed=seed) for seed in (0, 0, 1))
    assert first.facts == again.facts
    assert first.facts["split_sha256"]["val"] != other.facts["split_sha256"]["val"]


def test_train_val_and_test_may_have_folders(folder, tmp_path):
    for split, count in (("train", 10), ("val", 2), ("test", 3)):
        for name in ("ant", "cat"):
            for place in range(count):
                target = tmp_path / "split" / split / name / f"{place}.png"
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(folder / name / f"{place}.png", target)
    data = load_data("images", path=tmp_path / "split")
    assert data.facts["sizes"] == {"train": 20, "val": 4, "test": 6}
    assert data.evaluation["test"].names[0] == "test/ant/0.png"
    shutil.rmtree(tmp_path / "split" / "val")
    data = load_data("images", path=tmp_path / "split", val_share=0.3)
    assert data.facts["sizes"] == {"train": 14, "val": 6, "test": 6}


@pytest.mark.parametrize("augment", [False, True, "flip"])
def test_files_decode_to_what_memory_holds(folder, augment):
    kept, read = (
        load_data("images", path=folder, size=8, in_memory=choice, workers=2, augment=augment)
        for choice in (True, False)
    )
    assert isinstance(kept.train.images, torch.Tensor)
    assert isinstance(read.train.images, ImageFiles)
    assert kept.facts["normalisation"] == read.facts["normalisation"]
    positions = torch.tensor([5, 0, 17, 3])
    read.train.prefetch(positions[:3])
    for source in (None, 7):
        batches = [
            data.train.batch(
                positions, device=CPU, generator=None if source is None else torch.Generator().manual_seed(source)
            )
            for data in (kept, read)
        ]
        assert torch.equal(batches[0].inputs, batches[1].inputs)
        assert torch.equal(batches[0].targets, batches[1].targets)
    assert read.train.images._ahead == {}


def test_pixels_are_normalised_by_those_of_the_training_images(folder):
    data = load_data("images", path=folder)
    inputs = data.train.batch(torch.arange(len(data.train)), device=CPU, generator=None).inputs
    assert inputs.mean((0, 2, 3)).abs().max() < 1e-5
    assert (inputs.std((0, 2, 3), correction=0) - 1).abs().max() < 1e-5
    mean, _ = compute_pixel_statistics(data.train.images)
    assert list(data.facts["normalisation"]["mean"]) == list(mean)


def test_a_constant_channel_is_not_divided_by_zero(tmp_path):
    for name in ("a", "b"):
        for place in range(10):
            path = tmp_path / name / f"{place}.png"
            path.parent.mkdir(exist_ok=True)
            Image.new("RGB", (4, 4), (7, 7, 7)).save(path)
    data = load_data("images", path=tmp_path)
    assert data.train.batch(torch.arange(4), device=CPU, generator=None).inputs.isfinite().all()


def test_grey_images_have_one_channel_unless_one_is_in_colour(tmp_path):
    for number in range(20):
        write(tmp_path / "ab"[number % 2] / f"{number}.png", number, mode="L")
    assert load_data("images", path=tmp_path).model_options["in_channels"] == 1
    assert load_data("images", path=tmp_path, channels=3).model_options["in_channels"] == 3
    write(tmp_path / "a" / "colour.png", 1)
    assert load_data("images", path=tmp_path).model_options["in_channels"] == 3


def test_pixels_stay_what_they_are_at_their_own_size(tmp_path):
    pixels = write(tmp_path / "x.png", 0)
    assert np.array_equal(decode_file(tmp_path / "x.png", 3, 12), pixels.transpose(2, 0, 1))


def test_the_middle_of_a_wide_image_is_kept(tmp_path):
    pixels = np.zeros((6, 10), np.uint8)
    pixels[:, 2:8] = 200
    Image.fromarray(pixels).save(tmp_path / "x.png")
    assert (decode_file(tmp_path / "x.png", 1, 6) == 200).all()


def test_sixteen_bits_are_brought_to_eight(tmp_path):
    Image.fromarray(np.array([[0, 256], [32768, 65535]], np.uint16)).save(tmp_path / "x.png")
    assert decode_file(tmp_path / "x.png", 1, 2).ravel().tolist() == [0, 1, 128, 255]
    assert read_header(tmp_path / "x.png").grey


def test_a_camera_held_on_its_side(tmp_path):
    picture = Image.new("L", (8, 4))
    picture.putpixel((0, 0), 255)
    exif = Image.Exif()
    exif[0x0112] = 6
    picture.save(tmp_path / "x.png", exif=exif)
    assert read_header(tmp_path / "x.png")[:2] == (4, 8)
    upright = decode_file(tmp_path / "x.png", 1, 4)
    assert upright.shape == (1, 4, 4)


def test_a_large_jpeg_is_decoded_to_nearly_the_same_at_a_fraction_of_its_size(tmp_path):
    smooth = np.add.outer(np.linspace(0, 120, 512), np.linspace(0, 120, 512)).astype(np.uint8)
    Image.fromarray(smooth).convert("RGB").save(tmp_path / "x.jpg", quality=95)
    whole = np.asarray(Image.open(tmp_path / "x.jpg").resize((32, 32), Image.Resampling.BILINEAR)).transpose(2, 0, 1)
    assert np.abs(decode_file(tmp_path / "x.jpg", 3, 32).astype(int) - whole).max() <= 2


def corrupt(folder):
    file = folder / "cat" / "3.png"
    file.write_bytes(file.read_bytes()[:60])


def cut_off(folder):
    file = folder / "cat" / "3.jpg"
    write(file, 3, (12, 12))
    file.write_bytes(file.read_bytes()[:-40])


BAD = {
    "no folder": (lambda folder: shutil.rmtree(folder), {}, "does not exist; set data.path"),
    "a file": (lambda folder: (shutil.rmtree(folder), folder.write_text("")), {}, "is a file, not a folder"),
    "empty": (lambda folder: (shutil.rmtree(folder), folder.mkdir()), {}, "has no folders; put the images"),
    "empty class": (lambda folder: (folder / "dog").mkdir(), {}, "dog has no images"),
    "no images": (lambda folder: write_text(folder / "dog" / "a.txt"), {}, "dog has no images"),
    "loose image": (lambda folder: write(folder / "a.png", 1), {}, "a.png lies outside of the folders"),
    "one class": (
        lambda folder: [shutil.rmtree(folder / n) for n in ("9", "10", "ant")],
        {},
        "has one class folder, cat",
    ),
    "other folder": (
        lambda folder: [write(folder / "train" / "a" / "1.png", 1), write(folder / "valid" / "a" / "1.png", 1)],
        {},
        "has a folder train and a folder 10; those beside train are val and test",
    ),
    "corrupt": (corrupt, {"size": 12, "channels": 3}, "3.png is not an image, or a corrupt one"),
    "corrupt header": (lambda folder: (folder / "cat" / "3.png").write_bytes(b"no"), {}, "3.png is not an image, or a"),
    "cut off": (cut_off, {}, "3.jpg is not an image, or a corrupt one"),
    "sizes": (lambda folder: write(folder / "cat" / "3.png", 1, (9, 9)), {}, "has 9 × 9 .* has 12 × 12: set data.size"),
    "wide": (lambda folder: write(folder / "10" / "0.png", 1, (9, 4)), {}, r"0.png has 9 × 4 pixels: set data.size"),
    "too few": (
        lambda folder: None,
        {"val_share": 0.01},
        "too few to hold out val: 1% of each class, rounded",
    ),
    "32 bits": (
        lambda folder: Image.new("F", (12, 12)).save(folder / "cat" / "a.tiff"),
        {"size": 12, "channels": 3},
        "a.tiff has 32 bits per pixel",
    ),
    "augment": (lambda folder: None, {"augment": "mirror"}, "augment must be true, false or 'flip'"),
    "option": (lambda folder: None, {"sise": 3}, "images has no option 'sise'; did you mean 'size'"),
}


def write_text(path):
    path.parent.mkdir()
    path.write_text("text")


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_used_gets_a_sentence(case, folder):
    spoil, options, words = BAD[case]
    spoil(folder)
    with pytest.raises(ValueError, match=words) as caught:
        load_data("images", path=folder, **options)
    assert "\n" not in str(caught.value)


def test_a_class_that_is_not_in_train(folder):
    write(folder / "train" / "cat" / "1.png", 1)
    for name in ("9", "10", "ant", "cat"):
        shutil.move(folder / name, folder / "train" / name) if name != "cat" else shutil.rmtree(folder / name)
    write(folder / "val" / "emu" / "1.png", 1)
    with pytest.raises(ValueError, match="emu is a class that train does not have"):
        load_data("images", path=folder)


def test_other_files_are_left_out_and_counted(folder):
    (folder / "cat" / "notes.txt").write_text("text")
    (folder / "cat" / ".hidden.png").write_text("")
    data = load_data("images", path=folder)
    assert sum(data.facts["sizes"].values()) == 40
    assert data.facts["announcement"].endswith("kept in memory; 1 file(s) that are not images were left out.")


def test_changed_files_are_noticed(folder):
    before = load_data("images", path=folder).facts["files"]
    write(folder / "cat" / "new.png", 1)
    assert load_data("images", path=folder).facts["files"] != before


def test_a_corrupt_file_is_named_when_its_batch_is_decoded(folder):
    data = load_data("images", path=folder, size=12, channels=3, in_memory=False)
    corrupt(folder)
    place = (data.train.names + data.evaluation["val"].names + data.evaluation["test"].names).index("cat/3.png")
    samples = next(part for part in (data.train, *data.evaluation.values()) if "cat/3.png" in part.names)
    with pytest.raises(ValueError, match=r"cat.3.png is not an image, or a corrupt one"):
        samples.batch(torch.tensor([samples.names.index("cat/3.png")]), device=CPU, generator=None)
    assert place >= 0
