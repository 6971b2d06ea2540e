"""γ of the paper's focal losses, by their names."""

from focalcal.gamma import EpochGamma, FixedGamma, GammaPolicy, SampleGamma, as_policy
from focalcal.loss_names import numbered_loss, problem_of_loss

# Length of the runs that the γ schedules of the paper are meant for.
_PAPER_EPOCHS = 350
# The last γ of each schedule.
_SCHEDULES = {"flsc-531": 1.0, "flsc-532": 2.0}
_BY_SAMPLE = {"flsd-53": SampleGamma.flsd53, "flsd-532": SampleGamma.flsd532}


def named_gamma(name: str, epochs: int | None = None) -> GammaPolicy:
    """Return the γ policy of fl-<γ>, flsc-531, flsc-532, flsd-53 or flsd-532.

    Args:
        name: Name of a focal loss.
        epochs: Length of the run, for the schedules flsc-…; None for the paper's 350.

    Examples:
        >>> named_gamma("flsd-53"), named_gamma("fl-2")
        (SampleGamma(thresholds=(0.2,), gammas=(5.0, 3.0)), FixedGamma(gamma=2.0))
    """
    numbered = numbered_loss(name)
    if numbered is not None and numbered[0] == "fl":
        return FixedGamma(numbered[1])
    if name in _SCHEDULES:
        whole = EpochGamma({0: 5.0, 100: 3.0, 250: _SCHEDULES[name]})
        return whole.scaled(_PAPER_EPOCHS if epochs is None else epochs, of=_PAPER_EPOCHS)
    if name in _BY_SAMPLE:
        return _BY_SAMPLE[name]()
    if (problem := problem_of_loss(name)) is not None:
        raise ValueError(problem if problem.endswith("?") else f"{problem}.")
    raise ValueError(f"{name} is not a focal loss, so it has no γ; build_loss({name!r}) makes it.")


def policy_of(gamma: float | str | GammaPolicy) -> GammaPolicy:
    """Turn a number or a name into a γ policy; leave a policy as it is."""
    return named_gamma(gamma) if isinstance(gamma, str) else as_policy(gamma)
