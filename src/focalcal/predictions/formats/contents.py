"""Statements of contents: a file says which arrays and facts it was written with, so that a lost one is an error.

Damage to a name leaves the values intact: without a statement, a file would be read as if it never had weights, ids, a
split or class names. Files of others, and older ones of focalcal, say nothing and are read as they are.
"""

import hashlib
import json
import zlib
from collections.abc import Collection, Iterable, Mapping

from focalcal.base.files import parse_json

KEY = "contents"
STATEMENT = b'{"arrays":['  # the beginning of each
_ON_PURPOSE = "if that was on purpose, save it without focalcal's statement of its contents"


def state_contents(arrays: Iterable[str], text: Mapping[str, str] | None = None) -> str:
    """State the names of a file's arrays or columns, and the facts in its text with a digest of them.

    Examples:
        >>> state_contents(["logits", "labels"])
        '{"arrays":["labels","logits"]}'
    """
    stated: dict[str, object] = {"arrays": sorted(arrays)}
    if text is not None:
        stated |= {"facts": sorted(text), "sha256": _digest(text, sorted(text))}
    return json.dumps(stated, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def check_contents(statement: str, arrays: Collection[str], text: Mapping[str, str] | None = None) -> None:
    """Refuse a file that lacks something that it was written with.

    Raises:
        ValueError: One sentence that names it.

    Examples:
        >>> check_contents(state_contents(["labels", "logits", "weights"]), ["labels", "logits"])
        Traceback (most recent call last):
        ValueError: it was written with 'weights', which is missing: it is damaged (if that was on purpose, save it \
without focalcal's statement of its contents).
    """
    stated = parse_json(statement)
    names, facts = _list_names(stated, "arrays"), _list_names(stated, "facts")
    missing = [name for name in names if name not in arrays] + [name for name in facts if name not in (text or ())]
    if missing:
        raise ValueError(f"it was written with {missing[0]!r}, which is missing: it is damaged ({_ON_PURPOSE}).")
    if text is not None and stated.get("sha256") != _digest(text, facts):
        raise ValueError(f"its metadata is not what it was written with: it is damaged ({_ON_PURPOSE}).")


def _list_names(stated: object, key: str) -> list[str]:
    listed = stated.get(key, []) if isinstance(stated, dict) else None
    if not isinstance(listed, list) or not all(isinstance(name, str) for name in listed):
        raise ValueError("its statement of contents is corrupt.")
    return listed


def check_stated(arrays: Collection[str], text: Mapping[str, str]) -> None:
    """Check the statement that is part of a file's text, if it has one.

    Raises:
        ValueError: Something is missing: a stated array or fact, or the mark of our files beside a statement.
    """
    if KEY in text:
        check_contents(text[KEY], arrays, {name: value for name, value in text.items() if name != KEY})


def name_checksum(names: Iterable[str]) -> str:
    """Compute a checksum of the names of columns in any order, as a text that no program takes for a number.

    Examples:
        >>> name_checksum(["logits_0", "logits_1", "labels"])
        'x0d883911'
    """
    return f"x{zlib.crc32(json.dumps(sorted(names)).encode()):08x}"


def _digest(text: Mapping[str, str], names: Iterable[str]) -> str:
    facts = {name: text[name] for name in names}
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:32]
