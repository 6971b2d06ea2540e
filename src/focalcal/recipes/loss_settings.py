"""What a recipe says about its loss: the name, and the γ or λ that it has in place of its own."""

from itertools import pairwise
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from focalcal.loss_names import problem_of_loss
from focalcal.recipes.settings import Settings

_NotNegative = Annotated[float, Field(ge=0)]


def _known_loss(name: str) -> str:
    problem = problem_of_loss(name)
    if problem is not None:
        raise ValueError(problem[0].lower() + problem[1:])
    return name


LossName = Annotated[str, AfterValidator(_known_loss)]
# γ from an epoch on.
GammaSchedule = dict[Annotated[int, Field(ge=0)], _NotNegative]
# λ of MMCE.
Penalty = _NotNegative


class SampleGammaSettings(Settings):
    """γ by the probability of the sample's class: ``gammas[i]`` below ``thresholds[i]``, the last one above them all.

    Examples:
        >>> SampleGammaSettings(thresholds=[0.2], gammas=[5, 3]).gammas
        (5.0, 3.0)
    """

    thresholds: tuple[float, ...]
    gammas: tuple[_NotNegative, ...]

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if not all(lower < upper for lower, upper in pairwise((0.0, *self.thresholds, 1.0))):
            raise ValueError("gamma_by_sample.thresholds must lie between 0 and 1 and increase")
        if len(self.gammas) != len(self.thresholds) + 1:
            needed, given = len(self.thresholds) + 1, len(self.gammas)
            raise ValueError(f"gamma_by_sample.gammas must be one more than the thresholds, {needed}, and are {given}")
        return self
