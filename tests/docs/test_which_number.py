"""Every example of the page "Which number for my data?" runs, and prints what the page says it prints."""

import re
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "which-number.md").read_text(encoding="utf-8")


def test_the_examples_print_what_the_page_says(capsys):
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)
    assert len(blocks) >= 9
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "which-number.md", "exec"), names)
        printed = capsys.readouterr().out.splitlines()
        stated = [match[1].split(":")[0] for match in re.finditer(r"^print\(.*\)  # (.*)$", block, re.M)]
        assert printed == stated, block


def test_every_kind_has_its_section():
    for section in (
        "Several classes",
        "The score of an event",
        "A confidence for each answer",
        "Tokens",
        "Pixels",
        "Groups",
    ):
        assert f"## {section}" in PAGE
