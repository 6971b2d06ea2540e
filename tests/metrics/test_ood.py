import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from focalcal.metrics.ood import auroc_interval, fpr_at_tpr, ood_auroc, ood_evaluate
from focalcal.predictions import Predictions
from oracles import ood as oracle

# Few different values: ties within and between the two sets.
confidences = st.lists(st.sampled_from([0.5, 0.6, 0.7, 0.8, 0.9, 1.0]), min_size=1, max_size=25)


def two_class(confidence, **kwargs):
    confidence = torch.as_tensor(confidence, dtype=torch.float64)
    probs = torch.stack([confidence, 1 - confidence], dim=1)
    return Predictions.from_probs(probs, torch.zeros(len(probs), dtype=torch.int64), **kwargs)


@settings(deadline=None, max_examples=100)
@given(
    confidences, confidences, st.sampled_from([0.05, 0.5, 0.8, 0.95, 1.0]), st.sampled_from(["entropy", "confidence"])
)
def test_is_the_comparison_of_every_pair(inside, outside, tpr, score):
    """Of two classes, entropy and minus confidence put samples in the same order."""
    auroc, false_rate, *asked = ood_evaluate(two_class(inside), two_class(outside), score=score, tpr=tpr)
    inside, outside = ([-c for c in part] for part in (inside, outside))
    assert auroc == pytest.approx(oracle.auroc(inside, outside), abs=1e-12)
    assert false_rate == pytest.approx(oracle.fpr_at_tpr(inside, outside, tpr), abs=1e-12)
    assert asked == [tpr, score]


@pytest.mark.parametrize("classes", [2, 1000])
def test_entropy_of_logits_against_scikit_learn(classes):
    generator = torch.Generator().manual_seed(classes)
    inside, outside = 4 * torch.randn(300, classes, generator=generator), torch.randn(200, classes, generator=generator)
    zeros = torch.zeros(300, dtype=torch.int64)
    scores = [oracle.entropy(row) for row in torch.softmax(torch.cat([inside, outside]).double(), 1).tolist()]
    expected = roc_auc_score([0] * 300 + [1] * 200, scores)
    sets = Predictions.from_logits(inside, zeros), Predictions.from_logits(outside, zeros[:200])
    assert ood_auroc(*sets) == pytest.approx(expected, abs=1e-6)
    assert expected > 0.6
    assert fpr_at_tpr(*sets) == pytest.approx(oracle.fpr_at_tpr(scores[:300], scores[300:], 0.95), abs=1e-9)


def test_weights_are_repetitions():
    rng = np.random.default_rng(0)
    inside, outside = rng.uniform(0.7, 1, 40), rng.uniform(0.5, 0.95, 30)
    times_in, times_out = rng.integers(0, 4, 40), rng.integers(0, 4, 30)
    weighted = ood_evaluate(two_class(inside, weights=times_in), two_class(outside, weights=times_out))
    repeated = ood_evaluate(two_class(np.repeat(inside, times_in)), two_class(np.repeat(outside, times_out)))
    assert weighted[:2] == pytest.approx(repeated[:2], abs=1e-12)
    one_side = ood_auroc(two_class(inside, weights=times_in), two_class(outside))
    assert one_side == pytest.approx(ood_auroc(two_class(np.repeat(inside, times_in)), two_class(outside)), abs=1e-12)


def test_weighted_rates_reach_the_share_that_they_sum_to():
    """0.1 added up 190 times is not 0.95 of it added up 200 times: the 190th of 200 must still be the 95th percent."""
    outside = [0.5 + 0.002 * i for i in range(200)]
    inside = [outside[189] + 0.001] * 3 + [1.0]  # flagged by the next threshold only
    plain = fpr_at_tpr(two_class(inside), two_class(outside))
    weighted = fpr_at_tpr(two_class(inside, weights=[0.1] * 4), two_class(outside, weights=[0.1] * 200))
    assert plain == weighted == 0


def test_thresholds_on_a_straight_piece_of_the_curve_count():
    both = two_class([0.5, 0.6, 0.7, 0.8])
    assert fpr_at_tpr(both, both, tpr=0.5) == 0.5


def test_a_tie_of_everything_is_chance():
    result = ood_evaluate(two_class([1.0] * 5), two_class([1.0] * 3))
    assert result.auroc == 0.5
    assert result.fpr_at_tpr == 1.0


def test_one_sample_each_and_perfect_separation():
    assert ood_auroc(two_class([0.9]), two_class([0.6])) == 1.0
    assert fpr_at_tpr(two_class([0.9]), two_class([0.6])) == 0.0
    assert ood_auroc(two_class([0.6]), two_class([0.9])) == 0.0
    assert fpr_at_tpr(two_class([0.6]), two_class([0.9])) == 1.0


def test_masked_classes_have_no_entropy():
    inside = Predictions.from_logits([[0.0, 0.0, float("-inf")]], [0])
    outside = Predictions.from_logits([[0.0, 0.0, 0.0]], [0])
    assert ood_auroc(inside, outside) == 1.0


def test_labels_do_not_matter():
    probs = torch.tensor([[0.9, 0.1], [0.6, 0.4], [0.3, 0.7]])
    inside = two_class([0.8, 0.95])
    assert ood_auroc(inside, Predictions.from_probs(probs, [0, 0, 0])) == ood_auroc(
        inside, Predictions.from_probs(probs, [1, 1, 0])
    )


def test_bad_input_is_one_sentence():
    good = two_class([0.9, 0.8])
    empty = Predictions(good.values[:0], "probs", good.labels[:0])
    unweighted = Predictions(good.values, "probs", good.labels, weights=torch.zeros(2, dtype=torch.float64))
    three = Predictions.from_probs([[0.2, 0.3, 0.5]], [0])
    broken = Predictions(torch.tensor([[float("nan"), 0.5]]), "probs", torch.tensor([0]))
    with pytest.raises(ValueError, match="no out-of-distribution predictions"):
        ood_auroc(good, empty)
    with pytest.raises(ValueError, match="no in-distribution predictions"):
        fpr_at_tpr(empty, good)
    with pytest.raises(ValueError, match="has weight 0"):
        ood_auroc(unweighted, good)
    with pytest.raises(ValueError, match="2 classes and the others 3"):
        ood_auroc(good, three)
    with pytest.raises(ValueError, match="NaN"):
        ood_auroc(good, broken)
    with pytest.raises(ValueError, match="not 'margin'"):
        ood_auroc(good, good, score="margin")
    for tpr in (0.0, 1.5, float("nan")):
        with pytest.raises(ValueError, match="tpr must be above 0"):
            fpr_at_tpr(good, good, tpr=tpr)


def test_the_interval_is_delongs():
    inside, outside = [0.9, 0.8, 0.8, 0.6], [0.8, 0.5, 0.7]
    low, high = auroc_interval(two_class(inside), two_class(outside), level=0.90)

    def above(one, other):
        return float(one < other) + 0.5 * float(one == other)

    of_outside = np.array([np.mean([above(a, b) for b in inside]) for a in outside])
    of_inside = np.array([np.mean([above(a, b) for a in outside]) for b in inside])
    error = np.sqrt(of_outside.var(ddof=1) / 3 + of_inside.var(ddof=1) / 4)
    auroc = ood_auroc(two_class(inside), two_class(outside))
    assert of_outside.mean() == pytest.approx(auroc)
    assert (low, high) == pytest.approx((auroc - 1.6448536 * error, min(1.0, auroc + 1.6448536 * error)))


def test_the_interval_covers_the_truth():
    """Entropies of two normal populations: the AUROC of a shift of 1 is Φ(1/√2) = 0.7602."""
    source = np.random.default_rng(0)
    covered = 0
    for _ in range(200):
        inside, outside = (source.normal(shift, size=size) for shift, size in ((0, 150), (1, 100)))
        confidences = [0.75 - 0.2 * np.tanh(one / 4) for one in (inside, outside)]
        low, high = auroc_interval(*map(two_class, confidences))
        covered += low <= 0.76025 <= high
    assert 170 <= covered <= 190


@pytest.mark.parametrize(
    ("inside", "options"),
    [
        ([0.9, 0.8, 0.7], {"weights": [1.0, 2.0, 1.0]}),
        ([0.9, 0.8, 0.7], {"clusters": [0, 0, 1]}),
        ([0.7], {}),
        ([0.9, 0.95], {}),
    ],
)
def test_no_interval_is_made_up(inside, options):
    assert auroc_interval(two_class(inside, **options), two_class([0.6, 0.6, 0.7])) is None
