from dataclasses import replace

import pytest

from focalcal.calibrators import TemperatureScaling
from focalcal.metrics import ada_ece, classwise_ece, ece, error, mce, nll, ood_auroc
from focalcal.paper import paper_tables
from focalcal.predictions import Predictions
from focalcal.recipes import load_recipe
from focalcal.sweeps import Plan
from focalcal.sweeps.finished import FinishedRun, finished_run
from focalcal.sweeps.plan import PlannedRun
from focalcal.sweeps.result import measure
from focalcal.sweeps.scoring import score
from focalcal.training import open_run, train
from focalcal.training.evaluator import fit_temperature

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
        assert post.interval_method == ("basic" if name == "nll" else "honest")
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


@pytest.fixture(scope="module")
def noisy(tmp_path_factory) -> FinishedRun:
    """A run on random images, with one set of other classes, and one of its own classes at two severities."""
    path = tmp_path_factory.mktemp("noisy")
    recipe = load_recipe(
        "cifar10/resnet8", {"data.synthetic": 40, "epochs": 1, "model.width": 4, "loss": "fl-3", "seed": 0}
    )
    train(recipe, out=path, progress=False)
    severe = path / "predictions" / "cifar10_c.safetensors"
    Predictions.load(severe).select(range(30)).save(severe.parent / "cifar10_c_2.safetensors")
    return finished_run(PlannedRun("fl-3", 0, path, recipe))


def test_out_of_distribution_sets_have_auroc_and_those_with_the_same_classes_error_and_ece(noisy):
    found = score(noisy, "last", "nll", bootstrap=20, level=0.9)
    outside = [row for row in found.rows if row.is_out_of_distribution]
    auroc = [("ood_auroc", "pre"), ("ood_auroc", "post")]
    shifted = [*auroc, ("error", ""), ("ece", "pre"), ("ece", "post")]
    datasets = {"SVHN": auroc, "CIFAR-10-C severity 2": shifted, "CIFAR-10-C": shifted}
    assert [(row.dataset, row.metric, row.temperature_scaling) for row in outside] == [
        (f"CIFAR-10/{name}", *figure) for name, figures in datasets.items() for figure in figures
    ]
    test, weak = (noisy.predictions(split, "last") for split in ("test", "cifar10_c_2"))
    scaler = fit_temperature("nll", noisy.predictions("val", "last"))
    values = {(row.dataset[9:], row.metric, row.temperature_scaling): row for row in outside}
    name = "CIFAR-10-C severity 2"
    assert values[name, "error", ""].value == pytest.approx(100 * error(weak))
    assert values[name, "ece", "pre"].value == pytest.approx(100 * ece(weak))
    assert values[name, "ece", "post"].value == pytest.approx(100 * ece(scaler.transform(weak)))
    assert values[name, "ece", "post"].interval_method == "honest"
    assert values[name, "ece", "post"].temperature == scaler.temperature_
    assert values[name, "ood_auroc", "pre"].value == pytest.approx(100 * ood_auroc(test, weak))
    row = values["SVHN", "ood_auroc", "pre"]
    assert row.interval_method == "delong"
    assert row.low < row.value < row.high


def test_other_classes_have_no_error(noisy, tmp_path):
    found = score(replace(noisy, data="cifar100"), "last", "ece", bootstrap=0, level=0.9)
    assert {row.metric for row in found.rows if row.is_out_of_distribution} == {"ood_auroc"}


def test_figures_out_of_distribution_are_in_no_table_of_the_test_set(noisy):
    found = measure([noisy], ["fl-3"], bootstrap=20)
    own = next(row for row in found.rows["ece"] if row.metric == "error" and not row.is_out_of_distribution)
    assert found.lines["fl-3"]["error"].markdown() == f"**{own.value:.2f}** [{own.low:.2f}, {own.high:.2f}]"
    (table,) = [one for one in paper_tables(found.rows["ece"]) if one.title == "Error"]
    assert table.lines[0].cells[-1].startswith(f"{own.value:.2f} [")
