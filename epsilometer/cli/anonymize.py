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
    DrawnSeed,
    Json,
    Settings,
    TextOptions,
    read_settings,
    writable,
)
from epsilometer.cli.output import show
from epsilometer.core.errors import UserError, printable
from epsilometer.core.outcomes import MEANING
from epsilometer.runtime.progress import note, warn
from epsilometer.runtime.withholding import withheld

if TYPE_CHECKING:
    import polars as pl

    from epsilometer.core.mechanism import Unread

_MUCH = 0.5  # the share of words without a vector from which on it is warned of
_SIGNS = {"same": "{}", "gone": "[-{}-]", "new": "{{+{}+}}"}  # as in git's word diff


def anonymize(
    file: Annotated[str, typer.Argument(help=TEXTS)],
    attribute: Annotated[list[str], typer.Option(help="A label to hide, a column of --labelled; may be repeated.")],
    labelled: Annotated[
        Path | None, typer.Option(help="Texts with labels to train auxiliaries on, unless --auxiliaries holds some.")
    ] = None,
    attribute_value: Annotated[
        list[str], typer.Option(help="The author's true class of each --attribute, in the same order.")
    ] = [],  # noqa: B006
    keep: Annotated[list[str], typer.Option(help="A label to keep, a column of --labelled; may be repeated.")] = [],  # noqa: B006
    mechanism: Annotated[str, typer.Option(help=A_MECHANISM)] = "idt",
    epsilon: Annotated[float | None, typer.Option(help="The privacy budget of a mechanism that takes one.")] = None,
    kind: Annotated[list[str], typer.Option(help="Of the auxiliaries: linear, encoder, transformer.")] = ["linear"],  # noqa: B006
    auxiliaries: Annotated[
        Path | None, typer.Option(help="A folder of auxiliaries; they are trained and written there if it has none.")
    ] = None,
    vectors: Annotated[
        Path | None, typer.Option(help="A file of word vectors to train with; the embedded ones by default.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write a table (.csv, .parquet, .jsonl) instead of lines.", callback=writable)
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Name what gave an attribute away, and how sure each is.")
    ] = False,
    *,
    reading: TextOptions,
    seed: DrawnSeed = None,
    settings: Settings = [],  # noqa: B006
    as_json: Json = False,
) -> None:
    """Change texts so that a classifier of an attribute errs and one of a useful label does not.

    This guarantees no epsilon: an attacker who trains a classifier on such rewrites may infer the attribute again, and
    one who has the texts can tell which of them was rewritten. `epsilometer audit --rewrites --attribute` measures
    both.
    """
    from epsilometer.auditing.trials.unread import unread
    from epsilometer.core.mechanism import budgets
    from epsilometer.mechanisms.anonymisers.shared.auxiliaries import Plan
    from epsilometer.models.classifier import FineTuning
    from epsilometer.models.embedded import weights
    from epsilometer.studies.anonymity import anonymizing

    training = FineTuning(str(weights("deberta")))
    plan = Plan("labelled", attribute, keep, kind, training=training, seed=seed or 0)
    texts = _texts(file, reading)
    with withheld(), ExitStack() as stack:
        folder = auxiliaries or Path(stack.enter_context(TemporaryDirectory()))
        built = anonymizing.over(folder, mechanism, read_settings(settings))
        (budget,) = budgets(built, None if epsilon is None else [epsilon], "--epsilon")
        supplied = anonymizing.auxiliaries(folder, plan, labelled, vectors, column=reading.text[0])
        if attribute_value:
            truths = {name: [value] * len(texts) for name, value in _values(attribute, attribute_value).items()}
            built = anonymizing.with_truths(built, texts, truths)
        _say_unread(unread(built, texts))
        table = anonymizing.anonymize(texts, built, budget, seed)
        rewrites = table["rewrite"].to_list()
        reasons = anonymizing.explanations(texts, rewrites, supplied) if explain else [{}] * len(texts)
    _write(table, reasons, out, as_json)


def _values(attributes: Sequence[str], values: Sequence[str]) -> dict[str, str]:
    """The true class of each attribute."""
    if len(attributes) != len(values):
        raise UserError(
            f"--attribute-value must be given once for each --attribute, got {len(values)} for {len(attributes)}; name "
            "the author's class of every attribute, or of none"
        )
    return dict(zip(attributes, values, strict=True))


def _say_unread(counts: Unread) -> None:
    """What stays because the mechanism does not read or know it; a warning where over half of the words do."""
    if counts.cut:
        note(f"{counts.cut:,} of {counts.texts:,} texts are longer than what the classifiers read; their rest stays")
    if counts.unknown:
        share = counts.unknown / counts.words
        remark = f"{share:.1%} of the words of the texts have no vector, so the mechanism cannot replace them"
        if share > _MUCH:
            warn(f"{remark}: many texts will stay as they are; train auxiliaries with --vectors of the texts' language")
        else:
            note(remark)


def _texts(source: str, reading: TextOptions) -> list[str]:
    """Every text, repeats included: each has a rewrite of its own."""
    from epsilometer.corpora.reading import read

    table = read(source, text=reading.text, rows=reading.rows, layout=reading.files.layout)
    texts: list[str] = table["text"].fill_null("").to_list()
    if not texts:
        raise UserError(f"{source} holds no texts; give some to anonymise")
    return texts


def _write(table: pl.DataFrame, reasons: Sequence[dict[str, Any]], out: Path | None, as_json: bool) -> None:
    """Write a table to a file; else print JSON, or each text with its changes marked as by git's word diff."""
    from epsilometer.corpora import files
    from epsilometer.studies.anonymity.anonymizing import difference

    for status, count in table["status"].drop_nulls().value_counts(sort=True).sort("status").rows():
        note(f"{count:,} of {len(table):,} {status}: {MEANING[status]}")
    if out is not None:
        files.write(table, out, files.suffix(out))
        return
    rows = [{**row, **reason} for row, reason in zip(table.to_dicts(), reasons, strict=True)]
    if as_json:
        show(rows, as_json=True)
        return
    for row in rows:
        parts = difference(row["text"], row["rewrite"])
        marked = " ".join(_SIGNS[kind].format(" ".join(part.split())) for kind, part in parts)
        print(printable(f"{row['status'] or 'rewritten'}: {marked}"))
        for line in _reasons(row):
            print(printable(f"    {line}"))


def _reasons(row: dict[str, Any]) -> Iterator[str]:
    """The words that gave an attribute away, the surest first, and what each classifier reads before and after."""
    for label, kinds in row.get("gave_away", {}).items():
        for kind, scores in kinds.items():
            words = ", ".join(f"{word} ({score:+.2f})" for word, score in scores.items()) or "no word"
            yield f"gave {label} away, to {kind}: {words}"
    for label, kinds in row.get("probabilities", {}).items():
        for kind, classes in kinds.items():
            before, after = (max(classes, key=lambda name: classes[name][side]) for side in ("before", "after"))
            sure = ", ".join(f"{name} {p['before']:.2f} -> {p['after']:.2f}" for name, p in classes.items())
            yield f"{label}, as {kind} reads it: {before} before, {after} after ({sure})"
