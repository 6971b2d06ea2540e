"""A small comparison that was really trained: two losses, two seeds, the best epoch and the last."""

from pathlib import Path

import pytest

from focalcal.sweeps import Plan, train_all

SMALL = ("epochs=3", "data.train_size=100", "select=nll", "model.hidden=[16]")


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    out: Path = tmp_path_factory.mktemp("comparison")
    plan = Plan("digits/mlp", SMALL, ("cross-entropy", "fl-3"), (0, 1), out)
    assert train_all(list(plan.runs()), jobs=2) == []
    return plan
