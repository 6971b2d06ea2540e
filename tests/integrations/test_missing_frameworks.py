"""A framework that is not installed is named with its extra, one that is too old with the version that works."""

import importlib
import importlib.metadata
import sys

import pytest

NEEDED = {
    "torchmetrics": ("Calibration metrics for torchmetrics need torchmetrics", "1.6"),
    "transformers": ("The tools for Hugging Face's Trainer need transformers", "4.49"),
    "lightning": ("Callbacks for Lightning need lightning", "2.5.3"),
}


@pytest.mark.parametrize("name", NEEDED)
def test_not_installed(name, monkeypatch):
    missing = [name, "lightning.pytorch", "pytorch_lightning"] if name == "lightning" else [name]
    for package in missing:
        monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, f"focalcal.integrations.{name}", raising=False)
    with pytest.raises(ImportError) as said:
        importlib.import_module(f"focalcal.integrations.{name}")
    assert str(said.value) == f"{NEEDED[name][0]}, which is not installed: pip install 'focalcal[{name}]'."


@pytest.mark.parametrize("name", NEEDED)
def test_too_old(name, monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", lambda package: "0.1")
    monkeypatch.delitem(sys.modules, f"focalcal.integrations.{name}", raising=False)
    with pytest.raises(ImportError) as said:
        importlib.import_module(f"focalcal.integrations.{name}")
    sentence, version = NEEDED[name]
    assert str(said.value).startswith(f"{sentence} {version} or newer, and 0.1 is installed: pip install --upgrade")
    assert str(said.value).endswith(f"'focalcal[{name}]'.")
