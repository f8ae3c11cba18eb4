"""The only Jinja environment, which escapes all texts. A template is in the folder of the module that uses it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

from epsilometer.core.component import PACKAGE
from epsilometer.report.section import Section


def render(template: Path, context: Mapping[str, Any]) -> Markup:
    """Return a rendered template of this package. A name that the context lacks is an error."""
    return Markup(_ENVIRONMENT.get_template(template.relative_to(PACKAGE).as_posix()).render(context))


def show(section: Section, styles: Mapping[str, Any] | None = None, controls: Sequence[str] = ()) -> Markup:
    """Return a section as HTML. styles: the style of each mechanism; controls: the mechanisms that are controls."""
    shared = {"section": section, "styles": styles or {}, "controls": controls}
    return render(PACKAGE / "report/section.html.j2", shared)


def _marked(text: str) -> Markup:
    """Return the text as HTML, with text in backticks as code, and text between two pairs of asterisks as strong."""
    code = re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(text)))
    return Markup(re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", code))


_ENVIRONMENT = jinja2.Environment(
    loader=jinja2.FileSystemLoader([PACKAGE, PACKAGE / "report"]),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_ENVIRONMENT.filters["marked"] = _marked
