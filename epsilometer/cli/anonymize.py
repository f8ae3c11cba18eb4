"""`epsilometer anonymize`: texts whose author's attribute a classifier no longer infers, and what became of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epsilometer.cli.options import (
    A_MECHANISM,
    TEXTS,
    Encoding,
    Json,
    NoHeader,
    NoQuotes,
    Rows,
    Separator,
    Settings,
    Text,
    read_settings,
)
from epsilometer.cli.output import show
from epsilometer.core.errors import UserError, printable
from epsilometer.runtime.progress import note

if TYPE_CHECKING:
    import polars as pl

    from epsilometer.corpora.files import Layout

_SIGNS = {"same": "{}", "gone": "[-{}-]", "new": "{{+{}+}}"}  # as in git's word diff


def anonymize(
    file: Annotated[str, typer.Argument(help=TEXTS)],
    attribute: Annotated[list[str], typer.Option(help="A label to hide, a column of --labelled; may be repeated.")],
    labelled: Annotated[Path, typer.Option(help="Texts with labels, on which auxiliaries are trained.")],
    keep: Annotated[list[str], typer.Option(help="A label to keep, a column of --labelled; may be repeated.")] = [],  # noqa: B006
    mechanism: Annotated[str, typer.Option(help=A_MECHANISM)] = "idt",
    epsilon: Annotated[float | None, typer.Option(help="The privacy budget of a mechanism that takes one.")] = None,
    kind: Annotated[list[str], typer.Option(help="Of the auxiliaries: linear, encoder, transformer.")] = ["linear"],  # noqa: B006
    auxiliaries: Annotated[
        Path | None, typer.Option(help="A folder of auxiliaries; they are trained and written there if it has none.")
    ] = None,
    vectors: Annotated[Path | None, typer.Option(help="A file of word vectors; the embedded ones by default.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write a table (.csv, .parquet, .jsonl) instead of lines.")] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Name what gave an attribute away, and how sure each is.")
    ] = False,
    text: Text = ["text"],  # noqa: B006
    rows: Rows = None,
    separator: Separator = None,
    no_quotes: NoQuotes = False,
    no_header: NoHeader = False,
    encoding: Encoding = "utf-8",
    seed: Annotated[int | None, typer.Option(help="Reproducible; else from the operating system's randomness.")] = None,
    settings: Settings = [],  # noqa: B006
    as_json: Json = False,
) -> None:
    """Change texts so that a classifier of an attribute errs and one of a useful label does not.

    No epsilon comes with that: whoever trains a classifier on such rewrites may infer the attribute again, and whoever
    holds the texts tells which was rewritten. `epsilometer audit --rewrites --attribute` measures both.
    """
    from epsilometer.core.mechanism import budgets, build_mechanism
    from epsilometer.corpora.files import Layout
    from epsilometer.mechanisms.anonymisers.shared.auxiliaries import Plan
    from epsilometer.mechanisms.words.shared.embedded import vectors as embedded
    from epsilometer.models.classifier import FineTuning
    from epsilometer.models.embedded import weights
    from epsilometer.text.vectors import WordVectors
    from epsilometer.utility import anonymizing

    training = FineTuning(str(weights("deberta")))
    plan = Plan("labelled", attribute, keep, kind, training=training, seed=seed or 0)
    known = _labelled(labelled, plan.labels, text[0])
    texts = _texts(file, text, rows, Layout(separator, not no_quotes, not no_header, encoding))
    with ExitStack() as stack:
        folder = auxiliaries or Path(stack.enter_context(TemporaryDirectory()))
        asked = anonymizing.auxiliaries(folder, known, plan, WordVectors.load(vectors or embedded()))
        built = build_mechanism(mechanism, read_settings(settings), str(folder), f"the settings of {mechanism}")
        (budget,) = budgets(built, None if epsilon is None else [epsilon], "--epsilon")
        table = anonymizing.anonymize(texts, built, budget, seed)
        rewrites = table["rewrite"].to_list()
        reasons = anonymizing.explanations(texts, rewrites, asked) if explain else [{}] * len(texts)
    _write(table, reasons, out, as_json)


def _labelled(path: Path, labels: Sequence[str], column: str) -> pl.DataFrame:
    """The labelled texts, distinct, with their ids."""
    from epsilometer.corpora.reading import prepare, read

    return prepare(read(path, text=column, labels=labels, split=None), labels).table


def _texts(source: str, columns: Sequence[str], rows: int | None, layout: Layout) -> list[str]:
    """Every text, repeats included: each has a rewrite of its own."""
    from epsilometer.corpora.reading import read

    texts: list[str] = read(source, text=columns, rows=rows, layout=layout)["text"].fill_null("").to_list()
    if not texts:
        raise UserError(f"{source} holds no texts; give some to anonymise")
    return texts


def _write(table: pl.DataFrame, reasons: Sequence[dict[str, Any]], out: Path | None, as_json: bool) -> None:
    """Write a table to a file; else print JSON, or each text with its changes marked as by git's word diff."""
    from epsilometer.corpora import files
    from epsilometer.utility.anonymizing import difference

    statuses = table["status"].drop_nulls().value_counts(sort=True).rows()
    if statuses:
        note(", ".join(f"{count:,} {status}" for status, count in statuses))
    if out is not None:
        files.write(table, out, files.suffix(out))
        return
    rows = [{**row, **reason} for row, reason in zip(table.to_dicts(), reasons, strict=True)]
    if as_json:
        show(rows, as_json=True)
        return
    for row in rows:
        marked = " ".join(_SIGNS[kind].format(part) for kind, part in difference(row["text"], row["rewrite"]))
        print(printable(f"{row['status'] or 'rewritten'}: {marked}"))
        for line in _reasons(row):
            print(printable(f"    {line}"))


def _reasons(row: dict[str, Any]) -> Iterator[str]:
    for label, kinds in row.get("gave_away", {}).items():
        for kind, scores in kinds.items():
            words = ", ".join(f"{word} {score:.3f}" for word, score in scores.items()) or "no word"
            yield f"{label} was given away ({kind}) by {words}"
    for label, kinds in row.get("probabilities", {}).items():
        for kind, classes in kinds.items():
            sure = ", ".join(f"{name} {p['before']:.2f} to {p['after']:.2f}" for name, p in classes.items())
            yield f"{label} ({kind}): {sure}"
