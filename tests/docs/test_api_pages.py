"""The API reference has an entry for every public name, exactly one, and for nothing else."""

import importlib
import inspect
import pkgutil
import re
import sys
from pathlib import Path

import pytest

import focalcal
from focalcal import metrics, sweeps
from focalcal.integrations.sklearn import ReliabilityDisplay

_BY_NAME = inspect.Parameter.KEYWORD_ONLY
DOCS = Path(__file__).parents[2] / "docs"
# Packages that are not public: their names are used through others.
INTERNAL = {"base", "cli", "loss_names", "temperature", "__main__", "_version"}


@pytest.fixture(scope="module")
def api_pages():
    sys.path.insert(0, str(DOCS))
    yield importlib.import_module("api_pages")
    sys.path.remove(str(DOCS))


@pytest.fixture(scope="module")
def entries(api_pages):
    """All entries of the pages' source, as it is built."""
    sources = [api_pages.write_page(page, places) for page, places in api_pages.pages().items()]
    return [entry for source in sources for entry in re.findall(r"^::: (\S+)$", source, re.M)]


PACKAGES = [one.name for one in pkgutil.walk_packages(focalcal.__path__, "focalcal.") if one.ispkg]


def named(path):
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def public_objects():
    """Map the path by which users call a thing to the thing, for every name that a public package lists."""
    rooms = [room.name for room in pkgutil.iter_modules(focalcal.__path__) if room.name not in INTERNAL]
    packages = [focalcal, *(importlib.import_module(f"focalcal.{room}") for room in rooms)]
    listed = [(package, name) for package in packages for name in getattr(package, "__all__", ())]
    found = {f"{package.__name__}.{name}": getattr(package, name) for package, name in listed}
    return {path: value for path, value in found.items() if not inspect.ismodule(value)}


def test_no_public_name_is_that_of_a_module_beside_it():
    # The module would take its place as soon as somebody imports it, and documentation tools show the module.
    packages = [focalcal, *(importlib.import_module(name) for name in PACKAGES)]
    listed = [(package, name) for package in packages for name in getattr(package, "__all__", ())]
    assert len(listed) > 200
    modules = {f"{one.__name__}.{module.name}" for one in packages for module in pkgutil.iter_modules(one.__path__)}
    hidden = [f"{package.__name__}.{name}" for package, name in listed if f"{package.__name__}.{name}" in modules]
    assert [path for path in hidden if not inspect.ismodule(named(path))] == []


def test_every_public_name_has_one_entry(entries):
    # A constant is known by its identity, too: no package makes a copy of another's.
    described = [id(named(entry)) for entry in entries]
    assert len(described) == len(set(described)), "two entries for one thing"
    assert [path for path, value in public_objects().items() if id(value) not in described] == []


# What a call is about, and may therefore stand without its name, though it has a default.
_WITHOUT_NAME = {
    "labels",
    "correct",
    "gamma",
    "alpha",
    "penalty",
    "bins",
    "ax",
    "key",
    "gammas",
    "overrides",
    "results",
}
_WITHOUT_NAME |= {"runs", "objective", "kind", "method", "folders", "failed"}
# One thing has one name: these are names that it has elsewhere.
_OTHER_NAMES = {
    "n_bins",
    "num_bins",
    "resamples",
    "confidence_level",
    "random_state",
    "n_jobs",
    "changes",
    "logit_key",
    "samples",
}


def test_options_are_keyword_only_and_have_one_name_everywhere():
    functions = {path: value for path, value in public_objects().items() if inspect.isfunction(value)}
    classes = {path: value for path, value in public_objects().items() if inspect.isclass(value)}
    makers = {path: value for path, value in classes.items() if inspect.isfunction(vars(value).get("__init__"))}
    plain = {path: value for path, value in makers.items() if not hasattr(value, "__dataclass_fields__")}
    assert len(functions) > 100
    assert len(plain) > 20
    for path, value in {**functions, **plain}.items():
        for name, one in inspect.signature(value).parameters.items():
            by_place = one.kind is one.POSITIONAL_OR_KEYWORD and one.default is not one.empty
            assert not by_place or name in _WITHOUT_NAME, f"{path}: {name} should be keyword-only"
            assert name not in _OTHER_NAMES, f"{path}: {name} has another name elsewhere"


@pytest.mark.parametrize(
    ("one", "many"),
    [
        (sweeps.sweep, sweeps.sweep_many),
        (metrics.compare, metrics.compare_many),
        (ReliabilityDisplay.from_predictions, ReliabilityDisplay.from_estimator),
        (metrics.evaluate, metrics.evaluate_shards),
    ],
)
def test_options_of_the_same_name_are_the_same(one, many):
    options = [
        {name: (part.default, part.annotation, part.kind) for name, part in found.items() if part.kind is _BY_NAME}
        for found in (inspect.signature(one).parameters, inspect.signature(many).parameters)
    ]
    shared = options[0].keys() & options[1].keys()
    assert len(shared) > 4
    assert {name: options[0][name] for name in shared} == {name: options[1][name] for name in shared}


def test_nothing_internal_has_an_entry(entries):
    public = {id(value) for value in public_objects().values()}
    others = [entry for entry in entries if not entry.startswith("focalcal.integrations")]
    assert [entry for entry in others if id(named(entry)) not in public] == []
    assert [entry for entry in entries if any(part.startswith("_") for part in entry.split("."))] == []


def test_functions_and_classes_say_what_they_are(entries):
    found = [named(entry) for entry in entries if not entry.startswith("focalcal.integrations")]
    assert [value for value in found if inspect.isroutine(value) and not inspect.getdoc(value)] == []
    assert [value for value in found if inspect.isclass(value) and not value.__doc__] == []


def test_every_page_is_in_the_navigation_and_in_the_overview(api_pages):
    navigation = (DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8")
    overview = (DOCS / "api.md").read_text(encoding="utf-8")
    for page in api_pages.pages():
        assert f"api/{page}.md" in navigation
        assert f"(api/{page}.md)" in overview
    assert ":::" not in overview
