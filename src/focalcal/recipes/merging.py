"""Merging of recipes: a file, a variant or a user replaces what it builds on."""

from collections.abc import Iterable, Mapping
from typing import Any

from focalcal.base.suggestions import shorten
from focalcal.recipes.yaml import parse_yaml

# Groups that may be written as their name alone, and whose other keys belong to that name.
_NAMED_GROUPS = frozenset({"data", "model", "optimizer", "embedding_optimizer", "schedule"})

# A value that begins so and cannot be read is a mistake, not a text.
_MEANT_AS_YAML = tuple("[{!&*\"'")


def merge(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Merge ``changes`` over ``base``, group by group.

    A group (keys that are words) is merged with the one below it; values, lists and schedules (keys that are epochs)
    replace it. A group whose name changes starts again: the options of another data set, network or optimizer do
    not belong to it.

    Examples:
        >>> merge({"optimizer": {"name": "sgd", "lr": 0.1}}, {"optimizer": {"lr": 0.2}})
        {'optimizer': {'name': 'sgd', 'lr': 0.2}}
        >>> merge({"optimizer": {"name": "sgd", "lr": 0.1}}, {"optimizer": "adam"})
        {'optimizer': {'name': 'adam'}}
    """
    return {**base, **{key: _replace(key, base.get(key), value) for key, value in changes.items()}}


def _replace(key: str, old: Any, new: Any) -> Any:
    old, new = _as_group(key, old), _as_group(key, new)
    if not _is_group(new) or not isinstance(old, Mapping) or not (new or _is_group(old)):
        return new  # the last: a schedule is emptied
    if key in _NAMED_GROUPS and "name" in new and old.get("name", new["name"]) != new["name"]:
        return new
    return merge(old, new)


def _as_group(key: str, value: Any) -> Any:
    return {"name": value} if key in _NAMED_GROUPS and isinstance(value, str) else value


def _is_group(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(key, str) for key in value)


def nest(overrides: Mapping[str, Any] | Iterable[str]) -> dict[str, Any]:
    """Turn changes by dotted keys into the groups that a recipe has; their order does not matter.

    Examples:
        >>> nest(["optimizer.lr=0.01", "optimizer=adam"])
        {'optimizer': {'name': 'adam', 'lr': 0.01}}
        >>> nest({"data.synthetic": 8})
        {'data': {'synthetic': 8}}
    """
    pairs = _pairs(overrides)
    changes: dict[str, Any] = {}
    # The whole group first, then its parts.
    for key, value in sorted(pairs, key=lambda pair: pair[0].count(".")):
        for part in reversed(key.split(".")):
            value = {part: value}
        changes = _join(changes, value)
    return changes


def _pairs(overrides: Any) -> list[tuple[str, Any]]:
    if isinstance(overrides, str | bytes) or not isinstance(overrides, Iterable):
        got = f"the text {overrides!r}" if isinstance(overrides, str) else type(overrides).__name__
        raise TypeError(f"Changes of a recipe are a list of texts or a mapping, got {got}.")
    if not isinstance(overrides, Mapping):
        return [_pair(text) for text in overrides]
    for key in overrides:
        if not isinstance(key, str):
            raise TypeError(f"The keys of a recipe are strings such as 'optimizer.lr', got {key!r}.")
        if not all(key.split(".")):
            raise ValueError(f"{key!r} is not a key of a recipe; write one such as 'optimizer.lr'.")
    return list(overrides.items())


def _join(changes: dict[str, Any], more: dict[str, Any], group: str = "") -> dict[str, Any]:
    """Join both: a name is one more change here, not another group. Nothing is changed twice."""
    joined = dict(changes)
    for key, value in more.items():
        old, new = _as_group(key, joined.get(key)), _as_group(key, value)
        if key in joined and not (isinstance(old, Mapping) and _is_group(new)):
            raise ValueError(f"The change of {group}{key} is given twice; give it once.")
        joined[key] = _join(dict(old), new, f"{group}{key}.") if key in joined else new
    return joined


def _pair(text: Any) -> tuple[str, Any]:
    if not isinstance(text, str):
        raise TypeError(f"A change of a recipe is a text such as 'optimizer.lr=0.05', got {text!r}.")
    key, sign, value = text.partition("=")
    if not sign or not all(key.split(".")):
        raise ValueError(
            f"{shorten(repr(text))} is not a change of a recipe; write key=value, such as loss=flsd-53 or "
            "optimizer.lr=0.05."
        )
    try:
        return key, parse_yaml(value)
    except ValueError as error:
        if value.lstrip()[:1] in _MEANT_AS_YAML:
            raise ValueError(f"The value of {key}={shorten(value, 80)} is {error}; correct it.") from None
        return key, value  # a text that happens to have a colon or a quotation mark in it
