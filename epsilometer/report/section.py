"""A section of a run's report, for the page and the Markdown file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from epsilometer.report.bars import Bars
from epsilometer.report.table import Table

if TYPE_CHECKING:  # drawing takes a second to import, and not every section has a figure
    from epsilometer.report.figures import Figure


@dataclass(frozen=True)
class Section:
    """A section of the page.

    id: of its HTML element.
    link: its name in the page's table of contents.
    heading: its title.
    words: paragraphs; text in backticks is code, between two pairs of asterisks strong.
    blocks: bars, tables and figures in their order.
    first_screen: topics with a sentence each, shown at the top of the page as far as there is room; sentences of one
        topic follow each other.
    alarm: if the first screen must look like an alarm.
    legend: if the mechanisms are listed above the blocks, to be highlighted in all figures.
    folded: if the page shows only its title until a reader opens it: evidence.
    """

    id: str
    link: str
    heading: str
    words: Sequence[str] = ()
    blocks: Sequence[Table | Figure | Bars] = ()
    first_screen: Sequence[tuple[str, str]] = ()
    alarm: bool = False
    legend: bool = False
    folded: bool = False

    @property
    def tables(self) -> list[Table]:
        """Its tables, in their order."""
        return [block for block in self.blocks if isinstance(block, Table)]

    @property
    def figures(self) -> list[Figure]:
        """The figures; each is also saved as files."""
        return [block for block in self.blocks if block.kind == "figure"]  # type: ignore[misc]
