"""The propositions of the paper, as tests, and the γ policies."""

import math

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import focalcal as fc
from oracles import losses as oracle

# ---------------------------------------------------------------- g(p, γ)


@settings(max_examples=200, deadline=None)
@given(st.floats(1e-9, 1 - 1e-9), st.floats(0, 20))
def test_gradient_factor_follows_proposition_1(p, gamma):
    expected = oracle.gradient_factor(p, gamma)
    assert fc.gradient_factor(p, gamma) == pytest.approx(expected, rel=1e-6, abs=1e-12)
    assert fc.gradient_factor(np.array([p]), gamma)[0] == fc.gradient_factor(p, gamma)
    tensor = fc.gradient_factor(torch.tensor([p], dtype=torch.float64), gamma)
    assert tensor.item() == pytest.approx(fc.gradient_factor(p, gamma), rel=1e-12)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0, 3.0, 20.0])
def test_gradient_factor_at_the_ends(gamma):
    assert fc.gradient_factor(0.0, gamma) == 1
    assert fc.gradient_factor(1.0, gamma) == (1 if gamma == 0 else 0)
    near = fc.gradient_factor(1 - 2**-53, gamma)
    with mpmath.workdps(50):
        p = mpmath.mpf(1) - mpmath.mpf(2) ** -53
        exact = (1 - p) ** gamma - gamma * p * (1 - p) ** (gamma - 1) * mpmath.log(p)
        assert near == pytest.approx(float(exact), rel=1e-12)


def test_gradient_factor_broadcasts_and_keeps_type():
    p, gamma = np.linspace(0, 1, 5)[:, None], np.array([0.0, 1.0, 3.0])
    assert fc.gradient_factor(p, gamma).shape == (5, 3)
    half = fc.gradient_factor(torch.rand(3).half(), 2.0)
    assert half.dtype == torch.float16
    assert isinstance(fc.gradient_factor(0.3, 2), float)


def test_gradient_factor_of_wrong_values():
    with pytest.raises(ValueError, match=r"p must lie in \[0, 1\], got 1.5"):
        fc.gradient_factor(1.5, 1.0)
    with pytest.raises(ValueError, match="at least 0, got -1"):
        fc.gradient_factor(0.5, -1.0)
    with pytest.raises(TypeError, match="floating-point"):
        fc.gradient_factor(torch.tensor([1]), 1.0)
    assert fc.gradient_factor(torch.tensor([1.5, 0.5]), 1.0).isnan().tolist() == [True, False]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([0.5, 1.0, 2.0, 3.0, 5.0]))
def test_proposition_1_at_the_last_linear_layer(seed, gamma):
    """The gradient of the focal loss by the last layer's weights is g times that of cross-entropy, sample by sample."""
    torch.manual_seed(seed)
    body = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh()).double()
    head = torch.nn.Linear(8, 5).double()
    x, y = torch.randn(1, 4, dtype=torch.float64), torch.randint(5, (1,))
    logits = head(body(x))
    (focal,) = torch.autograd.grad(fc.focal_loss(logits, y, gamma), head.weight, retain_graph=True)
    (plain,) = torch.autograd.grad(torch.nn.functional.cross_entropy(logits, y), head.weight)
    p = logits.softmax(1)[0, y].item()
    torch.testing.assert_close(focal, fc.gradient_factor(p, gamma) * plain)


# ---------------------------------------------------------------- γ*(p0)


def exact_gamma_star(p0):
    """The positive root of g(p0, γ) = 1 to 50 digits, by the logarithm of the equation."""
    with mpmath.workdps(50):
        p = mpmath.mpf(p0)
        start = mpmath.mpf(fc.gamma_star(p0))
        equation = lambda gamma: gamma * mpmath.log1p(-p) + mpmath.log1p(-gamma * p * mpmath.log(p) / (1 - p))  # noqa: E731
        return mpmath.findroot(equation, (start * (1 - mpmath.mpf(10) ** -9), start * (1 + mpmath.mpf(10) ** -9)))


@pytest.mark.parametrize("p0", [*np.geomspace(1e-6, 0.49, 60).tolist(), 0.2, 0.25, 0.4, 1 / math.e])
def test_gamma_star_is_the_root(p0):
    exact = exact_gamma_star(p0)
    assert exact > 0
    ours = [
        fc.gamma_star(p0),
        float(fc.gamma_star(np.array(p0))),
        fc.gamma_star(torch.tensor(p0, dtype=torch.float64)).item(),
    ]
    for value in ours:
        assert abs(value - exact) <= 1e-10 * exact


def test_gamma_star_of_the_paper():
    values = [round(fc.gamma_star(p), 4) for p in (0.2, 0.25, 0.4)]
    assert values == [4.8506, 3.0702, 0.6805]
    assert fc.gamma_star(1 / math.e) == pytest.approx(1.0, rel=1e-12)
    assert fc.gamma_star(np.full((2, 3), 0.2)).shape == (2, 3)
    assert fc.gamma_star(torch.tensor([0.2])).dtype == torch.float32


@pytest.mark.parametrize("p0", [0.0, 0.5, 0.7, 1.0, -0.1, math.nan])
def test_gamma_star_exists_only_below_one_half(p0):
    for value in (p0, np.array([0.2, p0]), torch.tensor([0.2, p0])):
        with pytest.raises(ValueError, match=r"only for 0 < p0 < 0\.5, got"):
            fc.gamma_star(value)


@settings(max_examples=100, deadline=None)
@given(st.floats(1e-3, 0.49), st.floats(0, 10), st.floats(0, 1))
def test_proposition_2_no_gradient_is_strengthened_beyond_p0(p0, beyond, share):
    """g(p, γ) ≤ 1 for every γ ≥ γ*(p0) and p ≥ p0, with equality only at the corner."""
    gamma, p = fc.gamma_star(p0) + beyond, p0 + share * (1 - p0)
    g = fc.gradient_factor(p, gamma)
    assert g <= 1 + 1e-9
    if beyond > 1e-3 or share > 1e-3:
        assert g < 1
    assert fc.gradient_factor(p0, fc.gamma_star(p0)) == pytest.approx(1, abs=1e-9)


def test_high_gammas_kill_the_gradient_near_one_half():
    """From γ = 7 on almost nothing of the gradient is left at p = 0.5, where a prediction is still ambiguous."""
    assert fc.gradient_factor(0.5, 3.0) > 0.3
    for gamma in (7.0, 10.0, 20.0):
        assert fc.gradient_factor(0.5, gamma) < 0.05
    assert fc.gradient_factor(0.5, 20.0) < 1e-4


# ---------------------------------------------------------------- the bound on the loss


@settings(max_examples=100, deadline=None)
@given(
    st.integers(2, 6).flatmap(lambda k: st.lists(st.floats(-20, 20), min_size=2 * k, max_size=2 * k)),
    st.floats(1, 10),
)
def test_focal_loss_bounds_cross_entropy_minus_entropy(values, gamma):
    """L_f ≥ CE − γ H[p̂] for γ ≥ 1 and any target distribution q."""
    k = len(values) // 2
    logits = torch.tensor([values[:k]], dtype=torch.float64)
    q = torch.tensor([values[k:]], dtype=torch.float64).softmax(1)
    p = logits.softmax(1)
    entropy = torch.special.entr(p).sum()
    focal = fc.focal_loss(logits, q, gamma)
    assert focal >= fc.focal_loss(logits, q, 0.0) - gamma * entropy - 1e-9


# ---------------------------------------------------------------- policies


def test_sample_gamma_takes_the_upper_interval_at_a_threshold():
    policy = fc.SampleGamma.flsd532()
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        p = torch.tensor([0.0, 0.2, 0.5, 1.0], dtype=dtype)
        assert policy(p).tolist() == [5, 3, 2, 2]
        assert policy(p).dtype == dtype
    p = torch.tensor([np.nextafter(0.2, 0), 0.2, np.nextafter(0.5, 0), 0.5])
    assert policy(p).tolist() == [5, 3, 3, 2]


def test_sample_gamma_agrees_with_itself_by_probability_and_by_nll():
    policy = fc.SampleGamma.flsd532()
    p = torch.rand(1000, dtype=torch.float64)
    assert policy.for_nll(-p.log()).equal(policy(p))
    assert policy.for_nll((-p.log()).numpy()).tolist() == policy(p).tolist()


def test_sample_gamma_from_p0_is_proposition_2():
    policy = fc.SampleGamma.from_p0((0.2, 0.25))
    assert policy == fc.SampleGamma(thresholds=(0.2,), gammas=(fc.gamma_star(0.2), fc.gamma_star(0.25)))
    assert fc.SampleGamma.from_p0((0.25,)).gammas == (fc.gamma_star(0.25),)


def test_epoch_gamma_scales_in_proportion():
    schedule = fc.EpochGamma({0: 5.0, 100: 3.0, 250: 1.0})
    assert schedule.scaled(350) == schedule
    assert schedule.scaled(100).starts == (0, 29, 71)
    assert schedule.scaled(2) == fc.EpochGamma({0: 5.0, 1: 1.0})
    assert schedule.scaled(70, of=700).starts == (0, 10, 25)


def test_policies_are_values():
    assert fc.FixedGamma(3) == fc.FixedGamma(3.0)
    assert len({fc.SampleGamma.flsd53(), fc.SampleGamma.flsd53()}) == 1
    assert hash(fc.EpochGamma({0: 1.0})) == hash(fc.EpochGamma({0: 1.0}))


@pytest.mark.parametrize(
    ("message", "build"),
    [
        ("at least 0, got -1", lambda: fc.FixedGamma(-1)),
        ("at least 0, got nan", lambda: fc.FixedGamma(math.nan)),
        ("at least 0, got inf", lambda: fc.SampleGamma((0.5,), (1.0, math.inf))),
        ("2 thresholds need 3 gammas, got 2", lambda: fc.SampleGamma((0.2, 0.5), (1.0, 2.0))),
        ("between 0 and 1 and increase", lambda: fc.SampleGamma((0.5, 0.2), (1.0, 2.0, 3.0))),
        ("between 0 and 1 and increase", lambda: fc.SampleGamma((0.0,), (1.0, 2.0))),
        ("between 0 and 1 and increase", lambda: fc.SampleGamma((math.nan,), (1.0, 2.0))),
        ("start at 0 and increase", lambda: fc.EpochGamma({10: 1.0})),
        ("start at 0 and increase", lambda: fc.EpochGamma({0: 1.0, 20: 1.0, 10: 2.0})),
        ("start at 0 and increase", lambda: fc.EpochGamma({})),
        ("counted from 0, got -1", lambda: fc.EpochGamma({0: 1.0}).at_epoch(-1)),
        ("at least 1 epoch, got 0", lambda: fc.EpochGamma({0: 1.0}).scaled(0)),
        ("at least one p0", lambda: fc.SampleGamma.from_p0(())),
    ],
)
def test_wrong_policies_are_refused_when_they_are_made(message, build):
    with pytest.raises(ValueError, match=message) as caught:
        build()
    assert "\n" not in str(caught.value)


# ---------------------------------------------------------------- the optimum p̂(q) and the entropy bound


@settings(max_examples=100, deadline=None)
@given(st.floats(1e-6, 1 - 1e-6), st.floats(0, 8))
def test_the_optimum_minimises_the_binary_focal_loss(q, gamma):
    p = fc.focal_optimum(q, gamma)

    def loss(x):
        return -((1 - x) ** gamma) * q * math.log(x) - x**gamma * (1 - q) * math.log1p(-x)

    around = [min(max(p + step, 1e-12), 1 - 1e-12) for step in (-1e-4, 1e-4)]
    assert loss(p) <= min(map(loss, around)) + 1e-12
    assert min(q, 0.5) - 1e-12 <= p <= max(q, 0.5) + 1e-12
    assert fc.focal_optimum(1 - q, gamma) == pytest.approx(1 - p, abs=1e-9)


def test_the_optimum_is_undone_by_the_focal_inverse():
    q = np.array([0.001, 0.2, 0.5, 0.9, 0.999])
    for gamma in (1.0, 3.0, 5.0):
        p = fc.focal_optimum(q, gamma)
        inverse = fc.FocalInverse(gamma).transform(fc.Predictions.from_probs(np.stack([p, 1 - p], 1), [0] * 5))
        np.testing.assert_allclose(inverse.probs()[:, 0], q, rtol=1e-9)


def test_the_optimum_at_the_ends_and_of_every_type():
    assert [fc.focal_optimum(q, 3.0) for q in (0.0, 0.5, 1.0)] == [0.0, 0.5, 1.0]
    assert fc.focal_optimum(0.3, 0.0) == 0.3
    assert 0 < fc.focal_optimum(1e-300, 5.0) < 1e-40
    single = fc.focal_optimum(torch.tensor([0.9], dtype=torch.float32), 1.0)
    assert single.dtype == torch.float32
    assert fc.focal_optimum(np.full((2, 1), 0.9), np.array([1.0, 2.0, 3.0])).shape == (2, 3)
    with pytest.raises(ValueError, match=r"q must lie in \[0, 1\], got 1.5"):
        fc.focal_optimum(1.5, 1.0)
    with pytest.raises(ValueError, match="at least 0, got -1"):
        fc.focal_optimum(0.5, -1.0)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 12), st.floats(1, 10))
def test_the_focal_loss_is_never_below_the_bound(seed, classes, gamma):
    source = np.random.default_rng(seed)
    p, q = (source.dirichlet(np.full(classes, source.uniform(0.1, 3)), size=20) for _ in range(2))
    p = np.clip(p, 1e-12, 1)
    bound = fc.entropy_bound(p, q, gamma)
    loss = -((1 - p) ** gamma * q * np.log(p)).sum(1)
    assert (loss >= bound - 1e-9).all()
    slow = [
        sum(b * math.log(b / a) for a, b in zip(one, other, strict=True) if b > 0)
        + gamma * sum(a * math.log(a) for a in one)
        for one, other in zip(p, q, strict=True)
    ]
    np.testing.assert_allclose(bound, slow, rtol=1e-9, atol=1e-9)


def test_the_bound_of_what_is_not_a_distribution():
    good = np.array([0.5, 0.5])
    assert fc.entropy_bound(np.array([1.0, 0.0]), good, 1.0) == math.inf
    assert fc.entropy_bound(torch.tensor([[0.5, 0.5]]), torch.tensor([[1.0, 0.0]]), 2.0).shape == (1,)
    with pytest.raises(ValueError, match=r"of q must sum to 1 along the last dimension, got a sum of 0\.8"):
        fc.entropy_bound(good, np.array([0.5, 0.3]), 1.0)
    with pytest.raises(ValueError, match="p must hold probabilities"):
        fc.entropy_bound(np.array([1.5, -0.5]), good, 1.0)
    with pytest.raises(ValueError, match="same shape"):
        fc.entropy_bound(good, np.array([[0.5, 0.5]]), 1.0)


def test_lists_are_arrays():
    for values in (fc.gradient_factor([0.1, 0.2], 3.0), fc.gamma_star([0.1, 0.2]), fc.focal_optimum([0.1, 0.2], 3.0)):
        assert isinstance(values, np.ndarray)
        assert values.shape == (2,)
    assert isinstance(fc.focal_optimum(0.9, 3), float)
    assert fc.focal_optimum([0.1, 0.2], 3.0)[1] == fc.focal_optimum(0.2, 3.0)
