import math

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from focalcal.metrics import refinement
from focalcal.metrics.refinement import (
    brier_calibration,
    brier_refinement,
    brier_split,
    loss_splits,
    nll_calibration,
    nll_refinement,
    nll_split,
)
from focalcal.predictions import Predictions
from oracles import refinement as oracle
from oracles.real_files import REAL_FILES, real_predictions

finite_logits = st.floats(-50, 50).map(lambda value: round(value, 6))


def random_case(seed, n, classes, scale, soft, weighted):
    """Logits that know something about their labels, so that the best temperature is finite."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, n)
    logits = rng.normal(size=(n, classes))
    logits[np.arange(n), labels] += rng.normal(1.0, 1.0, n)
    targets = np.eye(classes)[labels]
    if soft:
        targets = 0.7 * targets + 0.3 * rng.dirichlet(np.ones(classes), n)
    weight = rng.uniform(0.2, 2, n) if weighted else None
    return logits * scale, targets if soft else labels, targets, weight


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("u", [-1.0, 0.0, 0.7])
def test_derivatives_of_the_brier_score(u, soft):
    logits, labels, _, weight = random_case(3, 50, 4, 2.0, soft, True)
    preds = Predictions.from_logits(logits, labels, weights=weight)
    objective = refinement._Brier(preds.values, preds.labels, preds.weights)
    before, point, after = (objective.at(u + move) for move in (-1e-4, 0.0, 1e-4))
    assert point.slope == pytest.approx((after.loss - before.loss) / 2e-4, abs=1e-8)
    assert point.curvature == pytest.approx((after.slope - before.slope) / 2e-4, abs=1e-7)


@pytest.mark.slow
@settings(deadline=None, max_examples=25)
@example(
    seed=325, n=20, classes=2, scale=1.0, soft=False, weighted=False
)  # a second, higher minimum lies nearer to T = 1
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(20, 60),
    classes=st.integers(2, 5),
    scale=st.floats(0.2, 5),
    soft=st.booleans(),
    weighted=st.booleans(),
)
def test_refinement_is_the_smallest_loss_over_temperatures(seed, n, classes, scale, soft, weighted):
    logits, labels, targets, weight = random_case(seed, n, classes, scale, soft, weighted)
    nll, brier = loss_splits(Predictions.from_logits(logits, labels, weights=weight))
    once = np.ones(n) if weight is None else weight
    (smallest_nll, _), (smallest_brier, _) = oracle.smallest_losses(logits, targets, once, points=200)
    assert (nll.total, brier.total) == pytest.approx(oracle.mean_losses(logits, targets, once, 1.0), rel=1e-9)
    # The grid can only be above the minimum, by little; and what we found is a loss at a temperature.
    assert nll.refinement <= smallest_nll + 1e-9
    assert brier.refinement <= smallest_brier + 1e-6
    assert nll.refinement == pytest.approx(oracle.mean_losses(logits, targets, once, nll.temperature)[0], rel=1e-8)
    assert brier.refinement == pytest.approx(oracle.mean_losses(logits, targets, once, brier.temperature)[1], abs=1e-6)


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.tuples(st.lists(finite_logits, min_size=3, max_size=3), st.integers(0, 2), st.sampled_from([0.0, 0.5, 3.0])),
        min_size=1,
        max_size=10,
    ),
    st.booleans(),
)
def test_parts_are_not_negative_and_sum_to_the_whole(data, weighted):
    logits, labels, weight = zip(*data, strict=True)
    weighted = weighted and sum(weight) > 0
    preds = Predictions.from_logits(np.array(logits), np.array(labels), weights=weight if weighted else None)
    for split in loss_splits(preds):
        assert split.refinement >= -1e-12
        assert split.calibration >= 0
        assert split.calibration + split.refinement == pytest.approx(split.total, rel=1e-15)
        assert 0.9999e-4 <= split.temperature <= 1.0001e4


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 2**32 - 1), st.floats(0.3, 4))
def test_dividing_logits_moves_only_the_calibration_part(seed, divisor):
    logits, labels, _, _ = random_case(seed, 200, 4, 1.0, False, False)
    before = loss_splits(Predictions.from_logits(logits, labels))
    after = loss_splits(Predictions.from_logits(logits / divisor, labels))
    assert after.nll.refinement == pytest.approx(before.nll.refinement, rel=1e-8)
    assert after.nll.temperature == pytest.approx(before.nll.temperature / divisor, rel=1e-6)
    assert after.brier.refinement == pytest.approx(before.brier.refinement, abs=1e-6)


def test_a_scaled_model_has_no_calibration_part_left():
    logits, labels, _, _ = random_case(0, 500, 5, 3.0, False, False)
    split = nll_split(Predictions.from_logits(logits, labels))
    again = nll_split(Predictions.from_logits(logits / split.temperature, labels))
    assert split.calibration > 0.1
    assert again.calibration == pytest.approx(0, abs=1e-9)
    assert again.total == pytest.approx(split.refinement, rel=1e-9)


def test_rows_of_equal_logits_have_the_refinement_of_their_frequencies():
    """The same two logits everywhere, right in 0.7: the best forecast is 0.7 and 0.3."""
    logits, labels = torch.tensor([[5.0, 0.0]]).expand(10, 2), torch.tensor([0] * 7 + [1] * 3)
    splits = loss_splits(Predictions.from_logits(logits, labels))
    assert splits.nll.refinement == pytest.approx(-0.7 * math.log(0.7) - 0.3 * math.log(0.3), abs=1e-7)
    assert splits.brier.refinement == pytest.approx(2 * 0.7 * 0.3, abs=1e-7)
    assert splits.nll.temperature == pytest.approx(5 / math.log(7 / 3), rel=1e-6)


def test_all_right_all_wrong_and_one_sample():
    right = loss_splits(Predictions.from_logits([[2.0, 0.0]] * 3, [0] * 3))
    assert right.nll.refinement == pytest.approx(0, abs=1e-9)
    assert right.brier.refinement == pytest.approx(0, abs=1e-6)
    wrong = loss_splits(Predictions.from_logits([[2.0, 0.0]], [1]))
    assert wrong.nll.refinement == pytest.approx(math.log(2), abs=1e-3)  # T at its bound, where the softmax is flat
    assert wrong.brier.refinement == pytest.approx(0.5, abs=1e-3)
    flat = loss_splits(Predictions.from_logits([[0.0, 0.0]], [1]))
    assert flat.parts == pytest.approx((math.log(2), math.log(2), 0.5, 0.5), abs=1e-7)


def test_saturated_confidence_in_float32():
    """Softmax outputs of exactly 1 and 0, one of them wrong."""
    logits = torch.tensor([[200.0, 0.0]]).expand(100, 2)
    labels = torch.tensor([0] * 99 + [1])
    splits = loss_splits(Predictions.from_logits(logits, labels))
    assert splits.nll.total == pytest.approx(2.0)
    assert splits.brier.refinement == pytest.approx(2 * 0.99 * 0.01, abs=1e-6)
    assert splits.brier.temperature == pytest.approx(200 / math.log(99), rel=1e-2)


def test_masked_classes_are_as_good_as_absent():
    logits, labels, _, _ = random_case(1, 100, 3, 2.0, False, False)
    masked = np.concatenate([logits, np.full((100, 1), -np.inf)], axis=1)
    without, with_mask = (loss_splits(Predictions.from_logits(x, labels)) for x in (logits, masked))
    for one, other in zip(with_mask.parts, without.parts, strict=True):
        assert float(one) == pytest.approx(float(other), abs=1e-9)


def test_a_masked_label_makes_the_nll_split_undefined_and_the_brier_split_not():
    splits = loss_splits(Predictions.from_logits([[0.0, -math.inf], [1.0, 0.0]], [1, 0]))
    assert splits.nll.total == math.inf
    assert splits.nll.refinement == math.inf
    assert math.isnan(splits.nll.calibration)
    assert splits.brier.total >= splits.brier.refinement > 0.9
    of_no_weight = Predictions.from_logits([[0.0, -math.inf], [1.0, 0.0]], [1, 0], weights=[0.0, 1.0])
    assert math.isfinite(nll_split(of_no_weight).calibration)


def test_a_probability_of_0_is_repaired():
    splits = loss_splits(Predictions.from_probs([[1.0, 0.0], [1.0, 0.0], [0.6, 0.4]], [0, 1, 0]))
    assert splits.nll.total == math.inf
    assert splits.nll.calibration == math.inf
    assert splits.nll.refinement < math.log(2) + 1e-6


def test_probabilities_are_their_logits():
    logits, labels, _, _ = random_case(2, 300, 4, 2.0, False, False)
    probs = torch.softmax(torch.from_numpy(logits), 1)
    of_logits, of_probs = Predictions.from_logits(logits, labels), Predictions.from_probs(probs, labels)
    for one, other in zip(loss_splits(of_probs).parts, loss_splits(of_logits).parts, strict=True):
        assert float(one) == pytest.approx(float(other), abs=1e-9)


def test_thousand_classes_more_rows_than_the_first_guess_sees():
    """Three stages: every n-th row twice, then all."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(20_000, 50, generator=generator)
    labels = torch.randint(50, (20_000,), generator=generator)
    logits[torch.arange(20_000), labels] += 3 * torch.rand(20_000, generator=generator)
    logits = torch.cat([2 * logits, torch.full((20_000, 950), -30.0)], dim=1)
    split = brier_split(Predictions.from_logits(logits, labels))

    def score(temperature):
        probs = torch.softmax(logits[:, :51].double() / temperature, 1)
        probs[:, 50] = 0
        return float((probs - torch.nn.functional.one_hot(labels, 51)).square().sum(1).mean())

    near = [score(split.temperature * factor) for factor in (0.99, 1.0, 1.01)]
    assert split.refinement == pytest.approx(near[1], abs=1e-6)
    assert near[1] < min(near[0], near[2])


@pytest.mark.parametrize("name", REAL_FILES)
def test_real_files(name):
    preds = real_predictions(name)
    splits = loss_splits(preds)
    log_probs = preds.values.clamp_min(1e-38).log()
    onehot = torch.nn.functional.one_hot(preds.labels, preds.num_classes).double()
    briers = []
    for temperature in np.geomspace(0.5, 8, 60):
        probs = torch.softmax(log_probs / temperature, 1)
        briers.append(float((probs - onehot).square().sum(1).mean()))
    assert splits.brier.refinement <= min(briers) + 1e-9
    assert splits.brier.refinement == pytest.approx(min(briers), abs=1e-4)
    assert (nll_calibration(preds), nll_refinement(preds)) == (splits.nll.calibration, splits.nll.refinement)
    assert (brier_calibration(preds), brier_refinement(preds)) == (splits.brier.calibration, splits.brier.refinement)
    assert splits.nll.calibration > 0.1
