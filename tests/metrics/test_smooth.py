import math
from collections import namedtuple

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from focalcal.metrics import smooth
from focalcal.metrics.samples import sample_statistics
from focalcal.metrics.smooth import (
    CELLS,
    Residuals,
    residual_grid,
    smooth_ece,
    smooth_ece_of_grids,
)
from focalcal.predictions import Predictions
from oracles.real_files import REAL_FILES, real_predictions
from oracles.smooth import smooth_ece_at

Solution = namedtuple("Solution", ["value", "bound"])

# Often on nodes of every grid and at both ends, where mirror images meet.
confidences = st.one_of(st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.floats(0, 1), st.floats(0.999, 1))
samples = st.lists(st.tuples(confidences, st.booleans(), st.floats(0.1, 10)), min_size=1, max_size=12)


def of_arrays(confidence, correct, weight=None, cells=CELLS):
    confidence = torch.as_tensor(confidence, dtype=torch.float64)
    correct = torch.as_tensor(correct)
    weight = None if weight is None else torch.as_tensor(weight, dtype=torch.float64)
    once = torch.ones_like(confidence) if weight is None else weight
    absolute = (once * (correct.double() - confidence).abs()).sum()
    return solved(residual_grid(confidence, correct, weight, cells), once.sum(), absolute)


def solved(grid, total, absolute):
    total, absolute = (torch.as_tensor(number, dtype=torch.float64) for number in (total, absolute))
    return Solution(*(float(part) for part in Residuals(grid, total, absolute).solution))


def two_class(confidence, correct, **kwargs):
    """Predictions of class 0 with confidences of at least a half, right or wrong as wanted."""
    confidence = torch.as_tensor(confidence, dtype=torch.float64)
    probs = torch.stack([confidence, 1 - confidence], dim=1)
    return Predictions.from_probs(probs, (~torch.as_tensor(correct)).long(), **kwargs)


@settings(deadline=None, max_examples=40)
@given(samples, st.booleans())
def test_solves_its_equation(data, weighted):
    confidence, correct, weight = zip(*data, strict=True)
    weight = weight if weighted else None
    value, bound = of_arrays(confidence, correct, weight)
    margin = bound + 2e-6  # of which 2e-6 for the points of the oracle's integral
    assert 0 <= value <= 1
    assert bound <= 1e-4

    def excess(sigma):
        points = int(min(max(4001, 100 / sigma), 200_001))
        return smooth_ece_at(sigma, confidence, correct, weight, points) - sigma

    assert value + margin >= 1 or excess(max(value + margin, 1e-3)) <= 0 or value + margin < 1e-3
    assert value - margin <= 1e-3 or excess(value - margin) >= 0


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(confidences, st.booleans()), min_size=1, max_size=200),
    st.floats(1e-7, 1),
    st.sampled_from([64, 256, 1024, 4096]),
)
def test_bound_holds_between_grids(data, width, cells):
    """Squeezing confidences together makes gaps narrower than the grid's step: what the bound is for."""
    confidence = [1 - width * c for c, _ in data]
    correct = [y for _, y in data]
    coarse, fine = of_arrays(confidence, correct, cells=cells), of_arrays(confidence, correct)
    assert abs(coarse.value - fine.value) <= coarse.bound + fine.bound
    assert fine.bound <= 1e-4


def test_gridding_error_is_within_its_bound_and_the_bound_not_idle():
    """Two right answers on nodes, two wrong ones half a step away: what cubic interpolation finds hardest."""
    cells = 256
    step = 1 / cells
    confidence, correct = [0.5, 0.5 + step, 0.5 + step / 2, 0.5 + step / 2], [True, True, False, False]
    grid = residual_grid(torch.tensor(confidence, dtype=torch.float64), torch.tensor(correct), cells=cells)
    spectrum = smooth._Spectrum.of(grid.numpy()[None] / 4, np.array([0.5]))
    finer = np.pad(spectrum.coefficients, ((0, 0), (0, 8192 - cells)))  # so that only gridding errs, not integration
    for widths in (2.6, 3.0, 4.0):
        ours = spectrum._replace(coefficients=finer).smooth_ece(np.array([widths * step]))[0]
        error = abs(ours - smooth_ece_at(widths * step, confidence, correct, points=100_001))
        bound = smooth._GRIDDING / widths**4 * 0.5
        assert bound / 10 < error < bound


def test_integral_of_an_absolute_value_is_exact_between_points():
    values = np.array([[1.0, -1.0, -1.0], [0.0, 0.5, 1.0], [3.0, -1.0, 0.0]])
    np.testing.assert_allclose(smooth._absolute_integral(values), [0.75, 0.5, 0.875], rtol=1e-15)


def test_bound_is_at_most_1e_4_where_neighbours_cancel():
    """A right and a wrong answer side by side, closer than any grid: E|residual| is ½ and the error almost 0."""
    for spacing in (1e-9, 1e-7, 1e-6, 3e-6, 1e-5):
        confidence = 0.5 + spacing * torch.arange(-20_000, 20_000, dtype=torch.float64)
        confidence = confidence[(confidence > 0) & (confidence < 1)]
        correct = torch.arange(len(confidence)) % 2 == 0
        assert of_arrays(confidence, correct).bound <= 1e-4


@settings(deadline=None, max_examples=50)
@given(samples)
def test_lies_between_the_signed_gap_and_the_mean_absolute_residual(data):
    confidence, correct, weight = (np.array(column, dtype=float) for column in zip(*data, strict=True))
    residual = correct - confidence
    value, bound = of_arrays(confidence, correct > 0, weight)
    assert abs(residual @ weight) / weight.sum() <= value + bound
    assert value <= np.abs(residual) @ weight / weight.sum() + bound


@pytest.mark.parametrize(
    ("confidence", "correct", "expected"),
    [
        ([0.7], [True], 0.3),
        ([0.7], [False], 0.7),
        ([1.0] * 5, [True] * 5, 0.0),
        ([1.0] * 5, [False] * 5, 1.0),
        ([0.8] * 5, [True] * 4 + [False], 0.0),
        ([0.6] * 4, [True] * 4, 0.4),
    ],
)
def test_cases_known_by_hand(confidence, correct, expected):
    value, bound = of_arrays(confidence, correct)
    assert value == pytest.approx(expected, abs=1e-9)
    assert bound <= 1e-4


def test_two_distant_groups_do_not_cancel():
    """Over-confident here and under-confident there: half of each gap counts, as long as σ keeps them apart."""
    value, bound = of_arrays([0.2] * 100 + [0.8] * 100, [True] * 25 + [False] * 75 + [True] * 75 + [False] * 25)
    assert value == pytest.approx(0.05, abs=bound)


def test_weights_are_repetitions_and_have_no_scale():
    rng = np.random.default_rng(0)
    confidence, times = rng.uniform(0.5, 1, 100), rng.integers(0, 5, 100)
    correct = rng.uniform(size=100) < confidence
    repeated = of_arrays(np.repeat(confidence, times), np.repeat(correct, times))
    assert of_arrays(confidence, correct, times).value == pytest.approx(repeated.value, abs=1e-9)
    assert of_arrays(confidence, correct, times * 1e-6).value == pytest.approx(repeated.value, abs=1e-9)
    preds = two_class(confidence, correct, weights=torch.from_numpy(times))
    assert smooth_ece(preds) == pytest.approx(repeated.value, abs=1e-9)


def test_grids_of_parts_add_up():
    rng = np.random.default_rng(1)
    confidence, correct = torch.from_numpy(rng.uniform(size=1000)), torch.from_numpy(rng.uniform(size=1000) < 0.7)
    whole = residual_grid(confidence, correct)
    parts = residual_grid(confidence[:300], correct[:300]) + residual_grid(confidence[300:], correct[300:])
    torch.testing.assert_close(parts, whole, rtol=0, atol=1e-12)
    torch.testing.assert_close(residual_grid(confidence, correct, rows=7), whole, rtol=0, atol=1e-12)
    assert float(whole.sum()) == pytest.approx(float((correct.double() - confidence).sum()), abs=1e-10)


def test_many_grids_at_once_are_each_of_them():
    rng = np.random.default_rng(2)
    confidence = torch.from_numpy(rng.uniform(0.3, 1, (4, 500)))
    correct = torch.from_numpy(rng.uniform(size=(4, 500))) < confidence ** torch.tensor([[0.5], [1], [2], [5]])
    grids = torch.stack([residual_grid(f, y, cells=1024) for f, y in zip(confidence, correct, strict=True)])
    absolute = (correct.double() - confidence).abs().sum(1)
    values, bounds = smooth_ece_of_grids(grids, torch.full((4,), 500.0), absolute)
    for row in range(4):
        value, bound = solved(grids[row], 500.0, float(absolute[row]))
        assert float(values[row]) == pytest.approx(value, abs=bound + float(bounds[row]))


def test_no_samples_give_nan():
    value, bound = solved(torch.zeros(CELLS + 1, dtype=torch.float64), 0.0, 0.0)
    assert math.isnan(value)
    assert math.isnan(bound)


@pytest.mark.parametrize("classes", [2, 1000])
def test_predictions_of_few_and_many_classes(classes):
    logits = 3 * torch.randn(200, classes, generator=torch.Generator().manual_seed(classes))
    labels = torch.arange(200) % classes
    preds = Predictions.from_logits(logits, labels)
    probs = torch.softmax(logits, 1).double()
    expected = of_arrays(probs.amax(1), probs.argmax(1) == labels)
    assert smooth_ece(preds) == pytest.approx(expected.value, abs=1e-6)


def test_a_perfectly_calibrated_model_is_near_0_with_many_samples():
    rng = np.random.default_rng(3)
    confidence = rng.beta(5, 1, 1_000_000)
    value, bound = of_arrays(confidence, rng.uniform(size=1_000_000) < confidence)
    assert value < 0.005
    assert bound < 1e-6


# relplot reports smECE_σ at a σ up to 1/1024 above the solution, from a sum over 200 points or a few more.
RELPLOT_STEP = 1 / 1024


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 2**32 - 1), st.floats(0.3, 3), st.integers(50, 2000))
def test_agrees_with_relplot_away_from_the_ends(seed, power, n):
    relplot = pytest.importorskip("relplot", reason="relplot is installed by the references extra")
    rng = np.random.default_rng(seed)
    confidence = rng.uniform(0.1, 0.9, n)
    correct = rng.uniform(size=n) < confidence**power
    theirs = relplot.smECE(confidence, correct.astype(float))
    assume(theirs > 0.005)  # below, its floor of 0.001 on σ shows
    assert of_arrays(confidence, correct).value == pytest.approx(theirs, abs=2 * RELPLOT_STEP)


@pytest.mark.parametrize("name", REAL_FILES)
def test_agrees_with_relplot_on_real_files_once_its_mirror_is_complete(name, monkeypatch):
    """relplot reflects its grid without the end nodes, so that confidence 1.0 counts half (next test).

    With these nodes counted twice, as every other node is by itself and its image, it gives our numbers; with 20,000
    points of integration in place of 200 the difference shrinks from 6e-4 to 7e-6.
    """
    relplot = pytest.importorskip("relplot", reason="relplot is installed by the references extra")

    class CompleteMirror(relplot.kernels.ReflectedGaussianKernel):
        def convolve(self, values, eval_points):
            doubled = values.copy()
            doubled[[0, -1]] *= 2
            return super().convolve(doubled, eval_points)

    statistics = sample_statistics(real_predictions(name))
    confidence, correct = statistics.confidence.numpy(), statistics.correct.double().numpy()
    ours = Solution(*(float(part) for part in Residuals.of_samples(statistics).solution))
    assert ours.bound < 2e-6
    assert relplot.smECE(confidence, correct) > ours.value + 0.02
    monkeypatch.setattr(relplot.metrics, "_get_default_kernel", lambda: CompleteMirror)
    assert ours.value == pytest.approx(relplot.smECE(confidence, correct), abs=RELPLOT_STEP)
    monkeypatch.setattr(relplot.config, "smECE_mesh_pts", 20_000)
    assert ours.value == pytest.approx(relplot.smECE(confidence, correct), abs=1e-5)


def test_confidence_1_counts_in_full():
    """Eight sure and right, two wrong at 0.6: the residuals sum to −1.2 of 10. relplot 1.0.3 gives 0.199."""
    confidence, correct = [1.0] * 8 + [0.6] * 2, [True] * 8 + [False] * 2
    assert of_arrays(confidence, correct).value == pytest.approx(0.12, abs=1e-6)
