"""YAML of recipes and overrides, which anybody may have written: every mistake is one ValueError with the reason."""

from typing import Any

import yaml

# A recipe has a few hundred values, a few levels deep. Aliases can make a short text stand for billions.
_DEEPEST, _MOST_VALUES = 50, 100_000
_TOO_DEEP = f"nested more than {_DEEPEST} deep"


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """Refuses a key that is given twice, of which plain YAML would silently take the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key.value in seen:
                raise yaml.MarkedYAMLError(problem=f"the key {key.value} is given twice", problem_mark=key.start_mark)
            seen.add(key.value)
        content: dict[Any, Any] = super().construct_mapping(node, deep=deep)
        return content


def parse_yaml(text: str) -> Any:
    r"""Parse YAML; tags can only name plain values, and nothing is built but these.

    Raises:
        ValueError: The reason, to be put behind "NAME is ".

    Examples:
        >>> parse_yaml("{epochs: 3}")
        {'epochs': 3}
        >>> parse_yaml("epochs: 3\nepochs: 4")
        Traceback (most recent call last):
        ValueError: not valid YAML at line 2: the key epochs is given twice
        >>> parse_yaml("!!int x")
        Traceback (most recent call last):
        ValueError: not valid YAML: a value is not of its type (invalid literal for int() with base 10: 'x')
    """
    try:
        content = yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        place = getattr(error, "problem_mark", None)
        where = f" at line {place.line + 1}" if place is not None else ""
        problem = getattr(error, "problem", None) or " ".join(str(error).split())
        raise ValueError(f"not valid YAML{where}: {problem}") from None
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    except Exception as error:  # a tag such as !!bool or !!timestamp on a text that is none: any error may come of it
        reason = f" ({' '.join(str(error).split())})" if isinstance(error, ValueError) else ""
        raise ValueError(f"not valid YAML: a value is not of its type{reason}") from None
    _check_size(content)
    return content


def _check_size(content: Any) -> None:
    """Refuse what is nested deeply, contains itself, or is billions of values because aliases repeat it."""
    level, values = [content], 0
    for _ in range(_DEEPEST):
        level = [item for outer in level for item in _items(outer)]
        values += len(level)
        if not level:
            return
        if values > _MOST_VALUES:
            raise ValueError(f"more than {_MOST_VALUES:,} values, by its aliases")
    raise ValueError(_TOO_DEEP)


def _items(outer: Any) -> list[Any]:
    if isinstance(outer, dict):
        return [*outer.keys(), *outer.values()]
    return list(outer) if isinstance(outer, list | tuple | set) else []
