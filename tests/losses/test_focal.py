import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

import focalcal as fc
from oracles import losses as oracle

GAMMAS = (0.0, 0.5, 1.0, 2.0, 3.0, 5.0, 20.0)
POLICIES = (*GAMMAS, fc.SampleGamma.flsd53(), fc.SampleGamma.flsd532())
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def with_gradient(loss, logits):
    logits = logits.detach().clone().requires_grad_()
    value = loss(logits)
    (gradient,) = torch.autograd.grad(value.sum(), logits)
    return value.detach(), gradient


# ---------------------------------------------------------------- equal to cross-entropy at γ = 0

SHAPES = [(5,), (7, 5), (7, 5, 3), (2, 5, 3, 4), (2, 5, 2, 3, 2)]
OPTIONS = list(itertools.product((False, True), (0.0, 0.1), ("none", "mean", "sum"), (None, 1, -100)))


@pytest.mark.parametrize("kind", ["hard", "soft"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_equals_cross_entropy_at_gamma_0(shape, kind, dtype):
    torch.manual_seed(0)
    class_dim = 0 if len(shape) == 1 else 1
    for weighted, smoothing, reduction, ignore in OPTIONS:
        if kind == "soft" and ignore == 1:
            continue  # PyTorch refuses ignore_index with class probabilities, and so do we
        logits = torch.randn(shape).to(dtype)
        if kind == "soft":
            target = torch.randn(shape).softmax(class_dim).to(dtype)
        else:
            target = torch.randint(5, shape[:class_dim] + shape[class_dim + 1 :])
            if ignore == -100 and target.dim():
                target.view(-1)[0] = -100
        weight = (torch.rand(5) + 0.5).to(dtype) if weighted else None
        options = {"weight": weight, "reduction": reduction, "label_smoothing": smoothing}
        options |= {} if ignore is None else {"ignore_index": ignore}
        ours = with_gradient(lambda z: fc.focal_loss(z, target, 0.0, **options), logits)  # noqa: B023
        # PyTorch computes half precision in half precision; ours is the float32 result, rounded once.
        wide = {**options, "weight": raised(weight)}
        theirs = with_gradient(lambda z: functional.cross_entropy(z, raised(target), **wide), raised(logits))  # noqa: B023
        torch.testing.assert_close(ours, tuple(x.to(dtype) for x in theirs), equal_nan=True)


def raised(x):
    return x.float() if x is not None and x.dtype in (torch.float16, torch.bfloat16) else x


def test_half_precision_result_has_the_type_that_cross_entropy_has():
    for dtype in FLOATS:
        logits, target = torch.randn(4, 3).to(dtype), torch.tensor([0, 1, 2, 0])
        assert fc.focal_loss(logits, target).dtype == functional.cross_entropy(logits, target).dtype == dtype


def test_all_ignored_gives_nan_in_the_mean_as_pytorch_does():
    logits, target = torch.randn(3, 4, requires_grad=True), torch.full((3,), -100)
    assert fc.focal_loss(logits, target).isnan()
    assert fc.focal_loss(logits, target, reduction="sum") == 0
    assert fc.focal_loss(logits, target, reduction="none").tolist() == [0, 0, 0]


def test_empty_batch_is_as_in_pytorch():
    logits, target = torch.zeros(0, 4), torch.zeros(0, dtype=torch.long)
    assert fc.focal_loss(logits, target).isnan()
    assert fc.focal_loss(logits, target, reduction="sum") == 0


# ---------------------------------------------------------------- the formula

logit = st.floats(-30, 30, width=32)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(2, 6).flatmap(lambda k: st.lists(st.lists(logit, min_size=k, max_size=k), min_size=1, max_size=5)),
    st.sampled_from([0.0, 0.5, 1.0, 3.0, 5.0, 20.0, "flsd"]),
    st.sampled_from([0.0, 0.2]),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_soft_targets_follow_the_formula(rows, gamma, smoothing, weighted, random):
    classes = len(rows[0])
    q = [[random.choice([0.0, random.random()]) for _ in range(classes)] for _ in rows]
    weight = [random.choice([0.0, random.random()]) for _ in range(classes)] if weighted else None
    policy, rule = (fc.SampleGamma.flsd53(), oracle.flsd53) if gamma == "flsd" else (gamma, gamma)
    ours = fc.focal_loss(
        torch.tensor(rows, dtype=torch.float64),
        torch.tensor(q, dtype=torch.float64),
        policy,
        weight=None if weight is None else torch.tensor(weight, dtype=torch.float64),
        label_smoothing=smoothing,
        reduction="none",
    )
    expected = [
        oracle.focal_sample(z, oracle.smooth_pytorch(v, smoothing), rule, weight) for z, v in zip(rows, q, strict=True)
    ]
    assert ours.tolist() == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("gamma", POLICIES)
def test_hard_targets_are_one_hot_soft_targets(gamma):
    torch.manual_seed(1)
    logits, target = torch.randn(50, 7, dtype=torch.float64) * 4, torch.randint(7, (50,))
    onehot = functional.one_hot(target, 7).double()
    hard = with_gradient(lambda z: fc.focal_loss(z, target, gamma, reduction="none"), logits)
    soft = with_gradient(lambda z: fc.focal_loss(z, onehot, gamma, reduction="none"), logits)
    torch.testing.assert_close(hard, soft)


def test_many_rows_are_the_same_as_few(monkeypatch):
    """Blocks of rows, and NumPy for small ones, change nothing."""
    from focalcal.losses import focal_terms

    torch.manual_seed(2)
    logits, target = torch.randn(301, 9, dtype=torch.float64), torch.randint(9, (301,))
    target[5] = -100
    weight = torch.rand(9, dtype=torch.float64)
    soft = torch.rand(301, 9, dtype=torch.float64)

    def results():
        policy = fc.SampleGamma.flsd53()
        return [
            with_gradient(lambda z, t=t, w=w, r=r: fc.focal_loss(z, t, policy, weight=w, reduction=r), logits)
            for t in (target, soft)
            for w in (None, weight)
            for r in ("none", "mean", "sum")
        ]

    whole = results()
    monkeypatch.setattr(focal_terms, "_BLOCK_ELEMENTS", 100)
    torch.testing.assert_close(results(), whole)
    monkeypatch.setattr(focal_terms, "_FEW", 0)
    torch.testing.assert_close(results(), whole)


@pytest.mark.parametrize("shift", [0.0, 50.0, 1000.0, -1e4])
def test_logits_far_from_0_lose_nothing_on_any_way(shift, monkeypatch):
    """Small, by blocks, traceable: the same numbers as cross-entropy's, and the same γ at p = 0.2."""
    from focalcal.losses import focal_terms

    torch.manual_seed(8)
    logits, target = torch.randn(400, 5) * 4 + shift, torch.randint(5, (400,))
    logits[:10] = shift
    onehot = functional.one_hot(target, 5).float()
    reference = functional.cross_entropy(logits, target, reduction="none")
    exact = fc.focal_loss((logits - shift).double(), target, fc.SampleGamma.flsd53(), reduction="none").float()
    for few in (focal_terms._FEW, 0):
        monkeypatch.setattr(focal_terms, "_FEW", few)
        for t in (target, onehot):
            plain = fc.focal_loss(logits, t, 0.0, reduction="none")
            torch.testing.assert_close(plain, reference, atol=1e-6, rtol=1e-5)
            chosen = fc.focal_loss(logits, t, fc.SampleGamma.flsd53(), reduction="none")
            torch.testing.assert_close(chosen[:10], exact[:10])
            traced = torch.func.vmap(lambda z, t: fc.focal_loss(z, t, fc.SampleGamma.flsd53()))(logits, t)
            torch.testing.assert_close(chosen, traced, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize(
    "make", [lambda: torch.randn(6, 50).t(), lambda: torch.randn(1, 6, 9, 9), lambda: torch.randn(50, 12)[:, ::2]]
)
def test_strides_do_not_matter(make, monkeypatch):
    from focalcal.losses import focal_terms

    torch.manual_seed(9)
    logits = make()
    target = torch.randint(6, logits.shape[:1] + logits.shape[2:])
    for few in (focal_terms._FEW, 0):
        monkeypatch.setattr(focal_terms, "_FEW", few)
        for t in (target, torch.rand_like(logits)):
            leaf = logits.detach().requires_grad_()
            (ours,) = torch.autograd.grad(fc.focal_loss(leaf, t, 0.0), leaf)
            (theirs,) = torch.autograd.grad(functional.cross_entropy(leaf, t), leaf)
            torch.testing.assert_close(ours, theirs)


def test_without_gradient_and_in_inference_mode():
    logits, target = torch.randn(9, 4, requires_grad=True), torch.randint(4, (9,))
    expected = fc.focal_loss(logits, target).detach()
    with torch.no_grad():
        assert fc.focal_loss(logits, target).equal(expected)
    with torch.inference_mode():
        inside = logits * 1
        torch.testing.assert_close(fc.focal_loss(inside, target), expected)
        for name in ("mmce", "mmce-formula", "ls-0.1", "brier", "flsd-53"):
            assert fc.build_loss(name)(inside, target).isfinite()


def test_nan_in_an_ignored_row_stays_out_of_the_loss(monkeypatch):
    from focalcal.losses import focal_terms

    logits, target = torch.randn(4, 3), torch.tensor([0, -100, 2, 1])
    logits[1] = math.nan
    for few in (focal_terms._FEW, 0):
        monkeypatch.setattr(focal_terms, "_FEW", few)
        for gamma in (0.0, 2.0):
            assert fc.focal_loss(logits, target, gamma).isfinite()
    assert fc.brier_loss(logits, target).isfinite()


def test_odd_class_weights_scale_the_gradient_as_in_cross_entropy():
    logits, target = torch.randn(6, 3, dtype=torch.float64), torch.tensor([0, 1, 2, 0, 1, 2])
    for weight in (torch.tensor([-1.0, -2.0, -3.0]).double(), torch.full((3,), 1e-40).double()):
        ours = with_gradient(lambda z, w=weight: fc.focal_loss(z, target, 0.0, weight=w), logits)
        theirs = with_gradient(lambda z, w=weight: functional.cross_entropy(z, target, weight=w), logits)
        torch.testing.assert_close(ours, theirs)


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


# ---------------------------------------------------------------- the module


def test_epoch_schedule_follows_set_epoch():
    logits, target = torch.randn(6, 4), torch.randint(4, (6,))
    loss = fc.FocalLoss(fc.EpochGamma({0: 5.0, 100: 3.0, 250: 1.0}))
    for epoch, gamma in ((0, 5.0), (99, 5.0), (100, 3.0), (249, 3.0), (250, 1.0), (10_000, 1.0)):
        loss.set_epoch(epoch)
        torch.testing.assert_close(loss(logits, target), fc.focal_loss(logits, target, gamma))


def test_weight_is_a_buffer_and_moves_with_the_module():
    loss = fc.FocalLoss(2.0, weight=torch.ones(3))
    assert "weight" in loss.state_dict()
    assert loss.double().weight.dtype == torch.float64
    assert "gamma=2.0" in repr(loss)


def test_p_of_exactly_one_fifth_takes_the_upper_interval():
    for dtype in (torch.float32, torch.float64):
        fifth = torch.log(torch.tensor([[0.2, 0.8]], dtype=dtype))
        for logits in (torch.zeros(1, 5, dtype=dtype), torch.full((1, 5), 7.3, dtype=dtype), fifth):
            loss = fc.focal_loss(logits, torch.tensor([0]), fc.SampleGamma.flsd53())
            torch.testing.assert_close(loss, fc.focal_loss(logits, torch.tensor([0]), 3.0))


# ---------------------------------------------------------------- errors, each one sentence


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [
        (ValueError, r"\(2, 3\).*\(2,\).*\(3,\)", lambda z, t: fc.focal_loss(z, torch.zeros(3, dtype=torch.long))),
        (ValueError, r"\(2, 3\).*\(2, 3\).*\(2, 4\)", lambda z, t: fc.focal_loss(z, torch.rand(2, 4))),
        (ValueError, r"\(2, 3\).*\(2, 3\).*\(2,\)", lambda z, t: fc.focal_loss(z, t.float())),
        (ValueError, "at least 2 classes", lambda z, t: fc.focal_loss(z[:, :1], t)),
        (ValueError, "class dimension", lambda z, t: fc.focal_loss(torch.tensor(1.0), torch.tensor(0))),
        (ValueError, r"shape \(3,\), got \(2,\)", lambda z, t: fc.focal_loss(z, t, weight=torch.ones(2))),
        (TypeError, "floating-point, got torch.int64", lambda z, t: fc.focal_loss(z.long(), t)),
        (TypeError, "class indices or class probabilities, got torch.bool", lambda z, t: fc.focal_loss(z, t.bool())),
        (TypeError, "must be tensors", lambda z, t: fc.focal_loss(z, [0, 1])),
        (TypeError, "class weights must be", lambda z, t: fc.focal_loss(z, t, weight=torch.ones(3).long())),
        (TypeError, "number or a γ policy", lambda z, t: fc.focal_loss(z, t, "3")),
        (ValueError, "at least 0, got -1", lambda z, t: fc.focal_loss(z, t, -1.0)),
        (ValueError, "at least 0, got nan", lambda z, t: fc.FocalLoss(math.nan)),
        (ValueError, "reduction must be", lambda z, t: fc.focal_loss(z, t, reduction="avg")),
        (ValueError, "label_smoothing must lie", lambda z, t: fc.FocalLoss(label_smoothing=1.5)),
        (ValueError, "Target 3 is out of range", lambda z, t: fc.focal_loss(z, t + 2)),
        (ValueError, "Target -1 is out of range", lambda z, t: fc.focal_loss(z, t - 1)),
        (ValueError, "Target 3 is out of range", lambda z, t: fc.focal_loss(z, t + 2, label_smoothing=0.1)),
        (ValueError, "ignore_index works with", lambda z, t: fc.focal_loss(z, torch.rand(2, 3), ignore_index=1)),
        (ValueError, "needs an epoch", lambda z, t: fc.focal_loss(z, t, fc.EpochGamma({0: 1.0}))),
        (ValueError, "NaN or \\+inf", lambda z, t: fc.focal_loss(z / 0, t, validate=True)),
        (ValueError, "negative or non-finite", lambda z, t: fc.focal_loss(z, -torch.ones(2, 3), validate=True)),
        (ValueError, "weights contain", lambda z, t: fc.focal_loss(z, t, weight=-torch.ones(3), validate=True)),
    ],
)
def test_errors_are_one_sentence(error, message, call):
    with pytest.raises(error, match=message) as caught:
        call(torch.zeros(2, 3), torch.tensor([0, 1]))
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")


def test_other_integer_types_will_do():
    logits, target = torch.randn(4, 3), torch.tensor([0, 1, 2, 0])
    for dtype in (torch.uint8, torch.int8, torch.int16, torch.int32):
        assert fc.focal_loss(logits, target.to(dtype)) == fc.focal_loss(logits, target)


# ---------------------------------------------------------------- one logit


@pytest.mark.parametrize("gamma", POLICIES, ids=str)
def test_binary_is_the_two_class_form(gamma):
    torch.manual_seed(7)
    logit, target = torch.randn(3, 4, dtype=torch.float64) * 5, torch.randint(2, (3, 4))
    pairs = torch.stack([torch.zeros_like(logit), logit], 1)
    for reduction in ("none", "mean", "sum"):
        ours = with_gradient(lambda z, r=reduction: fc.binary_focal_loss(z, target, gamma, reduction=r), logit)
        expected = with_gradient(lambda z, r=reduction: fc.focal_loss(z, target, gamma, reduction=r), pairs)
        torch.testing.assert_close(ours[0], expected[0])
        torch.testing.assert_close(ours[1], expected[1][:, 1])


def test_binary_at_gamma_0_is_binary_cross_entropy():
    logit, target = torch.randn(20), torch.rand(20)
    reference = functional.binary_cross_entropy_with_logits
    torch.testing.assert_close(fc.binary_focal_loss(logit, target, 0.0), reference(logit, target))
    weight = torch.tensor(2.5)
    ours = fc.binary_focal_loss(logit, target, 0.0, pos_weight=weight)
    torch.testing.assert_close(ours, reference(logit, target, pos_weight=weight))


def test_binary_of_a_scalar_and_second_derivatives():
    logit = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    assert fc.binary_focal_loss(logit, torch.tensor(1.0)).shape == ()
    assert torch.autograd.gradgradcheck(lambda z: fc.binary_focal_loss(z, torch.tensor(0.7).double(), 2.0), logit)


def test_gamma_can_be_changed_on_the_module():
    loss, logits, target = fc.FocalLoss(5.0), torch.randn(4, 3), torch.tensor([0, 1, 2, 0])
    loss.gamma = fc.FixedGamma(1.0)
    assert loss(logits, target) == fc.focal_loss(logits, target, 1.0)


def test_class_weights_that_fit_nothing_are_refused_at_construction():
    for weight in (torch.ones(1), torch.ones(2, 2)):
        with pytest.raises(ValueError, match="at least 2 classes"):
            fc.FocalLoss(weight=weight)
    with pytest.raises(ValueError, match="not differentiated"):
        fc.BrierLoss(weight=torch.ones(2, requires_grad=True))


def test_binary_errors():
    with pytest.raises(ValueError, match=r"pos_weight of shape \(3,\) does not broadcast"):
        fc.binary_focal_loss(torch.zeros(2), torch.zeros(2), pos_weight=torch.ones(3))
    with pytest.raises(ValueError, match=r"shape \(2,\).*got \(3,\)"):
        fc.binary_focal_loss(torch.zeros(2), torch.zeros(3))
    with pytest.raises(TypeError, match="floating-point"):
        fc.binary_focal_loss(torch.zeros(2).long(), torch.zeros(2))
