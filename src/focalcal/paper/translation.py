"""Translation: the paper's claims about calibration and BLEU, in every result of translators."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from focalcal.paper.cells import Measured
from focalcal.paper.claims import Case, Claim, all_hold, judge
from focalcal.paper.loss_comparison import against, figure, is_lower, short
from focalcal.paper.result_folders import ResultSet
from focalcal.sweeps.bleu_differences import find_difference

_FOCAL, _OTHERS = "fl-1", ("cross-entropy", "ls-0.1")
_NOTHING = "there are no such runs of a translation model; published figures only"
_Cases = Iterator[Case]


def translation_claims(results: Sequence[ResultSet]) -> list[Claim]:
    """Judge the paper's claims; its data is WMT14, so results on other data say so by their names."""
    found = [result for result in results if result.curves]
    return [
        judge(
            "Focal loss (γ = 1) has a lower ECE than cross-entropy in translation, before temperature scaling.",
            _ece(found, "pre", _OTHERS[:1]),
            _NOTHING,
        ),
        judge("It has a lower ECE than label smoothing (0.1), too.", _ece(found, "pre", _OTHERS[1:]), _NOTHING),
        judge("After scaling it still has the lowest ECE of the three.", _ece(found, "post", _OTHERS), _NOTHING),
        judge("Focal loss (γ = 1) has the highest BLEU of the three.", _bleu(found), _NOTHING),
        judge("The best temperature of focal loss (γ = 1) is 1.", _temperature(found, _FOCAL), _NOTHING),
        judge("The best temperature of label smoothing (0.1) is 1.", _temperature(found, "ls-0.1"), _NOTHING),
        judge(
            "BLEU is highest at about the temperature at which validation ECE is lowest (within 0.2, or not "
            "significantly lower there).",
            _peaks(found),
            _NOTHING,
        ),
    ]


def translation_records(results: Sequence[ResultSet]) -> list[dict[str, Any]]:
    """Return for every run the temperatures of lowest validation ECE and highest test BLEU."""
    return [
        {
            "result": result.name,
            "loss": loss,
            "seed": seed,
            "T of lowest validation ECE": f"{calibrated.temperature:.1f}",
            "validation ECE there": calibrated.val_ece,
            "BLEU there": calibrated.bleu,
            "T of highest BLEU": f"{peak.temperature:.1f}",
            "highest BLEU": peak.bleu,
            "BLEU at T = 1": next(one.bleu for one in points if one.temperature == 1.0),
        }
        for result in results
        for loss, seed, points, calibrated, peak in _curves(result)
    ]


def _curves(result: ResultSet) -> Iterator[tuple[str, int, Any, Any, Any]]:
    """Yield loss, seed, curve, its point of lowest validation ECE and that of highest BLEU, by run."""
    for loss, seed in dict.fromkeys((one.method, one.seed) for one in result.curves):
        points = [one for one in result.curves if (one.method, one.seed) == (loss, seed)]
        yield loss, seed, points, min(points, key=lambda one: one.val_ece), max(points, key=lambda one: one.bleu)


def difference_records(results: Sequence[ResultSet]) -> list[dict[str, Any]]:
    """Return every difference of BLEU that was tested by the paired bootstrap."""
    return [
        {
            "result": result.name,
            "first (T)": f"{one.method} ({one.temperature:.3g})",
            "second (T)": f"{one.baseline} ({one.baseline_temperature:.3g})",
            "seed": one.seed,
            "BLEU of the first − the second": f"{one.difference:+.2f} [{one.low:.2f}, {one.high:.2f}]",
            "p": f"{one.p_value:.3f}",
            "significant at 90%": "yes" if one.is_significant else "no",
            "p by sacrebleu": f"{one.sacrebleu_p_value:.3f}",
        }
        for result in results
        for one in result.differences
    ]


def _ece(results: Sequence[ResultSet], scaling: str, others: Sequence[str]) -> _Cases:
    for result in results:
        cases = [case for other in others for case in against([result], _FOCAL, other, "ece", scaling)]
        if len(cases) == len(others):
            shown = [text.partition(": ")[2] for _, text in cases]
            named = [
                f"{text} of {short(other)}" if len(others) > 1 else text
                for text, other in zip(shown, others, strict=True)
            ]
            yield all_hold([holds for holds, _ in cases]), f"{result.name}: {', '.join(named)}"


def _bleu(results: Sequence[ResultSet]) -> _Cases:
    """Ask for a BLEU above that of each of the others, by more than chance."""
    for result in results:
        known = {loss: one for loss in (_FOCAL, *_OTHERS) if (one := figure(result, loss, "bleu", "pre")) is not None}
        if len(known) < 3:
            continue
        higher = [_is_higher(result, known, other) for other in _OTHERS]
        shown = [f"{short(loss)} {one.text()}" for loss, one in known.items()]
        tests = [f"{short(other)}: {said}" for other, (_, said) in zip(_OTHERS, higher, strict=True)]
        yield all_hold([holds for holds, _ in higher]), f"{result.name}: {', '.join(shown)}; against {', '.join(tests)}"


def _is_higher(result: ResultSet, known: Mapping[str, Measured], other: str) -> Case:
    """Compare the focal loss with another by the paired bootstrap where there is one seed, else over the seeds."""
    ours, theirs = known[_FOCAL], known[other]
    change = f"{ours.value - theirs.value:+.2f}"
    seeds = {one.seed for one in result.curves}
    tested = find_difference(result.differences, (_FOCAL, 1.0), (other, 1.0), min(seeds))
    if ours.seeds > 1 or theirs.seeds > 1 or tested is None:
        lower = is_lower(theirs, ours)
        return lower, change + (" (not significant)" if lower is None else "")
    return tested.difference > 0 if tested.is_significant else None, tested.text()


def _temperature(results: Sequence[ResultSet], loss: str) -> _Cases:
    for result in results:
        found = figure(result, loss, "ece", "post")
        if found is not None and found.temperature is not None:
            yield abs(found.temperature - 1) < 0.05, f"{result.name}: T = {found.temperature:.2g}"


def _peaks(results: Sequence[ResultSet]) -> _Cases:
    for result in results:
        for loss, seed, _, calibrated, peak in _curves(result):
            is_close = abs(calibrated.temperature - peak.temperature) < 0.2 + 1e-9
            tested = find_difference(result.differences, (loss, calibrated.temperature), (loss, peak.temperature), seed)
            is_level = tested is not None and not tested.is_significant
            p_value = "" if tested is None else f" (p = {tested.p_value:.2g})"
            yield (
                is_close or is_level or peak == calibrated,
                f"{result.name}, {short(loss)}, seed {seed}: BLEU {calibrated.bleu:.2f} at T = "
                f"{calibrated.temperature:.1f}, of lowest ECE, at most {peak.bleu:.2f} at T = "
                f"{peak.temperature:.1f}{p_value}",
            )
