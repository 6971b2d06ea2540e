"""The examples of documentation pages about measuring run and print what the page says."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("page", ["comparing.md", "groups.md"])
def test_example_prints_what_the_page_says(page, capsys, tmp_path, monkeypatch):
    text = (DOCS / page).read_text(encoding="utf-8")
    examples = re.findall(r"^```python\n(.*?)^```\n\nprints\n\n```text\n(.*?)^```", text, re.M | re.S)
    assert examples
    monkeypatch.chdir(tmp_path)
    for source, printed in examples:
        exec(compile(source, page, "exec"), {})
        assert capsys.readouterr().out == printed
