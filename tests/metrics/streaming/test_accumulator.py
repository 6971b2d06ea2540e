import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load, save

from focalcal.metrics.catalogue import METRICS
from focalcal.metrics.evaluating import evaluate
from focalcal.metrics.streaming import sketch
from focalcal.metrics.streaming.accumulator import Accumulator
from focalcal.predictions import Predictions
from oracles import metrics as oracle

PARTS_OF_LOSSES = {"nll_calibration", "nll_refinement", "brier_calibration", "brier_refinement"}


def accumulated(preds, rows=7, bins=15):
    accumulator = Accumulator(preds.num_classes, bins=bins)
    for block in preds.blocks(rows):
        accumulator.update(**{preds.kind: block.values}, labels=block.labels, weights=block.weights)
    return accumulator


def random_predictions(n=2000, num_classes=8, seed=0, weighted=False, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(n, num_classes, generator=generator) * 2
    labels = (logits + torch.randn(n, num_classes, generator=generator) * 2).argmax(dim=1)
    weights = torch.rand(n, generator=generator).double() if weighted else None
    return Predictions.from_logits(logits.to(dtype), labels, weights=weights)


def assert_same(one, other, rel=1e-12):
    assert one.keys() == other.keys()
    for name in one:
        assert one[name] == pytest.approx(other[name], rel=rel, abs=1e-15, nan_ok=True), name


@pytest.mark.slow
@settings(deadline=None, max_examples=50)
@given(oracle.logit_predictions(), st.integers(1, 12), st.integers(1, 9))
def test_batches_give_what_the_formulas_give(preds, bins, rows):
    values = accumulated(preds, rows, bins).compute().values
    for name, expected in oracle.all_metrics(preds, bins).items():
        if name == "nll":
            expected = evaluate(preds, metrics=["nll"], bins=bins, bootstrap=0).values["nll"]
        assert values[name] == pytest.approx(expected, rel=1e-9, abs=1e-12, nan_ok=True), name


@pytest.mark.parametrize("weighted", [False, True])
def test_a_stream_gives_what_evaluate_gives(weighted):
    preds = random_predictions(weighted=weighted)
    whole, stream = evaluate(preds, bootstrap=0), accumulated(preds, rows=97).compute()
    assert set(whole.values) - set(stream.values) == PARTS_OF_LOSSES
    assert_same({name: whole.values[name] for name in stream.values}, dict(stream.values))
    assert stream.bounds["ada_ece"] == 0.0
    assert stream.n == whole.n == 2000


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kept", [100, 2**17])
def test_merging_in_any_order_gives_the_same(weighted, kept, monkeypatch):
    monkeypatch.setattr(sketch, "KEPT_SAMPLES", kept)
    preds = random_predictions(weighted=weighted)
    parts = [accumulated(block, rows=61) for block in preds.blocks(500)]
    states, values = [], []
    for order in itertools.permutations(range(4)):
        merged = Accumulator(8)
        for part in order:
            merged.merge(parts[part])
        states.append(merged.state_dict())
        values.append(merged.compute().values)
    nested = accumulated(preds.select(range(500)), rows=61).merge(accumulated(preds.select(range(500, 1000)), rows=61))
    other = accumulated(preds.select(range(1000, 1500)), rows=61).merge(
        accumulated(preds.select(range(1500, 2000)), 61)
    )
    states.append(nested.merge(other).state_dict())
    values.append(nested.compute().values)
    for state, value in zip(states, values, strict=True):
        assert_same(dict(values[0]), dict(value))
        for name, part in state.items():
            if name not in ("sketch.codes", "sketch.weights", "sketch.folds"):  # kept samples have no order
                torch.testing.assert_close(part, states[0][name], rtol=1e-12, atol=1e-12)


def test_merged_parts_give_what_one_stream_gives():
    preds = random_predictions()
    merged = Accumulator(8)
    for block in preds.blocks(300):
        merged.merge(accumulated(block))
    assert_same(dict(merged.compute().values), dict(accumulated(preds, rows=300).compute().values))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kept", [100, 2**17])
def test_parts_that_know_their_place_have_the_intervals_of_the_whole(weighted, kept, monkeypatch):
    monkeypatch.setattr(sketch, "KEPT_SAMPLES", kept)
    preds = random_predictions(weighted=weighted)
    whole, merged, start = accumulated(preds, rows=300).compute(), Accumulator(8), 0
    for block in preds.blocks(333):
        part = Accumulator(8, first_row=start)
        part.add(block)
        merged.merge(part)
        start += len(block)
    found = merged.compute()
    assert set(found.intervals) >= {"ece", "ada_ece", "classwise_ece", "mce", "ks_error", "smooth_ece"}
    for name, ends in found.intervals.items():
        assert ends == pytest.approx(whole.intervals[name], abs=1e-9), name
        assert ends[0] <= found.values[name] <= ends[1]
    assert found.calibration_test.p_value == whole.calibration_test.p_value


@pytest.mark.parametrize("weighted", [False, True])
def test_a_stream_has_the_intervals_of_predictions_at_hand(weighted):
    preds = random_predictions(weighted=weighted)
    expected, found = evaluate(preds, method="honest"), accumulated(preds, rows=97).compute()
    for name in ("ece", "ada_ece", "debiased_ece", "mce", "ks_error", "smooth_ece"):
        assert found.intervals[name] == pytest.approx(expected.intervals[name], abs=1e-9), name
    means = [name for name in found.intervals if METRICS[name].source == "means"]
    methods = dict.fromkeys(found.intervals, "honest") | dict.fromkeys(means, "normal")
    assert found.methods == methods
    assert set(found.intervals) == set(found.values) - {"ece_floor"}


def test_only_some_metrics_of_a_stream():
    found = accumulated(random_predictions()).compute(["ece", "error"])
    assert (list(found.values), list(found.intervals)) == (["ece", "error"], ["ece", "error"])
    assert accumulated(random_predictions()).compute(["ece"], intervals=False).intervals == {}
    with pytest.raises(ValueError, match="There is no metric 'nll_refinement'"):
        accumulated(random_predictions()).compute(["nll_refinement"])


def test_very_many_classes_have_no_sums_per_fold():
    accumulator = Accumulator(5000)
    accumulator.update(logits=torch.zeros(3, 5000), labels=[0, 1, 2])
    found = accumulator.compute()
    assert "classwise_ece" in found.values
    assert "classwise_ece" not in found.intervals


@pytest.mark.slow
def test_merging_leaves_the_other_as_it_was():
    a, b = accumulated(random_predictions(seed=0)), accumulated(random_predictions(seed=1))
    before = {name: part.clone() for name, part in b.state_dict().items()}
    a.merge(b)
    a.update(logits=torch.zeros(3, 8), labels=[0, 1, 2])
    assert all(torch.equal(before[name], part) for name, part in b.state_dict().items())


@pytest.mark.parametrize("kept", [100, 2**17])
def test_a_saved_state_goes_on_where_it_was(kept, monkeypatch):
    monkeypatch.setattr(sketch, "KEPT_SAMPLES", kept)
    first, second = random_predictions(seed=0).blocks(1000)
    half = accumulated(first, rows=50)
    resumed = Accumulator(8)
    resumed.load_state_dict(load(save(half.state_dict())))
    for accumulator in (half, resumed):
        accumulator.update(logits=second.values, labels=second.labels)
    assert resumed.samples == 2000
    assert dict(resumed.compute().values) == dict(half.compute().values)
    assert resumed.compute().bounds == half.compute().bounds


def test_a_state_of_another_shape_is_refused():
    state = Accumulator(8).state_dict()
    with pytest.raises(ValueError, match="8 classes and 15 bins, this one 9 and 15"):
        Accumulator(9).load_state_dict(state)
    with pytest.raises(ValueError, match="no entry 'sums'"):
        Accumulator(8).load_state_dict({name: part for name, part in state.items() if name != "sums"})
    with pytest.raises(ValueError, match="counts are not those"):
        Accumulator(8).load_state_dict(state | {"counts": state["counts"][1:]})


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_any_float_type_in_torch_or_numpy(dtype):
    preds = random_predictions(200)
    logits = preds.values.to(dtype)
    accumulator = Accumulator(8)
    accumulator.update(logits=logits, labels=preds.labels.to(torch.int32))
    raised = logits if dtype == torch.float64 else logits.float()
    expected = evaluate(Predictions.from_logits(raised, preds.labels), bootstrap=0)
    found = accumulator.compute().values
    assert_same({name: expected.values[name] for name in found}, dict(found))
    if dtype != torch.bfloat16:
        again = Accumulator(8)
        again.update(logits=logits.numpy(), labels=preds.labels.numpy())
        assert dict(again.compute().values) == dict(found)


@pytest.mark.slow
def test_outputs_with_positions_and_ignored_labels():
    logits = torch.randn(4, 3, 5, 6, generator=torch.Generator().manual_seed(0))
    labels = torch.randint(0, 3, (4, 5, 6), generator=torch.Generator().manual_seed(1))
    labels[0] = -100
    accumulator = Accumulator(3)
    accumulator.update(logits=logits, labels=labels)
    accumulator.update(logits=logits[:1], labels=labels[:1])  # nothing but ignored positions
    flat = Predictions.from_logits(logits, labels)
    assert accumulator.samples == len(flat) == 90
    found = accumulator.compute().values
    assert_same({name: evaluate(flat, bootstrap=0).values[name] for name in found}, dict(found))


def test_soft_labels_count_in_the_proper_scores():
    generator = torch.Generator().manual_seed(0)
    logits, counts = torch.randn(60, 4, generator=generator), torch.randint(0, 5, (60, 4), generator=generator) + 1
    accumulator = Accumulator(4)
    accumulator.update(logits=logits, labels=counts.double() / counts.sum(1, keepdim=True))
    expected = evaluate(
        Predictions.from_logits(logits, counts, labels_are="counts"), metrics=["nll", "brier", "error"], bootstrap=0
    )
    found = accumulator.compute().values
    assert_same({name: found[name] for name in expected.values}, dict(expected.values))


def test_weighted_and_unweighted_batches_mix():
    preds = random_predictions(100)
    mixed, all_weighted = Accumulator(8), Accumulator(8)
    weights = torch.rand(50, generator=torch.Generator().manual_seed(9)).double()
    mixed.update(logits=preds.values[:50], labels=preds.labels[:50])
    mixed.update(logits=preds.values[50:], labels=preds.labels[50:], weights=weights)
    once = torch.cat([torch.ones(50, dtype=torch.float64), weights])
    all_weighted.update(logits=preds.values, labels=preds.labels, weights=once)
    assert_same(dict(mixed.compute().values), dict(all_weighted.compute().values), rel=1e-9)


def test_a_refused_batch_changes_nothing():
    accumulator = accumulated(random_predictions(50))
    before = accumulator.state_dict()
    bad = torch.randn(3, 8)
    bad[1, 2] = math.nan
    with pytest.raises(ValueError, match="row 1 hold NaN"):
        accumulator.update(logits=bad, labels=[0, 1, 2])
    with pytest.raises(ValueError, match="sum to"):
        accumulator.update(probs=torch.full((2, 8), 0.5), labels=[0, 1])
    with pytest.raises(ValueError, match="The outputs have 3 classes, the accumulator has 8"):
        accumulator.update(logits=torch.zeros(2, 3), labels=[0, 1])
    with pytest.raises(ValueError, match="8 classes"):
        accumulator.update(logits=torch.zeros(2, 8), labels=[0, 8])
    assert all(torch.equal(before[name], part) for name, part in accumulator.state_dict().items())


@pytest.mark.parametrize("given", [{}, {"logits": np.zeros((1, 2)), "probs": np.full((1, 2), 0.5)}])
def test_either_logits_or_probs_must_be_named(given):
    with pytest.raises(ValueError, match="either logits or probs"):
        Accumulator(2).update(**given, labels=[0])


def test_nothing_added_is_nothing_to_compute():
    accumulator = Accumulator(2)
    with pytest.raises(ValueError, match="Nothing has been added"):
        accumulator.compute()
    accumulator.update(logits=[[1.0, 0.0]], labels=[0], weights=[0.0])
    with pytest.raises(ValueError, match="Nothing has been added"):
        accumulator.compute()
    accumulator.update(logits=[[1.0, 0.0]], labels=[0])
    assert accumulator.compute().n == 1
    accumulator.reset()
    assert accumulator.samples == 0


def test_merging_what_does_not_fit_is_refused():
    accumulator = Accumulator(3)
    with pytest.raises(ValueError, match="4 classes and 15 bins, this one 3 and 15"):
        accumulator.merge(Accumulator(4))
    with pytest.raises(ValueError, match="with itself"):
        accumulator.merge(accumulator)


@pytest.mark.parametrize("num_classes", [1, 0, 2.0, True])
def test_a_number_of_classes_that_is_none_is_refused(num_classes):
    with pytest.raises(ValueError, match="num_classes"):
        Accumulator(num_classes)


def test_computing_in_between_does_not_disturb(monkeypatch):
    monkeypatch.setattr(sketch, "KEPT_SAMPLES", 100)
    preds = random_predictions(400)
    asked, quiet = Accumulator(8), Accumulator(8)
    for block in preds.blocks(50):
        for accumulator in (asked, quiet):
            accumulator.update(logits=block.values, labels=block.labels)
        asked.compute()
        asked.state_dict()
    first, second = asked.compute(), quiet.compute()
    assert_same(dict(first.values), dict(second.values), rel=1e-11)


@pytest.mark.parametrize("extreme", [5e-324, 1e-300, 1e300, 1e308])
def test_weights_of_any_size_give_what_weights_of_1_give(extreme):
    preds = random_predictions(120)
    expected = evaluate(preds, bootstrap=0).values
    weights = torch.full((120,), extreme, dtype=torch.float64)
    extreme_preds = Predictions.from_logits(preds.values, preds.labels, weights=weights)
    assert_same(dict(evaluate(extreme_preds, bootstrap=0).values), dict(expected), rel=1e-11)
    found = accumulated(extreme_preds, rows=50).compute().values
    assert_same(dict(found), {name: expected[name] for name in found}, rel=1e-11)


@pytest.mark.parametrize("kept", [50, 2**17])
def test_a_larger_weight_that_comes_later_counts_as_it_would_first(kept, monkeypatch):
    monkeypatch.setattr(sketch, "KEPT_SAMPLES", kept)
    preds = random_predictions(200)
    weights = 2.0 ** torch.arange(200).double().div(20).floor()
    grows = Predictions.from_logits(preds.values, preds.labels, weights=weights)
    back = grows.select(torch.arange(200).flip(0))
    streams = [accumulated(grows, rows=30), accumulated(back, rows=30)]
    streams.append(accumulated(grows.select(range(90)), 30).merge(accumulated(grows.select(range(90, 200)), 30)))
    streams.append(accumulated(grows.select(range(90, 200)), 30).merge(accumulated(grows.select(range(90)), 30)))
    first = streams[0].compute().values
    for stream in streams[1:]:
        assert_same(dict(stream.compute().values), dict(first), rel=1e-11)
    expected = evaluate(grows, bootstrap=0).values
    exact = [name for name in first if name not in streams[0].compute().bounds]
    assert_same({name: first[name] for name in exact}, {name: expected[name] for name in exact}, rel=1e-11)
