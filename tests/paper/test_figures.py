import csv
import io
import math
import shutil
import sys

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure

from focalcal.metrics import evaluate
from focalcal.paper import find_results
from focalcal.paper.figures import FIGURES, bars, build_figure, ood_roc
from focalcal.paper.figures.figure import PaperFigure
from focalcal.paper.figures.panels import Panel, Series, draw_panel
from focalcal.paper.result_folders import load_scaled
from focalcal.paper.run_groups import group_runs, join_runs
from focalcal.paper.table_names import ALL_METHODS
from focalcal.predictions import Predictions
from paper.small_results import sweep_rows

OF_RUNS = {
    "training": "svg",
    "focal-training": "pdf",
    "gradient-factor": "png",
    "bars": "png",
    "reliability-training": "svg",
    "feature-norms": "pdf",
}


@pytest.mark.parametrize(("name", "ending"), OF_RUNS.items())
def test_figures_of_runs_are_drawn_with_their_data(trained, tmp_path, name, ending):
    file = tmp_path / f"{name}.{ending}"
    build_figure(name, [trained]).save(file)
    starts = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}
    assert file.read_bytes().startswith(starts[ending])
    rows = list(csv.DictReader(io.StringIO(file.with_suffix(".csv").read_text(encoding="utf-8"))))
    assert {"panel", "series", "x", "y"} <= set(rows[0])


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_the_bytes_depend_on_the_data_alone(tmp_path, ending):
    files = [tmp_path / f"{name}.{ending}" for name in ("a", "b")]
    for file in files:
        build_figure("optimum").save(file)
    assert files[0].read_bytes() == files[1].read_bytes()


def test_the_drawn_numbers_are_those_of_the_history(trained):
    figure = build_figure("training", [trained])
    assert [panel.title for panel in figure.panels] == [
        "train: NLL", "train: entropy", "error", "test: NLL", "test: entropy", "test: ECE",
    ]  # fmt: skip
    (run,) = find_results([trained / "cross-entropy" / "seed-0"])[0].runs
    wrong = figure.panels[3].series[2]
    assert wrong.name == "wrong"
    assert list(wrong.y) == [epoch["test"]["nll_wrong"] for epoch in run.history]
    assert list(wrong.x) == [1, 2, 3, 4]


def test_histograms_and_bins_hold_every_sample(trained):
    norms = build_figure("gradient-factor", [trained])
    assert [panel.title for panel in norms.panels[1:]] == ["after epoch 1", "after epoch 4"]
    for panel in norms.panels[1:]:
        assert [series.name for series in panel.series] == ["cross-entropy", "fl-3"]
        assert all(sum(series.y) == pytest.approx(100) for series in panel.series)
    snapshots = build_figure("reliability-training", [trained])
    assert len(snapshots.panels) == 4
    assert sum(snapshots.panels[2].series[0].y) == pytest.approx(100)


def test_a_missing_loss_is_said(trained):
    figure = build_figure("focal-training", [trained])
    assert [series.name for series in figure.panels[0].series] == ["cross-entropy", "fl-1", "fl-3"]
    assert figure.notes == ("digits has no run with fl-2.",)


def test_bars_of_the_table_and_of_the_papers_bootstrap(trained):
    groups = join_runs(find_results([trained]))
    drawn, resampled = bars(groups), bars(groups, papers_bootstrap=True)
    for one, other in zip(drawn.panels, resampled.panels, strict=True):
        np.testing.assert_allclose(one.series[0].y, other.series[0].y, atol=1e-3)
        assert one.ticks == ["Cross-entropy", "FL-1", "FL-3"]
    run = groups[0].runs["fl-3"]
    test = load_scaled(run, "test")[1]["test"][0]
    basic = evaluate(test, metrics=["ece"], method="basic", bootstrap=1000, level=0.9).intervals["ece"]
    ece = resampled.panels[0].series[0]
    np.testing.assert_allclose((ece.low[2], ece.high[2]), [100 * end for end in basic])
    assert "90% bootstrap intervals" in resampled.title
    with pytest.raises(ValueError, match="training has no bootstrap intervals"):
        build_figure("training", [trained], papers_bootstrap=True)


def test_theory_figures_need_no_run(tmp_path):
    optimum = build_figure("optimum")
    assert np.interp(0.9, optimum.panels[0].series[1].x, optimum.panels[0].series[1].y) == pytest.approx(
        0.774, abs=1e-3
    )
    linear = build_figure("linear-model")
    assert len(linear.panels) == 5
    linear.save(tmp_path / "linear.png")


def test_roc_curves_need_predictions_out_of_distribution(trained, tmp_path):
    with pytest.raises(ValueError, match=r"no predictions for svhn; train it with data\.ood=\[svhn\]"):
        build_figure("ood-roc", [trained])
    folder = tmp_path / "with_svhn"
    shutil.copytree(trained, folder)
    for loss in ("cross-entropy", "fl-1", "fl-3"):
        files = folder / loss / "seed-0" / "predictions"
        test = Predictions.load(files / "test.safetensors")
        Predictions.from_logits(test.logits() / 3, test.labels).save(files / "svhn.safetensors")
    figure = ood_roc(join_runs(find_results([folder])))
    assert [panel.title[:6] for panel in figure.panels] == ["before", "after "]
    assert len(figure.panels[0].series) == 3
    figure.save(tmp_path / "roc.png")


def test_images_that_all_losses_get_right_and_wrong(trained, tmp_path):
    figure = build_figure("qualitative", [trained])
    assert len(figure.panels) == 8
    assert len(figure.records) == 8 * 2
    assert {record["loss"] for record in figure.records} == {"cross-entropy", "fl-3"}
    right, wrong = figure.records[:8], figure.records[8:]
    assert all(record["prediction"] == record["label"] for record in right)
    assert all(record["prediction"] != record["label"] for record in wrong)
    figure.save(tmp_path / "qualitative.png")


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("training", r"record\.test_every=1"),
        ("focal-training", r"record\.test_every=1"),
        ("gradient-factor", r"record\.gradient_norms_at"),
        ("reliability-training", r"record\.snapshots_at"),
    ],
)
def test_what_was_not_recorded_is_named(result_folder, name, field):
    folder = result_folder(test=False)
    with pytest.raises(ValueError, match=field):
        build_figure(name, [folder])


def test_runs_of_different_data_are_refused(result_folder, trained):
    with pytest.raises(ValueError, match="SST Binary with Tree-LSTM and Digits with MLP; give runs of one recipe"):
        build_figure("training", [result_folder(), trained])


def test_names_and_files():
    with pytest.raises(ValueError, match="There is no figure 'trainig'; did you mean 'training'"):
        build_figure("trainig")
    with pytest.raises(ValueError, match="needs results of a sweep with a translation model"):
        FIGURES["bleu-temperature"]([])


def test_the_group_with_the_most_losses_is_drawn(result_folder, trained):
    groups = group_runs(find_results([result_folder(), trained]))
    assert FIGURES["focal-training"](groups).title.startswith("Digits, MLP")


def test_bars_need_every_metric(result_folder, trained):
    translators = [row for row in sweep_rows(seeds=1) if row.metric != "error"]
    folder = result_folder("translators", translators)
    with pytest.raises(ValueError, match=r"bars needs a table\.csv with ece, ada_ece, classwise_ece before and after"):
        build_figure("bars", [folder])
    figure = bars(group_runs(find_results([folder, trained])))
    assert figure.title == "Digits, MLP: calibration errors with 90% intervals, seed 0"
    assert figure.notes[0].startswith("Chance makes a calibration error too large")


def test_a_loss_looks_the_same_everywhere():
    panel = Panel("", "x", "y", [Series(name, [0, 1], [0, 1]) for name in ("fl-3", "fl-3: 84.1", "γ = 3", "other")])
    lines = draw_panel(panel, Figure().subplots()).get_lines()
    assert [line.get_color() for line in lines] == ["#D55E00"] * 3 + ["#009E73"]
    assert [line.get_label() for line in lines] == ["FL-3", "FL-3: 84.1", "γ = 3", "other"]


def test_groups_of_one_network_are_told_apart_by_their_folder(result_folder):
    groups = group_runs(find_results([result_folder("a"), result_folder("b")]))
    assert [group.title for group in groups] == ["SST Binary, Tree-LSTM (a)", "SST Binary, Tree-LSTM (b)"]


def test_figures_take_axes_and_keep_no_state(trained, tmp_path):
    before = dict(matplotlib.rcParams)
    for name in ("training", "focal-training", "gradient-factor", "bars", "reliability-training", "feature-norms"):
        build_figure(name, [trained]).draw()
    for name in ("optimum", "linear-model"):
        build_figure(name).save(tmp_path / f"{name}.svg")
    assert dict(matplotlib.rcParams) == before
    assert "matplotlib.pyplot" not in sys.modules or not sys.modules["matplotlib.pyplot"].get_fignums()
    figure = build_figure("bars", [trained])
    mine = Figure()
    axes = list(mine.subplots(1, 3).flat)
    assert figure.draw(axes) is mine
    assert axes[0].get_title() == "ECE"
    with pytest.raises(ValueError, match="bars has 3 panels, and 1 axes were given"):
        figure.draw(axes[:1])


def test_series_can_be_told_apart_without_colour():
    all_losses = [*(f"{loss}: 85.0" for loss in (*ALL_METHODS[::-1], "fl-7"))]
    for names in (list(map(str, range(8))), all_losses[1:], ["fl-7", "fl-10", "mmce-formula", *all_losses[4:]]):
        panel = Panel("", "x", "y", [Series(name, [0, 1], [i, i + 1]) for i, name in enumerate(names)])
        lines = draw_panel(panel, Figure().subplots()).get_lines()
        looks = {
            (str(line.get_linestyle()), str(line.get_marker()), str(line._unscaled_dash_pattern)) for line in lines
        }
        assert len(looks) == len({line.get_color() for line in lines}) == len(names)


def _overlaps(figure):
    """Whether the legend of the first panel covers a line or bar."""
    drawn = figure.draw()
    drawn.draw_without_rendering()
    ax = drawn.axes[0]
    box = ax.get_legend().get_window_extent()
    artists = [*ax.get_lines(), *ax.patches]
    return any(one.get_path().transformed(one.get_transform()).intersects_bbox(box) for one in artists)


def test_a_legend_covers_nothing():
    x = [place / 10 for place in range(100)]
    series = [Series(str(i), x, [1 + i / 8 + 0.1 * math.sin(7 * value + i) for value in x]) for i in range(8)]
    assert not _overlaps(PaperFigure("name", "title", [Panel("", "x", "y", series)]))
    bars = [Series(name, list(range(6)), [1.0] * 6, [0.9] * 6, [1.1] * 6, "bar") for name in ("a", "b")]
    assert not _overlaps(PaperFigure("name", "title", [Panel("", "x", "y", bars, ticks=list("abcdef"))]))


def test_an_interval_below_its_value_is_drawn_where_it_is():
    series = Series("a", [0.0], [1.5], [0.25], [1.25], "bar")
    ax = draw_panel(Panel("", "x", "y", [series], ticks=["a"]), Figure().subplots())
    (bars,) = [one for one in ax.containers if type(one).__name__ == "ErrorbarContainer"]
    ((segment,),) = (lines.get_segments() for lines in bars.lines[2])
    assert segment[:, 1].tolist() == [0.25, 1.25]
