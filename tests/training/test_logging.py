"""Loggers beside the history."""

import csv
import importlib.util

import pytest

from tiny_runs import run


def test_csv(tmp_path):
    finished = run(tmp_path / "a", logging={"to": "csv"}, epochs=3, record={"test_every": 2})
    with open(tmp_path / "a/logs/csv/metrics.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["val/nll"]) for row in rows] == [epoch["val"]["nll"] for epoch in finished.history]
    assert [bool(row["test/nll"]) for row in rows] == [False, True, True]


@pytest.mark.skipif(importlib.util.find_spec("tensorboard") is None, reason="TensorBoard is not installed.")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_tensorboard(tmp_path):
    run(tmp_path / "a", logging={"to": ["tensorboard"]})
    (events,) = (tmp_path / "a/logs/tensorboard").rglob("events*")
    assert b"val/nll" in events.read_bytes()


@pytest.mark.parametrize("name", ["mlflow", "wandb"])
def test_logger_that_is_not_installed(tmp_path, name):
    if importlib.util.find_spec("lightning") and importlib.util.find_spec(name):
        pytest.skip(f"{name} is installed.")
    with pytest.raises(
        ValueError, match=f"logging.to={name} needs packages that are not installed: pip install "
    ) as no:
        run(tmp_path / "a", logging={"to": [name]})
    assert "\n" not in str(no.value)
    assert not (tmp_path / "a").exists()
