import inspect
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from focalcal import metrics
from focalcal.metrics import METRICS, Accumulator, evaluate
from focalcal.metrics.bootstrap.intervals import bootstrap
from focalcal.metrics.bootstrap.replicates import resample_samples
from focalcal.predictions import Predictions
from oracles.catalogue import oracle_values

DOCUMENTED = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()


def example(weighted=False):
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(80, 7, generator=generator, dtype=torch.float64) * 4
    labels = (logits + torch.randn(80, 7, generator=generator) * 4).argmax(dim=1)
    weights = torch.rand(80, generator=generator).double() if weighted else None
    return Predictions.from_logits(logits.round(decimals=1), labels, weights=weights)


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_has_a_function_and_a_row_in_the_documentation(name):
    function = getattr(metrics, name)
    assert inspect.isfunction(function)
    assert function.__doc__
    cells = [line.split("|")[1] for line in DOCUMENTED.splitlines() if line.startswith("| `")]
    assert any(f"`{name}`" in cell for cell in cells), f"{name} has no row in docs/metrics.md"


def test_every_metric_has_an_oracle_that_agrees():
    preds = example()
    found, expected = evaluate(preds, intervals=False).values, oracle_values(preds, 15)
    assert set(expected) == set(METRICS)
    for name, (value, tolerance) in expected.items():
        assert found[name] == pytest.approx(value, abs=tolerance, nan_ok=True), name


@pytest.mark.parametrize("weighted", [False, True])
def test_evaluate_the_identity_resample_and_the_accumulator_agree(weighted):
    preds = example(weighted)
    values = evaluate(preds, intervals=False).values
    accumulator = Accumulator(7)
    for block in preds.blocks(9):
        accumulator.add(block)
    streamed = accumulator.compute().values
    resampled = [name for name, metric in METRICS.items() if metric.has_interval]
    once = resample_samples([preds], resampled).values(np.ones((80, 1), dtype=np.uint8))
    for name, metric in METRICS.items():
        assert getattr(metrics, name)(preds) == pytest.approx(values[name], abs=1e-12), name
        # The parts of losses are refitted by a parabola; smooth ECE is resampled on a coarser grid.
        tolerance = {"outputs": 1e-6, "residuals": 5e-4}.get(metric.source, 1e-12)
        if name in once:
            assert once[name][0] == pytest.approx(values[name], abs=tolerance), name
        if metric.source != "outputs":
            assert streamed[name] == pytest.approx(values[name], abs=1e-12), name


def test_values_lie_in_their_ranges_and_so_do_intervals():
    result = bootstrap(example(), bootstrap=50)
    for name, (low, high) in result.intervals.items():
        least, largest = METRICS[name].range
        assert least <= result.estimates[name] <= largest
        assert least <= low <= high <= largest


@pytest.mark.parametrize("name", METRICS)
def test_a_metric_alone_is_what_it_is_among_all(name):
    preds = example()
    alone = evaluate(preds, metrics=[name], intervals=False)
    assert dict(alone.values) == {name: pytest.approx(evaluate(preds, intervals=False)[name], abs=1e-14)}


def test_asked_for_ece_alone_it_computes_no_other_statistics(monkeypatch):
    def fail(*_):
        raise AssertionError("ECE needs confidence and correctness only")

    monkeypatch.setattr("focalcal.metrics.samples._statistics", fail)
    for name, metric in METRICS.items():
        if metric.source in ("bins", "chance", "ranking", "residuals"):
            assert name in evaluate(example(), metrics=[name], intervals=False).values


@pytest.mark.parametrize("name", metrics.__all__)
def test_every_public_name_can_be_imported(name):
    """That it has an entry on its package's page is what tests/docs/test_api_pages.py sees to."""
    assert getattr(metrics, name) is not None


def test_titles_and_readings_are_plain():
    assert len({metric.title for metric in METRICS.values()}) == len(METRICS)
    for metric in METRICS.values():
        assert metric.reading
        assert not metric.reading.endswith(".")
        assert metric.range[0] < metric.range[1]


def test_the_catalogue_is_free_of_torch():
    code = "import sys; from focalcal.metrics import METRICS; assert not {'torch', 'numpy'} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_metric_has_gates():
    from focalcal.cli.gates import GATE_OPTIONS

    names = {re.sub("^(max|min)_", "", option.name) for option in GATE_OPTIONS}
    assert names == set(METRICS)
