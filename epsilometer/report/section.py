"""What a section hands to the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epsilometer.report.figures import Figure


@dataclass(frozen=True)
class Section:
    """A section of the page.

    id: of its HTML element.
    link: what the page's table of contents calls it.
    template: the file, which sees `context`, and the page's `styles` and `controls`.
    figures: those of the context, each of which is saved as files as well.
    sentences: the findings, which the template prints as `sentences`, or the first screen where it has no others.
    """

    id: str
    link: str
    template: Path
    context: Mapping[str, Any]
    figures: Sequence[Figure] = ()
    sentences: Sequence[str] = ()
