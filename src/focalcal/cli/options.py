"""Options that several commands share, and the help that a command's docstring gives."""

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from focalcal.metrics.catalogue import METRICS

Command = Callable[..., None]

Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress.")]
Bins = Annotated[int, typer.Option(min=1, help="Number of bins of the binned metrics; at most 10,000.")]
Bootstrap = Annotated[
    int, typer.Option(min=0, help="Number of resamples for bootstrap intervals; 0 for none of these.")
]
Level = Annotated[float, typer.Option(help="Level of the confidence intervals; 0.9 for 90%.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed for the resamples; the same seed gives the same result.")]
Changes = Annotated[
    list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Changes to the recipe, such as epochs=10.")
]
ByDate = Annotated[
    bool,
    typer.Option("--by-date", help="20 Newsgroups: the split by date that scikit-learn fetches; data.by_date=true."),
]


def option(
    name: str, kind: Any, help: str, *, flag: str | None = None, hidden: bool = False, panel: str | None = None
) -> inspect.Parameter:
    """Make one option, ``--like-this`` for the name ``like_this``, that is None (or False) where it is not given."""
    info = typer.Option(
        False if kind is bool else None,
        flag or f"--{name.replace('_', '-')}",
        help=help,
        hidden=hidden,
        show_default=False,
        rich_help_panel=panel,
    )
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=info, annotation=kind)


_PANEL = "How files are read"
READ_OPTIONS = [
    option(
        "logits_key",
        str | None,
        "The array or column(s) with logits, if not called logits: one name, several (cat,dog,eel), or how they begin.",
        panel=_PANEL,
    ),
    option(
        "probs_key",
        str | None,
        "The array or column(s) with probabilities, if not called probs or predictions.",
        panel=_PANEL,
    ),
    option(
        "labels_key",
        str | None,
        "The array or column with labels, if not called labels, label or ground_truth.",
        panel=_PANEL,
    ),
    option(
        "confidence_key",
        str | None,
        "The column with one confidence per answer, instead of logits or probabilities.",
        panel=_PANEL,
    ),
    option(
        "correct_key",
        str | None,
        "With --confidence-key: the column that says whether each answer was right.",
        panel=_PANEL,
    ),
    option(
        "predicted_key",
        str | None,
        "Instead of --correct-key: the class of each answer, right where it is the label.",
        panel=_PANEL,
    ),
    option("positive_class", str | None, "The label whose score the column is.", flag="--positive-label", panel=_PANEL),
    option("of", str | None, "top: measure a score by its predicted class; score: two columns as one.", panel=_PANEL),
    option("class_dim", int | None, "The axis of the classes of arrays (N, T, K): -1; 1 by default.", panel=_PANEL),
    option("class_names", str | None, "Names of the classes in the order of the columns: cat,dog,eel.", panel=_PANEL),
    option("labels_are", str | None, "counts: rows of labels are votes, and are divided by their sum.", panel=_PANEL),
    option("clusters_key", str | None, "The column with the image, sentence or user of a sample.", panel=_PANEL),
    option("weights_key", str | None, "The column with weights, if not called weights or weight.", panel=_PANEL),
    option("ids_key", str | None, "The column with ids, if not called ids or id.", panel=_PANEL),
    option("kind", str | None, "logits or probs: which to read of a file with both, or of an npy.", panel=_PANEL),
    option("labels", Path | None, "An npy of labels, instead of the file's own.", panel=_PANEL),
    option("split", str | None, "The name of the split, instead of the file's own.", panel=_PANEL),
    option("ignore_index", int | None, "Samples with this label are left out; -100 by default.", panel=_PANEL),
    option("tolerance", float | None, "Largest distance from 1 of the sum of a row of probabilities.", panel=_PANEL),
    option("allow_duplicate_ids", bool, "Accept an id that occurs more than once.", panel=_PANEL),
    option("drop_missing", bool, "Leave out rows without a value, and count them.", panel=_PANEL),
]
# Labels and a split belong to one file: these are for commands that read several.
READ_MANY_OPTIONS = [parameter for parameter in READ_OPTIONS if parameter.name not in ("labels", "split")]


def pack_options(into: str, options: Sequence[inspect.Parameter]) -> Callable[[Command], Command]:
    """Give a command these options instead of its parameter ``into``, which gets those that were given, by name."""

    def keep_given(chosen: dict[str, Any]) -> dict[str, Any]:
        given = {name: value for name, value in chosen.items() if value is not None and value is not False}
        if isinstance(given.get("class_names"), str):
            given["class_names"] = [name.strip() for name in given["class_names"].split(",")]
        return given

    return _exchange(into, options, keep_given)


def pack_fields(into: str, kind: type[Any]) -> Callable[[Command], Command]:
    """Give a command an option for each field of a dataclass instead of its parameter ``into``, which gets one."""
    hints = get_type_hints(kind, include_extras=True)
    keyword = inspect.Parameter.KEYWORD_ONLY
    options = [
        inspect.Parameter(field.name, keyword, default=field.default, annotation=hints[field.name])
        for field in fields(kind)
    ]
    return _exchange(into, options, lambda chosen: kind(**chosen))


def _exchange(
    into: str, options: Sequence[inspect.Parameter], make: Callable[[dict[str, Any]], Any]
) -> Callable[[Command], Command]:
    """Exchange the parameter ``into`` for these options, of which its argument is made.

    Typer reads a function's signature, so the signature is what is changed.
    """
    names = [parameter.name for parameter in options]

    def decorate(command: Command) -> Command:
        signature = inspect.signature(command, eval_str=True)
        others = [parameter for parameter in signature.parameters.values() if parameter.name != into]

        @functools.wraps(command)
        def run(**arguments: Any) -> None:
            chosen = {name: arguments.pop(name) for name in names}
            command(**arguments, **{into: make(chosen)})

        parameters = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in (*others, *options)]
        run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return decorate


def names_in(text: str | None, option: str) -> list[str] | None:
    """Split ``ada-ece, nll`` into names as the library has them; None where the option is not given.

    Examples:
        >>> names_in("ada-ece, NLL", "--metrics")
        ['ada_ece', 'nll']
    """
    if text is None:
        return None
    names = [name.strip().lower().replace("-", "_") for name in text.split(",") if name.strip()]
    if not names:
        raise ValueError(f"{option} is empty; give names, separated by commas, such as ece,nll.")
    return names


def recipe_changes(changes: list[str] | None, *, by_date: bool) -> list[str]:
    """Join the KEY=VALUE changes with those that flags stand for.

    Examples:
        >>> recipe_changes(["epochs=10"], by_date=True)
        ['epochs=10', 'data.by_date=true']
    """
    return [*(changes or ()), *(["data.by_date=true"] if by_date else [])]


def help_text(command: Command) -> str:
    r"""Turn a command's docstring into help: one line per paragraph, examples unchanged; {metrics} are their names.

    Examples:
        >>> def command() -> None:
        ...     '''Do it.
        ...
        ...     It takes
        ...     long.
        ...
        ...     Examples:
        ...       focalcal command
        ...     '''
        >>> print(help_text(command).replace("\b\n", ""))
        Do it.
        <BLANKLINE>
        It takes long.
        <BLANKLINE>
        Examples:
          focalcal command
    """
    text = inspect.cleandoc(command.__doc__ or "").replace("{metrics}", ", ".join(METRICS))
    paragraphs = text.split("\n\n")
    # Older versions of typer join lines, except in a paragraph that begins with this character.
    return "\n\n".join(f"\b\n{text}" if text.startswith("Examples:") else " ".join(text.split()) for text in paragraphs)
