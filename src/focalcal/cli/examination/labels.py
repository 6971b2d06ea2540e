"""Labels that do not fit the outputs: classes that are missing, numbers that are shifted, accuracy as by chance."""

import math
from collections.abc import Iterator, Sequence

import torch

from focalcal.cli.examination.finding import Examined, Finding, share
from focalcal.predictions.masking import answer_classes, answers

# A shift of the labels is suspected if it gains this much accuracy.
_SHIFT_GAIN = 0.2
# So many standard deviations from chance are no accident; so few samples show nothing.
_DEVIATIONS = 4.0
_FEWEST = 30


def missing_classes(examined: Examined) -> Iterator[Finding]:
    """Classes that no label names."""
    preds = answers(examined.preds)
    if preds.has_soft_labels:
        lacking = (preds.labels.sum(0) == 0).nonzero()[:, 0].tolist()
    else:
        lacking = (torch.bincount(preds.labels, minlength=preds.num_classes) == 0).nonzero()[:, 0].tolist()
    if not lacking:
        return
    numbers = answer_classes(examined.preds)
    names = _listed([numbers[place] for place in lacking], examined.preds.class_names)
    what = f"{len(lacking)} of {preds.num_classes} classes have no sample ({names})."
    advice = "If the samples should cover all classes, check the labels and the order of the outputs."
    yield Finding("warning", "missing_classes", what, advice)


def shifted_labels(examined: Examined) -> Iterator[Finding]:
    """Labels that count from 1 where outputs count from 0, or the other way; two classes that are swapped."""
    statistics, n = examined.statistics, len(examined.preds)
    right = int(statistics.correct.sum())
    by = {offset: int((statistics.prediction == statistics.label + offset).sum()) for offset in (-1, 1)}
    if len(answer_classes(examined.preds)) == 2:
        swapped = n - right
        if swapped - right > _SHIFT_GAIN * n and n >= _FEWEST:
            what = f"Accuracy is {share(right, n)}, and {share(swapped, n)} with the two classes swapped."
            yield Finding("problem", "swapped_classes", what, "Check which class the outputs and the labels call 1.")
        return
    offset, shifted = max(by.items(), key=lambda item: item[1])
    if shifted - right > _SHIFT_GAIN * n and n >= _FEWEST:
        what = f"Accuracy is {share(right, n)}, and {share(shifted, n)} with every label {offset:+d}"
        advice = "Make labels and outputs count from the same number."
        yield Finding("problem", "shifted_labels", f"{what}: the labels look off by one.", advice)


def accuracy_by_chance(examined: Examined) -> Iterator[Finding]:
    """Accuracy below, or no better than, what guessing gives."""
    statistics, n, classes = examined.statistics, len(examined.preds), len(answer_classes(examined.preds))
    if n < _FEWEST or any(True for _ in shifted_labels(examined)):
        return
    right, guessed = int(statistics.correct.sum()), n / classes
    deviation = math.sqrt(guessed * (1 - 1 / classes))
    common = int(torch.bincount(statistics.label).max())
    advice = "Check that outputs and labels are of the same samples, in the same order, with the same classes."
    if right < guessed - _DEVIATIONS * deviation:
        what = f"Accuracy is {share(right, n)}, below that of guessing ({100 / classes:.3g}%)."
        yield Finding("problem", "below_chance", what, advice)
    elif right < guessed + deviation:
        what = f"Accuracy is {share(right, n)}, no better than guessing ({100 / classes:.3g}%)."
        yield Finding("warning", "no_better_than_chance", what, advice)
    elif right <= common < n:
        what = f"Accuracy is {share(right, n)}; always naming the most common class would give {share(common, n)}."
        yield Finding("warning", "no_better_than_the_most_common_class", what, advice)


def _listed(classes: list[int], names: Sequence[str] | None) -> str:
    shown = ", ".join(str(index) if names is None else names[index] for index in classes[:5])
    return shown + (f" and {len(classes) - 5} more" if len(classes) > 5 else "")
