"""Two small comparisons that were really trained and measured, as ``focalcal compare`` leaves them."""

from pathlib import Path

import pytest

from focalcal.comparison import Plan, outcome, train_all, write_outcome
from focalcal.comparison.waiting import Watcher


def _compared(out: Path, recipe: str, changes: tuple[str, ...], seeds: tuple[int, ...]) -> Path:
    plan = Plan(recipe, changes, ("cross-entropy", "fl-3"), seeds, out)
    assert train_all(list(plan.runs()), jobs=2, watcher=Watcher()) == []
    for run in plan.runs():
        noisy = run.path / "predictions" / "cifar10_c.safetensors"
        if noisy.is_file():  # four more severities, which the random images do not come in
            for severity in range(1, 5):
                (noisy.parent / f"cifar10_c_{severity}.safetensors").write_bytes(noisy.read_bytes())
    write_outcome(outcome(plan, bootstrap=20), out)
    return out


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The best epoch by validation NLL and the last; two seeds; the learning rate makes the last one worse."""
    changes = ("epochs=2", "data.train_size=150", "select=nll", "model.hidden=[16]", "optimizer.lr=2.0")
    return _compared(tmp_path_factory.mktemp("digits"), "digits/mlp", changes, (0, 1))


@pytest.fixture(scope="session")
def cifar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The last epoch; random images, out-of-distribution ones too."""
    changes = ("data.synthetic=50", "epochs=1", "model.width=4")
    return _compared(tmp_path_factory.mktemp("cifar"), "cifar10/resnet8", changes, (0,))
