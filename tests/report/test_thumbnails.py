import io

import torch
from PIL import Image

from focalcal.data import load_data
from focalcal.report.thumbnails import Thumbnails, run_thumbnails
from focalcal.training import train


def test_pictures_are_the_samples_enlarged():
    images = torch.arange(2 * 3 * 8 * 8, dtype=torch.int64).remainder(256).to(torch.uint8).reshape(2, 3, 8, 8)
    pictures = Thumbnails(images, [7, 9])
    picture = Image.open(io.BytesIO(pictures["9"]))
    assert picture.size == (64, 64)
    assert picture.getpixel((8 * 2, 8 * 5)) == tuple(images[1, :, 5, 2].tolist())
    assert sorted(pictures) == ["7", "9"]
    assert pictures.get("8") is None


def test_runs_of_one_data_set_have_pictures(tmp_path):
    run = train("digits/mlp", out=tmp_path / "a", overrides={"epochs": 1, "data.train_size": 50}, progress=False)
    pictures = run_thumbnails([run.path])
    test = load_data("digits").evaluation["test"]
    assert set(pictures) == set(run.predictions("test").ids)
    pixels = Image.open(io.BytesIO(pictures[str(int(test.ids[3]))])).resize((8, 8), Image.Resampling.NEAREST)
    assert list(pixels.tobytes()) == test.images[3].flatten().tolist()


def test_files_and_missing_data_have_none(tmp_path):
    assert run_thumbnails([tmp_path]) == {}
    assert run_thumbnails([]) == {}
    (tmp_path / "config.yaml").write_text("data: {name: sst}\nmodel: tree_lstm\nepochs: 1\n")
    assert run_thumbnails([tmp_path]) == {}
