"""AdaECE and smooth ECE of more samples than are kept, against those of all of them."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from focalcal.metrics import ada_ece
from focalcal.metrics.ranking import RankedSamples
from focalcal.metrics.samples import ConfidenceSamples
from focalcal.metrics.smooth import Residuals, residual_grid
from focalcal.metrics.streaming import sketch as module
from focalcal.metrics.streaming.sketch import ConfidenceSketch, KeptSamples, decode, encode
from focalcal.metrics.sums import Sums

N = 400_000


def uniform(seed, n=N):
    return torch.rand(n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def with_labels(confidence, probability, seed=1, weight=None):
    return ConfidenceSamples(confidence, uniform(seed, len(confidence)) < probability, weight)


def saturated():
    logits = torch.randn(N, 6, generator=torch.Generator().manual_seed(0)) * 30
    confidence = torch.softmax(logits, dim=1).amax(dim=1).double()
    assert 0.1 < float((confidence == 1).double().mean()) < 0.9
    return with_labels(confidence, confidence - 0.02 * (uniform(3) < 0.5))


def half_precision():
    logits = torch.randn(N, 2, generator=torch.Generator().manual_seed(0)).bfloat16()
    confidence = torch.softmax(logits.float(), dim=1).amax(dim=1).double()
    assert len(confidence.unique()) < N / 2
    return with_labels(confidence, confidence)


def right_ones_first():
    samples = with_labels(torch.full((N,), 0.7, dtype=torch.float64), 0.7)
    return ConfidenceSamples(samples.confidence, samples.correct.sort(descending=True).values, None)


# Calibrated throughout, so that gaps of either sign stand side by side and no error cancels.
DATA = {
    "uniform": lambda: with_labels(uniform(0), uniform(0)),
    "over-confident": lambda: with_labels(uniform(0), 0.8 * uniform(0)),
    "all equal": lambda: with_labels(torch.full((N,), 0.7, dtype=torch.float64), 0.7),
    "all equal, right ones first": right_ones_first,
    "two values": lambda: with_labels(0.7 + 0.3 * (uniform(0) < 0.4).double(), 0.7 + 0.299 * (uniform(0) < 0.4)),
    "a hundred values": lambda: with_labels((uniform(0) * 100).round() / 100, uniform(0)),
    "saturated": saturated,
    "bfloat16": half_precision,
    "within a billionth": lambda: with_labels(0.7 + 1e-9 * uniform(0), 0.7),
    "untrained": lambda: with_labels(0.5 + 1e-3 * uniform(0), 0.5),
    "ascending": lambda: with_labels(uniform(0).sort().values, uniform(0).sort().values),
    "weighted": lambda: with_labels(uniform(0), uniform(0), weight=uniform(5) ** 3),
    "weighted ties": lambda: with_labels((uniform(0) * 10).round() / 10, uniform(0), weight=uniform(5) ** 3),
}


def sketch_of(samples, bins=15, batch=30_000):
    sketch = ConfidenceSketch(bins)
    for start in range(0, len(samples), batch):
        part = slice(start, start + batch)
        weight = None if samples.weight is None else samples.weight[part]
        sketch.add(ConfidenceSamples(samples.confidence[part], samples.correct[part], weight))
    return sketch


def exact_ada_ece(samples, bins=15):
    return ada_ece(Sums(ranking=RankedSamples(samples).ranking(bins)))


def ada_ece_of(sketch):
    """The value and its bound."""
    value = ada_ece(Sums(ranking=sketch.ranking()))
    return value, sketch.bounds({"ada_ece": value})["ada_ece"]


def halves(samples):
    weight = (None, None) if samples.weight is None else samples.weight.chunk(2)
    parts = zip(samples.confidence.chunk(2), samples.correct.chunk(2), weight, strict=True)
    return [ConfidenceSamples(*part) for part in parts]


# Confidences that crowd in a cell without being equal: what lies before a cut in it is not known.
CROWDED = ("within a billionth", "untrained")


@pytest.mark.parametrize("name", DATA)
def test_ada_ece_is_within_its_bound_which_is_small_but_for_crowds(name):
    samples = DATA[name]()
    sketch = sketch_of(samples)
    assert sketch.cells is not None
    value, bound = ada_ece_of(sketch)
    assert abs(value - exact_ada_ece(samples)) <= bound
    assert name in CROWDED or bound <= (3e-4 if name == "bfloat16" else 1e-4)


@pytest.mark.parametrize("name", ["all equal", "two values", "a hundred values", "weighted ties"])
def test_ties_are_exact(name):
    samples = DATA[name]()
    value, bound = ada_ece_of(sketch_of(samples))
    assert value == pytest.approx(exact_ada_ece(samples), abs=1e-11)
    assert bound <= 3e-11


@pytest.mark.parametrize("name", DATA)
def test_merged_parts_give_what_the_whole_gives(name):
    samples = DATA[name]()
    first, second = (sketch_of(half) for half in halves(samples))
    first.merge(second)
    assert ada_ece_of(first) == pytest.approx(ada_ece_of(sketch_of(samples)), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("name", ["uniform", "saturated", "weighted ties"])
def test_smooth_ece_is_within_its_bound_which_is_below_1e_4(name):
    samples = DATA[name]()
    weight = torch.ones(N, dtype=torch.float64) if samples.weight is None else samples.weight
    residual = (samples.confidence - samples.correct.double()).abs() @ weight
    grid = residual_grid(samples.confidence, samples.correct, samples.weight, cells=2**19)
    exact, slack = Residuals(grid, weight.sum(), residual).solution
    value, bound = sketch_of(samples).residuals().solution
    assert abs(value - exact) <= bound + slack
    assert bound <= 1e-4


def test_up_to_the_number_that_is_kept_everything_is_exact():
    samples = with_labels((uniform(0, module.KEPT_SAMPLES) * 10).round() / 10, uniform(0, module.KEPT_SAMPLES))
    sketch = sketch_of(samples)
    assert sketch.cells is None
    assert ada_ece_of(sketch) == (exact_ada_ece(samples), 0.0)
    assert sketch.missing() == []
    sketch.add(ConfidenceSamples(samples.confidence[:1], samples.correct[:1], None))
    assert sketch.cells is not None
    assert sketch.missing() == ["debiased_ece"]


small = st.lists(
    st.tuples(st.sampled_from([0.3, 0.5, 0.500001, 1.0]), st.booleans(), st.sampled_from([1.0, 1.0, 0.5, 3.0, 0.0])),
    min_size=0,
    max_size=25,
)


def of_list(drawn, weighted):
    weight = torch.tensor([w for _, _, w in drawn], dtype=torch.float64) if weighted else None
    confidence = torch.tensor([c for c, _, _ in drawn], dtype=torch.float64)
    return ConfidenceSamples(confidence, torch.tensor([r for _, r, _ in drawn], dtype=torch.bool), weight)


def same_state(a, b):
    first, second = in_order(a.state_dict()), in_order(b.state_dict())
    assert first.keys() == second.keys()
    for name in first:
        torch.testing.assert_close(first[name], second[name], rtol=1e-12, atol=1e-12)


def in_order(state):
    """Kept samples have no order."""
    names = ("codes", "weights", "folds")
    rows = sorted(zip(*(state[name].tolist() for name in names), strict=True))
    return state | {name: torch.tensor([row[column] for row in rows]) for column, name in enumerate(names)}


@settings(deadline=None, max_examples=25)
@given(small, small, small, st.booleans(), st.sampled_from([4, 30, 200]))
def test_merging_does_not_depend_on_order(a, b, c, weighted, kept):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "KEPT_SAMPLES", kept)
        parts = [of_list(drawn, weighted) for drawn in (a, b, c)]

        def merged(*order):
            whole = ConfidenceSketch(4)
            for part in order:
                whole.merge(sketch_of(parts[part], bins=4, batch=3))
            return whole

        one, other = merged(0, 1, 2), merged(2, 0, 1)
        pair = sketch_of(parts[1], bins=4, batch=3)
        pair.merge(sketch_of(parts[2], bins=4, batch=3))
        pair.merge(sketch_of(parts[0], bins=4, batch=3))
        same_state(one, other)
        same_state(one, pair)
        if one.samples:
            assert ada_ece_of(one) == pytest.approx(ada_ece_of(other), rel=1e-9, abs=1e-12)


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(small, small, st.booleans(), st.sampled_from([1, 4, 10, 200]), st.integers(1, 6))
def test_bounds_hold_for_small_and_tied_data(a, b, weighted, kept, bins):
    both = of_list([*a, *b], weighted)
    if len(both) == 0 or (weighted and not bool((both.weight > 0).any())):
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "KEPT_SAMPLES", kept)
        stream = sketch_of(both, bins, batch=3)
        merged = sketch_of(of_list(a, weighted), bins)
        merged.merge(sketch_of(of_list(b, weighted), bins))
        exact = exact_ada_ece(both, bins)
        for value, bound in (ada_ece_of(stream), ada_ece_of(merged)):
            assert abs(value - exact) <= bound + 1e-12


def test_adding_after_a_merge_goes_on():
    samples = DATA["a hundred values"]()
    first, second = halves(samples)
    sketch = sketch_of(first)
    sketch.merge(sketch_of(ConfidenceSamples(second.confidence[:10], second.correct[:10], None)))
    sketch.add(ConfidenceSamples(second.confidence[10:], second.correct[10:], None))
    value, bound = ada_ece_of(sketch)
    assert sketch.samples == N
    assert abs(value - exact_ada_ece(samples)) <= bound


@pytest.mark.slow
def test_the_state_does_not_grow_with_the_samples():
    def size(name, n):
        samples = DATA[name]()
        sketch = ConfidenceSketch(15)
        for _ in range(n // N):
            sketch.add(samples)
        return sum(part.numel() * part.element_size() for part in sketch.state_dict().values())

    for name in ("all equal", "bfloat16"):
        assert size(name, 2 * N) < 10e6
        assert size(name, 5 * N) < 10e6


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=20))
def test_codes_keep_samples_and_their_order(samples):
    confidence = torch.tensor([c for c, _ in samples], dtype=torch.float64)
    correct = torch.tensor([r for _, r in samples])
    codes = encode(confidence, correct)
    assert bool((codes > 0).all())
    back = decode(codes)
    assert torch.equal(back[0], confidence.abs())
    assert torch.equal(back[1], correct)
    assert torch.equal(decode(codes.sort().values)[0], confidence.sort().values)


def test_kept_samples_drop_what_has_no_weight():
    kept = KeptSamples()
    confidence, weight = torch.tensor([[0.5, 0.25], [0.0, 2.0]], dtype=torch.float64)
    kept.add(encode(confidence, torch.tensor([True, False])), weight, torch.tensor([0, 3]))
    assert len(kept) == 1
    assert kept.samples().confidence.tolist() == [0.25]
    assert kept.samples().weight.tolist() == [2.0]
    assert kept.columns()[2].tolist() == [3]
