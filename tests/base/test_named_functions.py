"""Functions by name: those of the current folder are found, and what is wrong with the others is said."""

import sys

import pytest

from focalcal.base.named_functions import call_function, import_function, is_function_name


@pytest.fixture
def module(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = iter(range(100))
    written = []

    def write(text):
        name = f"own_code_{next(names)}"
        (tmp_path / f"{name}.py").write_text(text)
        written.append(name)
        return name

    yield write
    for name in written:
        sys.modules.pop(name, None)


def test_a_function_in_the_current_folder(module):
    before = list(sys.path)
    name = module("def load(a, b=2, *, seed=0): return a, b, seed\n")
    assert call_function(f"{name}:load", {"a": 1}, {"seed": 7, "unknown": 1}) == (1, 2, 7)
    assert sys.path == before


def test_everything_is_offered_to_a_function_that_takes_anything(module):
    name = module("def load(**options): return options\n")
    assert call_function(f"{name}:load", {"a": 1}, {"seed": 7}) == {"a": 1, "seed": 7}


@pytest.mark.parametrize(
    ("text", "function", "options", "words"),
    [
        ("def load(): pass\n", "laod", {}, "has no function 'laod'; did you mean 'load'"),
        ("x = 3\n", "load", {}, "has no function 'load', nor any other"),
        ("load = 3\n", "load", {}, "is not a function but int"),
        ("import no_such_package\n", "load", {}, "cannot be imported: No module named 'no_such_package'"),
        ("1 / 0\n", "load", {}, "cannot be imported: ZeroDivisionError: division by zero"),
        ("def load(folder): pass\n", "load", {"foldr": 1}, "has no argument 'foldr'; did you mean 'folder'"),
        ("def load(folder): pass\n", "load", {}, "needs the argument 'folder', which is not given"),
        ("def load(): pass\n", "load", {"a": 1}, "has no argument 'a'; it takes none"),
        ("def load(): return {}['a']\n", "load", {}, r"failed with KeyError: 'a' \(own_code_0\.py, line 1\)"),
        ("def load(): raise ValueError('no shop here')\n", "load", {}, "^no shop here$"),
    ],
)
def test_what_is_wrong_is_said(module, text, function, options, words):
    name = module(text)
    with pytest.raises(ValueError, match=words) as caught:
        call_function(f"{name}:{function}", options, {})
    assert "\n" not in str(caught.value)


def test_programs_of_python_itself_are_refused():
    with pytest.raises(ValueError, match="os is a module of Python itself"):
        import_function("os:system")
    with pytest.raises(ValueError, match="subprocess is a module of Python itself"):
        call_function("subprocess:run", {"args": ["true"]}, {})


@pytest.mark.parametrize(
    "name",
    ["numpy:save", "torch:load", "torch.hub:load", "pandas:read_pickle", "pip._internal:main", "yaml:unsafe_load"],
)
def test_functions_of_installed_packages_are_refused(monkeypatch, name):
    """A recipe from anybody could read a pickle by one of them, write any file, or fetch code."""
    package = name.partition(":")[0].partition(".")[0]
    with pytest.raises(ValueError, match=f"from the package {package}: .* set FOCALCAL_FUNCTIONS={package}"):
        import_function(name)
    monkeypatch.setenv("FOCALCAL_FUNCTIONS", f"other, {package}")
    assert callable(import_function(name))


def test_functions_of_focalcal_and_those_that_own_code_has_imported_are_refused(module, monkeypatch):
    with pytest.raises(ValueError, match=r"focalcal\.base\.files is a module of focalcal itself"):
        import_function("focalcal.base.files:write_json")
    name = module("from os import system\nfrom numpy import save\nfrom focalcal import train\ndef load(): return 3\n")
    for function, words in (("system", "posix is a module of Python itself"), ("save", "the package numpy")):
        with pytest.raises(ValueError, match=words):
            import_function(f"{name}:{function}")
    with pytest.raises(ValueError, match="of focalcal itself"):
        import_function(f"{name}:train")
    assert import_function(f"{name}:load")() == 3
    monkeypatch.setenv("FOCALCAL_FUNCTIONS", "numpy")
    assert import_function(f"{name}:save")


@pytest.mark.parametrize("name", ["cifar10", "a:", ":b", "a:b:c", "C:\\data", "a b:c", "", 7, None])
def test_other_names_are_not_functions(name):
    assert not is_function_name(name)
