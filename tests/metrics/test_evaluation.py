import json
import math

from focalcal.metrics.evaluation import Evaluation


def example(**changes):
    return Evaluation(
        **{
            "values": {"error": 0.25, "ece": 0.0312, "nll": math.inf, "mean_confidence_wrong": math.nan},
            "n": 12345,
            "num_classes": 10,
            "bins": 15,
            "intervals": {"error": (0.2, 0.3), "ece": (0.01, 0.05), "mean_confidence_wrong": (math.nan, math.nan)},
            "level": 0.9,
            "bounds": {"ada_ece": 2e-5},
            "notes": ("Something was left out.",),
            **changes,
        }
    )


def test_to_dict_is_json_without_nan_or_infinity():
    written = json.loads(json.dumps(example().to_dict(), allow_nan=False))
    assert written["values"] == {"error": 0.25, "ece": 0.0312, "nll": None, "mean_confidence_wrong": None}
    assert written["intervals"] == {"error": [0.2, 0.3], "ece": [0.01, 0.05], "mean_confidence_wrong": [None, None]}
    assert (written["n"], written["num_classes"], written["bins"], written["level"]) == (12345, 10, 15, 0.9)
    assert written["bounds"] == {"ada_ece": 2e-5}
    assert written["notes"] == ["Something was left out."]


def test_to_markdown_has_a_row_a_metric():
    lines = example().to_markdown().splitlines()
    assert lines == [
        "| metric | value | 90% interval |",
        "|:--|--:|:--|",
        "| error | 0.2500 | 0.2000 – 0.3000 |",
        "| ECE | 0.0312 | 0.0100 – 0.0500 |",
        "| NLL (nats) | inf |  |",
        "| mean confidence, wrong | – |  |",
        "",
        "Something was left out.",
    ]


def test_to_markdown_without_intervals_has_two_columns():
    lines = example(intervals={}, level=None, notes=()).to_markdown().splitlines()
    assert lines[:3] == ["| metric | value |", "|:--|--:|", "| error | 0.2500 |"]


def test_repr_is_a_table_to_read():
    assert repr(example(values={"error": 0.25, "ece": 0.0312}, notes=())).splitlines() == [
        "Evaluation of 12,345 samples, 10 classes, 15 bins, 90% intervals; calibration of the predicted class",
        "  error  0.2500  0.2000 – 0.3000",
        "  ECE    0.0312  0.0100 – 0.0500",
    ]


def test_a_metric_by_its_name():
    assert example()["ece"] == 0.0312
