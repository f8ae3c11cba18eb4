"""A section of a run's report, for the page and the folder of results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from epsilometer.report.bars import Bars
from epsilometer.report.table import Table

if TYPE_CHECKING:  # importing figures takes a second, and not every section has one
    from epsilometer.report.figures import Figure


@dataclass(frozen=True)
class Section:
    """A section of the page.

    id: the id of its HTML element.
    link: its name in the page's table of contents.
    heading: its title.
    words: its paragraphs; text in backticks is code, text between double asterisks is strong.
    blocks: bars, tables and figures, in their order.
    first_screen: pairs of a topic and a sentence, for the top of the page if there is room. Sentences of one topic are
        next to each other.
    alarm: True if the first screen must look like an alarm.
    legend: True if the mechanisms are listed above the blocks, to highlight them in all figures.
    folded: True if the page shows only its title until a reader opens it.
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
        """The tables among the blocks, in their order."""
        return [block for block in self.blocks if isinstance(block, Table)]

    @property
    def figures(self) -> list[Figure]:
        """The figures among the blocks; each is also saved as files."""
        return [block for block in self.blocks if block.kind == "figure"]  # type: ignore[misc]
