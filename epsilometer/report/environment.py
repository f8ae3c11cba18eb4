"""The one Jinja environment: templates lie beside the functions that they belong to, and every text is escaped."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

from epsilometer.core.component import PACKAGE
from epsilometer.report import wording


def render(template: Path, context: Mapping[str, Any]) -> Markup:
    """Render a template of this package; a name that it uses and the context lacks is an error."""
    return Markup(_ENVIRONMENT.get_template(template.relative_to(PACKAGE).as_posix()).render(context))


def _code(text: str) -> Markup:
    """The text as HTML, what stands in backticks as code."""
    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def _shade(full: float) -> str:
    """A colour between white and blue, 0 to 1, on which dark text is legible."""
    parts = (round(white + (dark - white) * full) for white, dark in zip((250, 252, 254), (86, 160, 211), strict=True))
    return "#" + "".join(f"{part:02x}" for part in parts)


_ENVIRONMENT = jinja2.Environment(
    loader=jinja2.FileSystemLoader([PACKAGE, PACKAGE / "report"]),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_ENVIRONMENT.filters |= {
    "beyond": wording.unbounded,
    "budget": wording.budget,
    "code": _code,
    "inflected": wording.inflected,
    "metric": wording.metric_value,
    "nats": wording.nats,
    "proved": wording.proved,
    "bounded": wording.bounded,
    "p": wording.p_value,
    "shade": _shade,
    "share": wording.share,
    "share_proved": wording.share_proved,
    "tail_words": wording.tail_words,
}
