"""What the top of the page says about models of which one knows what is wrong with them."""

import math

import pytest
import torch

from focalcal.metrics.bootstrap.differences import Difference
from focalcal.predictions import Predictions
from focalcal.report.content import model_content
from focalcal.report.model_comparison import _for_people
from focalcal.report.model_sources import model_sources
from focalcal.report.readings import format_value
from focalcal.report.reported_model import ReportSettings, measure_model
from focalcal.report.wording import headline, mood, next_steps, sentences
from report.conftest import world


def model(preds, val=None, bootstrap=200):
    return measure_model(model_sources({"m": preds}, val)[0], ReportSettings(bootstrap=bootstrap))


def test_an_over_confident_model():
    found = model(world(3000, 4, sharpness=2.0))
    assert headline(found).startswith("Over-confident by ")
    assert sentences(found)[0].startswith("Mean confidence")
    assert "repairs most of it" in sentences(found)[-1]
    assert "no miscalibration detected any more (p = 0." in sentences(found)[-1]
    assert next_steps(found)[0].startswith("Divide the logits by T = ")
    assert next_steps(found)[1].startswith("Fit T on validation predictions")


def test_an_under_confident_model():
    found = model(world(3000, 4, sharpness=0.5), val=world(2000, 4, seed=1, sharpness=0.5))
    assert headline(found).startswith("Under-confident by ")
    assert found.scaling.temperature == pytest.approx(0.5, rel=0.1)
    assert len(next_steps(found)) == 1


def test_a_calibrated_model():
    found = model(world(3000, 4, sharpness=1.0))
    assert headline(found) == "No miscalibration detected"
    assert "is not needed" in sentences(found)[-1]
    assert next_steps(found) == [
        "Use the confidences uncalibrated; more samples could show errors that are smaller than these."
    ]


def test_a_temperature_of_other_data_may_do_harm():
    found = model(world(3000, 4, sharpness=1.0), val=world(2000, 4, seed=1, sharpness=3.0))
    assert "would make it worse: ECE rises from" in sentences(found)[-1]


def two_errors(confidences=(0.95, 0.65), n=4000):
    """Half of the samples over-confident, half under-confident: right on average, and no temperature helps."""
    generator = torch.Generator().manual_seed(0)
    confidence = torch.tensor(confidences).repeat(n // 2)
    right = torch.rand(n, generator=generator) < torch.tensor([0.80, 0.80]).repeat(n // 2)
    return Predictions.from_probs(confidence, right, of="top")


def test_errors_that_cancel_out():
    found = model(two_errors())
    assert headline(found) == "Right on average, and yet miscalibrated"
    assert "it is still miscalibrated (p < 0.001)" in sentences(found)[-1]
    assert any(step.startswith("One temperature is not enough") for step in next_steps(found))


def test_one_class_that_is_far_off():
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(0, 4, (4000,), generator=generator)
    logits = torch.randn(4000, 4, generator=generator)
    logits[torch.arange(4000), labels] += torch.where(labels == 2, 0.0, 4.0)
    names = ["ant", "bee", "cat", "dog"]
    steps = next_steps(model(Predictions.from_logits(logits, labels, class_names=names)))
    assert any(step.startswith("Look at class 'cat', where it is predicted: under-confident by") for step in steps)


def test_a_class_of_few_samples_is_not_accused():
    steps = [
        step for seed in range(5) for step in next_steps(model(world(120, 10, seed=seed, sharpness=1.0), None, 100))
    ]
    assert not any(step.startswith("Look at class") for step in steps)
    assert sum(step.startswith("Evaluate on more samples: with 120,") for step in steps) == 5


def of_confidence(n, right, confidence):
    """Binary predictions of which so many are right, said with one confidence."""
    return Predictions.from_probs(torch.full((n,), confidence), torch.arange(n) < right, of="top")


def test_few_samples_show_nothing_either_way():
    found = model(of_confidence(20, 13, 0.805))
    assert (headline(found), mood(found)) == ("Too few samples to tell", "open")
    assert "either way: mean confidence 80.50%, accuracy 65.00%" in sentences(found)[0]
    assert next_steps(found)[0].startswith("Do not rely on the confidences yet")


def test_one_sample_shows_nothing():
    found = model(of_confidence(1, 0, 0.99))
    assert (headline(found), mood(found)) == ("Too few samples to tell", "open")


def test_labels_of_probability_0():
    probs = torch.tensor([[0.95, 0.05, 0.0]]).repeat(2000, 1)
    labels = torch.zeros(2000, dtype=torch.int64)
    labels[::20] = 1
    labels[:2] = 2
    found = model(Predictions.from_probs(probs, labels))
    assert "2 labels were given probability 0: NLL is infinite; clip or smooth before use." in sentences(found)
    assert (headline(found), mood(found)) == ("Infinite loss: labels were given probability 0", "off")
    assert next_steps(found)[0] == ("Clip or smooth the probabilities: no label may have probability 0.")


def test_steps_follow_from_the_verdict():
    useless = model(two_errors((0.9, 0.7)))
    assert "does not repair it" in sentences(useless)[-1]
    steps = next_steps(useless)
    assert steps[0].startswith("One temperature is not enough")
    assert not any(step.startswith(("Fit T on", "Divide the logits")) for step in steps)
    none_is_best = next_steps(model(of_confidence(300, 300, 0.7)))
    assert none_is_best[0].startswith("No temperature is best here: try --method vector")
    certain = next_steps(model(of_confidence(300, 150, 1.0)))
    assert "Evaluate on more samples: 300 are few." in certain


def test_soft_labels_are_named():
    preds = world(200, 3)
    soft = torch.nn.functional.one_hot(preds.labels, 3) * 3 + 1
    found = model(Predictions.from_logits(preds.values, soft, labels_are="counts"))
    assert "the labels are soft" in next_steps(found)[-1]
    assert model_content(found)["facts"].startswith(
        "200 samples, 3 classes, soft labels. Calibration of the probability"
    )


def test_the_range_of_a_perfect_model_stands_beside_the_ece():
    found = model(world(3000, 4, sharpness=2.0))
    before, after = (one.calibration_test.range_text for one in (found.before, found.after))
    assert before != after
    assert f"a perfectly calibrated model would show {after}: " in sentences(found)[-1]
    tile = next(tile for tile in model_content(found)["tiles"] if tile["title"] == "ECE")
    scaled = format_value("ece", found.after.values["ece"])
    assert tile["beside"] == f"perfect model {before} · scaled {scaled} (perfect model {after})"


def test_without_intervals():
    found = model(world(2000, 4, sharpness=2.0), bootstrap=0)
    assert headline(found).startswith("Over-confident by ")


def test_a_difference_without_a_p_value_has_none_in_the_report():
    untested = Difference("nll", ("a", "b"), (1.0, 2.0), -1.0, (math.nan, math.nan), math.nan, math.nan, 0.9)
    row = _for_people(untested, "before")
    assert (row["p"], row["interval"], row["numbers"]["verdict"]) == ("", "", "not tested")
