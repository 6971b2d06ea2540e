"""Rules for all tests: repeatable random numbers, and the tiers that ``make check`` leaves out."""

import os
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import settings

# Tests that run side by side are given a narrow terminal; tables are then broken where nobody expects it.
os.environ.pop("COLUMNS", None)

# Tests run side by side: threads that wait for each other's cores would only slow them down.
torch.set_num_threads(1)

# The same examples in every run: a test fails because of a change, never by chance. `make fuzz` searches at random.
settings.register_profile("repeatable", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("fuzz", derandomize=False, deadline=None, print_blob=True, max_examples=1000)
settings.load_profile("repeatable")

# A module that has one of these names starts processes; a test that asks for one of these fixtures starts a browser, or
# trains networks first; the calibrator "auto" fits many others; tests of the top layers run the whole library.
_PROCESSES = ("subprocess", "in_processes", "start_processes", "forkserver")
_BROWSER = ("browser", "readers", "opened")
_SLOW = ("trained", "auto")
_TOP = ("benchmarks", "cli", "docs", "examples", "integrations", "paper", "report", "results", "sweeps", "translation")


def pytest_collection_modifyitems(items):
    """Mark tests by what they need."""
    top = [Path(__file__).parent / name for name in _TOP]
    for item in items:
        module, fixtures = getattr(item, "module", None), getattr(item, "fixturenames", ())
        given = item.callspec.id.split("-") if hasattr(item, "callspec") else ()
        if any(hasattr(module, name) for name in _PROCESSES):
            item.add_marker(pytest.mark.processes)
        if any(name in fixtures for name in _BROWSER):
            item.add_marker(pytest.mark.browser)
        if any(name in fixtures or name in given for name in _SLOW):
            item.add_marker(pytest.mark.slow)
        if any(item.path.is_relative_to(folder) for folder in top):
            item.add_marker(pytest.mark.whole)


@pytest.fixture(autouse=True)
def _repeatable_random_numbers():
    """Start every test from the same random state, whatever ran before it."""
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002 (the state that other libraries draw from)
