"""Optional packages: what is missing or too old is named with its extra, and what is broken is not hidden."""

import sys

import pytest

from focalcal.base.optional import import_optional


def test_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError) as said:
        import_optional("matplotlib.figure", extra="plots", what="Pictures")
    assert str(said.value) == "Pictures need matplotlib, which is not installed: pip install 'focalcal[plots]'."


def test_too_old():
    with pytest.raises(ImportError, match=r"Tests need pytest 1000 or newer, and \d.* is installed: pip install") as no:
        import_optional("pytest", extra="test", what="Tests", at_least="1000")
    assert "'focalcal[test]'" in str(no.value)
    assert import_optional("pytest", extra="test", what="Tests", at_least="8.0") is pytest


@pytest.mark.parametrize("inside", ["import no_such_part_of_it", "from os import no_such_name"])
def test_an_installed_package_that_is_broken_says_so_itself(tmp_path, monkeypatch, inside):
    (tmp_path / "broken_package.py").write_text(inside)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ImportError, match="no_such_") as said:
        import_optional("broken_package", extra="plots", what="Pictures")
    assert "focalcal[" not in str(said.value)
