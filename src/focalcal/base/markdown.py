"""Markdown tables."""

from collections.abc import Iterable, Sequence


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """Write a table whose first ``left`` columns are aligned to the left and the others, numbers, to the right.

    Bars in cells are escaped.

    Examples:
        >>> print(markdown_table(["loss", "ECE"], [["fl-3", "1.52"]]))
        | loss | ECE |
        | :-- | --: |
        | fl-3 | 1.52 |
    """
    rule = [":--" if column < left else "--:" for column in range(len(head))]
    cells = [[cell.replace("|", "\\|") for cell in row] for row in (head, *rows)]
    return "\n".join("| " + " | ".join(row) + " |" for row in (cells[0], rule, *cells[1:]))
