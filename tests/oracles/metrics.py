"""The metrics as their formulas say, in loops over Python's own numbers.

A sample is (outputs, probabilities, label, weight): outputs decide the order of classes, probabilities everything else.
The label is a class, or a list of class probabilities.
"""

import math

from hypothesis import strategies as st

from focalcal.predictions import Predictions


def samples_of(preds):
    values, probs = preds.values.tolist(), preds.probs().tolist()
    weights = [1.0] * len(preds) if preds.weights is None else preds.weights.tolist()
    return list(zip(values, probs, preds.labels.tolist(), weights, strict=True))


def first_largest(row):
    return max(range(len(row)), key=lambda k: (row[k], -k))


def hard(label):
    return first_largest(label) if isinstance(label, list) else label


def soft(label, num_classes):
    return label if isinstance(label, list) else [float(k == label) for k in range(num_classes)]


def is_right(sample):
    values, _, label, _ = sample
    return first_largest(values) == hard(label)


def confidence(sample):
    values, probs, _, _ = sample
    return probs[first_largest(values)]


def rank(sample):
    values, _, label, _ = sample
    y = hard(label)
    return sum(values[k] > values[y] or (values[k] == values[y] and k < y) for k in range(len(values)))


def nll(sample):
    """−Σ q log p, where a class of probability 0 that is no label costs nothing."""
    _, probs, label, _ = sample
    terms = zip(soft(label, len(probs)), probs, strict=True)
    return sum(0.0 if q == 0 else math.inf if p == 0 else -q * math.log(p) for q, p in terms)


def brier(sample):
    _, probs, label, _ = sample
    return sum((p - q) ** 2 for p, q in zip(probs, soft(label, len(probs)), strict=True))


def entropy(sample):
    return sum(0.0 if p == 0 else -p * math.log(p) for p in sample[1])


def mean(values, samples):
    """The weighted mean of one value a sample; samples of weight 0 are not there."""
    pairs = [(value, sample[3]) for value, sample in zip(values, samples, strict=True) if sample[3] > 0]
    total = sum(weight for _, weight in pairs)
    return sum(value * weight for value, weight in pairs) / total if pairs else math.nan


def bin_of(p, bins):
    """The m with m/M < p ≤ (m+1)/M; 0 for p = 0."""
    for m in range(bins):
        if p <= (m + 1) / bins:
            return m
    raise ValueError(p)


def gaps(groups):
    """|Σ confidence − Σ right| and weight of each group of (confidence, right, weight)."""
    return [(abs(sum(w * (c - r) for c, r, w in group)), sum(w for _, _, w in group)) for group in groups]


def equal_width_groups(samples, bins):
    groups = [[] for _ in range(bins)]
    for sample in samples:
        groups[bin_of(confidence(sample), bins)].append((confidence(sample), is_right(sample), sample[3]))
    return groups


def ece(samples, bins):
    found = gaps(equal_width_groups(samples, bins))
    return sum(gap for gap, _ in found) / sum(weight for _, weight in found)


def mce(samples, bins):
    return max(gap / weight for gap, weight in gaps(equal_width_groups(samples, bins)) if weight > 0)


def ties_in_order(samples):
    """Samples of equal confidence together, in ascending order: (confidence, weight of the right ones, weight)."""
    used = [s for s in samples if s[3] > 0]
    ties = [[s for s in used if confidence(s) == value] for value in sorted({confidence(s) for s in used})]
    return [(confidence(tie[0]), sum(s[3] for s in tie if is_right(s)), sum(s[3] for s in tie)) for tie in ties]


def equal_mass_groups(samples, bins):
    """The first n mod M groups get one sample more, counted in mean weights; each takes its share of ties on a cut."""
    ties = ties_in_order(samples)
    n, total = sum(s[3] > 0 for s in samples), sum(weight for _, _, weight in ties)
    sizes = [n // bins + (m < n % bins) for m in range(bins)]
    groups, position, taken = [], 0, 0.0
    for size in sizes:
        group, wanted = [], size * total / n
        while wanted > 1e-12 * total and position < len(ties):
            value, right, weight = ties[position]
            part = min(weight - taken, wanted)
            group.append((value, right / weight, part))
            wanted -= part
            taken += part
            if taken > weight - 1e-12 * total:
                position, taken = position + 1, 0.0
        groups.append(group)
    return groups


def ada_ece(samples, bins):
    return sum(gap for gap, _ in gaps(equal_mass_groups(samples, bins))) / sum(s[3] for s in samples)


def ks_error(samples):
    """After each different confidence, the sum so far of confidence − right."""
    total, largest, so_far = sum(s[3] for s in samples), 0.0, 0.0
    for value, right, weight in ties_in_order(samples):
        so_far += weight * value - right
        largest = max(largest, abs(so_far))
    return largest / total


def classwise_ece(samples, bins):
    num_classes, total = len(samples[0][1]), sum(s[3] for s in samples)
    error = 0.0
    for k in range(num_classes):
        groups = [[] for _ in range(bins)]
        for _, probs, label, weight in samples:
            groups[bin_of(probs[k], bins)].append((probs[k], hard(label) == k, weight))
        error += sum(gap for gap, _ in gaps(groups)) / total
    return error / num_classes


def all_metrics(preds, bins=15):
    """Everything that one pass gives, by the names of `evaluate`."""
    samples = samples_of(preds)
    right = [s for s in samples if is_right(s)]
    wrong = [s for s in samples if not is_right(s)]
    confident = [s for s in samples if confidence(s) >= 0.99]
    found = {
        "error": mean([not is_right(s) for s in samples], samples),
        "accuracy": mean([is_right(s) for s in samples], samples),
        "top_5_accuracy": mean([rank(s) < 5 for s in samples], samples),
        "nll": mean([nll(s) for s in samples], samples),
        "brier": mean([brier(s) for s in samples], samples),
        "ece": ece(samples, bins),
        "mce": mce(samples, bins),
        "ada_ece": ada_ece(samples, bins),
        "ks_error": ks_error(samples),
        "classwise_ece": classwise_ece(samples, bins),
        "confident_share": mean([confidence(s) >= 0.99 for s in samples], samples),
        "confident_accuracy": mean([is_right(s) for s in confident], confident),
        "mean_confidence": mean([confidence(s) for s in samples], samples),
        "mean_confidence_right": mean([confidence(s) for s in right], right),
        "mean_confidence_wrong": mean([confidence(s) for s in wrong], wrong),
        "mean_entropy": mean([entropy(s) for s in samples], samples),
        "mean_entropy_right": mean([entropy(s) for s in right], right),
        "mean_entropy_wrong": mean([entropy(s) for s in wrong], wrong),
    }
    found["signed_gap"] = found["mean_confidence"] - found["accuracy"]
    if preds.num_classes <= 5:
        del found["top_5_accuracy"]
    return found


# What hypothesis draws. Ties, edges of bins and saturation come by themselves too rarely: they are put in by name.
LOGITS = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, -1.0, 40.0, -40.0, 800.0, -math.inf]),
    st.floats(-8, 8),
)
FINITE_LOGITS = st.one_of(st.sampled_from([0.0, 1.0, -1.0, 40.0, -800.0]), st.floats(-8, 8))


@st.composite
def weights_for(draw, n):
    """None, or weights of which some may be 0 and one is not."""
    if draw(st.booleans()):
        return None
    weights = draw(st.lists(st.one_of(st.sampled_from([0.0, 1.0, 2.0]), st.floats(0.01, 10)), min_size=n, max_size=n))
    weights[draw(st.integers(0, n - 1))] = 1.5
    return weights


@st.composite
def logit_predictions(draw, max_samples=24, logits=LOGITS, soft_labels=False):
    n, num_classes = draw(st.integers(1, max_samples)), draw(st.integers(2, 7))
    row = st.lists(logits, min_size=num_classes, max_size=num_classes).filter(lambda r: max(r) > -math.inf)
    values = draw(st.lists(row, min_size=n, max_size=n))
    if soft_labels:
        counts = st.lists(st.integers(0, 3), min_size=num_classes, max_size=num_classes).filter(any)
        labels = draw(st.lists(counts, min_size=n, max_size=n))
    else:
        labels = draw(st.lists(st.integers(0, num_classes - 1), min_size=n, max_size=n))
    return Predictions.from_logits(values, labels, weights=draw(weights_for(n)), labels_are="counts")


@st.composite
def edge_predictions(draw, bins, max_samples=24, dtype=float):
    """Two classes whose probabilities lie on edges of bins, next to them, or anywhere."""
    on_edge = st.integers(0, bins).map(lambda m: m / bins)
    p = st.one_of(on_edge, on_edge.map(lambda e: math.nextafter(e, 2)), st.floats(0, 1)).filter(lambda p: p <= 1)
    column = [dtype(p) for p in draw(st.lists(p, min_size=1, max_size=max_samples))]
    labels = draw(st.lists(st.integers(0, 1), min_size=len(column), max_size=len(column)))
    return [[c, dtype(1) - c] for c in column], labels, draw(weights_for(len(column)))
