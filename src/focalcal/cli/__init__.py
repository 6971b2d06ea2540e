"""The command line: one file a command, each imported only when it runs, so that ``--help`` stays fast."""

import sys

import typer

from focalcal._version import __version__
from focalcal.cli.calibrate import calibrate
from focalcal.cli.compare import compare
from focalcal.cli.data import data_app
from focalcal.cli.demo import demo
from focalcal.cli.doctor import doctor
from focalcal.cli.evaluate import evaluate
from focalcal.cli.failures import run
from focalcal.cli.help_text import help_text
from focalcal.cli.paper import paper_app
from focalcal.cli.recipes import recipes_app
from focalcal.cli.report import report
from focalcal.cli.train import train

app = typer.Typer(
    name="focalcal",
    help="Train classifiers whose confidence can be trusted, measure how far it can be trusted, and repair it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

for command in (demo, train, compare, evaluate, calibrate, doctor, report):
    app.command(help=help_text(command))(command)
app.add_typer(recipes_app, name="recipes")
app.add_typer(data_app, name="data")
app.add_typer(paper_app, name="paper")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"focalcal {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Print the version."),
) -> None:
    """Options of focalcal itself."""


def main() -> None:
    """Runs the command line; bad input is one sentence on stderr and exit code 2, never a traceback."""
    sys.exit(run(app))
