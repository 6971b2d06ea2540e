"""Claims of the paper, each with a verdict and the numbers it rests on."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from focalcal.base.markdown import markdown_table

_INTERVAL = re.compile(r" \[[^\]]*\]")


@dataclass(frozen=True)
class Claim:
    """One sentence of the paper, in our words.

    Attributes:
        text: What is claimed.
        verdict: ``holds``, ``does not hold``, ``holds in 3 of 6`` or ``cannot be tested here``.
        evidence: The numbers.
        cases: For each case whether it holds there, and its numbers.
    """

    text: str
    verdict: str
    evidence: str
    cases: tuple[tuple[bool, str], ...] = ()

    def example(self) -> str:
        """Return the numbers of one case, without intervals; of one on each side where cases differ.

        Examples:
            >>> judged("Water is wet.", [(True, "at 10 [9, 11] °C"), (True, "at 20 °C")]).example()
            'at 10 °C (and 1 more)'
            >>> judged("Water is wet.", [(True, "at 10 °C"), (False, "at −10 °C"), (True, "at 20 °C")]).example()
            'yes: at 10 °C; no: at −10 °C'
        """
        if not self.cases:
            return self.evidence
        firsts = {holds: _INTERVAL.sub("", text) for holds, text in reversed(self.cases)}
        if len(firsts) > 1:
            return f"yes: {firsts[True]}; no: {firsts[False]}"
        more = len(self.cases) - 1
        return next(iter(firsts.values())) + (f" (and {more} more)" if more else "")


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
    return Claim(text, verdict, f"{'; '.join(_mark(case, mixed) for case in cases)}.", tuple(cases))


def _mark(case: tuple[bool, str], mixed: bool) -> str:
    holds, text = case
    return f"{text} ({'yes' if holds else 'no'})" if mixed else text


def claims_table(claims: Iterable[Claim]) -> str:
    """Write claims as a Markdown table."""
    return markdown_table(
        ("The paper says", "Here", "Numbers"), ((one.text, one.verdict, one.evidence) for one in claims), left=3
    )
