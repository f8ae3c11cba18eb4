"""The number of times that each text was recognised, as JSON lines or an HTML page. Texts are shown only on request."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from epsilometer.auditing.gate_statistics import Verdict
from epsilometer.auditing.schemas import BY_TEXT
from epsilometer.core.atomic import write_text
from epsilometer.core.errors import UserError
from epsilometer.report import sheet

SUFFIXES = (".jsonl", ".html")
_MOST = 1000  # maximum number of texts on the page
_LONGEST = 300  # maximum number of characters of a text on the page


def check(path: Path) -> None:
    """Raise UserError unless the name of a file ends in one of SUFFIXES."""
    if path.suffix not in SUFFIXES:
        raise UserError(
            f"--out writes {' or '.join(SUFFIXES)}, got {path.name}; give a file with one of these endings", "EPS-R019"
        )


def of_verdict(verdict: Verdict, texts: Sequence[str], epsilon: float | None) -> pl.DataFrame:
    """Return a gate's results by text (columns `BY_TEXT`). texts: all texts, in the order of their numbers."""
    number = {text: i for i, text in enumerate(texts)}
    counts: dict[tuple[int, str], list[int]] = {}
    for judged in verdict.attacks:
        for text, right in judged.of_texts:
            count = counts.setdefault((number[text], judged.attack), [0, 0])
            count[0] += 1
            count[1] += right
    rows = [(text, epsilon, attack, *count) for (text, attack), count in counts.items()]
    return pl.DataFrame(rows, schema=dict(BY_TEXT), orient="row").sort("text", "attack")


def write(by_text: pl.DataFrame, files: Sequence[Path], name: str, texts: Sequence[str] | None = None) -> None:
    """Write the rows to each file, readable only by its owner.

    name: the name of the audited mechanism. texts: all texts; None to show no text.
    """
    for path in files:
        content = lines(by_text, texts) if path.suffix == ".jsonl" else html(by_text, name, texts)
        write_text(content, path, private=True)


def lines(by_text: pl.DataFrame, texts: Sequence[str] | None = None) -> str:
    """Return a JSON object per row."""
    rows = by_text.to_dicts()
    if texts is not None:
        rows = [row | {"content": texts[row["text"]]} for row in rows]
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def html(by_text: pl.DataFrame, name: str, texts: Sequence[str] | None = None) -> str:
    """Return a page with a row per text: how often each attack was right; the most recognised text first."""
    columns = by_text.select("epsilon", "attack").unique(maintain_order=True).rows()
    cells = {(row["text"], row["epsilon"], row["attack"]): row for row in by_text.iter_rows(named=True)}
    best = by_text.group_by("text").agg(share=(pl.col("right") / pl.col("trials")).max(), right=pl.col("right").sum())
    order = best.sort("share", "right", "text", descending=[True, True, False])["text"].to_list()
    rows = []
    for text in order[:_MOST]:
        counted = [cells.get((text, *column)) for column in columns]
        shown = [] if texts is None else [texts[text][:_LONGEST]]
        rows.append([str(text), *("" if c is None else f"{c['right']} of {c['trials']}" for c in counted), *shown])
    several = len({epsilon for epsilon, _ in columns}) > 1
    heads = [attack if not several or epsilon is None else f"{attack}, {epsilon:g}" for epsilon, attack in columns]
    parts: list[sheet.Block] = [
        sheet.Paragraph(
            "Texts are numbered from 0 among the distinct texts; the most recognised is first. A cell has the number of"
            " a text's trials in which the attack was right, or in which its identifier was in the rewrite. A text has "
            "few trials, so 3 right guesses of 3 prove nothing about it."
        ),
        sheet.Paragraph(
            "This page contains texts, so it is as private as they are."
            if texts is not None
            else "This page shows no text (--show-texts adds them).",
            "note",
        ),
        sheet.Grid(["text", *heads, *([] if texts is None else ["content"])], rows),
    ]
    if len(order) > _MOST:
        parts.append(sheet.Paragraph(f"{len(order) - _MOST:,} more texts are only in the JSON lines.", "note"))
    return sheet.page(f"{name}: which texts were recognised", parts)
