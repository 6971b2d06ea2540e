import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from focalcal.metrics import ada_ece, class_table, classwise_ece, ece, mce
from focalcal.predictions import Predictions
from oracles import metrics as oracle

quick = settings(deadline=None, max_examples=50)
FUNCTIONS = {"ece": ece, "mce": mce, "ada_ece": ada_ece, "classwise_ece": classwise_ece}


def check(preds, bins, tolerance=1e-12):
    samples = oracle.samples_of(preds)
    for name, function in FUNCTIONS.items():
        assert function(preds, bins=bins) == pytest.approx(getattr(oracle, name)(samples, bins), abs=tolerance), name


@quick
@given(oracle.logit_predictions(), st.integers(1, 20))
def test_errors_are_those_of_the_formulas(preds, bins):
    check(preds, bins)


@quick
@given(st.data(), st.integers(1, 20))
def test_errors_on_edges_of_bins(data, bins):
    rows, labels, weights = data.draw(oracle.edge_predictions(bins))
    check(Predictions.from_probs(rows, labels, weights=weights), bins)


@quick
@given(st.data(), st.integers(2, 20))
def test_errors_on_edges_of_bins_in_float32(data, bins):
    rows, labels, weights = data.draw(oracle.edge_predictions(bins, dtype=np.float32))
    check(Predictions.from_probs(np.array(rows, dtype=np.float32), labels, weights=weights), bins)


def test_a_thousand_classes():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(60, 1000, generator=generator, dtype=torch.float64) * 4
    check(Predictions.from_logits(logits, torch.randint(0, 1000, (60,), generator=generator)), 15)


@pytest.mark.parametrize("n", [1, 2, 14, 15, 16])
def test_fewer_samples_than_bins_give_numbers(n):
    generator = torch.Generator().manual_seed(n)
    check(Predictions.from_logits(torch.randn(n, 3, generator=generator).double(), torch.arange(n) % 3), 15)


def test_one_sample():
    preds = Predictions.from_probs([[0.75, 0.25]], [0])
    assert [function(preds) for function in FUNCTIONS.values()] == [0.25] * 4


def test_a_class_that_no_label_names_still_counts():
    probs = [[0.5, 0.25, 0.25], [0.25, 0.5, 0.25]]
    # Class 2 is never the label but is said to have 0.25 each time; the others sum to 0.75 where one label is theirs.
    gaps = (0.75 - 1) / -2 + (0.75 - 1) / -2 + 0.5 / 2
    assert classwise_ece(Predictions.from_probs(probs, [0, 1]), bins=2) == pytest.approx(gaps / 3)
    with_four = Predictions.from_probs([[*row, 0.0] for row in probs], [0, 1])
    assert classwise_ece(with_four, bins=2) == pytest.approx(gaps / 4)


def test_ties_in_adaece_are_shared_whatever_their_order():
    for labels in ([0, 0, 1, 1], [0, 1, 0, 1], [1, 1, 0, 0]):
        assert ada_ece(Predictions.from_probs([[0.75, 0.25]] * 4, labels), bins=2) == 0.25


@quick
@given(oracle.logit_predictions(), st.integers(1, 20), st.randoms(use_true_random=False))
def test_the_order_of_the_rows_does_not_matter(preds, bins, random):
    shuffled = preds.select(random.sample(range(len(preds)), len(preds)))
    for function in FUNCTIONS.values():
        assert function(preds, bins=bins) == pytest.approx(function(shuffled, bins=bins), abs=1e-13)


def test_scaling_weights_changes_nothing():
    generator = torch.Generator().manual_seed(5)
    logits, weights = torch.randn(40, 4, generator=generator), torch.rand(40, generator=generator)
    one, other = (Predictions.from_logits(logits, torch.arange(40) % 4, weights=weights * f) for f in (1.0, 8.0))
    for function in FUNCTIONS.values():
        assert function(one) == pytest.approx(function(other), rel=1e-12)


def test_soft_labels_count_as_their_most_probable_class():
    logits = torch.randn(30, 3, generator=torch.Generator().manual_seed(6)).double()
    hard = torch.arange(30) % 3
    soft = torch.nn.functional.one_hot(hard, 3) * 0.4 + 0.2
    for function in FUNCTIONS.values():
        hard_value, soft_value = (function(Predictions.from_logits(logits, labels)) for labels in (hard, soft))
        assert hard_value == soft_value


@pytest.mark.parametrize("weighted", [False, True])
def test_class_table_holds_every_sample_once_per_class(weighted):
    generator = torch.Generator().manual_seed(7)
    logits, labels = torch.randn(500, 6, generator=generator) * 2, torch.randint(0, 6, (500,), generator=generator)
    weights = 1 + torch.rand(500, generator=generator).double() if weighted else None
    preds = Predictions.from_logits(logits, labels, weights=weights)
    table = class_table(preds, bins=10)
    once = torch.ones(500, dtype=torch.float64) if weights is None else weights
    probs = torch.softmax(logits.double(), dim=1)
    assert table.count.shape == (6, 10)
    assert table.count.dtype == (torch.float64 if weighted else torch.int64)
    for k in range(6):
        index = [oracle.bin_of(p, 10) for p in probs[:, k].tolist()]
        for m in range(10):
            inside = torch.tensor([i == m for i in index])
            assert float(table.count[k, m]) == pytest.approx(float(once[inside].sum()), abs=1e-9)
            assert float(table.confidence[k, m]) == pytest.approx(float(probs[inside, k] @ once[inside]), abs=1e-9)
            assert float(table.label[k, m]) == pytest.approx(float(once[inside & (labels == k)].sum()), abs=1e-9)
