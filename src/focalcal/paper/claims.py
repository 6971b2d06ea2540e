"""Claims of the paper, each with a verdict and the numbers it rests on."""

from collections.abc import Iterable
from dataclasses import dataclass

from focalcal.base.markdown import markdown_table


@dataclass(frozen=True)
class Claim:
    """One sentence of the paper, in our words.

    Attributes:
        text: What is claimed.
        verdict: ``holds``, ``does not hold``, ``holds in 3 of 6`` or ``cannot be tested here``.
        evidence: The numbers.
    """

    text: str
    verdict: str
    evidence: str


def judged(text: str, outcomes: Iterable[tuple[bool, str]], nothing: str = "no such runs") -> Claim:
    """Judge a claim by cases, such as results of several data sets.

    Args:
        text: What is claimed.
        outcomes: For each case whether it holds there, and the numbers.
        nothing: Why it cannot be tested where there is no case.

    Examples:
        >>> judged("Water is wet.", [(True, "at 10 °C"), (False, "at −10 °C")]).verdict
        'holds in 1 of 2'
    """
    cases = list(outcomes)
    if not cases:
        return Claim(text, "cannot be tested here", f"{nothing[:1].upper()}{nothing[1:]}.")
    share = sum(holds for holds, _ in cases)
    mixed = 0 < share < len(cases)
    verdict = f"holds in {share} of {len(cases)}" if mixed else "holds" if share else "does not hold"
    return Claim(text, verdict, f"{'; '.join(_marked(case, mixed) for case in cases)}.")


def _marked(case: tuple[bool, str], mixed: bool) -> str:
    holds, text = case
    return f"{text} ({'yes' if holds else 'no'})" if mixed else text


def claims_table(claims: Iterable[Claim]) -> str:
    """Write claims as a Markdown table."""
    return markdown_table(
        ("The paper says", "Here", "Numbers"), ((one.text, one.verdict, one.evidence) for one in claims), left=3
    )
