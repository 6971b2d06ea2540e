"""Changes of a recipe that have a flag of their own."""

from typing import Annotated

import typer

ByDate = Annotated[
    bool,
    typer.Option("--by-date", help="20 Newsgroups: the split by date that scikit-learn fetches; data.by_date=true."),
]


def with_flags(changes: list[str] | None, *, by_date: bool) -> list[str]:
    """The KEY=VALUE changes, and those that the flags stand for.

    Examples:
        >>> with_flags(["epochs=10"], by_date=True)
        ['epochs=10', 'data.by_date=true']
    """
    return [*(changes or ()), *(["data.by_date=true"] if by_date else [])]
