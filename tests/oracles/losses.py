"""Slow, obvious versions of the losses, one number at a time in Python floats, straight from the formulas."""

import math


def softmax(z):
    top = max(z)
    e = [math.exp(v - top) for v in z]
    return [v / sum(e) for v in e]


def focal_term(p, gamma):
    """−(1 − p)^γ log p."""
    return math.inf if p == 0 else -((1 - p) ** gamma) * math.log(p)


def flsd53(p):
    return 5.0 if p < 0.2 else 3.0


def focal_sample(z, q, gamma, weight=None):
    """−Σ_y w_y q_y (1 − p_y)^γ(p_y) log p_y of one sample; γ is a number or a function of p."""
    total = 0.0
    for k, p in enumerate(softmax(z)):
        mass = q[k] * (1.0 if weight is None else weight[k])
        if mass != 0:
            total += mass * focal_term(p, gamma(p) if callable(gamma) else gamma)
    return total


def smooth_pytorch(q, epsilon):
    return [(1 - epsilon) * v + epsilon / len(q) for v in q]


def smooth_paper(q, alpha):
    return [(1 - alpha) * v + alpha * (1 - v) / (len(q) - 1) for v in q]


def brier_sample(z, q):
    return sum((p - v) ** 2 for p, v in zip(softmax(z), q, strict=True))


def gradient_factor(p, gamma):
    """g(p, γ) as Proposition 1 prints it, for 0 < p < 1."""
    return (1 - p) ** gamma - gamma * p * (1 - p) ** (gamma - 1) * math.log(p)


def mmce(logits, labels, weighted, width=0.4, published=False):
    """MMCE from its three double sums."""
    r, c = [], []
    for z, y in zip(logits, labels, strict=True):
        p = softmax(z)
        r.append(max(p))
        c.append(p.index(max(p)) == y)
    k = [[math.exp(-abs(a - b) / width) for b in r] for a in r]
    m = len(r)
    right, wrong = [i for i in range(m) if c[i]], [i for i in range(m) if not c[i]]
    if published and weighted and not (right and wrong):
        return 0.0
    if not weighted:
        total = sum((c[i] - r[i]) * (c[j] - r[j]) * k[i][j] for i in range(m) for j in range(m)) / m**2
    else:
        total = 0.0
        power = 2 if published else 1
        if right:
            total += sum((1 - r[i]) * (1 - r[j]) * k[i][j] for i in right for j in right) / (len(right) ** 2) ** power
        if wrong:
            total += sum(r[i] * r[j] * k[i][j] for i in wrong for j in wrong) / (len(wrong) ** 2) ** power
        if right and wrong:
            pairs = (len(right) * len(wrong)) ** power
            total -= 2 * sum((1 - r[i]) * r[j] * k[i][j] for i in right for j in wrong) / pairs
    return math.sqrt(max(total, 0.0) + (1e-10 if published else 0.0))
