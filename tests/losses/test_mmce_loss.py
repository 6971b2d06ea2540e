import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

import focalcal as fc
from oracles import losses as oracle

batch = st.integers(2, 4).flatmap(
    lambda k: st.lists(
        st.tuples(st.lists(st.floats(-8, 8), min_size=k, max_size=k), st.integers(0, k - 1)), min_size=1, max_size=8
    )
)


@settings(max_examples=80, deadline=None)
@given(batch, st.booleans(), st.sampled_from([0.2, 0.4]))
def test_follows_the_formulas(samples, weighted, width):
    logits, labels = [z for z, _ in samples], [y for _, y in samples]
    ours = fc.mmce(torch.tensor(logits, dtype=torch.float64), torch.tensor(labels), weighted=weighted, width=width)
    assert ours.item() == pytest.approx(oracle.mmce(logits, labels, weighted, width), rel=1e-6, abs=1e-7)


@settings(max_examples=50, deadline=None)
@given(batch)
def test_published_normalisation_divides_twice(samples):
    logits, labels = [z for z, _ in samples], [y for _, y in samples]
    z, y = torch.tensor(logits, dtype=torch.float64), torch.tensor(labels)
    penalty = fc.build_loss("mmce")(z, y) - functional.cross_entropy(z, y)
    assert penalty.item() == pytest.approx(2 * oracle.mmce(logits, labels, True, published=True), rel=1e-6, abs=1e-7)
    penalty = fc.build_loss("mmce-formula")(z, y) - functional.cross_entropy(z, y)
    assert penalty.item() == pytest.approx(2 * oracle.mmce(logits, labels, True), rel=1e-6, abs=1e-7)


@pytest.mark.parametrize(("wrong", "low", "high"), [(64, 50, 72), (27, 18, 27), (16, 11, 17)])
def test_published_is_so_many_times_smaller(wrong, low, high):
    """In a batch of 128 with 64, 27, 16 wrong the published penalty is about 61, 22 and 14 times smaller."""
    torch.manual_seed(0)
    confidence = torch.rand(128) * 0.4 + 0.55
    logits = torch.stack([torch.log(confidence), torch.log(1 - confidence)], 1)
    target = (torch.arange(128) < wrong).long()
    cross_entropy = functional.cross_entropy(logits, target)
    formula, published = (fc.build_loss(name)(logits, target) - cross_entropy for name in ("mmce-formula", "mmce"))
    assert low < formula / published < high


@pytest.mark.parametrize("name", ["mmce", "mmce-formula"])
@pytest.mark.parametrize(
    ("logits", "target"),
    [
        ([[1.0, 0.0]], [0]),  # a batch of one, right
        ([[1.0, 0.0]], [1]),  # and wrong
        ([[1.0, 0.0], [2.0, 0.0]], [0, 0]),  # all right
        ([[1.0, 0.0], [2.0, 0.0]], [1, 1]),  # all wrong
        ([[1e4, 0.0], [1e4, 0.0]], [0, 0]),  # saturated: exactly calibrated, root of 0
        ([[1e4, 0.0], [1e4, 0.0]], [0, 1]),
        ([[1.0, 0.0], [2.0, 0.0]], [-100, 0]),
    ],
)
def test_value_and_gradient_are_finite(name, logits, target):
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        z = torch.tensor(logits).to(dtype).requires_grad_()
        value = fc.build_loss(name)(z, torch.tensor(target))
        value.backward()
        assert value.isfinite()
        assert z.grad.isfinite().all()
        assert value.dtype == dtype


def test_gradient_at_zero_is_zero():
    z = torch.tensor([[1e4, 0.0]], requires_grad=True)
    value = fc.mmce(z, torch.tensor([0]))
    value.backward()
    assert value == 0
    assert z.grad.tolist() == [[0.0, 0.0]]


def test_gradient():
    torch.manual_seed(1)
    z = torch.randn(6, 3, dtype=torch.float64, requires_grad=True)
    target = torch.randint(3, (6,))
    for weighted in (False, True):
        assert torch.autograd.gradcheck(lambda z, w=weighted: fc.mmce(z, target, weighted=w), z)


def test_ignored_samples_are_as_if_absent():
    logits, target = torch.randn(6, 3), torch.tensor([0, 1, 2, -100, 1, -100])
    kept = target != -100
    for weighted in (False, True):
        ours = fc.mmce(logits, target, weighted=weighted)
        torch.testing.assert_close(ours, fc.mmce(logits[kept], target[kept], weighted=weighted))


@pytest.mark.parametrize("name", ["mmce", "mmce-formula"])
def test_sum_is_the_mean_times_the_number_of_supervised_samples(name):
    logits, target = torch.randn(6, 3, dtype=torch.float64), torch.tensor([0, 1, 2, -100, 1, -100])
    mean, total = (fc.build_loss(name, reduction=reduction)(logits, target) for reduction in ("mean", "sum"))
    torch.testing.assert_close(total, 4 * mean)


def test_sum_with_class_weights_keeps_the_ratio_of_the_means():
    logits, target = torch.randn(6, 3, dtype=torch.float64), torch.tensor([0, 1, 2, -100, 1, 0])
    weight = torch.tensor([0.5, 2.0, 3.0], dtype=torch.float64)
    mean, total = (fc.MMCELoss(weight=weight, reduction=reduction)(logits, target) for reduction in ("mean", "sum"))
    torch.testing.assert_close(total, mean * weight[target[target >= 0]].sum())


def test_sum_of_soft_targets_counts_samples():
    logits, target = torch.randn(5, 3), torch.softmax(torch.randn(5, 3), 1)
    mean, total = (fc.MMCELoss(reduction=reduction)(logits, target) for reduction in ("mean", "sum"))
    torch.testing.assert_close(total, 5 * mean)


def test_sum_of_nothing_supervised_is_zero_with_gradient_zero():
    logits = torch.randn(3, 4, requires_grad=True)
    total = fc.MMCELoss(reduction="sum")(logits, torch.full((3,), -100))
    total.backward()
    assert total == 0
    assert not logits.grad.any()


@pytest.mark.parametrize("label", [0, 1])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_published_is_zero_where_all_are_right_or_all_wrong(label, reduction):
    ours, reference = (torch.tensor([[1.0, 0.0], [2.0, 0.5]], requires_grad=True) for _ in range(2))
    target = torch.tensor([label, label])
    loss = fc.build_loss("mmce", reduction=reduction)(ours, target)
    expected = functional.cross_entropy(reference, target, reduction=reduction)
    (loss + 0).backward()
    expected.backward()
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(ours.grad, reference.grad)
    formula = fc.build_loss("mmce-formula", reduction=reduction)(ours, target)
    assert formula > expected + 0.1  # one group alone still counts there


def test_penalty_can_be_chosen_by_name():
    logits, target = torch.randn(6, 3), torch.randint(3, (6,))
    once, thrice = (fc.build_loss("mmce", penalty=penalty)(logits, target) for penalty in (1.0, 3.0))
    plain = functional.cross_entropy(logits, target)
    torch.testing.assert_close(thrice - plain, 3 * (once - plain), atol=1e-6, rtol=1e-4)


def test_errors_are_one_sentence():
    with pytest.raises(ValueError, match="no value per sample"):
        fc.MMCELoss(reduction="none")
    with pytest.raises(ValueError, match="published or formula"):
        fc.MMCELoss(normalization="none")
    with pytest.raises(ValueError, match="width must be positive"):
        fc.mmce(torch.zeros(1, 2), torch.tensor([0]), width=0.0)
    with pytest.raises(ValueError, match="penalty must be at least 0"):
        fc.MMCELoss(-1.0)


def test_bad_input_is_not_hidden():
    assert fc.mmce(torch.full((2, 3), float("nan")), torch.tensor([0, 1])).isnan()
    with pytest.raises(ValueError, match="Target 7 is out of range"):
        fc.mmce(torch.zeros(2, 3), torch.tensor([7, 0]))


def test_autocast_changes_nothing():
    logits, target = torch.randn(20, 3), torch.randint(3, (20,))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = fc.mmce(logits, target)
    assert inside == fc.mmce(logits, target)
