"""Learning rates against their formulas."""

import math

import pytest

from focalcal.recipes.settings import ScheduleSettings
from focalcal.training.schedule import learning_rate_factor


def factors(settings, epochs, steps):
    return [
        learning_rate_factor(settings, epochs=epochs, epoch=epoch, progress=(step + 1) / steps)
        for epoch in range(epochs)
        for step in range(steps)
    ]


def test_constant():
    assert factors(ScheduleSettings(), 3, 2) == [1.0] * 6


def test_steps_of_the_paper():
    found = factors(ScheduleSettings(name="steps", factors={150: 0.1, 250: 0.01}), 350, 1)
    assert found == [1.0] * 150 + [0.1] * 100 + [0.01] * 100


def test_steps_in_any_order():
    found = factors(ScheduleSettings(name="steps", factors={2: 0.01, 1: 0.1}), 4, 1)
    assert found == [1.0, 0.1, 0.01, 0.01]


def test_cosine_by_the_step():
    found = factors(ScheduleSettings(name="cosine"), 4, 5)
    assert found == pytest.approx([(1 + math.cos(math.pi * (step + 1) / 20)) / 2 for step in range(20)])
    assert found[-1] == 0.0


@pytest.mark.parametrize("name", ["constant", "cosine"])
def test_warm_up_rises_by_the_step(name):
    warm = factors(ScheduleSettings(name=name, warmup_epochs=1.5), 4, 4)
    cold = factors(ScheduleSettings(name=name), 4, 4)
    expected = [cold[step] * min(1.0, (step + 1) / 6) for step in range(16)]
    assert warm == pytest.approx(expected)
