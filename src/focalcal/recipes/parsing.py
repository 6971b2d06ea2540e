"""YAML to keys and values, with the line where it is wrong."""

from typing import Any

import yaml


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


def parsed(name: str, text: str) -> dict[str, Any]:
    r"""The content of a recipe's file.

    Args:
        name: of the recipe, for messages.
        text: of the file.

    Examples:
        >>> parsed("mine", "epochs: 3")
        {'epochs': 3}
        >>> parsed("mine", "epochs: 3\nepochs: 4")
        Traceback (most recent call last):
        ...
        ValueError: Recipe mine is not valid YAML at line 2: the key epochs is given twice.
    """
    try:
        content = yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        place = getattr(error, "problem_mark", None)
        where = f" at line {place.line + 1}" if place is not None else ""
        problem = getattr(error, "problem", None) or str(error)
        raise ValueError(f"Recipe {name} is not valid YAML{where}: {problem}.") from None
    if not isinstance(content, dict):
        raise ValueError(f"Recipe {name} must hold keys and values, not {type(content).__name__}.")
    return {str(key): value for key, value in content.items()}
