"""The learning rate as a function of the place in the run, so that there is no state to save."""

import math

from focalcal.recipes.settings import ScheduleSettings


def learning_rate_factor(schedule: ScheduleSettings, *, epochs: int, epoch: int, progress: float) -> float:
    """What the learning rate is multiplied with.

    - constant: 1.
    - steps: the factor of the last epoch in ``factors`` that has been reached.
    - cosine: from 1 to 0 over the run, by the step.
    - warm-up: during the first ``warmup_epochs``, times the share of them that has passed, by the step.

    Args:
        schedule: of the recipe.
        epochs: length of the run.
        epoch: counted from 0.
        progress: the share of the epoch's steps that are done when this one is, in (0, 1].

    Examples:
        >>> steps = ScheduleSettings(name="steps", factors={150: 0.1, 250: 0.01})
        >>> [learning_rate_factor(steps, epochs=350, epoch=epoch, progress=0.5) for epoch in (0, 149, 150, 300)]
        [1.0, 1.0, 0.1, 0.01]
        >>> learning_rate_factor(ScheduleSettings(name="cosine"), epochs=10, epoch=4, progress=1.0)
        0.5
    """
    passed = epoch + progress
    factor = 1.0
    if schedule.name == "steps":
        reached = [start for start in schedule.factors if start <= epoch]
        factor = schedule.factors[max(reached)] if reached else 1.0
    elif schedule.name == "cosine":
        factor = round((1 + math.cos(math.pi * passed / epochs)) / 2, 15)
    if passed < schedule.warmup_epochs:
        factor *= passed / schedule.warmup_epochs
    return factor
