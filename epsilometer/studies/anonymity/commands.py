"""`epsilometer anonymize`: rewrites texts until a classifier no longer infers an attribute of their author."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epsilometer.cli.options import (
    A_MECHANISM,
    TEXTS,
    DrawnSeed,
    Epsilon,
    Json,
    Settings,
    TextOptions,
    Vectors,
    out_option,
    read_settings,
    writable,
)
from epsilometer.cli.output import show, tell
from epsilometer.core.errors import UserError, printable
from epsilometer.runtime.progress import note, warn
from epsilometer.runtime.withholding import withheld

if TYPE_CHECKING:
    import polars as pl

    from epsilometer.core.mechanism import Mechanism, Unread
    from epsilometer.mechanisms.anonymisers.shared.auxiliaries import Plan

_MUCH = 0.5  # the share of words without a vector above which the command warns
_SIGNS = {"same": "{}", "gone": "[-{}-]", "new": "{{+{}+}}"}  # as in git's word diff


def _table(path: Path | None) -> Path | None:
    """Return the path of the table to write. Raises UserError, before any work, if it cannot be written."""
    from epsilometer.corpora.files import TABLES, suffix

    if path is not None and suffix(path) not in TABLES:
        raise UserError(f"--out must end in one of {', '.join(TABLES)}, got {path.name}; name another file", "EPS-U005")
    return writable(path)


def anonymize(
    file: Annotated[str, typer.Argument(help=TEXTS)],
    attribute: Annotated[list[str], typer.Option(help="Label to hide, a column of --labelled; repeatable.")],
    labelled: Annotated[
        Path | None, typer.Option(help="Labelled texts to train auxiliaries on, unless --auxiliaries has trained ones.")
    ] = None,
    attribute_value: Annotated[
        list[str], typer.Option(help="True class of each --attribute, in the same order; repeatable.")
    ] = [],  # noqa: B006
    attribute_column: Annotated[
        list[str], typer.Option(help="Column of FILE with the true class of each text, instead of --attribute-value.")
    ] = [],  # noqa: B006
    keep: Annotated[list[str], typer.Option(help="Label to keep, a column of --labelled; repeatable.")] = [],  # noqa: B006
    mechanism: Annotated[str, typer.Option(help=A_MECHANISM)] = "idt",
    epsilon: Epsilon = None,
    kind: Annotated[
        list[str], typer.Option(help="Kind of the auxiliary classifiers: linear, encoder or transformer; repeatable.")
    ] = ["linear"],  # noqa: B006
    auxiliaries: Annotated[
        Path | None, typer.Option(help="Folder of auxiliaries; if it has none, they are trained and stored there.")
    ] = None,
    vectors: Vectors = None,
    out: Annotated[Path | None, out_option(_table)] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Print what revealed an attribute, and how certain each reason is.")
    ] = False,
    *,
    reading: TextOptions,
    seed: DrawnSeed = None,
    settings: Settings = [],  # noqa: B006
    as_json: Json = False,
) -> None:
    """Change texts until a classifier misses an attribute.

    A classifier of a useful label (--keep) should still be right. With --out, the result is a table (.csv, .parquet,
    .jsonl) instead of printed lines. This guarantees no epsilon: an attacker who trains a classifier on such rewrites
    may infer the attribute again, and an attacker who has the texts can recognise which text was rewritten.
    `epsilometer ask attribute --rewrites` measures both.
    """
    from epsilometer.auditing.trials.unread import unread
    from epsilometer.core.mechanism import budgets
    from epsilometer.studies.anonymity import anonymizing, meaning

    plan = _plan(attribute, keep, kind, seed or 0)
    read = _texts(file, reading, attribute_column)
    texts, truths = read["text"].to_list(), _truths(read, attribute, attribute_value, attribute_column)
    with withheld(), ExitStack() as stack:
        folder = auxiliaries or Path(stack.enter_context(TemporaryDirectory()))
        built = anonymizing.over(folder, mechanism, read_settings(settings))
        (budget,) = budgets(built, None if epsilon is None else [epsilon], "--epsilon")
        asked_for = explain or meaning.reads(built, folder)
        supplied = anonymizing.auxiliaries(folder, plan, labelled, vectors, columns=reading.text) if asked_for else None
        _say_unused(built, mechanism, folder, keep, explain=explain)
        built = anonymizing.with_truths(built, texts, truths) if truths else built
        _say_unread(unread(built, texts))
        table = anonymizing.anonymize(texts, built, budget, seed)
        rewrites = table["rewrite"].to_list()
        reasons = anonymizing.explanations(texts, rewrites, supplied) if supplied and explain else [{}] * len(texts)
        _say_outcomes(table, meaning.meanings(built, folder))
    _write(table, reasons, out, as_json)


def _plan(attributes: Sequence[str], tasks: Sequence[str], kinds: Sequence[str], seed: int) -> Plan:
    """Return the plan for training missing auxiliaries."""
    from epsilometer.mechanisms.anonymisers.shared.auxiliaries import Plan
    from epsilometer.models.classifier import FineTuning
    from epsilometer.models.embedded import weights

    return Plan("labelled", attributes, tasks, kinds, training=FineTuning(str(weights("deberta"))), seed=seed)


def _truths(
    read: pl.DataFrame, attributes: Sequence[str], values: Sequence[str], columns: Sequence[str]
) -> dict[str, list[str | None]]:
    """Return the true classes of all texts by attribute, from --attribute-value or --attribute-column.

    The result is empty if neither is given.
    """
    if values and columns:
        raise UserError(
            "--attribute-value is for texts of one author and --attribute-column for texts of several; give only one "
            "of them",
            "EPS-U006",
        )
    if (values or columns) and len(attributes) != len(values or columns):
        raise UserError(
            f"--attribute-{'value' if values else 'column'} must be given once for each --attribute, got "
            f"{len(values or columns)} for {len(attributes)}; give the true class of every attribute, or of none",
            "EPS-U007",
        )
    if columns:
        return {name: read[column].to_list() for name, column in zip(attributes, columns, strict=True)}
    return {name: [value] * len(read) for name, value in zip(attributes, values, strict=False)}


def _say_unused(built: Mechanism, name: str, folder: Path, keep: Sequence[str], *, explain: bool) -> None:
    """Print notes on the labels that the mechanism ignores. folder: the auxiliaries; keep: the labels to keep."""
    from epsilometer.studies.anonymity.meaning import keeps_labels, reads

    if not reads(built, folder):
        use = "serve only --explain" if explain else "have no effect"
        note(f"{name} asks no auxiliaries: the labels and --labelled {use}")
    if keep and not keeps_labels(built, folder):
        remedy = "see the answers below" if explain else "--explain shows a classifier's answers before and after"
        note(f"{name} ignores --keep, so its rewrites may lose {', '.join(keep)}; {remedy}")


def _say_outcomes(table: pl.DataFrame, meanings: Mapping[str, str]) -> None:
    """Print a note for each status: the number of texts that have it, and its meaning."""
    for status, count in table["status"].drop_nulls().value_counts(sort=True).sort("status").rows():
        note(f"{count:,} of {len(table):,} {status}: {meanings[status]}")


def _say_unread(counts: Unread) -> None:
    """Print the numbers of truncated texts and of out-of-vocabulary words, which the mechanism cannot change.

    The message is a warning if more than half of the words are out of vocabulary.
    """
    if counts.cut:
        note(
            f"{counts.cut:,} of {counts.texts:,} texts are longer than the classifiers read; their ends stay unchanged"
        )
    if counts.unknown:
        share = counts.unknown / counts.words
        remark = f"{share:.1%} of the words of the texts have no vector, so the mechanism cannot replace them"
        if share > _MUCH:
            warn(f"{remark}: many texts will stay unchanged; train auxiliaries with --vectors of the texts' language")
        else:
            note(remark)


def _texts(source: str, reading: TextOptions, columns: Sequence[str]) -> pl.DataFrame:
    """Return every text, including repeats, and these columns as strings."""
    from epsilometer.corpora.reading import read

    reading.files.check(source)
    table = read(
        source,
        text=reading.text,
        labels=list(dict.fromkeys(columns)),
        rows=reading.rows,
        layout=reading.files.layout,
    )
    if table.is_empty():
        raise UserError(f"{source} contains no texts; give texts to anonymise", "EPS-U008")
    return table.select(table["text"].fill_null(""), *(table[name].cast(str) for name in dict.fromkeys(columns)))


def _write(table: pl.DataFrame, reasons: Sequence[dict[str, Any]], out: Path | None, as_json: bool) -> None:
    """Write the table to `out`; without it, print JSON or each text with its changes marked like git's word diff."""
    from epsilometer.corpora import files
    from epsilometer.studies.anonymity.anonymizing import difference, with_explanations

    if out is not None:
        files.write(with_explanations(table, reasons), out, files.suffix(out), private=True)  # contains the texts
        return
    rows = [{**row, **reason} for row, reason in zip(table.to_dicts(), reasons, strict=True)]
    if as_json:
        show(rows, as_json=True)
        return
    for row in rows:
        parts = difference(row["text"], row["rewrite"])
        marked = " ".join(_SIGNS[kind].format(" ".join(part.split())) for kind, part in parts)
        tell(printable(f"{row['status'] or 'rewritten'}: {marked}"))
        for line in _reasons(row):
            tell(printable(f"    {line}"))


def _reasons(row: dict[str, Any]) -> Iterator[str]:
    """Yield lines: the words that revealed an attribute, strongest first, and classifiers' answers before and after."""
    for label, kinds in row.get("gave_away", {}).items():
        for kind, scores in kinds.items():
            words = ", ".join(f"{word} ({score:+.2f})" for word, score in scores.items()) or "no word"
            yield f"revealed {label} to {kind}: {words}"
    for label, kinds in row.get("probabilities", {}).items():
        for kind, classes in kinds.items():
            before, after = (max(classes, key=lambda name: classes[name][side]) for side in ("before", "after"))
            sure = ", ".join(f"{name} {p['before']:.2f} -> {p['after']:.2f}" for name, p in classes.items())
            yield f"{label} according to {kind}: {before} before, {after} after ({sure})"
