"""Options: what the help says of each of them is shown."""

import typer.main
from rich.text import Text

from focalcal.cli import app
from focalcal.metrics import METRICS


def all_options(command, name="focalcal"):
    for child, one in getattr(command, "commands", {}).items():
        yield from all_options(one, f"{name} {child}")
    yield from ((name, parameter) for parameter in command.params if getattr(parameter, "help", None))


def test_no_help_loses_words_that_look_like_markup():
    found = list(all_options(typer.main.get_command(app)))
    assert len(found) > 200
    lost = [(name, one.name) for name, one in found if Text.from_markup(one.help).plain != one.help]
    assert not lost


def test_the_help_of_evaluate_names_every_metric():
    shown = typer.main.get_command(app).commands["evaluate"].help
    assert f"Metrics: {', '.join(METRICS)}." in shown
