import pytest
import torch

from focalcal.metrics import ada_ece, ece, ece_floor, nll
from focalcal.metrics.binning import mean_gap
from focalcal.metrics.samples import block_statistics
from focalcal.predictions import Predictions
from focalcal.report import slider as sweep_module
from focalcal.report.scaling import Scaling
from focalcal.report.slider import BIN_COUNTS, STOPS, WIDTH_CELLS, Slider, stops_with
from report.conftest import world


def swept(preds, temperatures, rows=97):
    slider = Slider(temperatures, len(preds))
    for block in preds.blocks(rows):
        for stats, _ in block_statistics(block):
            slider.add(block, stats)
    return slider.stops()


def scaled(preds, temperature):
    return preds if temperature == 1 else Scaling((temperature,), "val", 1).apply(preds)


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.2])
@pytest.mark.parametrize("kind", ["logits", "probs"])
@pytest.mark.parametrize("weighted", [False, True])
def test_every_stop_has_the_metrics_of_scaled_predictions(temperature, kind, weighted):
    weights = torch.rand(400, generator=torch.Generator().manual_seed(3)) if weighted else None
    preds = world(400, 5, weights=weights)
    if kind == "probs":
        preds = Predictions.from_probs(preds.probs(), preds.labels, weights=weights)
    (stop,), wanted = swept(preds, [temperature]), scaled(preds, temperature)
    assert stop.nll == pytest.approx(nll(wanted), rel=1e-5)
    for bins in BIN_COUNTS:
        assert mean_gap(stop.equal_width(bins)) == pytest.approx(ece(wanted, bins=bins), abs=1e-6)
        assert mean_gap(stop.ranked.equal_mass(bins)) == pytest.approx(ada_ece(wanted, bins=bins), abs=1e-6)
        assert stop.ece_floor(bins) == pytest.approx(ece_floor(wanted, bins=bins), abs=1e-6)


def test_more_samples_than_are_kept_are_counted_in_cells(monkeypatch):
    preds = world(20_000, 3)
    exact = swept(preds, [1.0, 1.7], rows=5000)
    monkeypatch.setattr(sweep_module, "KEPT_SAMPLES", 10_000)
    counted = swept(preds, [1.0, 1.7], rows=5000)
    for a, b in zip(exact, counted, strict=True):
        assert len(b.ranked.mass) < 6000 < len(a.ranked.mass)
        for bins in BIN_COUNTS:
            assert mean_gap(b.equal_width(bins)) == mean_gap(a.equal_width(bins))
            assert mean_gap(b.ranked.equal_mass(bins)) == pytest.approx(mean_gap(a.ranked.equal_mass(bins)), abs=3e-4)


def test_weights_of_zero_do_not_count():
    preds = world(100, 3)
    extended = Predictions.from_probs(
        torch.cat([preds.probs(), torch.tensor([[1.0, 0.0, 0.0]])]),
        torch.cat([preds.labels, torch.tensor([1])]),
        weights=[1.0] * 100 + [0.0],
    )
    with_zero, without = swept(extended, [1.0])[0], swept(preds, [1.0])[0]
    assert with_zero.nll == pytest.approx(without.nll, rel=1e-5)
    assert with_zero.ranked.samples == 100


def test_stops():
    assert all(WIDTH_CELLS % bins == 0 for bins in BIN_COUNTS)
    assert stops_with(None) == STOPS == tuple(sorted(STOPS))
    assert 1.0 in STOPS
    assert stops_with(12.5)[-1] == 12.5
