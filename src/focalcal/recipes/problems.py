"""Problems of a recipe, all at once, in words."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from focalcal.base.suggestions import nearest_name, shorten
from focalcal.recipes.task_settings import FUNCTION, KNOWN

# What people write who come from elsewhere.
_SYNONYMS = {
    "learning_rate": "lr",
    "wd": "weight_decay",
    "num_epochs": "epochs",
    "max_epochs": "epochs",
    "batch": "batch_size",
    "gradient_clip_val": "clip_norm",
    "clip": "clip_norm",
    "dataset": "data",
    "device": "accelerator",
    "milestones": "factors",
}
_NO_GROUP = ("model_type", "model_attributes_type", "dict_type")


def describe_problems(name: str, error: ValidationError, of: type[BaseModel]) -> str:
    """Write one sentence for one problem, and one line per problem for several.

    Args:
        name: Name of the recipe.
        error: Error of pydantic.
        of: Class that was checked, whose keys are suggested.
    """
    problems = [_end(problem) for details in error.errors() for problem in _problems(details, of)]
    if len(problems) == 1:
        return f"Recipe {name}: {problems[0]}"
    return "\n  ".join([f"Recipe {name} has {len(problems)} problems:", *problems])


def _end(problem: str) -> str:
    return problem if problem.endswith(("?", ".", "…")) else f"{problem}."


def _problems(details: ErrorDetails, of: type[BaseModel]) -> list[str]:
    """Put an error into words: mostly one problem; a check of several fields may find more."""
    kind, given = details["type"], details["input"]
    raw = _without_kinds(details["loc"])
    place = tuple(_drop_tags(raw, of))
    path = ".".join(map(str, place)) or "it"
    if kind == "value_error":
        # The check of one field says what is wrong, and does not know where.
        where = "" if isinstance(given, Mapping) else f"{path}: "
        return [where + problem for problem in str(details["ctx"]["error"]).split("\n")]
    if kind == "extra_forbidden":
        return [f"there is no key {path}{_other_key(raw, place, of)}"]
    if kind == "missing":
        return [f"the key {path} is missing; give it a value"]
    if kind == "union_tag_not_found":
        return [f"{path}: the name is missing; write {path}.name=…"]
    if kind == "union_tag_invalid":
        context = details["ctx"]
        rest = _other_value(context["tag"], context["expected_tags"])
        return [f"{path}.name: {_show(context['tag'])} is not known{rest}"]
    if kind == "literal_error":
        return [f"{path}: {_show(given)} is not known{_other_value(given, details['ctx']['expected'])}"]
    if kind == "invalid_key":
        return [f"{path}: a key must be a text, got {_show(given)}"]
    if given is None:
        return [f"{path}: give it a value"]
    return [f"{path} {_demand(details)}, got {_show(given)}"]


def _show(given: Any) -> str:
    return shorten(repr(given))


def _demand(details: ErrorDetails) -> str:
    if details["type"] in _NO_GROUP:
        return "should hold keys and values"
    # "Input should be a valid integer, unable to parse string as an integer": the first half says it.
    demand = details["msg"].partition(", ")[0].removeprefix("Input ").replace("a valid tuple", "a list")
    return demand.replace("a valid string", "a text").replace("a valid integer", "a whole number").replace("valid ", "")


def _other_value(given: Any, expected: str) -> str:
    # As one writes them in YAML.
    known = [{"True": "true", "False": "false"}.get(value, value) for value in _values(expected)]
    nearest = nearest_name(given, known)
    return f"; did you mean {nearest}?" if nearest else f"; known are {', '.join(known)}"


def _values(expected: str) -> list[str]:
    return expected.replace("'", "").replace(" or ", ", ").split(", ")


def _other_key(raw: Sequence[int | str], place: Sequence[int | str], of: type[BaseModel]) -> str:
    """Name the full key that was probably meant, or the keys that there are."""
    beside = list(_fields_at(raw[:-1], of))
    prefix = "".join(f"{part}." for part in place[:-1])
    given = str(place[-1])
    meant = _SYNONYMS.get(given, given)
    elsewhere = [key for key in _all_keys(of) if key.split(".")[-1] == meant and key != prefix + given]
    nearest = nearest_name(meant, beside, cutoff=0.65)
    if nearest and (nearest == meant or not elsewhere):
        return f"; did you mean {prefix}{nearest}?"
    if elsewhere:
        return f"; did you mean {elsewhere[0]}?"
    return f"; the keys there are {', '.join(beside)}" if beside else ""


def _all_keys(of: type[BaseModel]) -> Iterator[str]:
    for field, info in of.model_fields.items():
        yield field
        for group in _groups(info.annotation):
            yield from (f"{field}.{inner}" for inner in group.model_fields)


def _fields_at(place: Sequence[int | str], of: type[BaseModel]) -> Iterator[str]:
    """List the keys of a group, given by its place with pydantic's tags in it."""
    if not place:
        yield from of.model_fields
        return
    info = of.model_fields.get(str(place[0]))
    groups = _groups(info.annotation) if info is not None else []
    for group in groups:
        if len(groups) == 1 or (len(place) > 1 and place[1] in _names(group)):
            yield from group.model_fields


def _without_kinds(place: Sequence[int | str]) -> tuple[int | str, ...]:
    """Drop the tag that tells names that recipes know from those of functions."""
    has_kind = len(place) > 1 and place[0] in ("data", "model") and place[1] in (KNOWN, FUNCTION)
    return (*place[:1], *place[2:]) if has_kind else tuple(place)


def _drop_tags(place: Sequence[int | str], of: type[BaseModel]) -> Iterator[int | str]:
    """Drop pydantic's tags from a place, such as ``optimizer, lr``: it puts one in after a union's own key."""
    info = of.model_fields.get(str(place[0])) if place else None
    groups = _groups(info.annotation) if info is not None else []
    tags = {name for group in groups for name in _names(group)} if len(groups) > 1 else set()
    for position, part in enumerate(place):
        if part != "[key]" and not (position == 1 and part in tags):
            yield part


def _groups(annotation: Any) -> list[type[BaseModel]]:
    """List the classes of settings in the type of a field: several for data and model, one for other groups."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return list(dict.fromkeys(group for part in get_args(annotation) for group in _groups(part)))


def _names(group: type[BaseModel]) -> tuple[Any, ...]:
    return get_args(group.model_fields["name"].annotation)
