import pytest

from focalcal.calibrators import TemperatureScaling
from focalcal.comparison import Plan
from focalcal.comparison.finished import finished_run
from focalcal.comparison.scoring import score
from focalcal.metrics import ada_ece, classwise_ece, ece, error, mce, nll
from focalcal.training import open_run

_METRICS = {"ece": ece, "ada_ece": ada_ece, "classwise_ece": classwise_ece, "mce": mce, "nll": nll}


@pytest.mark.parametrize("objective", ["ece", "nll"])
@pytest.mark.parametrize("selection", ["best", "last"])
def test_figures_are_the_librarys_own_in_percent(trained: Plan, objective, selection):
    run = next(iter(trained.runs()))
    which = "selected" if selection == "best" else "last"
    val, test = (open_run(run.path).predictions(split, which) for split in ("val", "test"))
    scaler = TemperatureScaling(objective=objective).fit(val)
    found = score(finished_run(run), selection, objective, bootstrap=50, level=0.9)
    values = {(row.metric, row.temperature_scaling): row for row in found.rows}
    assert found.temperature == scaler.temperature_
    assert values["error", ""].value == pytest.approx(100 * error(test), rel=1e-12)
    for name, metric in _METRICS.items():
        assert values[name, "pre"].value == pytest.approx(100 * metric(test), rel=1e-9)
        post = values[name, "post"]
        assert post.value == pytest.approx(100 * metric(scaler.transform(test)), rel=1e-9)
        assert post.temperature == scaler.temperature_
        assert post.low is not None
        assert post.low <= post.high
        assert post.interval_method == "basic"
    assert {(row.dataset, row.model, row.method, row.seed) for row in found.rows} == {
        ("Digits", "MLP", "cross-entropy", 0)
    }


def test_the_epoch_is_recorded(trained: Plan):
    run = next(iter(trained.runs()))
    history = open_run(run.path).history
    best = min(range(3), key=lambda epoch: history[epoch]["val"]["nll"])
    epochs = {
        selection: next(
            row.value
            for row in score(finished_run(run), selection, "ece", bootstrap=0, level=0.9).rows
            if row.metric == "epoch"
        )
        for selection in ("best", "last")
    }
    assert epochs == {"best": best + 1, "last": 3}
