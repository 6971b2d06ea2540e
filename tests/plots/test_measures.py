"""Pictures of scores and of confidence pairs have the axes of what they show."""

import pytest

from focalcal import plots
from focalcal.predictions import Predictions

SCORE = Predictions.from_probs([0.2, 0.2, 0.8, 0.8], [0, 0, 1, 0])


def test_the_diagram_of_a_score_shows_the_frequency_of_class_1():
    diagram = plots.reliability_diagram(SCORE, bins=2)
    assert diagram.accuracy.tolist() == [0.0, 0.5]
    ax = plots.draw_reliability_diagram(diagram)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("score", "frequency of class 1")
    pairs = Predictions.from_confidence([0.2, 0.8], [0, 1])
    ax = plots.draw_reliability_diagram(plots.reliability_diagram(pairs, bins=2))
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("confidence", "accuracy")


def test_the_histogram_of_a_score_counts_classes():
    ax = plots.draw_confidence_histogram(plots.confidence_histogram(SCORE, bins=2))
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["class 1", "class 0"]
    assert ax.get_xlabel() == "score"


def test_answers_of_a_score_are_the_more_probable_classes():
    assert plots.risk_coverage(SCORE, points=1).accuracy.tolist() == pytest.approx([0.75])
