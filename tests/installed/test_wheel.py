"""The wheel in an environment that has the core dependencies and nothing else, as most people have it.

The environment is made without downloading: the wheel is built and installed by pip, and beside it stand links to the
installed files of the distributions that its metadata asks for, and of those that they ask for.
"""

import json
import os
import subprocess
import sys
import venv
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
# What an extra brings, or a test needs: none of it may be there.
OPTIONAL = ("matplotlib", "sacrebleu", "sentencepiece", "onnx", "onnxruntime", "tensorboard", "torchmetrics", "pytest")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("installed")


@pytest.fixture(scope="module")
def wheel(folder):
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", "."]
    subprocess.run([*build, str(ROOT)], cwd=folder, check=True, timeout=300)
    (found,) = folder.glob("focalcal-*.whl")
    return found


@pytest.fixture(scope="module")
def environment(folder, wheel):
    """Make the environment, and return its folder of programs."""
    place = folder / "environment"
    venv.create(place, with_pip=False)
    programs = place / ("Scripts" if sys.platform == "win32" else "bin")
    install = [sys.executable, "-m", "pip", "--python", str(programs / "python"), "install", "--quiet", "--no-deps"]
    subprocess.run([*install, "--no-index", str(wheel)], check=True, timeout=120)
    (installed,) = place.rglob("focalcal-*.dist-info")
    requirements = metadata.Distribution.at(installed).requires or []
    for name in sorted(closure([Requirement(line) for line in requirements])):
        link_distribution(metadata.distribution(name), installed.parent)
    return programs


def closure(requirements, extra="", found=None):
    """Names of all distributions that the requirements ask for, without extras that nobody asks for."""
    found = {} if found is None else found
    for requirement in requirements:
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(requirement.name)
        for wanted in {"", *requirement.extras} - found.setdefault(name, set()):
            found[name].add(wanted)
            closure([Requirement(line) for line in metadata.requires(name) or []], wanted, found)
    return set(found)


def link_distribution(distribution, target):
    for top in {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}:
        source = Path(str(distribution.locate_file(top)))
        if source.exists() and not (target / top).exists():
            (target / top).symlink_to(source, target_is_directory=source.is_dir())


@pytest.fixture(scope="module")
def focalcal(environment, folder):
    """Run the installed command in an empty folder."""
    here = folder / "here"
    here.mkdir()
    settings = {"PATH": str(environment), "OMP_NUM_THREADS": "1", "HOME": str(here), "LANG": "C.UTF-8"}

    def run(*arguments, program="focalcal"):
        command = [str(environment / program), *map(str, arguments)]
        return subprocess.run(command, cwd=here, env=settings, capture_output=True, text=True, timeout=300)

    run.here = here
    return run


def test_commands(focalcal):
    """One test, so that the demo runs once, however tests are shared out."""
    check_nothing_else_is_there(focalcal)
    ran = focalcal("demo", "--out", "demo")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[-1] == "The report is demo/report.html: open it in a browser."
    assert "Plotly" in (focalcal.here / "demo/report.html").read_text(encoding="utf-8")

    ran = focalcal("evaluate", "demo/flsd-53/seed-0", "--bootstrap", 50, "--report", "a.html", "--json")
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["values"]["ece"] > 0
    assert (focalcal.here / "a.html").stat().st_size > 1_000_000

    ran = focalcal("calibrate", "demo/cross-entropy/seed-0", "--save-calibrator", "t.json", "--out", "c.npz")
    assert ran.returncode == 0, ran.stderr
    assert (focalcal.here / "t.json").is_file()

    ran = focalcal("doctor", "c.npz")
    assert ran.returncode in (0, 1), ran.stderr
    assert "Traceback" not in ran.stderr

    ran = focalcal("train", "digits/mlp", "epochs=1", "data.train_size=100", "--out", "run")
    assert ran.returncode == 0, ran.stderr
    assert (focalcal.here / "run/report.html").is_file()

    check_that_missing_extras_are_named(focalcal)


def check_nothing_else_is_there(focalcal):
    code = f"import importlib.util as u; print([name for name in {OPTIONAL!r} if u.find_spec(name) is not None])"
    assert focalcal("-c", code, program="python").stdout == "[]\n"
    where = focalcal("-c", "import focalcal; print(focalcal.__file__)", program="python").stdout
    assert where.startswith(str(focalcal.here.parent))


def check_that_missing_extras_are_named(focalcal):
    ran = focalcal("export", "demo/cross-entropy/seed-0", "--out", "model.onnx")
    assert ran.returncode == 2
    assert ran.stderr == "focalcal: ONNX files need onnx, which is not installed: pip install 'focalcal[onnx]'.\n"
    assert not (focalcal.here / "model.onnx").exists()
    code = "import focalcal.plots as plots; plots.draw_reliability_diagram(None)"
    said = focalcal("-c", code, program="python").stderr.splitlines()[-1]
    assert said == "ImportError: Pictures need matplotlib, which is not installed: pip install 'focalcal[plots]'."


def test_what_the_wheel_holds(environment, wheel):
    """The recipes, templates and published numbers, and no test."""
    files = {
        str(file) for file in metadata.Distribution.at(next(environment.parent.rglob("focalcal-*.dist-info"))).files
    }
    assert {"focalcal/py.typed", "focalcal/paper/published.csv", "focalcal/report/templates/report.html"} <= files
    assert any(name.startswith("focalcal/recipes/library/") for name in files)
    assert not any(name.startswith(("tests", "docs", "examples", "benchmarks")) for name in files)
    assert os.path.getsize(wheel) < 3_000_000
