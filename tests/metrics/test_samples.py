import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from focalcal.metrics import samples as module
from focalcal.metrics.samples import StatisticsStore, block_statistics, confidence_samples, sample_statistics
from focalcal.predictions import Predictions
from oracles import metrics as oracle

quick = settings(deadline=None, max_examples=50)


def check_against_oracle(preds, tolerance):
    stats = sample_statistics(preds)
    samples = oracle.samples_of(preds)
    assert stats.correct.tolist() == [oracle.is_right(s) for s in samples]
    assert stats.prediction.tolist() == [oracle.first_largest(s[0]) for s in samples]
    assert stats.label.tolist() == [oracle.hard(s[2]) for s in samples]
    assert stats.rank.tolist() == [oracle.rank(s) for s in samples]
    np.testing.assert_allclose(stats.confidence.numpy(), [oracle.confidence(s) for s in samples], rtol=6e-16)
    for name in ("brier", "entropy"):
        expected = [getattr(oracle, name)(s) for s in samples]
        np.testing.assert_allclose(getattr(stats, name).numpy(), expected, rtol=tolerance, atol=tolerance)
    return stats, samples


@quick
@given(oracle.logit_predictions())
def test_logits_give_what_the_formulas_give(preds):
    stats, _ = check_against_oracle(preds, 1e-12)
    # From logits the loss is exact where the probability itself has underflowed: log-softmax, not log of softmax.
    expected = -preds.log_probs().gather(1, preds.labels[:, None])[:, 0]
    np.testing.assert_allclose(stats.nll.numpy(), expected.numpy(), rtol=1e-12, atol=1e-12)


@quick
@given(oracle.logit_predictions(logits=oracle.FINITE_LOGITS, soft_labels=True))
def test_soft_labels_give_what_the_formulas_give(preds):
    stats, _ = check_against_oracle(preds, 1e-12)
    expected = -(preds.labels * preds.log_probs()).sum(dim=1)
    np.testing.assert_allclose(stats.nll.numpy(), expected.numpy(), rtol=1e-12, atol=1e-12)


@quick
@given(oracle.edge_predictions(bins=15), st.sampled_from([torch.float32, torch.float64]))
def test_probabilities_give_what_the_formulas_give(drawn, dtype):
    rows, labels, weights = drawn
    preds = Predictions.from_probs(torch.tensor(rows, dtype=dtype), labels, weights=weights)
    stats, samples = check_against_oracle(preds, 1e-12 if dtype == torch.float64 else 1e-6)
    rtol = 1e-12 if dtype == torch.float64 else 1e-6
    np.testing.assert_allclose(stats.nll.numpy(), [oracle.nll(s) for s in samples], rtol=rtol, atol=1e-12)


def test_float32_logits_give_what_the_same_numbers_in_float64_give_bit_for_bit():
    for scale in (0.1, 1.0, 30.0):
        logits = torch.randn(3000, 37, generator=torch.Generator().manual_seed(0)) * scale
        labels = torch.zeros(3000, dtype=torch.int64)
        single, double = (sample_statistics(Predictions.from_logits(z, labels)) for z in (logits, logits.double()))
        for name in ("confidence", "nll", "brier", "entropy", "rank", "prediction"):
            assert torch.equal(getattr(single, name), getattr(double, name)), name
        expected = torch.softmax(logits.double(), dim=1).amax(dim=1)
        torch.testing.assert_close(single.confidence, expected, rtol=1e-14, atol=0)


def test_results_do_not_depend_on_how_rows_are_blocked(monkeypatch):
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(301, 23, generator=generator) * 5
    preds = Predictions.from_logits(logits, torch.randint(0, 23, (301,), generator=generator))
    whole = sample_statistics(preds)
    for values in (23, 23 * 7, 23 * 64):
        monkeypatch.setattr(module, "_BLOCK_VALUES", values)
        parts = sample_statistics(preds)
        for name in ("confidence", "nll", "brier", "entropy", "rank", "prediction"):
            assert torch.equal(getattr(whole, name), getattr(parts, name)), name


def test_blocks_carry_their_probabilities():
    preds = Predictions.from_logits(torch.randn(40, 5, generator=torch.Generator().manual_seed(2)), [0] * 40)
    found = [(stats, probs.clone()) for stats, probs in block_statistics(preds)]
    torch.testing.assert_close(torch.cat([probs for _, probs in found]), torch.softmax(preds.values.double(), dim=1))


def test_a_masked_class_costs_no_entropy_and_a_masked_label_everything():
    preds = Predictions.from_logits([[0.0, 0.0, -math.inf], [0.0, 0.0, -math.inf]], [0, 2])
    stats = sample_statistics(preds)
    assert stats.entropy.tolist() == pytest.approx([math.log(2)] * 2)
    assert stats.nll.tolist() == [pytest.approx(math.log(2)), math.inf]
    assert stats.brier.tolist() == pytest.approx([0.5, 1.5])
    assert stats.rank.tolist() == [0, 2]


def test_a_soft_label_on_a_masked_class_costs_everything_and_beside_it_nothing():
    logits = [[0.0, 0.0, -math.inf]] * 2
    stats = sample_statistics(Predictions.from_logits(logits, [[0.5, 0.5, 0.0], [0.5, 0.25, 0.25]]))
    assert stats.nll.tolist() == [pytest.approx(math.log(2)), math.inf]


def test_saturated_logits_keep_their_loss_and_their_brier_score():
    logits = torch.tensor([[0.0, 120.0], [25.0, 0.0]], dtype=torch.float32)
    stats = sample_statistics(Predictions.from_logits(logits, [0, 0]))
    assert stats.confidence.tolist() == [1.0, pytest.approx(1 - math.exp(-25), rel=1e-15)]
    assert stats.nll.tolist() == [120.0, pytest.approx(math.exp(-25), rel=1e-4)]
    assert stats.brier[0] == 2.0
    # 1 − 2p + Σp² would be 0 or 1e-7 here; the true value is 2 p².
    assert float(stats.brier[1]) == pytest.approx(math.exp(-50), rel=1e-5)
    assert bool((stats.entropy >= 0).all())


def test_a_large_offset_of_the_logits_does_no_harm():
    logits = torch.randn(50, 8, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    labels = torch.arange(50) % 8
    near, far = (sample_statistics(Predictions.from_logits(logits + shift, labels)) for shift in (0.0, 1e6))
    for name in ("nll", "entropy", "brier", "confidence"):
        torch.testing.assert_close(getattr(near, name), getattr(far, name), rtol=1e-8, atol=1e-8)


def test_nothing_wrong_leaves_nothing_to_rank():
    preds = Predictions.from_logits([[2.0, 1.0, 0.0]] * 3, [0, 0, 0])
    assert sample_statistics(preds).rank.tolist() == [0, 0, 0]


def test_equal_outputs_are_ranked_by_class():
    preds = Predictions.from_logits([[1.0, 3.0, 3.0, 3.0, 0.0]] * 5, [0, 1, 2, 3, 4])
    assert sample_statistics(preds).rank.tolist() == [3, 0, 1, 2, 4]


def test_a_store_joins_weights_or_none():
    for weights in (None, [1.0, 2.0, 3.0]):
        preds = Predictions.from_logits([[1.0, 0.0]] * 3, [0, 1, 0], weights=weights)
        store = StatisticsStore(5)
        for block in preds.blocks(2):
            store.add(sample_statistics(block))
        joined = store.join()
        assert len(joined) == 3
        # Weights are divided by a power of two near the largest.
        assert (joined.weight is None) if weights is None else joined.weight.tolist() == [0.5, 1.0, 1.5]


def test_what_is_not_predictions_gets_a_sentence():
    with pytest.raises(TypeError, match="A metric needs Predictions, not list"):
        sample_statistics([[0.5, 0.5]])


@pytest.mark.parametrize("classes", [2, 10, 32, 33, 100])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_few_and_many_classes_are_counted_alike(classes, dtype):
    """Few classes have a layout of their own; ties and infinities are where positions could go wrong."""
    source = torch.Generator().manual_seed(classes)
    logits = torch.randint(-3, 4, (300, classes), generator=source).to(dtype)  # hardly a row without a tie
    logits[::7, 0] = -torch.inf
    labels = torch.randint(0, classes, (300,), generator=source)
    stats = sample_statistics(Predictions.from_logits(logits, labels))
    exact = logits.double().softmax(1)
    of_label = logits.gather(1, labels[:, None])
    earlier = torch.arange(classes) < labels[:, None]
    assert stats.prediction.tolist() == logits.numpy().argmax(1).tolist()
    assert stats.rank.tolist() == ((logits > of_label) | ((logits == of_label) & earlier)).sum(1).tolist()
    torch.testing.assert_close(stats.confidence, exact.amax(1), rtol=1e-14, atol=0)
    torch.testing.assert_close(stats.nll, -exact.gather(1, labels[:, None])[:, 0].log(), rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(confidence_samples(Predictions.from_logits(logits, labels)).confidence, stats.confidence)


@pytest.mark.parametrize("classes", [2, 10, 40])
def test_a_row_has_the_same_bits_alone_and_in_a_block(classes):
    logits = 5 * torch.randn(100, classes, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(100) % classes
    whole = sample_statistics(Predictions.from_logits(logits, labels))
    for row in (0, 1, 57, 99):
        alone = sample_statistics(Predictions.from_logits(logits[row : row + 1], labels[row : row + 1]))
        for name in ("confidence", "nll", "brier", "entropy", "rank", "prediction"):
            assert getattr(alone, name)[0] == getattr(whole, name)[row], name
