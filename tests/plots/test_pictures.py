import json
import math

import numpy as np
import pytest
import torch

from focalcal import plots
from focalcal.metrics import ada_ece, ece, ood_auroc, smooth_ece
from focalcal.metrics.samples import ConfidenceSamples, sample_statistics
from focalcal.plots.ranked_confidence import ConfidenceCells, RankedConfidence
from focalcal.predictions import Predictions
from oracles.known_truth import predictions


def known(**more):
    return predictions(seed=1, sharpness=2.0, **more)


@pytest.mark.parametrize(("binning", "metric"), [("equal-width", ece), ("equal-mass", ada_ece)])
@pytest.mark.parametrize("bins", [1, 10, 15])
def test_reliability_diagram_has_the_error_of_its_bins(binning, metric, bins):
    preds = known()
    diagram = plots.reliability_diagram(preds, bins=bins, binning=binning)
    filled = diagram.count > 0
    gaps = np.abs(diagram.accuracy - diagram.confidence)[filled] @ diagram.count[filled] / diagram.count.sum()
    assert diagram.ece == pytest.approx(metric(preds, bins=bins)) == pytest.approx(gaps)
    assert diagram.count.sum() == len(preds)
    assert np.all((diagram.low <= diagram.accuracy)[filled])
    assert np.all((diagram.accuracy <= diagram.high)[filled])


def test_intervals_cover_the_accuracy_of_a_calibrated_model():
    covered = []
    for seed in range(20):
        diagram = plots.reliability_diagram(predictions(n=2000, seed=seed), bins=5, level=0.9)
        filled = diagram.count > 20
        covered += list(((diagram.low <= diagram.confidence) & (diagram.confidence <= diagram.high))[filled])
    assert 0.8 < np.mean(covered) < 0.99


def test_weights_do_not_make_intervals_narrower():
    preds = known()
    heavy = Predictions.from_logits(preds.values, preds.labels, weights=[1000.0] * len(preds))
    a, b = plots.reliability_diagram(preds), plots.reliability_diagram(heavy)
    np.testing.assert_allclose(a.low, b.low)


def test_unknown_binning():
    with pytest.raises(ValueError, match="'equal-width' or 'equal-mass', not 'both'"):
        plots.reliability_diagram(known(), binning="both")


def test_smooth_curve_lies_where_the_truth_is():
    curve = plots.smooth_reliability(predictions(n=20_000, sharpness=1.0))
    inside = (curve.confidence > 0.3) & (curve.confidence < 0.99)
    np.testing.assert_allclose(curve.accuracy[inside], curve.confidence[inside], atol=0.04)
    assert np.isnan(curve.accuracy[0])
    wide = plots.smooth_reliability(known())
    assert wide.width == pytest.approx(0.4 * 600**-0.25)
    many = known(n=50_000)
    assert plots.smooth_reliability(many).width == pytest.approx(min(smooth_ece(many), 0.05))


def test_smooth_curve_against_the_sum_it_stands_for():
    preds, width = known(n=200), 0.05
    stats = sample_statistics(preds)
    c, right = stats.confidence.numpy(), stats.correct.numpy()
    curve = plots.smooth_reliability(preds, width=width, points=21)
    for t, value in zip(curve.confidence, curve.accuracy, strict=True):
        if not math.isnan(value):
            kernel = sum(np.exp(-0.5 * ((t - image) / width) ** 2) for image in (c, -c, 2 - c))
            assert value == pytest.approx(kernel @ right / kernel.sum(), abs=0.005)


def test_confidence_histogram_counts_everybody():
    preds = known()
    histogram = plots.confidence_histogram(preds, bins=20)
    stats = sample_statistics(preds)
    assert histogram.right.sum() == int(stats.correct.sum())
    assert histogram.wrong.sum() == int((~stats.correct).sum())
    assert histogram.edges.tolist() == (np.arange(21) / 20).tolist()


def test_risk_coverage_of_sorted_samples():
    preds = known()
    stats = sample_statistics(preds)
    order = stats.confidence.argsort(descending=True)
    curve = plots.risk_coverage(preds, points=60)
    for coverage, accuracy, threshold in zip(curve.coverage, curve.accuracy, curve.threshold, strict=True):
        answered = order[: round(coverage * len(preds))]
        assert accuracy == pytest.approx(float(stats.correct[answered].double().mean()))
        assert threshold == pytest.approx(float(stats.confidence[answered].min()))
    errors = 1 - stats.correct[order].double().cumsum(0) / torch.arange(1, len(preds) + 1)
    assert curve.area == pytest.approx(float(errors.mean()))


def test_samples_that_tie_are_answered_together():
    curve = plots.risk_coverage(Predictions.from_probs([[0.8, 0.2]] * 4, [0, 0, 1, 1]), points=4)
    assert curve.accuracy.tolist() == [0.5] * 4


def test_cells_give_what_samples_give():
    stats = sample_statistics(known(n=30_000))
    cells = ConfidenceCells()
    for part in torch.arange(30_000).split(7000):
        cells.add(ConfidenceSamples(stats.confidence[part], stats.correct[part], None))
    exact, counted = RankedConfidence.of_samples(stats), cells.rank()
    assert counted.samples == 30_000
    assert len(counted.mass) < 5500
    for a, b in zip(
        (exact.equal_mass(15).confidence, exact.equal_mass(15).correct),
        (counted.equal_mass(15).confidence, counted.equal_mass(15).correct),
        strict=True,
    ):
        torch.testing.assert_close(a, b, rtol=0, atol=6.0)


def test_roc_has_the_area_that_the_metric_has():
    inside, outside = known(n=2000), predictions(n=1500, seed=5, sharpness=0.5)
    curve = plots.roc(inside, outside, points=50)
    assert curve.auroc == ood_auroc(inside, outside)
    assert len(curve.false_rates) <= 50
    assert (curve.false_rates[0], curve.true_rates[0]) == (0, 0)
    assert (curve.false_rates[-1], curve.true_rates[-1]) == (1, 1)
    assert np.trapezoid(curve.true_rates, curve.false_rates) == pytest.approx(curve.auroc, abs=0.01)


def history():
    of = {"nll": 1.0, "error": 0.3, "ece": 0.05, "entropy_right": 0.2, "entropy_wrong": 0.9}
    return [
        {"epoch": 0, "train": of, "val": of, "gammas": {"5": 0.3, "3": 0.7}},
        {"epoch": 1, "train": of, "val": of, "test": of, "gammas": {"5": 0.1, "3": 0.9}},
    ]


def test_training_curves_of_a_file(tmp_path):
    path = tmp_path / "history.jsonl"
    path.write_text("\n".join(map(json.dumps, history())) + "\n")
    curves = plots.training_curves(path)
    assert list(curves.values) == ["train", "val", "test"]
    assert curves.values["test"]["nll"].tolist()[1] == 1.0
    assert math.isnan(curves.values["test"]["nll"][0])
    assert list(curves.gammas) == ["3", "5"]
    assert curves.gammas["5"].tolist() == [0.3, 0.1]


@pytest.mark.parametrize("line", ["{", "[]", '{"epoch": "first"}'])
def test_a_broken_history_is_named(tmp_path, line):
    path = tmp_path / "history.jsonl"
    path.write_text('{"epoch": 0}\n' + line + "\n")
    with pytest.raises(ValueError, match=r"history\.jsonl, line 2, is not an epoch"):
        plots.training_curves(path)


@pytest.mark.parametrize("torn", [b'{"epoch": 2, "va', '{"epoch": 2, "name": "é'.encode()[:-1]])
def test_a_torn_last_line_is_noted(tmp_path, torn):
    path = tmp_path / "history.jsonl"
    path.write_bytes(b'{"epoch": 0}\n{"epoch": 1}\n' + torn)
    curves = plots.training_curves(path)
    assert curves.epochs.tolist() == [0, 1]
    assert curves.notes == ("The last line of history.jsonl (line 3) is not complete, and was left out.",)


def test_a_last_line_without_an_end_is_read(tmp_path):
    path = tmp_path / "history.jsonl"
    path.write_text('{"epoch": 0}\n{"epoch": 1}')
    assert plots.training_curves(path).epochs.tolist() == [0, 1]
    assert plots.training_curves(path).notes == ()


def test_a_history_that_is_no_text_is_named(tmp_path):
    path = tmp_path / "history.jsonl"
    path.write_bytes(b"\x80\xff\x00\n\x81\n")
    with pytest.raises(ValueError, match=r"history\.jsonl, line 1, is not an epoch"):
        plots.training_curves(path)


def test_an_empty_history(tmp_path):
    with pytest.raises(ValueError, match="no epoch yet"):
        plots.training_curves([])


def test_every_picture_can_be_drawn():
    preds, curves = known(), plots.training_curves(history())
    axes = [
        plots.draw_reliability_diagram(plots.reliability_diagram(preds), smooth=plots.smooth_reliability(preds)),
        plots.draw_confidence_histogram(plots.confidence_histogram(preds)),
        plots.draw_risk_coverage(plots.risk_coverage(preds), label="a model"),
        plots.draw_roc(plots.roc(preds, predictions(seed=3)), label="other"),
        *(plots.draw_training_curves(curves, key) for key in ("nll", "ece", "entropy_wrong", "gammas")),
    ]
    for ax in axes:
        assert ax.get_xlabel()
        assert ax.get_ylabel()
        assert ax.get_legend() is not None
        ax.figure.canvas.draw()
    points = axes[0].collections[0].get_offsets()
    assert np.nanmax(points[:, 0]) <= 1
    with pytest.raises(ValueError, match="no curve 'loss'"):
        plots.draw_training_curves(curves, "loss")


def test_a_picture_is_drawn_where_one_wants_it():
    from matplotlib.figure import Figure

    ax = Figure().subplots()
    assert plots.draw_risk_coverage(plots.risk_coverage(known()), ax) is ax
    assert len(ax.lines) == 1
