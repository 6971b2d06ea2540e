"""Comparison of every out-of-distribution sample with every other one, and of every threshold."""

import math


def entropy(row):
    return -sum(p * math.log(p) for p in row if p > 0)


def auroc(inside, outside):
    """Share of pairs in which the outside score is higher; ties count half."""
    pairs = [(a, b) for a in inside for b in outside]
    return sum(1.0 if b > a else 0.5 if b == a else 0.0 for a, b in pairs) / len(pairs)


def fpr_at_tpr(inside, outside, tpr):
    """Smallest share of inside scores at or above a threshold that at least tpr of the outside scores reach."""
    enough = [t for t in [*inside, *outside] if sum(b >= t for b in outside) / len(outside) >= tpr]
    return min(sum(a >= t for a in inside) / len(inside) for t in enough)
