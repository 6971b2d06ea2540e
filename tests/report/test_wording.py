"""What the top of the page says about models of which one knows what is wrong with them."""

import pytest
import torch

from focalcal.predictions import Predictions
from focalcal.report.examination import Request, examined
from focalcal.report.sources import model_sources
from focalcal.report.wording import headline, next_steps, sentences
from report.conftest import world


def model(preds, val=None, bootstrap=200):
    return examined(model_sources({"m": preds}, val)[0], Request(bootstrap=bootstrap))


def test_an_over_confident_model():
    found = model(world(3000, 4, sharpness=2.0))
    assert headline(found).startswith("Over-confident by ")
    assert sentences(found)[0].startswith("Mean confidence")
    assert "repairs most of it" in sentences(found)[-1]
    assert "which is within what a perfect model would show" in sentences(found)[-1]
    assert next_steps(found)[0].startswith("Divide the logits by T = ")
    assert next_steps(found)[1].startswith("Fit T on validation predictions")


def test_an_under_confident_model():
    found = model(world(3000, 4, sharpness=0.5), val=world(2000, 4, seed=1, sharpness=0.5))
    assert headline(found).startswith("Under-confident by ")
    assert found.scaling.temperature == pytest.approx(0.5, rel=0.1)
    assert len(next_steps(found)) == 1


def test_a_calibrated_model():
    found = model(world(3000, 4, sharpness=1.0))
    assert headline(found) == "No miscalibration shown"
    assert "is not needed" in sentences(found)[-1]
    assert next_steps(found) == [
        "Use the confidences as they are; more samples could show errors that are smaller than these."
    ]


def test_a_temperature_of_other_data_may_do_harm():
    found = model(world(3000, 4, sharpness=1.0), val=world(2000, 4, seed=1, sharpness=3.0))
    assert "would make it worse: ECE rises from" in sentences(found)[-1]


def two_errors(n=4000):
    """Half of the samples over-confident, half under-confident: right on average, and no temperature helps."""
    generator = torch.Generator().manual_seed(0)
    confidence = torch.tensor([0.95, 0.65]).repeat(n // 2)
    right = torch.rand(n, generator=generator) < torch.tensor([0.80, 0.80]).repeat(n // 2)
    return Predictions.from_probs(confidence, right)


def test_errors_that_cancel_out():
    found = model(two_errors())
    assert headline(found) == "Right on average, and yet miscalibrated"
    assert "more than a perfect model would show" in sentences(found)[-1]
    assert any(step.startswith("One temperature is not enough") for step in next_steps(found))


def test_one_class_that_is_far_off():
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(0, 4, (4000,), generator=generator)
    logits = torch.randn(4000, 4, generator=generator)
    logits[torch.arange(4000), labels] += torch.where(labels == 2, 0.0, 4.0)
    names = ["ant", "bee", "cat", "dog"]
    steps = next_steps(model(Predictions.from_logits(logits, labels, class_names=names)))
    assert any(step.startswith("Look at class 'cat': over-confident by") for step in steps)


def test_a_class_of_few_samples_is_not_accused():
    steps = [
        step for seed in range(5) for step in next_steps(model(world(120, 10, seed=seed, sharpness=1.0), None, 100))
    ]
    assert not any(step.startswith("Look at class") for step in steps)
    assert sum(step.startswith("Evaluate on more samples: with 120,") for step in steps) == 5


def test_without_intervals():
    found = model(world(2000, 4, sharpness=2.0), bootstrap=0)
    assert headline(found).startswith("Over-confident by ")
