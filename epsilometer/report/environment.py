"""The one Jinja environment: templates lie beside the functions that they belong to, and every text is escaped."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

from epsilometer.core.component import PACKAGE
from epsilometer.report import wording
from epsilometer.report.section import Fragment, Section


def render(template: Path, context: Mapping[str, Any]) -> Markup:
    """Render a template of this package; a name that it uses and the context lacks is an error."""
    return Markup(_ENVIRONMENT.get_template(template.relative_to(PACKAGE).as_posix()).render(context))


def show(section: Section, styles: Mapping[str, Any] | None = None, controls: Sequence[str] = ()) -> Markup:
    """A section as HTML. styles: how mechanisms are drawn; controls: those whose loss is known."""
    shared = {"section": section, "styles": styles or {}, "controls": controls}
    return render(PACKAGE / "report/section.html.j2", shared)


def _fragment(block: Fragment, styles: Mapping[str, Any], controls: Sequence[str]) -> Markup:
    return render(block.template, {"styles": styles, "controls": controls, **block.context})


def _marked(text: str) -> Markup:
    """The text as HTML, what stands in backticks as code, and between two pairs of asterisks as strong."""
    code = re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(text)))
    return Markup(re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", code))


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
    "budget": wording.budget,
    "fragment": _fragment,
    "marked": _marked,
    "proved": wording.proved,
    "shade": _shade,
}
