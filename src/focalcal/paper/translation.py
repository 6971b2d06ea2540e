"""Translation: the paper's claims about calibration and BLEU, in every result of translators."""

from collections.abc import Iterator, Sequence
from typing import Any

from focalcal.paper.claims import Claim, judged
from focalcal.paper.comparing import against, figure
from focalcal.paper.result_folders import ResultSet

_FOCAL, _OTHERS = "fl-1", ("cross-entropy", "ls-0.1")
_NOTHING = "there are no such runs of a translation model; published figures only"


def translation_claims(results: Sequence[ResultSet]) -> list[Claim]:
    """Judge the paper's claims; its data is WMT14, so results on other data say so by their names."""
    found = [result for result in results if result.curves]
    return [
        judged("Focal loss (γ = 1) has a lower ECE than cross-entropy in translation.", _ece(found), _NOTHING),
        judged("Focal loss (γ = 1) has the highest BLEU of the three.", _bleu(found), _NOTHING),
        judged("The best temperature of focal loss (γ = 1) is 1.", _temperature(found), _NOTHING),
        judged(
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


def _ece(results: Sequence[ResultSet]) -> list[tuple[bool, str]]:
    cases = (against(result, _FOCAL, _OTHERS[0], "ece", "pre") for result in results)
    return [case for case in cases if case is not None]


def _bleu(results: Sequence[ResultSet]) -> Iterator[tuple[bool, str]]:
    for result in results:
        known = {loss: one for loss in (_FOCAL, *_OTHERS) if (one := figure(result, loss, "bleu", "pre")) is not None}
        if len(known) < 2 or _FOCAL not in known:
            continue
        best = max(known, key=lambda loss: known[loss].value)
        shown = ", ".join(f"{loss} {one.text()}" for loss, one in known.items())
        yield best == _FOCAL, f"{result.name}: {shown}"


def _temperature(results: Sequence[ResultSet]) -> Iterator[tuple[bool, str]]:
    for result in results:
        found = figure(result, _FOCAL, "ece", "post")
        if found is not None and found.temperature is not None:
            yield abs(found.temperature - 1) < 0.05, f"{result.name}: T = {found.temperature:.2g}"


def _peaks(results: Sequence[ResultSet]) -> Iterator[tuple[bool, str]]:
    """The interval of BLEU is that of one system: a peak inside it is not called significant."""
    for result in results:
        for loss, seed, _, calibrated, peak in _curves(result):
            row = figure(result, loss, "bleu", "pre")
            reach = 0.0 if row is None or row.interval is None else row.interval[1] - row.value
            near = abs(calibrated.temperature - peak.temperature) <= 0.2 or peak.bleu - calibrated.bleu <= reach
            yield (
                near,
                f"{result.name}, {loss}, seed {seed}: BLEU {calibrated.bleu:.2f} at T = {calibrated.temperature:.1f}, "
                f"of lowest ECE, at most {peak.bleu:.2f} at T = {peak.temperature:.1f}",
            )
