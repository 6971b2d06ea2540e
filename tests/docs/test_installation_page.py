"""The installation page: its extras and versions are those of the package."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "installation.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
FOR_DEVELOPERS = {"references", "docs", "test", "dev"}


def test_every_extra_has_its_row():
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", PAGE, re.M))
    assert set(rows) == set(PROJECT["optional-dependencies"]) - FOR_DEVELOPERS
    for extra, packages in rows.items():
        wanted = {re.split(r"[\[><=]", line)[0] for line in PROJECT["optional-dependencies"][extra]}
        assert set(packages.split(", ")) == wanted


def test_versions():
    found = dict(re.findall(r"(torch|numpy|scipy|scikit-learn) (\d+\.\d+)", PAGE))
    bounds = dict(line.split(">=") for line in PROJECT["dependencies"])
    assert found == {name: bounds[name] for name in ("torch", "numpy", "scipy", "scikit-learn")}
    assert f"Python {PROJECT['requires-python'].removeprefix('>=')} or newer" in PAGE
