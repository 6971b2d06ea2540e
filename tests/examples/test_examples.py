"""Every file in examples/ runs at its small size, as a script in an empty folder, and follows the folder's rules."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples"
EXAMPLES = sorted(FOLDER.glob("*.py"))


def test_some_are_found():
    assert len(EXAMPLES) >= 1


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_says_what_it_shows_and_how_it_is_run(example):
    source = example.read_text(encoding="utf-8")
    said = ast.get_docstring(ast.parse(source)) or ""
    assert f"python examples/{example.name}" in said
    assert "Needs" in said
    assert "--quick" in source


def test_each_has_a_row_in_the_table():
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert [example.name for example in EXAMPLES if f"| `{example.name}` |" not in page] == []


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_runs(example, tmp_path):
    """Nothing is downloaded (the hub's own switch, and a proxy that is not there), nothing of the user's is found."""
    nowhere = "http://127.0.0.1:9"
    settings = {
        "HF_HUB_OFFLINE": "1",
        "http_proxy": nowhere,
        "https_proxy": nowhere,
        "no_proxy": "localhost,127.0.0.1",
        "OMP_NUM_THREADS": "1",
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "MPLBACKEND": "agg",
    }
    environment = {name: value for name, value in os.environ.items() if name != "FOCALCAL_DATA"} | settings
    folder = tmp_path / "here"
    folder.mkdir()
    before = sorted(FOLDER.rglob("*"))
    ran = subprocess.run(
        [sys.executable, str(example), "--quick"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, f"{ran.stdout}\n{ran.stderr}"
    assert ran.stdout.strip()
    assert sorted(FOLDER.rglob("*")) == before, "the example wrote into its own folder"
