"""The page and what is in it: words and tables for its template, and numbers for programs, in one file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from importlib.resources import files
from typing import Any

from focalcal.metrics import Evaluation
from focalcal.metrics.catalogue import describe_metric
from focalcal.metrics.group_results import GroupTable
from focalcal.report.readings import describe_measure, format_interval, format_value, pluralise
from focalcal.report.reported_model import ReportedModel
from focalcal.report.wording import headline, how_fitted, mood, next_steps, sentences

_KEY_METRICS = ("accuracy", "ece", "nll", "confident_share")

# Inside a script element, none of these may be taken for markup, and the last two are line ends to old scripts.
_ESCAPES = {ord(character): f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}


def model_content(model: ReportedModel) -> dict[str, Any]:
    """Collect words and tables about one model."""
    return {
        "name": model.name,
        "facts": _facts(model),
        "headline": headline(model),
        "mood": mood(model),
        "sentences": sentences(model),
        "steps": next_steps(model),
        "tiles": [_tile(model, name) for name in _KEY_METRICS if name in model.before.values],
        "metrics": [_metric_row(model, name) for name in model.before.values],
        "notes": list(model.notes),
        "groups": [_group_content(table) for table in model.before.by.values()],
        "scaling": None if model.scaling is None else how_fitted(model.scaling),
        "temperature": None if model.scaling is None else f"{model.scaling.temperature:.3g}",
        "config": model.source.config,
    }


def _group_content(table: GroupTable) -> dict[str, Any]:
    """Write the groups of one column."""
    headings, rows = table.rows()
    return {"column": table.column, "headings": headings, "rows": rows, "sentences": table.sentences()}


def _metric_row(model: ReportedModel, name: str) -> dict[str, str]:
    """Write a metric, uncalibrated and scaled; empty where there is no such number."""
    metric = describe_metric(name, model.before.of, model.before.event)
    row = {"title": metric.heading, "words": metric.reading}
    for key, evaluation in (("before", model.before), ("after", model.after)):
        values = {} if evaluation is None else evaluation.values
        intervals = {} if evaluation is None else evaluation.intervals
        row[key] = format_value(name, values[name]) if name in values else ""
        row[f"{key}_interval"] = format_interval(intervals.get(name), partial(format_value, name))
    return row


def _facts(model: ReportedModel) -> str:
    data = model.source.data
    split = "" if data.split is None else f", split {data.split}"
    soft = ", soft labels" if model.has_soft_labels else ""
    n, k, of = model.before.n, model.before.num_classes, model.before.of
    classes = "" if of == "confidence" else f", {pluralise(k, 'class')}"
    return f"{pluralise(n, 'sample')}{classes}{split}{soft}. {describe_measure(of, model.before.event)}"


def _tile(model: ReportedModel, name: str) -> dict[str, str]:
    """Write a key number, its interval, and what it becomes."""
    write = partial(format_value, name)
    interval = format_interval(model.before.intervals.get(name), write)
    beside = _by_chance(model.before) if name == "ece" else ""
    if model.after is not None and name != "accuracy":
        scaled = f"scaled {write(model.after.values[name])}"
        if name == "ece":
            scaled += f" ({_by_chance(model.after)})"
        beside = f"{beside} · {scaled}" if beside else scaled
    return {
        "title": {"confident_share": "≥ 99% sure"}.get(
            name, describe_metric(name, model.before.of, model.before.event).heading
        ),
        "value": write(model.before.values[name]),
        "interval": interval,
        "beside": beside,
        "words": describe_metric(name, model.before.of, model.before.event).reading,
    }


def _by_chance(evaluation: Evaluation) -> str:
    """Write the range that a perfectly calibrated model would show."""
    test = evaluation.calibration_test
    return "" if test is None else f"perfect model {test.range_text}"


def numbers_of(
    models: list[ReportedModel], differences: list[dict[str, Any]], origin: dict[str, Any]
) -> dict[str, Any]:
    """Collect the numbers that a program may want to read."""
    return {
        "models": [
            {
                "name": model.name,
                "verdict": sentences(model),
                "before": model.before.to_dict(),
                "after": None if model.after is None else model.after.to_dict(),
                "temperature": None
                if model.scaling is None
                else {
                    "value": model.scaling.temperature,
                    "fitted": list(model.scaling.temperatures),
                    "source": model.scaling.source,
                    "samples": model.scaling.fitted_samples,
                    "objective": model.scaling.objective,
                },
                "ood": {name: {"auroc": roc.auroc, "fpr_at_95": roc.fpr_at_95} for name, roc in model.ood.items()},
                "notes": list(model.notes),
            }
            for model in models
        ],
        "differences": [
            {"names": list(d["names"]), "metric": d["metric"], "when": d["when"], **d["numbers"]} for d in differences
        ],
        **origin,
    }


def render(content: Mapping[str, Any], data: Mapping[str, Any], numbers: Mapping[str, Any]) -> str:
    """Render the whole page.

    Args:
        content: Values for the template.
        data: Values for the script.
        numbers: The content of the download.
    """
    import jinja2  # these take a while to import
    import markupsafe
    from plotly.offline import get_plotlyjs

    # For what is written by us or by Plotly, and for JSON that is escaped; the template escapes everything else.
    trusted = markupsafe.Markup
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.loader = jinja2.FunctionLoader(_template)
    return str(
        environment.get_template("report.html").render(
            **content,
            style=trusted(_template("report.css")),
            script=trusted(_template("report.js")),
            plotly=trusted(_inside_script(get_plotlyjs())),
            data=trusted(safe_json(data)),
            numbers=trusted(safe_json(numbers)),
        )
    )


def safe_json(content: Any) -> str:
    r"""Write JSON that may stand inside a script element.

    Examples:
        >>> print(safe_json({"name": "</script>"}))
        {"name":"\u003c/script\u003e"}
    """
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.translate(_ESCAPES)


def _template(name: str) -> str:
    return files("focalcal.report").joinpath("templates", name).read_text(encoding="utf-8")


def _inside_script(text: str) -> str:
    """Escape a script so that it cannot end the element around it."""
    return text.replace("</script", "<\\/script").replace("<!--", "<\\!--")
