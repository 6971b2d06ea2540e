import csv
import os
from importlib import resources
from pathlib import Path

import pytest

from focalcal.paper import published_figures


def test_every_published_number_is_packaged():
    with resources.files("focalcal.paper").joinpath("published.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 1643
    assert all(float(row["value"]) >= 0 for row in rows)


@pytest.mark.skipif("FOCALCAL_DATA" not in os.environ, reason="needs the paper's files beside FOCALCAL_DATA")
def test_the_packaged_file_is_the_papers():
    original = Path(os.environ["FOCALCAL_DATA"]).parent / "paper" / "published.csv"
    packaged = resources.files("focalcal.paper").joinpath("published.csv").read_bytes()
    assert packaged == original.read_bytes()


def test_figures_by_method_metric_and_scaling():
    figures = published_figures("CIFAR-100", "ResNet-50")
    assert figures["cross-entropy", "ece", "pre"].value == 17.52
    assert figures["cross-entropy", "ece", "post"] == (3.42, 2.1)
    assert figures["flsd-53", "ece", "pre"].value == 4.5  # the first of two tables that print it
    assert published_figures("Digits", "MLP") == {}
