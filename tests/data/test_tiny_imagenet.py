import zipfile

import pytest

from focalcal.data import load_data
from image_files import encoded

TOP = "tiny-imagenet-200"
WNIDS = ("n02", "n01", "n03")


def members():
    """Three classes of 20 and 2 images; two classes have the same name."""
    found = {
        f"{TOP}/wnids.txt": "\n".join(WNIDS),
        f"{TOP}/words.txt": "n01\tgoldfish, Carassius auratus\nn02\tcrane\nn03\tcrane, machine\nn04\tother\n",
    }
    for place, wnid in enumerate(WNIDS):
        for number in range(20):
            found[f"{TOP}/train/{wnid}/images/{wnid}_{number}.JPEG"] = encoded(64, 100 * place + number, "JPEG")[1]
    lines = [f"val_{number}.JPEG\t{WNIDS[number % 3]}\t0\t0\t62\t62" for number in range(6)]
    found[f"{TOP}/val/val_annotations.txt"] = "\n".join(lines) + "\n"
    found |= {f"{TOP}/val/images/val_{number}.JPEG": encoded(64, number, "JPEG")[1] for number in range(6)}
    return found


def write(folder, content):
    path = folder / "tiny_imagenet" / f"{TOP}.zip"
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in content.items():
            archive.writestr(name, data)
    return path


def test_classes_are_sorted_and_splits_are_the_papers(tmp_path):
    write(tmp_path, members())
    data = load_data("tiny_imagenet", root=tmp_path)
    assert data.class_names == ("goldfish", "crane (n02)", "crane (n03)")
    assert data.facts["sizes"] == {"train": 54, "val": 6, "test": 6}
    assert data.evaluation["val"].labels.bincount().tolist() == [2, 2, 2]
    assert data.evaluation["test"].labels.tolist() == [1, 0, 2, 1, 0, 2]
    assert data.model_options == {"num_classes": 3, "in_channels": 3, "image_size": 64}
    assert "3 of 200 classes" in data.facts["notes"][0]


def changed(**changes):
    content = members()
    for name, value in changes.items():
        content[name] = value
    return content


BAD = {
    "outside": ({"../evil.txt": "x"}, "member outside of its folder, '../evil.txt'"),
    "absolute": ({"/etc/evil": "x"}, "member outside of its folder"),
    "small": ({f"{TOP}/train/n01/images/n01_0.JPEG": encoded(32)[1]}, "n01_0.JPEG: the image has 32 × 32 pixels"),
    "no image": ({f"{TOP}/val/images/val_1.JPEG": b"no"}, "val_1.JPEG: not an image"),
    "unlisted": ({f"{TOP}/train/n09/images/n09_0.JPEG": encoded(64)[1]}, "class 'n09' is not listed"),
    "annotation": ({f"{TOP}/val/val_annotations.txt": "val_0.JPEG\n"}, "lacks a class"),
    "absent": (
        {f"{TOP}/val/val_annotations.txt": "val_9.JPEG\tn01\n"},
        "lacks tiny-imagenet-200/val/images/val_9.JPEG",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_archive_is_named_in_one_sentence(tmp_path, case):
    change, words = BAD[case]
    path = write(tmp_path, changed(**change))
    with pytest.raises(ValueError, match=words.replace(".", r"\.")) as caught:
        load_data("tiny_imagenet", root=tmp_path)
    assert str(path) in str(caught.value)
    assert not (tmp_path / "evil.txt").exists()


def test_a_missing_list_and_a_damaged_archive_are_named(tmp_path):
    content = members()
    del content[f"{TOP}/wnids.txt"]
    path = write(tmp_path, content)
    with pytest.raises(ValueError, match=r"no readable tiny-imagenet-200/wnids\.txt"):
        load_data("tiny_imagenet", root=tmp_path)
    whole = write(tmp_path, members()).read_bytes()
    for damaged in (whole[: len(whole) // 2], whole[:2000] + bytes(3000) + whole[5000:]):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"tiny-imagenet-200\.zip"):
            load_data("tiny_imagenet", root=tmp_path)


def test_a_header_that_is_quoted_in_full_does_not_flood_the_sentence(tmp_path):
    path = write(tmp_path, members())
    content = bytearray(path.read_bytes())
    image = content.index(b"PK\x03\x04", content.index(b".JPEG"))
    content[image + 26 : image + 28] = b"\xff\xff"  # the length of the member's name, as the header before it says
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"tiny-imagenet-200\.zip is not a whole zip file") as refusal:
        load_data("tiny_imagenet", root=tmp_path)
    assert len(str(refusal.value)) < 1000
