"""``linear_focal_loss`` against ``focal_loss`` of the layer's logits: values, gradients, memory, refusals."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

import focalcal as fc

POLICIES = [0.0, 1.0, 2.5, fc.SampleGamma.flsd53(), fc.FixedGamma(3.0)]


def layer(rows=11, width=5, classes=7, seed=0, dtype=torch.float64, scale=1.5, ignored=()):
    generator = torch.Generator().manual_seed(seed)
    hidden, weight, bias = (
        (scale * torch.randn(shape, generator=generator, dtype=torch.float64)).to(dtype).requires_grad_()
        for shape in ((rows, width), (classes, width), (classes,))
    )
    target = torch.randint(classes, (rows,), generator=generator)
    target[list(ignored)] = -100
    return hidden, weight, bias, target


def unfused(hidden, weight, target, gamma, bias=None, **options):
    return fc.focal_loss(
        functional.linear(hidden, weight, bias).movedim(-1, min(1, hidden.dim() - 1)), target, gamma, **options
    )


def gradients(loss, inputs):
    upstream = torch.linspace(0.5, 2.0, loss.numel(), dtype=loss.dtype).reshape(loss.shape)
    return torch.autograd.grad(loss, inputs, upstream)


@settings(max_examples=60, deadline=None)
@given(
    rows=st.integers(1, 20),
    classes=st.integers(2, 9),
    chunk=st.integers(1, 25) | st.none(),
    seed=st.integers(0, 2**20),
    gamma=st.sampled_from(POLICIES),
    smoothing=st.sampled_from([0.0, 0.1, 1.0]),
    reduction=st.sampled_from(["mean", "sum", "none"]),
    has_bias=st.booleans(),
    ignores=st.booleans(),
)
def test_loss_and_gradients_are_those_of_the_unfused_way(
    rows, classes, chunk, seed, gamma, smoothing, reduction, has_bias, ignores
):
    ignored = range(0, rows - 1, 3) if ignores else ()
    hidden, weight, bias, target = layer(rows, 4, classes, seed, ignored=ignored)
    options = {"label_smoothing": smoothing, "reduction": reduction, "bias": bias if has_bias else None}
    fused = fc.linear_focal_loss(hidden, weight, target, gamma, chunk_rows=chunk, **options)
    plain = unfused(hidden, weight, target, gamma, **options)
    torch.testing.assert_close(fused, plain, atol=1e-10, rtol=1e-10)
    inputs = [hidden, weight, *([bias] if has_bias else [])]
    for ours, theirs in zip(gradients(fused, inputs), gradients(plain, inputs), strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-7, rtol=1e-7)


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_in_single_precision_it_agrees_to_1e_5(reduction):
    hidden, weight, bias, target = layer(200, 64, 3000, dtype=torch.float32, scale=0.3)
    fused = fc.linear_focal_loss(hidden, weight, target, 1.0, bias=bias, reduction=reduction, chunk_rows=37)
    plain = unfused(hidden, weight, target, 1.0, bias=bias, reduction=reduction)
    torch.testing.assert_close(fused, plain, atol=1e-5, rtol=1e-5)
    for ours, theirs in zip(
        gradients(fused, (hidden, weight, bias)), gradients(plain, (hidden, weight, bias)), strict=True
    ):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


def test_hidden_may_have_any_shape():
    hidden, weight, _, target = layer(12)
    flat = fc.linear_focal_loss(hidden, weight, target, 2.0, reduction="none")
    shaped = fc.linear_focal_loss(hidden.reshape(3, 4, 5), weight, target.reshape(3, 4), 2.0, reduction="none")
    assert shaped.shape == (3, 4)
    torch.testing.assert_close(shaped.flatten(), flat)
    assert fc.linear_focal_loss(hidden[0], weight, target[0], 2.0).shape == ()


def test_a_batch_in_which_all_is_ignored_has_loss_nan_and_gradient_zero():
    hidden, weight, _, target = layer(4, ignored=range(4))
    loss = fc.linear_focal_loss(hidden, weight, target, 1.0)
    assert loss.isnan()
    assert all((one == 0).all() for one in torch.autograd.grad(loss, (hidden, weight)))
    assert fc.linear_focal_loss(hidden, weight, target, 1.0, reduction="sum") == 0


def test_no_rows_are_no_problem():
    hidden, weight, _, target = layer(0)
    assert fc.linear_focal_loss(hidden, weight, target, 1.0, reduction="sum") == 0
    assert fc.linear_focal_loss(hidden, weight, target, 1.0, reduction="none").shape == (0,)


def test_only_what_needs_a_gradient_gets_one():
    hidden, weight, bias, target = layer()
    fc.linear_focal_loss(hidden.detach(), weight, target, 1.0, bias=bias.detach()).backward()
    assert hidden.grad is None
    assert weight.grad is not None
    assert bias.grad is None
    with torch.no_grad():
        assert not fc.linear_focal_loss(hidden, weight, target, 1.0).requires_grad


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_second_derivatives(reduction):
    hidden, weight, bias, target = layer(3, 2, 4)

    def loss(h, w, b):
        return fc.linear_focal_loss(h, w, target, 2.0, bias=b, reduction=reduction)

    assert torch.autograd.gradgradcheck(loss, (hidden, weight, bias))


def test_it_can_be_transformed_and_traced():
    hidden, weight, _, target = layer()
    one = torch.func.grad(lambda h: fc.linear_focal_loss(h, weight.detach(), target, 1.0))(hidden.detach())
    (other,) = torch.autograd.grad(fc.linear_focal_loss(hidden, weight, target, 1.0), hidden)
    torch.testing.assert_close(one, other)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_raised_before_the_softmax(dtype):
    hidden, weight, _, target = layer(50, 16, 40, dtype=dtype, scale=0.5)
    loss = fc.linear_focal_loss(hidden, weight, target, 1.0, chunk_rows=8)
    logits = functional.linear(hidden, weight).detach()
    torch.testing.assert_close(loss.double(), fc.focal_loss(logits.double(), target, 1.0), atol=1e-2, rtol=1e-2)
    assert [one.dtype for one in torch.autograd.grad(loss, (hidden, weight))] == [dtype, dtype]


def test_under_autocast_products_are_in_its_type_and_the_loss_in_float32():
    hidden, weight, _, target = layer(50, 16, 40, dtype=torch.float32, scale=0.5)
    exact = fc.linear_focal_loss(hidden, weight, target, 1.0)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = fc.linear_focal_loss(hidden, weight, target, 1.0)
    assert loss.dtype == torch.float32
    assert loss != exact
    torch.testing.assert_close(loss, exact, atol=2e-2, rtol=2e-2)
    loss.backward()
    assert weight.grad.dtype == torch.float32


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_gradients_survive_the_factor_of_half_precision_training(reduction):
    # A factor of 65,536, with which such training begins, is more than float16 holds; 1/N of a probability is less.
    hidden, weight, bias, target = layer(600, 16, 3000, dtype=torch.float32, scale=0.2)
    exact = torch.autograd.grad(
        fc.linear_focal_loss(hidden, weight, target, 1.0, bias=bias).double(), (hidden, weight, bias)
    )
    with torch.autocast("cpu", dtype=torch.float16):
        halves = functional.linear(hidden, torch.eye(16))
        loss = fc.linear_focal_loss(halves, weight, target, 1.0, bias=bias, reduction=reduction).mean()
    found = torch.autograd.grad(loss * 65536, (hidden, weight, bias))
    for ours, theirs in zip(found, exact, strict=True):
        assert (ours / 65536 - theirs).norm() < 2e-3 * theirs.norm()


class Largest(TorchDispatchMode):
    """The largest number of values that any operation has given."""

    values = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for one in out if isinstance(out, tuple | list) else [out]:
            if isinstance(one, torch.Tensor):
                self.values = max(self.values, one.numel())
        return out


def test_no_operation_holds_more_than_a_chunk_of_logits(monkeypatch):
    # A dispatch mode counts as tracing; here it only watches.
    monkeypatch.setitem(fc.linear_focal_loss.__globals__, "transforms_active", lambda: False)
    hidden, weight, _, target = layer(300, 4, 500, dtype=torch.float32)
    with Largest() as largest:
        fc.linear_focal_loss(hidden, weight, target, 0.0, chunk_rows=10).backward()
    assert largest.values == 10 * 500


@pytest.mark.parametrize(
    ("change", "error", "sentence"),
    [
        ({"target": torch.zeros(11, 7)}, TypeError, "class indices"),
        ({"target": torch.zeros(3, dtype=torch.int64)}, ValueError, r"got \(11, 5\) and \(3,\)"),
        ({"weight": torch.zeros(7, 6)}, ValueError, "needs hidden of shape"),
        ({"weight": torch.zeros(1, 5)}, ValueError, "V of at least 2"),
        ({"hidden": torch.zeros(11, 5, dtype=torch.int64)}, TypeError, "hidden must be a floating-point tensor"),
        ({"bias": torch.zeros(3)}, ValueError, r"bias of shape \(7,\), got \(3,\)"),
        ({"chunk_rows": 0}, ValueError, "chunk_rows must be a whole number of at least 1"),
        ({"reduction": "average"}, ValueError, "reduction must be one of"),
        ({"label_smoothing": 2.0}, ValueError, "label_smoothing must lie in"),
        ({"target": torch.full((11,), 7)}, ValueError, "Target 7 is out of range: 7 classes"),
        ({"gamma": -1.0}, ValueError, "gamma must be a finite number of at least 0"),
    ],
)
def test_bad_input_is_named(change, error, sentence):
    hidden, weight, _, target = layer(dtype=torch.float32)
    arguments = {"hidden": hidden, "weight": weight, "target": target, "gamma": 1.0} | change
    with pytest.raises(error, match=sentence):
        fc.linear_focal_loss(**arguments)
