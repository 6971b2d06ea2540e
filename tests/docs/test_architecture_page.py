"""The page about the architecture: its layers are those that are enforced, and the files that it names exist."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def test_the_layers_are_those_that_are_enforced():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = project["tool"]["importlinter"]["contracts"][0]["layers"]
    enforced = [layer.replace("focalcal.", "") for layer in layers]
    text = PAGE[PAGE.index("Layers, high to low:") :].partition(".")[0]
    assert re.findall(r"`([^`]+)`", text) == enforced


def test_every_file_and_folder_that_is_named_exists():
    named = set(re.findall(r"`([a-z_/]+(?:\.py|/))`", PAGE))
    assert len(named) > 40
    package = ROOT / "src" / "focalcal"
    there = [path.relative_to(package).as_posix() + "/" * path.is_dir() for path in package.rglob("*")]
    missing = {name for name in named if not any(f"/{path}".endswith(f"/{name}") for path in there)}
    assert not missing
