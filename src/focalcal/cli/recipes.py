"""``focalcal recipes``: the packaged recipes, and each in full."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from focalcal.cli.options import Changes, Json, help_text
from focalcal.cli.output import print_json, results

if TYPE_CHECKING:
    from focalcal.recipes import Recipe

_COLUMNS = ("recipe", "model", "loss", "epochs", "expected time")

recipes_app = typer.Typer()


def recipes(context: typer.Context, json: Json = False) -> None:
    """List the packaged recipes, each with its model, loss, epochs and expected time.

    Any loss can be chosen by loss=NAME when a recipe is trained; the list shows the one that is used otherwise. A
    time that was not measured is called an estimate.

    Examples:
      focalcal recipes
      focalcal recipes --json
      focalcal recipes show cifar10/resnet50
    """
    if context.invoked_subcommand is not None:
        return
    from focalcal.recipes import load_recipe, recipe_names

    found = [load_recipe(name) for name in recipe_names()]
    if json:
        print_json({"recipes": [_facts(recipe) for recipe in found]})
    else:
        _print_list(found)


def show(
    recipe: Annotated[str, typer.Argument(metavar="NAME", help="A packaged recipe, or a .yaml file of your own.")],
    changes: Changes = None,
    json: Json = False,
) -> None:
    """Print every field of a recipe, as a run with these changes would have it.

    What a recipe extends, its protocol and what is different for its loss are resolved. The output is itself a recipe:
    save it to a .yaml file, change it, and train that.

    Examples:
      focalcal recipes show digits/mlp
      focalcal recipes show tiny_imagenet/resnet50 protocol=authors loss=brier
      focalcal recipes show cifar10/resnet8 optimizer.lr=0.05 > mine.yaml
    """
    from focalcal.recipes import load_recipe

    loaded = load_recipe(recipe, changes or [])
    if json:
        print_json(loaded.model_dump(mode="json"))
    else:
        print(loaded.to_yaml(), end="")


recipes_app.callback(invoke_without_command=True, help=help_text(recipes))(recipes)
recipes_app.command(help=help_text(show))(show)


def _facts(recipe: Recipe) -> dict[str, Any]:
    return {
        "name": recipe.name,
        "data": recipe.data.name,
        "model": recipe.model.name,
        "loss": recipe.loss,
        "epochs": recipe.epochs,
        **recipe.about.model_dump(),
    }


def _print_list(found: list[Recipe]) -> None:
    from rich import box
    from rich.table import Table

    table = Table(*_COLUMNS, box=box.SIMPLE_HEAD, pad_edge=False)
    table.columns[_COLUMNS.index("epochs")].justify = "right"
    for column in table.columns[:-1]:  # a name that is cut cannot be copied; the time may be broken into lines
        column.no_wrap = True
    for recipe in found:
        table.add_row(recipe.name, recipe.model.name, recipe.loss, str(recipe.epochs), recipe.about.time)
    console = results()
    console.print(table)
    console.print("`focalcal recipes show NAME` prints one in full, `focalcal train NAME loss=flsd-53` runs it.")
