"""A report on predictions with a masked class: every figure is that of the answers, at every temperature."""

import pytest

from focalcal.report.model_sources import ModelSource
from focalcal.report.reported_model import ReportSettings, measure_model
from oracles.masked import oracle, three_classes


def test_every_figure_is_of_the_answers():
    test, val = three_classes(seed=2, split="test"), three_classes(seed=1, split="val")
    found = measure_model(ModelSource("a", test, val), ReportSettings(bootstrap=20))
    temperature = found.scaling.temperature
    assert found.class_names == ["negative", "positive"]
    assert found.before.values["ece"] == pytest.approx(oracle(test)["ece"])
    assert found.after.values["ece"] == pytest.approx(oracle(test, temperature)["ece"])
    for stop in found.stops:
        expected = oracle(test, stop.temperature)
        assert stop.nll == pytest.approx(expected["nll"])
        assert float(stop.equal_width(15).gap.abs().sum() / len(test)) == pytest.approx(expected["ece"], abs=1e-9)
    assert sum(confusion.count for confusion in found.confusions) == round(expected["error"] * len(test))
