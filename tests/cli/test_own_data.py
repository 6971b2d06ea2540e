"""A user's own images, arrays and functions through ``focalcal train`` and ``sweep``."""

import json
import sys

import numpy as np
import pytest
from PIL import Image

import focalcal as fc

pytestmark = pytest.mark.slow

CODE = """
import numpy as np
import torch

def load(rows=60, seed=0):
    x = torch.randn(rows, 3, generator=torch.Generator().manual_seed(seed))
    y = ["warm" if value > 0 else "cold" for value in x[:, 0].tolist()]
    return {"train": (x, y), "val": (x[:20], y[:20]), "test": (x[20:], y[20:])}

def net(num_classes, num_features, hidden=8):
    return torch.nn.Sequential(
        torch.nn.Linear(num_features, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, num_classes)
    )

def number():
    return 3

def other_inputs(num_classes):
    return torch.nn.Linear(7, num_classes)

def fails():
    raise RuntimeError("the shop is closed")
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop_code.py").write_text(CODE)
    random = np.random.default_rng(0)
    for name, level in (("dark", 60), ("light", 190)):
        (tmp_path / "pictures" / name).mkdir(parents=True)
        for number in range(30):
            pixels = (random.normal(level, 30, (12, 16, 3))).clip(0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "pictures" / name / f"{number}.png")
    labels = np.array(["no", "yes"])[np.arange(60) % 2]
    np.savez("numbers.npz", x=random.normal(size=(60, 4)) + 2 * (labels == "yes")[:, None], y=labels)
    yield tmp_path
    sys.modules.pop("shop_code", None)


SMALL = ("epochs=2", "batch_size=16", "--no-report", "--quiet")


def test_images_in_folders(focalcal, here):
    ran = focalcal(
        "train", "cifar10/resnet8", "data=images", "data.path=pictures", "data.size=12", "epochs=2", "--out", "a"
    )
    assert ran.code == 0, ran.err
    assert "Images of 3 × 12 × 12 pixels, cut to squares and resized, kept in memory." in ran.err
    test = fc.open_run("a").predictions("test")
    assert test.class_names == ("dark", "light")
    assert set(test.ids) <= {f"{name}/{number}.png" for name in ("dark", "light") for number in range(30)}
    assert (here / "a" / "report.html").is_file()
    assert fc.open_run("a").network().image_size == 12


def test_images_from_their_files_give_the_same_run(focalcal, here):
    for name, choice in (("a", "true"), ("b", "false")):
        images = ("data=images", "data.path=pictures", "data.size=12", f"data.in_memory={choice}", "data.augment=true")
        ran = focalcal("train", "cifar10/resnet8", *images, *SMALL, "--out", name)
        assert ran.code == 0, ran.err
    a, b = (fc.open_run(name).predictions("test") for name in ("a", "b"))
    assert a.values.equal(b.values)


def test_arrays_with_text_labels(focalcal, here):
    ran = focalcal("train", "digits/mlp", "data=arrays", "data.path=numbers.npz", "epochs=30", *SMALL[1:], "--out", "a")
    assert ran.code == 0, ran.err
    test = fc.open_run("a").predictions("test")
    assert test.class_names == ("no", "yes")
    assert fc.metrics.accuracy(test) >= 5 / 6
    assert (
        "does not take features, not images; networks for them are mlp"
        in focalcal("train", "cifar10/resnet8", "data=arrays", "data.path=numbers.npz", *SMALL, "--out", "b").err
    )


def test_a_sweep_over_functions_of_ones_own(focalcal, here):
    own = ("data=shop_code:load", "data.rows=80", "model=shop_code:net", "model.hidden=4", "hardware.threads=1")
    ran = focalcal(
        "sweep", "digits/mlp", *own, *SMALL, "--losses", "cross-entropy,fl-3", "--jobs", "1", "--out", "s",
        "--bootstrap", "20", "--json",
    )  # fmt: skip
    assert ran.code == 0, ran.err
    assert {row["method"] for row in json.loads(ran.out)["rows"]["ece"]} == {"cross-entropy", "fl-3"}
    run = fc.open_run("s/fl-3/seed-0")
    assert run.recipe.data.name == "shop_code:load"
    assert len(run.data().train) == 80
    assert run.network()[0].out_features == 4
    assert run.predictions("test").class_names == ("cold", "warm")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (["data=images"], "The data set images needs path"),
        (["data=images", "data.path=nowhere"], "nowhere does not exist"),
        (["data=images", "data.path=pictures"], "has 16 × 12 pixels: set data.size"),
        (["data=arrays", "data.path=nothing.npz"], "There is no file nothing.npz"),
        (["data=no_such_module:load"], "There is no module 'no_such_module'"),
        (["data=shop_code:laod"], "has no function 'laod'; did you mean 'load'?"),
        (["data=shop_code:load", "data.row=3"], "has no argument 'row'; did you mean 'rows'?"),
        (
            ["data=shop_code:number"],
            "What shop_code:number returns must be a DataSet or splits by their names, got",
        ),
        (["model=shop_code:number"], "model must be a torch.nn.Module, got int"),
        (["model=shop_code:net"], "needs the argument 'num_features', which is not given"),
        (["data=images", "data.pth=x"], "there is no key data.pth; did you mean data.path?"),
        (["model=shop_code:fails"], "shop_code:fails failed with RuntimeError: the shop is closed (shop_code.py"),
        (["data=os:getcwd"], "os is a module of Python itself"),
    ],
)
def test_what_cannot_be_used_gets_a_sentence_and_leaves_nothing(refused, here, changes, words):
    assert words in refused("train", "digits/mlp", *changes, *SMALL, "--out", "a")
    assert not (here / "a").exists()


def test_a_network_that_does_not_take_the_data(refused, here):
    own = ("data=shop_code:load", "model=shop_code:other_inputs", *SMALL)
    said = refused("train", "digits/mlp", *own, "--out", "a")
    assert "shop_code:other_inputs: its network fails on inputs of shape (16, 3): RuntimeError: mat1 and mat2" in said
