"""Recipes by name or file, with changes: read, merged with what they extend, and checked."""

import os
from collections.abc import Iterable, Mapping
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from focalcal.base.files import read_text
from focalcal.base.suggestions import nearest_name, shorten
from focalcal.loss_names import problem_of_loss
from focalcal.recipes.merging import merge, nest
from focalcal.recipes.recipe import Recipe
from focalcal.recipes.yaml import parse_yaml

_LIBRARY = resources.files("focalcal.recipes") / "library"
_FILE_ENDINGS = (".yaml", ".yml")
_LARGEST = 2**20  # bytes of a recipe's file
_LONGEST_CHAIN = 20
# Keys of a file that are resolved before the fields are read.
_EXTENDS, _PROTOCOLS, _BY_LOSS = "extends", "protocols", "by_loss"
# What a variant cannot change: a run would be called by one loss, recipe or protocol and be another.
_FIXED = {_PROTOCOLS: ("name", "protocol"), _BY_LOSS: ("name", "protocol", "loss")}


def recipe_names() -> tuple[str, ...]:
    """List the packaged recipes; those that others only build on (their files begin with ``_``) are left out.

    Examples:
        >>> "digits/mlp" in recipe_names()
        True
    """
    return tuple(sorted(name for name in _packaged(_LIBRARY, "") if not name.rpartition("/")[2].startswith("_")))


def _packaged(folder: Traversable, prefix: str) -> Iterable[str]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _packaged(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(".yaml"):
            yield prefix + entry.name.removesuffix(".yaml")


def load_recipe(name: str | os.PathLike[str], overrides: Mapping[str, Any] | Iterable[str] = ()) -> Recipe:
    """Load a packaged recipe by its name, or one of your own by its file, with changes.

    A file may say ``extends: NAME`` and holds then only what differs; ``protocols`` are named variants, of which
    ``protocol=NAME`` chooses one; ``by_loss`` holds what is different for a loss. The later wins: the recipe, its
    protocol, its ``by_loss``, the changes. A loss that is chosen afterwards (``with_changes``) has no ``by_loss``.

    Args:
        name: Such as ``cifar10/resnet50``, or the path of a .yaml file; the config.yaml of a run is one.
        overrides: ``{"optimizer.lr": 0.05}``, nested mappings, or texts ``"optimizer.lr=0.05"`` whose values are read
            as YAML.

    Raises:
        ValueError: There is no such recipe, or something is wrong with it; one line per problem.
        TypeError: The name or the changes are of a wrong type.

    Examples:
        >>> load_recipe("digits/mlp", {"loss": "flsd-53"}).loss
        'flsd-53'
        >>> load_recipe("digits/mlp", ["epochs=2", "optimizer.lr=0.05"]).optimizer.lr
        0.05
    """
    if not isinstance(name, str | os.PathLike) or not isinstance(os.fspath(name), str):
        raise TypeError(f"A recipe is given by its name or its file, got {type(name).__name__}.")
    shown = os.fspath(name)
    content = _apply_choices(shown, _read(shown, []), nest(overrides))
    content.setdefault("name", shown)
    return Recipe.check(content, shown)


def _apply_choices(name: str, content: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Apply the chosen protocol and loss; explicit changes win over both."""
    protocols, by_loss = _variants(name, content, _PROTOCOLS), _variants(name, content, _BY_LOSS)
    of_protocol = dict(_protocol(name, protocols, content.get("protocol"), changes.get("protocol")))
    by_loss = merge(by_loss, _variants(name, of_protocol, _BY_LOSS))
    content = merge(content, of_protocol)
    loss = changes.get("loss", content.get("loss", Recipe.model_fields["loss"].default))
    of_loss = by_loss.get(loss, {}) if isinstance(loss, str) else {}
    return merge(merge(content, of_loss), changes)


def _variants(name: str, content: dict[str, Any], key: str) -> dict[str, Any]:
    """Take ``protocols`` or ``by_loss`` out of a recipe."""
    variants = content.pop(key, None) or {}
    if not isinstance(variants, Mapping) or not all(isinstance(changes, Mapping) for changes in variants.values()):
        raise ValueError(f"Recipe {name}: {key} must hold names, and for each name keys and values.")
    for variant, changes in variants.items():
        _check_variant(name, key, variant, changes)
    return dict(variants)


def _check_variant(name: str, key: str, variant: Any, changes: Mapping[str, Any]) -> None:
    problem = problem_of_loss(str(variant)) if key == _BY_LOSS else None
    if problem is not None:
        raise ValueError(f"Recipe {name}: by_loss: {problem}{'' if problem.endswith('?') else '.'}")
    for field in _FIXED[key]:
        if field in changes:
            raise ValueError(
                f"Recipe {name}: {key}.{variant} cannot change {field}, or the run would be another than it is called; "
                f"leave {field} out of it."
            )


def _protocol(name: str, protocols: Mapping[str, Any], own: Any, asked: Any) -> Mapping[str, Any]:
    """Return the changes of a protocol; a recipe that a run has written names its protocol and holds no variants."""
    chosen = own if asked is None else asked
    if chosen is None or (not protocols and chosen == own):
        return {}
    if not isinstance(chosen, str) or chosen not in protocols:
        known = f"it has {', '.join(protocols)}" if protocols else "it has none"
        raise ValueError(f"Recipe {name} has no protocol {chosen!r}; {known}.")
    changes: Mapping[str, Any] = protocols[chosen]
    return changes


def _read(name: str, above: list[str]) -> dict[str, Any]:
    if len(above) > _LONGEST_CHAIN:
        raise ValueError(f"Recipe {above[0]} extends a chain of more than {_LONGEST_CHAIN} recipes; shorten it.")
    if name in above:
        raise ValueError(f"Recipe {above[0]} extends itself: {' → '.join([*above, name])}.")
    content = parse(name, _text_of(name, above))
    if _EXTENDS not in content:
        return content
    base = content.pop(_EXTENDS)
    if not isinstance(base, str):
        raise ValueError(f"Recipe {name}: extends must be the name of one recipe, got {base!r}.")
    below = _read(_beside(name, base), [*above, name])
    # What is said about a family is not true of one that differs, and its name is another.
    inherited = {key: value for key, value in below.items() if key not in ("about", "name")}
    return merge(inherited, content)


def _beside(name: str, base: str) -> str:
    """Resolve a name: a file may name another by its path from where it is, a packaged recipe by its full name."""
    return os.path.normpath(Path(name).parent / base) if base.endswith(_FILE_ENDINGS) else base


def _text_of(name: str, above: list[str]) -> str:
    is_file = name.endswith(_FILE_ENDINGS)
    # A packaged recipe is looked up among those that there are: its name may come from anybody, and is not a path.
    if not (os.path.exists(name) if is_file else name in _packaged(_LIBRARY, "")):
        raise ValueError(_not_found(name, is_file, above))
    try:
        return read_text(name, _LARGEST) if is_file else _LIBRARY.joinpath(f"{name}.yaml").read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ValueError(f"Recipe {name} cannot be read: {str(error).rstrip('.')}.") from error


def _not_found(name: str, is_file: bool, above: list[str]) -> str:
    wanted = f", which {above[-1]} extends" if above else ""
    if not name:
        names = "`focalcal recipes` lists them, and a file of your own ends in .yaml"
        return f"The name of a recipe{wanted} is empty; {names}."
    shown = shorten(name)
    if is_file:
        return f"There is no recipe file {shown}{wanted}."
    nearest = nearest_name(name, recipe_names())
    guess = f"; did you mean {nearest}?" if nearest else "."
    return f"There is no recipe {shown}{wanted}{guess} `focalcal recipes` lists them; a file of your own ends in .yaml."


def parse(name: str, text: str) -> dict[str, Any]:
    r"""Parse the content of a recipe's file.

    Args:
        name: Name of the recipe, for messages.
        text: Text of the file.

    Examples:
        >>> parse("mine", "epochs: 3")
        {'epochs': 3}
        >>> parse("mine", "epochs: 3\nepochs: 4")
        Traceback (most recent call last):
        ...
        ValueError: Recipe mine is not valid YAML at line 2: the key epochs is given twice.
    """
    try:
        content = parse_yaml(text)
    except ValueError as error:
        raise ValueError(f"Recipe {name} is {error}.") from None
    if not isinstance(content, dict):
        raise ValueError(f"Recipe {name} must hold keys and values, not {type(content).__name__}.")
    return {str(key): value for key, value in content.items()}
