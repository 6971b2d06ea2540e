"""The table and sentences that ``focalcal calibrate`` prints for people."""

from __future__ import annotations

from rich.table import Table

from focalcal.cli.calibration import COMPARED, Calibrated
from focalcal.cli.output import results
from focalcal.metrics.evaluation import METRIC_TITLES
from focalcal.report.readings import written, written_change

# What the table calls the learned numbers; the identity's value stands before the fit.
_LEARNED = {"temperature": ("temperature T", 1.0), "gamma": ("focal γ", 0.0)}


def print_calibration(done: Calibrated) -> None:
    """Print what was fitted, the metrics before and after, and what was written."""
    console = results()
    facts = f"{done.before.n:,} samples, {done.before.num_classes} classes, {done.before.bins} bins"
    console.print(f"{done.names[1]}: {facts}")
    console.print(_table(done))
    console.print(_summary(done))
    for path in (done.request.out, done.request.save_calibrator):
        if path is not None:
            console.print(f"Wrote {path}.", soft_wrap=True)


def _table(done: Calibrated) -> Table:
    table = Table("metric")
    for heading in ("before", "after", "change"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name in COMPARED:
        before, after = done.before.values[name], done.after.values[name]
        cells = (written(name, before), written(name, after), written_change(name, after - before))
        table.add_row(METRIC_TITLES[name], *cells)
    for name, value in done.learned.items():
        title, neutral = _LEARNED[name]
        table.add_row(title, f"{neutral:g}", f"{value:.4g}".replace("-", "−"), "")
    return table


def _summary(done: Calibrated) -> str:
    """What was done and what became of NLL and ECE, in words."""
    source = f"fitted on {done.names[0]}"
    if done.names[0] is None:
        source = "not fitted" if done.request.calibrator is None else f"from {done.request.calibrator.name}"
    floor = written("ece_floor", done.after.values["ece_floor"])
    moves = f"NLL {_move(done, 'nll')}, ECE {_move(done, 'ece')}"
    return f"{done.calibrator.method}, {source}: {moves}; a perfectly calibrated model would show an ECE of {floor}."


def _move(done: Calibrated, name: str) -> str:
    before, after = (written(name, values[name]) for values in (done.before.values, done.after.values))
    if before == after:
        return f"stays {after}"
    return f"{'falls' if done.after.values[name] < done.before.values[name] else 'rises'} from {before} to {after}"
