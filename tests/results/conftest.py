"""Two small comparisons that were really trained and measured, as ``focalcal sweep`` leaves them."""

from pathlib import Path

import pytest

from focalcal.sweeps import Plan, measure_plan, train_all, write_result


def _compared(out: Path, recipe: str, changes: tuple[str, ...], seeds: tuple[int, ...]) -> Path:
    plan = Plan(recipe, changes, ("cross-entropy", "fl-3"), seeds, out)
    assert train_all(list(plan.runs()), jobs=2) == []
    write_result(measure_plan(plan, bootstrap=20), out)
    return out


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The best epoch by validation NLL and the last; two seeds; the learning rate makes the last one worse."""
    changes = ("epochs=2", "data.train_size=150", "select=nll", "model.hidden=[16]", "optimizer.lr=2.0")
    return _compared(tmp_path_factory.mktemp("digits"), "digits/mlp", changes, (0, 1))


@pytest.fixture(scope="session")
def cifar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The last epoch; random images, out-of-distribution ones too, and everything recorded."""
    changes = ("data.synthetic=50", "epochs=4", "model.width=4", "hardware.precision=32")
    return _compared(tmp_path_factory.mktemp("cifar"), "cifar10/resnet20", changes, (0,))
