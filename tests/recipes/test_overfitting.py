"""The recipes for a CPU are sized so that cross-entropy overfits: its validation NLL rises well above its minimum."""

from pathlib import Path

import pytest

from focalcal.training import train
from focalcal.training.run_directory import read_history

pytestmark = pytest.mark.slow

RESULTS = Path(__file__).parents[2] / "results"


def _last_over_lowest(history):
    losses = [epoch["val"]["nll"] for epoch in history]
    return losses[-1] / min(losses)


def test_digits(tmp_path):
    run = train("digits/mlp", out=tmp_path / "run", progress=False)
    assert _last_over_lowest(run.history) >= 1.2


@pytest.mark.parametrize("name", ["fashion_mnist", "cifar10_resnet8"])
def test_committed_runs(name):
    history = read_history(RESULTS / name / "histories" / "cross-entropy-seed-0.jsonl")
    assert _last_over_lowest(history) >= 1.2
