import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

import focalcal as fc
from focal_cases import FLOATS, POLICIES, with_gradient
from oracles import losses as oracle

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
    monkeypatch.setattr(focal_terms, "IN_CACHE", 100)
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
