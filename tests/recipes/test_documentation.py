"""The page on recipes: its files load, its commands are right, and it has every field and every recipe."""

import re
import shlex
from itertools import chain
from pathlib import Path
from typing import get_args

import pytest
from pydantic import BaseModel

from focalcal.recipes import Recipe, load_recipe, recipe_names

PAGE = (Path(__file__).parents[2] / "docs" / "recipes.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.M | re.S)


def commands():
    lines = [shlex.split(line, comments=True) for line in chain(*(block.splitlines() for block in blocks("sh")))]
    return [line for line in lines if line[1:3] == ["recipes", "show"] or line[1:2] == ["train"]]


@pytest.mark.parametrize("line", commands(), ids=" ".join)
def test_commands_name_recipes_and_fields(line):
    words = line[3:] if line[1] == "recipes" else line[2 : line.index("--out")]
    assert load_recipe(words[0], words[1:]).name == words[0]


def test_files_load(tmp_path):
    complete = [block for block in blocks("yaml") if not block.startswith("protocols")]
    assert len(complete) == 2
    for block in complete:
        (tmp_path / "mine.yaml").write_text(block, encoding="utf-8")
        assert load_recipe(tmp_path / "mine.yaml").epochs in (20, 100)


def test_the_shown_refusal_is_the_real_one():
    command, shown = blocks("console")[0].split("\n", 1)
    words = shlex.split(command)[4:]
    with pytest.raises(ValueError) as refused:
        load_recipe(words[0], words[1:])
    assert " ".join(f"focalcal: {refused.value}".split()) == " ".join(shown.split())


def test_every_recipe_is_in_the_table():
    for name in recipe_names():
        folder, model = name.split("/")
        assert f"`{name}`" in PAGE or (f"`{folder}/…`" in PAGE and f"`{model}`" in PAGE)


def groups_of(annotation):
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [group for part in get_args(annotation) for group in groups_of(part)]


def test_every_field_is_listed():
    fields = PAGE.partition("## Every field")[2]
    for field, info in Recipe.model_fields.items():
        same_keys = field == "embedding_optimizer"  # as those of the optimizer, which the page says
        inner = {key for group in groups_of(info.annotation) for key in group.model_fields if not same_keys}
        if not inner:
            assert f"`{field}`" in fields or field == "name"
        for key in inner:
            assert re.search(rf"`({field})?\.?{key}`", fields), f"{field}.{key}"
