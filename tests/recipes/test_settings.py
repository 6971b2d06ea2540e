"""A recipe's options of data sets and networks are those that their builders take, with the same defaults."""

import inspect
from typing import get_args

import pytest
from pydantic import BaseModel

from focalcal.data import load_data
from focalcal.data.data_sets import DATA_NAMES
from focalcal.data.image_set import ImageOptions
from focalcal.data.newsgroups import load_newsgroups
from focalcal.data.own_arrays import load_arrays
from focalcal.data.own_images import load_image_folder
from focalcal.data.own_texts import load_texts
from focalcal.data.sst import load_sst
from focalcal.data.translation_sets import load_multi30k, load_parallel, load_wmt14
from focalcal.models.model_registry import MODEL_NAMES, model_options
from focalcal.recipes import Recipe
from focalcal.recipes.settings import HardwareSettings, LoggingSettings, OptimizerSettings

LOADERS = {
    "images": load_image_folder,
    "arrays": load_arrays,
    "newsgroups": load_newsgroups,
    "sst": load_sst,
    "text": load_texts,
    "multi30k": load_multi30k,
    "wmt14": load_wmt14,
    "parallel": load_parallel,
}


def kinds(field):
    """The classes of settings that a recipe's data or model may have, by name."""
    found = groups(Recipe.model_fields[field].annotation)
    return {name: kind for kind in found for name in get_args(kind.model_fields["name"].annotation)}


def groups(annotation):
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [group for part in get_args(annotation) for group in groups(part)]


def defaults(kind):
    return {key: info.default for key, info in kind.model_fields.items() if key not in ("name", "split_seed")}


def test_every_data_set_and_network_can_be_named():
    assert set(kinds("data")) == {*DATA_NAMES, "own"}
    assert set(kinds("model")) == {*MODEL_NAMES, "own"}


@pytest.mark.parametrize("name", [name for name in DATA_NAMES if name not in LOADERS])
def test_options_of_images(name):
    assert defaults(kinds("data")[name]) == vars(ImageOptions())
    assert len(load_data(name, **{**defaults(kinds("data")[name]), "synthetic": 3}).train) == 3


@pytest.mark.parametrize("name", LOADERS)
def test_options_of_loaders(name):
    parameters = inspect.signature(LOADERS[name]).parameters
    expected = {key: one.default for key, one in parameters.items() if key not in ("seed", "root")}
    assert defaults(kinds("data")[name]) == expected


@pytest.mark.parametrize("name", MODEL_NAMES)
def test_options_of_networks(name):
    given_by_data = ("in_channels", "image_size", "embeddings", "max_length", "num_features")
    expected = {key: value for key, value in model_options(name).items() if key not in given_by_data}
    assert defaults(kinds("model")[name]) == expected


def test_what_may_be_written_shorter():
    assert HardwareSettings(precision=32).precision == "32"
    assert LoggingSettings(to="csv").to == ("csv",)
    assert Recipe(data="digits", model="mlp", epochs=1, optimizer="adam").optimizer == OptimizerSettings(name="adam")


def test_options_are_all_but_the_name():
    recipe = Recipe(data="digits", model={"name": "mlp", "hidden": [3]}, epochs=1)
    assert recipe.model.options() == {"hidden": (3,), "dropout": 0.0}
