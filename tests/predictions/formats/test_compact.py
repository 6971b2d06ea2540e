"""The compact form: what it keeps, what it rounds, and what it refuses."""

import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file

from focalcal.metrics import error
from focalcal.predictions import Predictions, open_predictions
from oracles.predictions import any_predictions, same

# The same folder serves all examples: each writes its file again.
many_examples = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


def _moved(logits: torch.Tensor) -> torch.Tensor:
    return logits - logits.amax(dim=1, keepdim=True)


@many_examples
@given(preds=any_predictions(), values=st.sampled_from(["float16", "float32"]), rows=st.integers(1, 4))
def test_everything_but_the_ids_and_the_rounding_comes_back(tmp_path, preds, values, rows):
    path = tmp_path / "preds.safetensors"
    try:
        preds.save(path, compact=values)
    except ValueError as refused:
        assume("small probabilities" not in str(refused))
        rounded = (_moved(preds.values) if preds.kind == "logits" else preds.values).to(getattr(torch, values))
        assert (rounded.isinf() & preds.values.isfinite()).any() or ((rounded == 0) & (preds.values > 0)).any()
        return
    loaded = Predictions.load(path)
    expected = _moved(preds.values) if preds.kind == "logits" else preds.values
    assert loaded.values.dtype == torch.float32
    assert torch.equal(loaded.values, expected.to(getattr(torch, values)).float())
    assert torch.equal(loaded.values.isneginf(), preds.values.isneginf())
    assert loaded.has_labels == preds.has_labels
    assert not preds.has_labels or loaded.labels.dtype == preds.labels.dtype
    assert not preds.has_labels or torch.equal(loaded.labels, preds.labels)
    assert (loaded.weights is None) == (preds.weights is None)
    assert preds.weights is None or torch.equal(loaded.weights, preds.weights)
    described = ("kind", "of", "split", "class_names", "masked_classes", "provenance")
    assert all(getattr(loaded, name) == getattr(preds, name) for name in described)
    assert loaded.ids is None
    assert len(next(open_predictions(path).blocks(rows))) == min(rows, len(preds))
    first = path.read_bytes()
    loaded.save(path, compact=values)
    assert path.read_bytes() == first
    assert same(Predictions.load(path), loaded)


@pytest.mark.parametrize(
    ("classes", "label", "dtype"),
    [
        (2, 1, torch.uint8),
        (256, 255, torch.uint8),
        (257, 256, torch.int16),
        (32_769, 32_768, torch.int32),
    ],
)
def test_labels_have_the_smallest_type(tmp_path, classes, label, dtype):
    path = tmp_path / "preds.safetensors"
    Predictions.from_logits(torch.zeros(2, classes), [0, label]).save(path, compact="float16")
    stored = load_file(path)
    assert (stored["logits"].dtype, stored["labels"].dtype) == (torch.float16, dtype)
    loaded = Predictions.load(path)
    assert loaded.labels.tolist() == [0, label]
    assert loaded.labels.dtype == torch.int64


def test_soft_labels_and_weights_are_not_rounded(tmp_path):
    path = tmp_path / "preds.safetensors"
    soft, weights = torch.tensor([[0.1, 0.9], [1 / 3, 2 / 3]], dtype=torch.float64), [0.1, 1 / 7]
    preds = Predictions.from_logits(torch.tensor([[1.0, 2.0], [0.5, 0.25]]), soft, weights=weights)
    preds.save(path, compact="float16")
    loaded = Predictions.load(path)
    assert torch.equal(loaded.labels, soft)
    assert loaded.weights.tolist() == weights


def test_masked_classes_stay_masked(tmp_path):
    path = tmp_path / "preds.safetensors"
    logits = torch.tensor([[1.0, 30.0, 2.0], [0.5, -torch.inf, 0.25]])
    Predictions.from_logits(logits, [0, 2], masked_classes=[1]).save(path, compact="float16")
    loaded = Predictions.load(path)
    assert loaded.masked_classes == (1,)
    assert loaded.values.isneginf().tolist() == [[False, False, False], [False, True, False]]
    assert error(loaded) == 1.0


def test_16_bits_never_change_who_is_largest(tmp_path):
    """Logits near 1000 are half a unit apart in float16: rounded as they are, most rows would have two largest."""
    path = tmp_path / "preds.safetensors"
    generator = torch.Generator().manual_seed(0)
    logits = 1000 + torch.randn(2000, 10, generator=generator)
    preds = Predictions.from_logits(logits, torch.randint(0, 10, (2000,), generator=generator))
    preds.save(path, compact="float16")
    loaded = Predictions.load(path)
    assert torch.equal(loaded.values.argmax(1), logits.argmax(1))
    assert not torch.equal(logits.half().float().argmax(1), logits.argmax(1))
    assert float((loaded.probs() - preds.probs()).abs().max()) < 5e-4


def test_a_compact_file_is_a_quarter_of_the_usual_one(tmp_path):
    preds = Predictions.from_logits(torch.randn(1000, 10), torch.zeros(1000, dtype=torch.int64), ids=range(1000))
    preds.save(tmp_path / "usual.safetensors")
    preds.save(tmp_path / "compact.safetensors", compact="float16")
    sizes = {name: (tmp_path / f"{name}.safetensors").stat().st_size for name in ("usual", "compact")}
    assert 21_000 <= sizes["compact"] < 21_500 < sizes["usual"] // 2


@pytest.mark.parametrize(
    ("preds", "name", "compact", "sentence"),
    [
        (Predictions.from_logits([[0.0, 1.0]], [0]), "a.safetensors", "int8", "compact must be 'float16' or 'float32'"),
        (Predictions.from_logits([[0.0, 1.0]], [0]), "a.npz", "float16", "only .safetensors has that form"),
        (Predictions.from_probs([[0.5, 0.5]], [0]), "a.safetensors", "float16", "small probabilities into 0"),
        (Predictions.from_probs([[1.0, 1e-60]], [0]), "a.safetensors", "float32", "class 1 in row 0 is so small"),
        (Predictions.from_logits([[0.0, -7e4]], [0]), "a.safetensors", "float16", "class 1 in row 0 lies so far below"),
    ],
)
def test_what_cannot_be_compact_is_refused_and_nothing_written(tmp_path, preds, name, compact, sentence):
    with pytest.raises(ValueError, match=sentence) as refused:
        preds.save(tmp_path / name, compact=compact)
    assert "\n" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_other_readers_find_plain_tensors(tmp_path):
    path = tmp_path / "preds.safetensors"
    Predictions.from_logits([[3.0, 1.0]], [1], split="val", ids=["x"]).save(path, compact="float16")
    stored = load_file(path)
    assert sorted(stored) == ["labels", "logits"]
    assert stored["logits"].tolist() == [[0.0, -2.0]]


def test_a_tiny_difference_is_plain_zero(tmp_path):
    """Hypothesis found −0.0 here, which became 0.0, so other bytes, when the file was saved again."""
    path = tmp_path / "p.safetensors"
    Predictions.from_logits(torch.tensor([[0.0, 4.4463e-150]], dtype=torch.float64), [0]).save(path, compact="float16")
    first = path.read_bytes()
    loaded = Predictions.load(path)
    assert not loaded.values.signbit().any()
    loaded.save(path, compact="float16")
    assert path.read_bytes() == first
