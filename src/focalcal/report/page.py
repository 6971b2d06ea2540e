"""The page itself: a template, its style and script, and the data, in one file that asks nothing of any network."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

# Inside a script element, none of these may be taken for markup, and the last two are line ends to old scripts.
_ESCAPES = {ord(character): f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}


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
