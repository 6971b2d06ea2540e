import math

import pytest
import torch
from torch.nn import functional

import focalcal as fc
from focal_cases import FLOATS, POLICIES, with_gradient

# ---------------------------------------------------------------- nothing breaks at the ends

EXTREMES = [
    [0.0, 0.0, 0.0],
    [1e4, 0.0, 0.0],
    [-1e4, 0.0, 1e4],
    [1e4, 1e4, 1e4],
    [0.0, -math.inf, 0.0],
    [100.0, -math.inf, -math.inf],
    [20.0, 0.0, -math.inf],
]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("gamma", POLICIES, ids=str)
@pytest.mark.parametrize("row", EXTREMES, ids=str)
def test_never_nan_where_the_loss_is_defined(dtype, gamma, row):
    logits = torch.tensor([row]).to(dtype)
    for target in (0, 1, 2):
        value, gradient = with_gradient(lambda z, t=target: fc.focal_loss(z, torch.tensor([t]), gamma), logits)
        assert gradient.isfinite().all()
        assert value == math.inf if row[target] == -math.inf else value.isfinite()
        assert value >= 0


@pytest.mark.parametrize("gamma", POLICIES, ids=str)
@pytest.mark.parametrize("dtype", FLOATS)
def test_a_masked_class_without_mass_costs_nothing(gamma, dtype):
    logits = torch.tensor([[1.0, -math.inf, 0.0], [0.5, 2.0, 0.0]]).to(dtype)
    soft = torch.tensor([[0.5, 0.0, 0.5], [0.2, 0.3, 0.5]]).to(dtype)
    value, gradient = with_gradient(lambda z: fc.focal_loss(z, soft, gamma), logits)
    assert value.isfinite()
    assert gradient.isfinite().all()
    # Without the masked class at all:
    alone = fc.focal_loss(logits[:1, [0, 2]], soft[:1, [0, 2]], gamma)
    torch.testing.assert_close(fc.focal_loss(logits[:1], soft[:1], gamma), alone)
    weight = torch.tensor([1.0, 0.0, 1.0]).to(dtype)
    assert fc.focal_loss(logits[:1], torch.tensor([1]), gamma, weight=weight, reduction="sum") == 0


def test_gradient_of_a_saturated_sample_is_finite_at_gamma_one_half():
    """The plain formula gives NaN here: its (1 − p)^(γ − 1) is infinite and multiplies a zero."""
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        logits = torch.tensor([[50.0, 0.0]], dtype=dtype)
        _, gradient = with_gradient(lambda z: fc.focal_loss(z, torch.tensor([0]), 0.5), logits)
        assert gradient.tolist() == [[0.0, 0.0]]


def test_nan_logits_give_nan():
    assert fc.focal_loss(torch.tensor([[math.nan, 0.0]]), torch.tensor([0])).isnan()


# ---------------------------------------------------------------- gradients of first and second order


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0, 3.0, fc.SampleGamma.flsd53()], ids=str)
def test_gradients_of_both_orders(gamma, reduction):
    torch.manual_seed(3)
    logits = torch.randn(3, 3, dtype=torch.float64, requires_grad=True)
    hard, soft = torch.tensor([0, -100, 2]), torch.rand(3, 3, dtype=torch.float64)
    weight = torch.rand(3, dtype=torch.float64)
    for target, smoothing in ((hard, 0.0), (hard, 0.1), (soft, 0.0)):

        def loss(z, target=target, smoothing=smoothing):
            return fc.focal_loss(z, target, gamma, weight=weight, label_smoothing=smoothing, reduction=reduction)

        assert torch.autograd.gradcheck(loss, logits)
        assert torch.autograd.gradgradcheck(loss, logits, fast_mode=True)


def test_targets_can_be_differentiated_too():
    logits = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    soft = torch.rand(3, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda z, q: fc.focal_loss(z, q, 2.0), (logits, soft))


def test_second_derivative_through_a_network_is_right():
    """A gradient penalty: the second derivative takes a path beside the logits too."""
    torch.manual_seed(4)
    x, target = torch.randn(5, 3, dtype=torch.float64, requires_grad=True), torch.randint(4, (5,))
    matrix = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)

    def penalty(matrix):
        logits = x @ matrix
        (slope,) = torch.autograd.grad(fc.focal_loss(logits, target, 3.0), x, create_graph=True)
        return slope.square().sum()

    assert torch.autograd.gradcheck(penalty, matrix)


def test_second_derivative_without_the_logits_raises():
    x = torch.randn(5, 4, requires_grad=True)
    loss = fc.focal_loss(x * 2, torch.zeros(5, dtype=torch.long))  # nobody keeps x * 2
    with pytest.raises(RuntimeError, match="second derivative of the focal loss needs its logits"):
        torch.autograd.grad(loss, x, create_graph=True)


def test_second_derivative_after_the_logits_changed_raises():
    x = torch.randn(5, 4, requires_grad=True)
    logits = x * 2
    loss = fc.focal_loss(logits, torch.zeros(5, dtype=torch.long))
    with torch.no_grad():
        logits.mul_(2)
    with pytest.raises(RuntimeError, match="unchanged"):
        torch.autograd.grad(loss, x, create_graph=True)


def test_second_derivative_after_the_target_changed_raises():
    logits, target = torch.randn(5, 4, requires_grad=True), torch.zeros(5, dtype=torch.long)
    loss = fc.focal_loss(logits, target)
    target.fill_(3)
    with pytest.raises(RuntimeError, match="unchanged"):
        torch.autograd.grad(loss, logits, create_graph=True)


def test_hooks_on_the_logits_run_once_under_create_graph():
    x = torch.randn(5, 4, requires_grad=True)
    target = torch.zeros(5, dtype=torch.long)
    gradients = []
    for create_graph in (False, True):
        logits = x * 1
        logits.register_hook(lambda g: g * 2)
        gradients += torch.autograd.grad(fc.focal_loss(logits, target), x, create_graph=create_graph)
    torch.testing.assert_close(*gradients)


def test_the_choice_of_gamma_is_not_differentiated():
    logits = torch.tensor([[0.3, 0.0, 0.0]], dtype=torch.float64)
    policy = fc.SampleGamma(thresholds=(0.9,), gammas=(5.0, 3.0))
    chosen = with_gradient(lambda z: fc.focal_loss(z, torch.tensor([0]), policy), logits)
    torch.testing.assert_close(chosen, with_gradient(lambda z: fc.focal_loss(z, torch.tensor([0]), 5.0), logits))


def test_the_gradient_is_scaled_by_what_comes_from_above_and_can_be_asked_for_twice():
    torch.manual_seed(7)
    target = torch.randint(4, (6,))
    for t in (target, functional.one_hot(target, 4).double()):
        logits = torch.randn(6, 4, dtype=torch.float64, requires_grad=True)
        loss = fc.focal_loss(logits, t, 2.0)
        loss.backward(retain_graph=True)
        once = logits.grad.clone()
        loss.backward(retain_graph=True)
        torch.testing.assert_close(logits.grad, 2 * once)
        logits.grad = None
        (loss * 3).backward()
        torch.testing.assert_close(logits.grad, 3 * once)


# ---------------------------------------------------------------- what is kept for backward


def saved_bytes(compute):
    """Bytes by distinct storage that the graph of a loss keeps, hooks and attributes of contexts both looked at."""
    storages = {}

    def note(tensor):
        storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda t: t):
        loss = compute()
    for value in vars(loss.grad_fn).values() if hasattr(loss.grad_fn, "__dict__") else ():
        if isinstance(value, torch.Tensor):
            note(value)
    return sorted(storages.values())


@pytest.mark.parametrize("shape", [(128, 10), (128, 100), (64, 1000)])
@pytest.mark.parametrize("gamma", [3.0, fc.SampleGamma.flsd53()], ids=str)
def test_keeps_no_more_than_cross_entropy(shape, gamma):
    inputs, target = torch.randn(shape, requires_grad=True), torch.randint(shape[1], shape[:1])
    ours = saved_bytes(lambda: fc.focal_loss(inputs * 1, target, gamma))
    theirs = saved_bytes(lambda: functional.cross_entropy(inputs * 1, target))
    assert sum(size >= inputs.numel() * 4 for size in ours) == 1
    assert sum(ours) <= 1.05 * sum(theirs)


def test_keeps_nothing_without_gradient():
    logits, target = torch.randn(128, 10), torch.randint(10, (128,))
    assert fc.focal_loss(logits, target).grad_fn is None


# ---------------------------------------------------------------- transforms and devices


def test_under_fake_tensors_nothing_looks_at_values():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        logits = torch.randn(8, 5, requires_grad=True)
        target = torch.zeros(8, dtype=torch.long)
        for policy in (3.0, fc.SampleGamma.flsd532()):
            fc.focal_loss(logits, target, policy, weight=torch.rand(5)).backward()
            fc.focal_loss(logits, torch.rand(8, 5), policy, label_smoothing=0.1).backward()
        assert logits.grad.shape == (8, 5)


@pytest.mark.parametrize("gamma", [0.5, 3.0, fc.SampleGamma.flsd53()], ids=str)
def test_torch_func(gamma):
    torch.manual_seed(5)
    logits, target = torch.randn(6, 4, dtype=torch.float64), torch.randint(4, (6,))
    _, expected = with_gradient(lambda z: fc.focal_loss(z, target, gamma, reduction="sum"), logits)
    one = torch.func.grad(lambda z, t: fc.focal_loss(z, t, gamma))
    torch.testing.assert_close(torch.func.vmap(one)(logits, target), expected)
    whole = torch.func.grad(lambda z: fc.focal_loss(z, target, gamma, reduction="sum"))(logits)
    torch.testing.assert_close(whole, expected)
    # Not torch.func.hessian, only because PyTorch itself warns of its own torch.jit in forward mode.
    hessian = torch.func.jacrev(torch.func.grad(lambda z: fc.focal_loss(z, target[0], gamma)))(logits[0])
    reference = torch.autograd.functional.hessian(lambda z: fc.focal_loss(z, target[0], gamma), logits[0])
    torch.testing.assert_close(hessian, reference)


@pytest.mark.slow
def test_compiles_without_a_graph_break():
    torch.manual_seed(6)
    logits, target = torch.randn(9, 5), torch.randint(5, (9,))
    target[0] = -100
    named = [fc.build_loss(name) for name in ("ls-0.1", "mmce", "mmce-formula", "brier")]
    for loss in (
        fc.FocalLoss(fc.SampleGamma.flsd53()),
        lambda z, t: fc.focal_loss(z, t, 0.5, label_smoothing=0.1),
        *named,
    ):
        compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
        ours = with_gradient(lambda z, f=compiled: f(z, target), logits)
        torch.testing.assert_close(ours, with_gradient(lambda z, f=loss: f(z, target), logits))


@pytest.mark.slow
def test_compiles_soft_targets_of_varying_batch_sizes():
    compiled = torch.compile(fc.FocalLoss(3.0), fullgraph=True, backend="aot_eager")
    for n in (5, 6, 7, 8):
        logits, soft = torch.randn(n, 3), torch.rand(n, 3)
        torch.testing.assert_close(compiled(logits, soft), fc.focal_loss(logits, soft))


def test_exports_inside_a_module():
    class Step(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(3, 5)
            self.loss = fc.FocalLoss(fc.SampleGamma.flsd53())

        def forward(self, x, y):
            return self.loss(self.layer(x), y)

    step, x, y = Step(), torch.randn(8, 3), torch.randint(5, (8,))
    exported = torch.export.export(step, (x, y)).module()
    torch.testing.assert_close(exported(x, y), step(x, y))


def test_under_autocast_the_loss_is_float32():
    layer, x, target = torch.nn.Linear(4, 3), torch.randn(5, 4), torch.tensor([0, 1, 2, 0, 1])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = layer(x)
        loss = fc.focal_loss(logits, target)
    assert logits.dtype == torch.bfloat16
    assert loss.dtype == torch.float32
    loss.backward()
    torch.testing.assert_close(loss, fc.focal_loss(logits.float(), target))
