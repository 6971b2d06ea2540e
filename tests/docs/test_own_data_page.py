"""The page on one's own data: its commands name recipes and fields that exist, and it has every option."""

import re
import shlex
from pathlib import Path
from typing import get_args

import pytest

from focalcal.recipes import load_recipe
from focalcal.recipes.task_settings import ArrayData, ImageFolderData

PAGE = (Path(__file__).parents[2] / "docs" / "own-data.md").read_text(encoding="utf-8")
LINES = [line for block in re.findall(r"^```sh\n(.*?)^```", PAGE, re.M | re.S) for line in block.splitlines()]


@pytest.mark.parametrize("line", LINES)
def test_commands_name_recipes_and_fields(line):
    words = shlex.split(line)
    changes = [word for word in words[3:] if "=" in word]
    assert load_recipe(words[2], changes).data.name == changes[0].removeprefix("data=")


@pytest.mark.parametrize("settings", [ImageFolderData, ArrayData])
def test_every_option_is_listed(settings):
    (name,) = get_args(settings.model_fields["name"].annotation)
    section = PAGE.partition(f"## {name.capitalize()}")[2].partition("\n## ")[0]
    for option in settings.model_fields:
        assert f"`data.{option}`" in (PAGE if option == "split_seed" else section) or option == "name"
