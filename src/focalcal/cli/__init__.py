"""The command line: one file per command, each importing the library only when it runs, so that ``--help`` is fast."""

import sys

import typer

from focalcal._version import __version__
from focalcal.cli.apply import apply
from focalcal.cli.calibrate import calibrate
from focalcal.cli.compare import compare
from focalcal.cli.data import data_app
from focalcal.cli.demo import demo
from focalcal.cli.doctor import doctor
from focalcal.cli.evaluate import evaluate
from focalcal.cli.export import export
from focalcal.cli.failures import run
from focalcal.cli.options import help_text
from focalcal.cli.paper import paper_app
from focalcal.cli.recipes import recipes_app
from focalcal.cli.report import report
from focalcal.cli.sweep import sweep
from focalcal.cli.train import train
from focalcal.cli.translate import translate

app = typer.Typer(
    name="focalcal",
    help="Train classifiers whose confidence can be trusted, measure how far it can be trusted, and repair it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

for command in (demo, train, sweep, evaluate, compare, calibrate, apply, export, doctor, report, translate):
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
    traceback: bool = typer.Option(False, "--traceback", help="Show where an error came from; works anywhere."),
) -> None:
    """Take the options of focalcal itself; ``--traceback`` is removed from the arguments before they are parsed."""


def main() -> None:
    """Run the command line; bad input is one sentence on stderr and exit code 2, never a traceback."""
    sys.exit(run(app))
