"""YAML of recipes and overrides, which anybody may have written: every mistake is one ValueError with the reason."""

from typing import Any

import yaml

# A recipe has a few hundred values, a few levels deep, and its numbers a few digits. Aliases and merge keys can make a
# short text stand for billions of values, and a long row of digits or of 1:59:59 takes hours to read as one number.
_DEEPEST, _MOST_VALUES, _LONGEST_NUMBER = 50, 100_000, 100
_TOO_DEEP = f"nested more than {_DEEPEST} deep"


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """Refuses what plain YAML would take in silence, or work at for ever, before anything is made of it."""

    def get_single_node(self) -> yaml.Node | None:
        node: yaml.Node | None = super().get_single_node()
        if node is not None:
            _count_values(node, {}, 0)
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key.value in seen:  # plain YAML would silently take the last
                raise yaml.MarkedYAMLError(problem=f"the key {key.value} is given twice", problem_mark=key.start_mark)
            seen.add(key.value)
        content: dict[Any, Any] = super().construct_mapping(node, deep=deep)
        return content

    def construct_number(self, node: yaml.ScalarNode) -> int | float:
        """Read a number of a plausible length."""
        if len(node.value) > _LONGEST_NUMBER:
            raise yaml.MarkedYAMLError(
                problem=f"a number has {len(node.value):,} characters", problem_mark=node.start_mark
            )
        is_whole = node.tag.endswith(":int")
        number: int | float = self.construct_yaml_int(node) if is_whole else self.construct_yaml_float(node)
        return number


for _kind in ("int", "float"):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_kind}", _Loader.construct_number)


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
    except _TooMuch as error:
        raise ValueError(str(error)) from None
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
    return content


class _TooMuch(Exception):
    """More than a recipe holds."""


def _count_values(node: yaml.Node, known: dict[int, tuple[int, int]], depth: int) -> tuple[int, int]:
    """Count what a node stands for with all that aliases repeat, and how deep it is nested; refuse too much of it.

    Args:
        node: Before values are made of it: a node that several aliases name is there once.
        known: Counts of the nodes that were met before.
        depth: Number of nodes around it. A node that contains itself is nested without end.
    """
    if depth > _DEEPEST:
        raise _TooMuch(_TOO_DEEP)
    if isinstance(node, yaml.ScalarNode):
        return 0, 0
    if id(node) not in known:
        inner = [part for item in node.value for part in (item if isinstance(item, tuple) else (item,))]
        counts = [_count_values(part, known, depth + 1) for part in inner]
        known[id(node)] = (
            len(inner) + sum(count for count, _ in counts),
            1 + max((deep for _, deep in counts), default=0),
        )
    count, deep = known[id(node)]
    if depth + deep > _DEEPEST:
        raise _TooMuch(_TOO_DEEP)
    if count > _MOST_VALUES:
        raise _TooMuch(f"more than {_MOST_VALUES:,} values, with those that its aliases repeat")
    return count, deep
