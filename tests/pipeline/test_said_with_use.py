"""A page that calls a cell `within` also states the utility of its rewrites, for every run."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import polars as pl
import pytest

from epsilometer.auditing.claims.verdicts import NO_CLAIM
from epsilometer.auditing.decisions.decide import ALL
from epsilometer.auditing.evidence.status import Status
from epsilometer.auditing.schemas import DECISIONS, POSSIBLE
from epsilometer.cells.tables import decisions_path
from epsilometer.report import sheet
from epsilometer.report.cells import dossier as page
from epsilometer.report.cells.results import TextResults
from epsilometer.report.figures import Figure
from tests.support.audited import audit, bare, build_page, estimates, frame

KEPT = re.compile(r"\bkeeps? |\bkept\b|as similar to|useful|has F1|utility was not measured")
BLOCKS = ("p", "tr", "dd", "li", "h1", "h2", "h3")


class Blocks(HTMLParser):
    """The text of the innermost paragraphs, rows and bars of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[list[str]] = []
        self.texts: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in BLOCKS:
            self.open.append([])

    def handle_endtag(self, tag: str) -> None:
        if tag in BLOCKS and self.open:
            self.texts.append(" ".join("".join(self.open.pop()).split()))
        elif self.open:
            self.open[-1].append(" ")  # separates the words of neighbouring cells

    def handle_data(self, data: str) -> None:
        if self.open and not self.cdata_elem:
            self.open[-1].append(data)


def cells(*words: tuple[str, float, str]) -> pl.DataFrame:
    """The decisions of cells of queries by mechanism, budget and word, by one limit."""
    rows = []
    for mechanism, epsilon, word in words:
        of = {"dataset": "queries", "mechanism": mechanism, "epsilon": epsilon, "control": False, "decision": word}
        low, high = (1.4, None) if word == Status.BEYOND else (0.2, 0.8 if word == Status.WITHIN else None)
        rows += [of | {"limit": "loss", "allowed": 1.0, "low": low, "high": high}, of | {"limit": ALL, "why": "loss"}]
    return pl.DataFrame(rows, schema=dict(DECISIONS))


def runs() -> dict[str, TextResults]:
    """Audits whose cells are within, with use measured and not; a black box; and one of which nothing is within."""
    within = cells(("mvc", 0.5, Status.WITHIN), ("mvc", 5.0, Status.WITHIN), ("dp_bart", 0.5, Status.BEYOND))
    rows = [
        {"dataset": "queries", "mechanism": "mvc", "epsilon": epsilon, "sets": 100, "worth": worth}
        | {"worth_low": worth - 0.02, "worth_high": worth + 0.02, "loss": 0.5, "by": "law", "ceiling": 0.9}
        | {"one_text": 0.3, "share": 0.1, "share_is": "=", "proved": 0.1}
        for epsilon, worth in ((0.5, 0.29), (5.0, 0.42))
    ]
    measured = pl.DataFrame(rows, schema=dict(POSSIBLE))
    return {
        "measured": audit(decisions=within, possible=measured),
        "not measured": audit(decisions=within),
        "black box": audit(decisions=cells(("mvc", 0.5, Status.NOT_EXCEEDED), ("dp_bart", 0.5, Status.OPEN))),
        "as decided": audit(estimates=estimates()),
        "controls": bare(frame(("queries", "identity", 1.0, "embedding", 1000, None, NO_CLAIM))),
    }


def check_dossier(results: TextResults) -> None:
    """The dossier of a cell says it by the same rule. The runs here limit the guesses between two texts alone."""
    decided = results.table(decisions_path(), DECISIONS)
    if decided.filter(mechanism="mvc", limit="loss").is_empty():
        return
    loss = decided.filter(limit="loss")
    tail = loss.with_columns(limit=pl.lit("delta_at_4"), allowed=0.01, low=0.0, high=0.001)
    results.held[str(decisions_path())] = pl.concat([decided.filter(pl.col("limit") != "delta_at_4"), tail])
    dossier = page.dossier(results, "queries-mvc", None, source={}, hashes={})
    html = sheet.page("dossier", page.blocks(dossier))
    said = [text for text in Blocks(html).texts if re.search(r"\bwithin\b", text, re.IGNORECASE)]
    assert not [text for text in said if not KEPT.search(text)]
    assert bool(said) == (Status.WITHIN in dossier.budgets.values())


@pytest.mark.parametrize("name", runs())
def test_no_within_stands_without_what_is_kept(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Figure, "save", lambda figure, folder: None)
    build_page(runs()[name], tmp_path / "audit.html", tmp_path / "figures")
    html = (tmp_path / "audit.html").read_text(encoding="utf-8")
    said = [text for text in Blocks(html).texts if re.search(r"\bwithin\b", text, re.IGNORECASE)]
    assert not [text for text in said if not KEPT.search(text)]
    if name in ("measured", "not measured"):
        assert len(said) >= 4, "the bar, the matrix and two rows of the evidence"
    if name == "measured":
        assert "rewrites are 140\N{NO-BREAK SPACE}% as similar to texts as one fixed sentence" in html
    check_dossier(runs()[name])
    assert html.index('class="bars"') < html.index("<table") if 'class="bars"' in html else name == "controls"
