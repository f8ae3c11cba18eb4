"""Published claims: what `epsilometer claims` finds on them, and the page "Which published claims hold".

Claims, sources and verdicts are in `benchmarks/field.yaml`. The checks are run on the embedded vectors and models, and
their results are written to results/field. With `--page` no check is run, and the page is written from the stored
results.

usage: python -m benchmarks.field [--page]
"""

from __future__ import annotations

import csv
import re
import sys
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from benchmarks.shared.pages import RESULTS, ROOT, cell, head, table, write
from epsilometer.auditing.one_claim import check
from epsilometer.core import atomic

DATA = ROOT / "benchmarks/field.yaml"
FOLDER = RESULTS / "field"
PAGE = ROOT / "docs/papers/which-claims-hold.md"
COLUMNS = ("check", "form", "epsilon", "claim", "method", "claimed", "worst", "verdict")
OURS = "this package"
VERDICTS = (
    "holds",
    "theorem false",
    "other neighbours",
    "other granularity",
    "claim unclear",
)
_ABOUT = """# Which published claims hold

For people who choose a mechanism, review a paper or install a package: which claims hold, and how each was checked.

Neighbours are texts of equally many words unless a row says otherwise. A counterexample *a of b* loses a nats where
b are claimed. Checks: *law*, sums over all outputs; *bound*, a proof; *density*, densities of the noise;
*draws*, *black box*, samples of the released code, significant at 1 % (Holm); *read*, nothing computed.

A theorem *holds* if the docstring proves it and 1,000 words do not refute it; *density* can hardly refute. *Other
neighbours* or *granularity*: the claim covers other pairs or units than ours, so it is not violated. Dash: not
examined. Quotations are from abstracts, read-mes and two papers.

"""
_BELOW = """
Written by `python -m benchmarks.field` from [field.yaml](../../benchmarks/field.yaml)
and [results](../../results/field). Counterexamples run
[without this package](../../tests/support/counterexamples).

## Answers

Authors can answer by an issue named "Answer: MECHANISM". Their words are printed here unchanged. We correct
errors, and date each correction. {answers}
"""


def checked(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the row of one claim: the finding of its strongest check."""
    published = bool(settings.get("as_published"))
    outcome = check(settings["mechanism"], {"as_published": True} if published else {}, settings["epsilon"])
    finding = outcome.worst
    if published and finding.verdict != "violated":  # samples may refute it at a smaller budget
        finding = next((each for each in outcome.added if each.verdict == "violated"), finding)
    return {
        "form": "as published" if published else "here",
        "epsilon": f"{finding.epsilon:g}",
        "claim": outcome.claim,
        "method": finding.method,
        "claimed": "–" if finding.claimed is None else f"{finding.claimed:.4g}",
        "worst": "–" if finding.worst is None else f"{finding.worst:.4g}".replace("inf", "∞"),
        "verdict": finding.verdict,
    }


def lines(rows: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """Yield the lines of the table of results."""
    about = "Checks of claims on the embedded vectors, the first 1,000 words of them, and the embedded models."
    yield from head("Published claims and their worst cases", "field", about)
    cells = ("| " + " | ".join(cell(row[name]) for name in COLUMNS) + " |" for row in rows)
    yield from table("Checks", "", f"| {' | '.join(COLUMNS)} |", cells)


def page(data: Mapping[str, Any], results: Mapping[str, Mapping[str, str]]) -> str:
    """Return the page."""

    def filled(text: str) -> str:
        return re.sub(r"\{(\w+)\.(\w+)\}", lambda match: results[match[1]][match[2]], text)

    header = ("mechanism: claim", "unit", "theorem", "released code", "counterexample", "checked by")
    written = [f"| {' | '.join(header)} |", "|---" * len(header) + "|"]
    for row in data["rows"]:
        first = f"{row['name']}: {row['claim']} ({row['source']}){said(row)}"
        rest = (row[name] for name in ("unit", "theorem", "code", "counterexample", "how"))
        written.append(f"| {' | '.join(filled(text) for text in (first, *rest))} |")
    answers = [f"{row['name']}: {row['answer']}" for row in data["rows"] if row.get("answer")]
    printed = "\n\n".join(answers) or "No answer has come in."
    return _ABOUT + "\n".join(written) + "\n" + _BELOW.format(answers=printed)


def said(row: Mapping[str, Any]) -> str:
    """Return quotes of the authors on a claim, each with its place and date, and a note if a quote is missing."""
    quotes = [f"; “{each['quote']}” ({each['place']}, {each['date']})" for each in row.get("quotes", ())]
    missing = row.get("missing") or ("" if quotes or row["source"] == OURS else "not quoted")
    return "".join(quotes) + (f"; {missing}" if missing else "")


def stored() -> dict[str, dict[str, str]]:
    """Return the rows of results by the name of their check."""
    with (FOLDER / "checks.csv").open(encoding="utf-8", newline="") as file:
        return {row["check"]: row for row in csv.DictReader(file)}


def main(arguments: Sequence[str] = ()) -> None:
    """Check the claims, write the results, and the page from them."""
    parser = ArgumentParser(prog="python -m benchmarks.field", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--page", action="store_true", help="write the page from the results as they are")
    data = yaml.safe_load(DATA.read_text(encoding="utf-8"))
    if not parser.parse_args(arguments).page:
        rows = []
        for name, settings in data["checks"].items():
            print(name, flush=True)
            rows.append({"check": name, **checked(settings)})
        write(lines(rows), FOLDER)
    atomic.write_text(page(data, stored()), PAGE)
    print(Path(PAGE).relative_to(ROOT))


if __name__ == "__main__":
    main(sys.argv[1:])
