"""Claims of the paper, each with a verdict and the numbers it rests on."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from focalcal.base.markdown import markdown_table

# Whether a claim holds in a case (None where the difference may be chance), and the numbers.
Case = tuple[bool | None, str]
_INTERVAL = re.compile(r" \[[^\]]*\]")
_WORDS = {True: "yes", False: "no", None: "undecided"}
_WHOLE = {True: "holds", False: "does not hold", None: "undecided"}


@dataclass(frozen=True)
class Claim:
    """One sentence of the paper, in our words.

    Attributes:
        text: What is claimed.
        verdict: ``holds``, ``does not hold``, ``holds in 3 of 6, undecided in 1``, ``undecided`` or ``cannot be tested
            here``.
        evidence: The numbers.
        cases: For each case whether it holds there (None where the difference may be chance), and its numbers.
    """

    text: str
    verdict: str
    evidence: str
    cases: tuple[Case, ...] = ()

    def example(self) -> str:
        """Return the numbers of one case, without intervals; of one on each side where cases differ.

        Examples:
            >>> judge("Water is wet.", [(True, "at 10 [9, 11] °C"), (True, "at 20 °C")]).example()
            'at 10 °C (and 1 more)'
            >>> judge("Water is wet.", [(True, "at 10 °C"), (False, "at −10 °C"), (True, "at 20 °C")]).example()
            'yes: at 10 °C; no: at −10 °C'
        """
        if not self.cases:
            return self.evidence
        firsts = {holds: _INTERVAL.sub("", text) for holds, text in reversed(self.cases)}
        if len(firsts) > 1:
            return "; ".join(f"{word}: {firsts[holds]}" for holds, word in _WORDS.items() if holds in firsts)
        more = len(self.cases) - 1
        return next(iter(firsts.values())) + (f" (and {more} more)" if more else "")


def judge(text: str, outcomes: Iterable[Case], nothing: str = "no such runs") -> Claim:
    """Judge a claim by cases, such as results of several data sets.

    Args:
        text: What is claimed.
        outcomes: For each case whether it holds there (None where the difference may be chance), and the numbers.
        nothing: Why it cannot be tested where there is no case.

    Examples:
        >>> judge("Water is wet.", [(True, "at 10 °C"), (False, "at −10 °C")]).verdict
        'holds in 1 of 2'
        >>> judge("Water is wet.", [(True, "at 10 °C"), (None, "at 0 °C")]).verdict
        'holds in 1 of 2, undecided in 1'
        >>> judge("Water is wet.", [(None, "at 0 °C")]).verdict
        'undecided'
    """
    cases = list(outcomes)
    if not cases:
        return Claim(text, "cannot be tested here", f"{nothing[:1].upper()}{nothing[1:]}.")
    mixed = len({holds for holds, _ in cases}) > 1
    evidence = "; ".join(f"{text} ({_WORDS[holds]})" if mixed else text for holds, text in cases)
    return Claim(text, _verdict([holds for holds, _ in cases]), f"{evidence}.", tuple(cases))


def of_every_seed(name: str, outcomes: Sequence[tuple[bool, str]]) -> Case:
    """Join the runs of several seeds: a claim holds where it does with every seed; the numbers are of the first.

    Examples:
        >>> of_every_seed("sea", [(True, "at 10 °C"), (False, "at −3 °C")])
        (False, 'sea: at 10 °C (with 1 of 2 seeds)')
    """
    count = sum(holds for holds, _ in outcomes)
    seeds = f" (with {count} of {len(outcomes)} seeds)" if len(outcomes) > 1 else ""
    return count == len(outcomes), f"{name}: {outcomes[0][1]}{seeds}"


def all_hold(outcomes: Sequence[bool | None]) -> bool | None:
    """Join the parts of one case: one that does not hold decides against it, one that is undecided leaves it open."""
    return False if False in outcomes else None if None in outcomes else True


def _verdict(outcomes: Sequence[bool | None]) -> str:
    counts = {holds: outcomes.count(holds) for holds in _WORDS}
    whole = next((name for holds, name in _WHOLE.items() if counts[holds] == len(outcomes)), None)
    if whole is not None:
        return whole
    undecided = f", undecided in {counts[None]}" if counts[None] else ""
    said = "holds" if counts[True] else "does not hold"
    return f"{said} in {counts[True] or counts[False]} of {len(outcomes)}{undecided}"


def claims_table(claims: Iterable[Claim]) -> str:
    """Write claims as a Markdown table."""
    return markdown_table(
        ("The paper says", "Here", "Numbers"), ((one.text, one.verdict, one.evidence) for one in claims), left=3
    )
