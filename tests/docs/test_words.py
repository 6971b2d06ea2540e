"""Words and names in the source: docstrings begin with a noun or a verb, and a file's name says which file is meant."""

import ast
import re
from collections import Counter
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "src" / "focalcal"
FILES = sorted(PACKAGE.rglob("*.py"))


def docstrings():
    """Every docstring of the package, with where it is."""
    for file in FILES:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node)
                if text is not None:
                    yield f"{file.relative_to(PACKAGE)}: {getattr(node, 'name', 'module')}", text


def test_docstrings_begin_with_a_noun_or_a_verb():
    found = dict(docstrings())
    assert len(found) > 1000
    assert [place for place, text in found.items() if re.match(r"(What|Which|Whether|How|Where|Who|If)\b", text)] == []


def test_arguments_say_what_they_are():
    # "Seed for the draws.", not "Of the draws."
    fragment = re.compile(r"^ {4}\*{0,2}\w+(?:, \w+)*: [Oo]f .*$", re.MULTILINE)
    assert [(place, one.strip()) for place, text in docstrings() for one in fragment.findall(text)] == []


def test_no_two_modules_share_a_name():
    names = Counter(file.stem for file in FILES if file.stem != "__init__")
    assert [name for name, count in names.items() if count > 1] == []
