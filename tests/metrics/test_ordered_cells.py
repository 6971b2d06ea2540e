"""Runs in order of arrival, with limits so low that they are joined, forgotten and begun again all the time."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from focalcal.metrics import arrival_runs
from focalcal.metrics.arrival_runs import ArrivalRuns, joined_runs
from focalcal.metrics.binning import equal_mass_bounds, equal_mass_cuts, equal_mass_sums
from focalcal.metrics.calibration_error import mean_gap
from focalcal.metrics.equal_mass_range import ada_ece_of_pieces
from focalcal.metrics.ordered_cells import OrderedCells
from focalcal.metrics.statistics import ConfidenceSamples

samples = st.lists(
    st.tuples(st.sampled_from([0.0, 0.25, 0.5, 0.500001, 0.75, 1.0]), st.booleans(), st.sampled_from([1.0, 0.5, 3.0])),
    min_size=1,
    max_size=60,
)


def filled(drawn, share, batch, weighted):
    confidence, correct, weight = (torch.tensor(column) for column in zip(*drawn, strict=True))
    confidence = confidence.double()
    weight = weight.double() if weighted else None
    cells = OrderedCells.around(confidence[:batch], share)
    for start in range(0, len(drawn), batch):
        part = slice(start, start + batch)
        cells.add(ConfidenceSamples(confidence[part], correct[part], None if weight is None else weight[part]))
    return cells, ConfidenceSamples(confidence, correct, weight)


def cuts_of(all_samples, bins):
    if all_samples.weight is None:
        return equal_mass_bounds(len(all_samples), bins).double()
    return equal_mass_cuts(all_samples.weight, bins)


@settings(deadline=None, max_examples=60)
@given(samples, st.sampled_from([1e-6, 0.02, 0.1, 0.5]), st.integers(1, 20), st.booleans(), st.integers(1, 8))
def test_the_bound_holds_whatever_the_runs(drawn, share, batch, weighted, bins):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrival_runs, "_FEWEST_RUNS", 3)
        cells, all_samples = filled(drawn, share, batch, weighted)
        cuts = cuts_of(all_samples, bins)
        found = ada_ece_of_pieces(cells.pieces(cuts), cuts)
    exact = mean_gap(equal_mass_sums(all_samples.confidence, all_samples.correct, bins, all_samples.weight))
    assert abs(found.value - exact) <= found.bound + 1e-12
    if share == 1e-6 and batch >= len(drawn):  # every sample is a run of its own
        assert found.bound <= 1e-11


@settings(deadline=None, max_examples=40)
@given(samples, st.sampled_from([1e-6, 0.02, 0.5]), st.integers(1, 20), st.booleans(), st.integers(1, 8))
def test_pieces_have_everything_once_and_in_order(drawn, share, batch, weighted, bins):
    cells, all_samples = filled(drawn, share, batch, weighted)
    pieces = cells.pieces(cuts_of(all_samples, bins))
    weight = torch.ones(len(drawn), dtype=torch.float64) if all_samples.weight is None else all_samples.weight
    assert float(pieces.mass.sum()) == pytest.approx(float(weight.sum()))
    assert float(pieces.correct.sum()) == pytest.approx(float(weight @ all_samples.correct.double()))
    assert float(pieces.confidence.sum()) == pytest.approx(float(weight @ all_samples.confidence))
    mean = pieces.confidence / pieces.mass
    assert bool((mean.diff() >= -1e-12).all())
    assert bool((mean >= pieces.low - 1e-12).all())
    assert bool((mean <= pieces.high + 1e-12).all())


def test_a_run_is_at_most_twice_as_long_as_the_limit():
    cell = torch.arange(3).repeat_interleave(1000).double()
    runs = torch.stack([cell, torch.ones(3000), torch.ones(3000)]).double()
    once = joined_runs(runs, limit=10.0)
    again = joined_runs(once, limit=25.0)
    assert once.shape[1] == 300
    assert float(again[1].max()) <= 50
    assert float(again[1].sum()) == 3000


def test_runs_keep_their_order_through_tidying():
    runs = ArrivalRuns()
    for number in range(10):
        runs.add(torch.tensor([[1.0, 5.0], [1.0, 1.0], [float(number % 2), 1.0]]).double())
    wanted = torch.tensor([False, True, False, False, False, False])
    runs.tidy(wanted, limit=1.0)
    assert runs.runs[2].tolist() == [0.0, 1.0] * 5
    runs.tidy(wanted, limit=2.0)
    assert runs.runs.tolist() == [[1.0] * 5, [2.0] * 5, [1.0] * 5]
    assert len(runs) == 5
