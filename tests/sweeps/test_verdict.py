from focalcal.sweeps.loss_table import Figure
from focalcal.sweeps.result import sweep_verdict


def _figures(**temperatures: float):
    found = {}
    for place, (loss, temperature) in enumerate(temperatures.items()):
        found[loss, "temperature", ""] = Figure(temperature, None, None)
        found[loss, "ece", "pre"] = Figure(3.0 + place, None, None)
    return found


def test_words_follow_the_figures():
    found = _figures(ce=2.5, focal=1.05, ls=0.6)
    tied = {("ece", "pre"): frozenset({"ce", "ls"})}
    said = sweep_verdict(
        found, ["ce", "focal", "ls"], {("ece", "pre"): "ce"}, tied, {"ce": 0.08, "focal": 0.001, "ls": -0.1}
    )
    assert said == [
        "Over-confident: ce by 8.0 points (T = 2.5).",
        "Under-confident: ls by 10.0 points (T = 0.6); T by validation ECE.",
        "The best temperature, by validation ECE, is near 1 for focal: scaling has little to repair.",
        "ce has the lowest ECE before scaling (3.00); ls is statistically indistinguishable from it.",
    ]


def test_a_lone_winner_is_called_so():
    said = sweep_verdict(_figures(ce=2.0, focal=2.0), ["ce", "focal"], {("ece", "pre"): "ce"}, {}, {})
    assert said == ["ce has the lowest ECE before scaling (3.00), significantly lower than every other loss."]
