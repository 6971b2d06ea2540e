"""Packages whose names are imported on first use: every name is there, and nothing heavy is before it is asked for."""

import importlib
import subprocess
import sys

import pytest

LAZY = ("focalcal", "focalcal.metrics", "focalcal.data", "focalcal.training", "focalcal.report")


@pytest.mark.parametrize("package", LAZY)
def test_every_listed_name_is_there(package):
    module = importlib.import_module(package)
    assert len(module.__all__) == len(set(module.__all__)) > 0
    for name in module.__all__:
        assert getattr(module, name) is not None
        assert name in dir(module)


@pytest.mark.parametrize("package", LAZY)
def test_other_names_are_refused_as_by_any_module(package):
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'evaluat_'"):
        getattr(importlib.import_module(package), "evaluat_")  # noqa: B009


def test_the_top_package_lists_its_rooms_and_version():
    import focalcal

    assert focalcal.metrics is importlib.import_module("focalcal.metrics")
    assert "metrics" in focalcal.__all__
    assert "__version__" in dir(focalcal)
    assert "lazy_names" not in dir(focalcal)


def test_the_package_is_imported_without_torch():
    program = "import sys, focalcal, focalcal.metrics, focalcal.data, focalcal.training; print('torch' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"


def test_star_import_gives_the_public_names():
    names = {}
    exec("from focalcal import *", names)
    assert {"FocalLoss", "evaluate", "Predictions", "bootstrap"} <= names.keys()
