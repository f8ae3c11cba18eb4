"""From a source to an audit's corpus: read the texts, then clean, merge and count them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from epsilometer.core import tables
from epsilometer.core.component import module
from epsilometer.core.errors import UserError
from epsilometer.core.file_names import listed, no_column
from epsilometer.core.tables import Schema
from epsilometer.corpora import annotated, files, hub
from epsilometer.corpora.joint import parts, with_joint
from epsilometer.corpora.parts import GROUP
from epsilometer.text.words import words

PREPARED: Schema = {"id": pl.String, "text": pl.String, "split": pl.String, "words": pl.Int32}  # and one column a label

_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+(@[\w./-]+)?")
# What a corpus may say of each text, lists of strings: what identifies somebody, of what kind, mentions of what.
_RECORD = ("identifiers", "identifier_kinds", "identifier_entities")
_OWN = (*PREPARED, *_RECORD, GROUP)  # columns that a label must not be called
_SPLITS = ("train", "validation", "test")


@dataclass(frozen=True)
class GeneratorRequest:
    """A request to a generator: count of texts, part (its name for a corpus), seed."""

    seed: int = 0
    count: int | None = None
    part: str | None = None


NO_REQUEST = GeneratorRequest()


def read(
    source: str | Path,
    text: str | Sequence[str] = "text",
    labels: Sequence[str] = (),
    split: str | None = "split",
    rows: int | None = None,
    layout: files.Layout = files.PLAIN,
    request: GeneratorRequest = NO_REQUEST,
) -> pl.DataFrame:
    """The texts of a source, as columns `text`, `split`, the labels, and its record of identifiers where it has one.

    source: a file (.parquet, .csv, .tsv, .jsonl, .ndjson, .txt with a text a line), a folder of .txt files, a pin of a
    Hugging Face data set (.json), texts annotated in the form of the Text Anonymization Benchmark or of
    Presidio (.json), a generator (.py with `generate(name,
    count, seed)`), or the id of a Hugging Face data set, owner/name or owner/name@revision. text, labels, split: its
    columns; a label `a,b` joins two (`corpora.joint`);
    several columns of text are joined by line breaks; without a column `split` all rows are "train". rows:
    only the first so many; layout: of a file; request: to a generator. Raises UserError for whatever is missing,
    unknown or damaged, naming the remedy. The record is `identifiers`, `identifier_kinds` and `identifier_entities`,
    for each text as many strings.
    """
    for label in labels:
        if label in _OWN:
            raise UserError(f"a label cannot be called {label!r}, a column of epsilometer's own; rename that column")
    if Path(source).suffix == ".py":
        raw = _generate(str(source), request)
    elif request.part is not None or request.count is not None:
        raise UserError(f"part and count are for a generator (.py), and {str(source)!r} is not one; leave them out")
    else:
        raw = _load(str(source), layout, rows)
    if rows is not None:
        raw = raw.head(rows)
    texts = [text] if isinstance(text, str) else list(text)
    if split == "split" and split not in raw.columns:
        split = None
    wanted = [*(("text", column) for column in texts), *(("label", label) for label in labels)] + (
        [("split", split)] if split else []
    )
    raw = with_joint(raw, labels)
    for kind, column in wanted:
        if column not in raw.columns:
            missing_parts = [part for part in parts(column) if part not in raw.columns] if kind == "label" else []
            raise no_column(source, f"{kind} column", (missing_parts or [column])[0], raw.columns)
    for column in texts:
        check_strings(raw, column, str(source))
    if split and (missing := raw[split].null_count()):
        raise UserError(f"{source}: {missing} rows have no value in the split column {split!r}; fill it in")
    return raw.select(
        pl.concat_str(texts, separator="\n", ignore_nulls=True).alias("text")
        if len(texts) > 1
        else pl.col(*texts).alias("text"),
        pl.col(split).cast(pl.String).alias("split") if split else pl.lit("train").alias("split"),
        *(pl.col(label) for label in labels),
        *(name for name in _RECORD if raw.schema.get(name) == pl.List(pl.String)),
    )


def check_strings(table: pl.DataFrame, column: str, source: str) -> None:
    """Refuse a column of texts that are no strings."""
    if table.schema[column] != pl.String:
        strings = [name for name, dtype in table.schema.items() if dtype == pl.String]
        raise UserError(
            f"{source}: the text column {column!r} must hold strings, got {table.schema[column].base_type()}; "
            f"strings stand in {listed(strings, 'column')}"
        )


@dataclass(frozen=True)
class Corpus:
    """A prepared corpus.

    table: PREPARED, the labels as strings, the record of identifiers; counts: of the rows.

    counts: rows (read), empty_dropped (without a word), duplicates_merged, texts (left).
    """

    table: pl.DataFrame
    counts: dict[str, int]


def check_sides(raw: pl.DataFrame, sides: Sequence[str], place: str) -> None:
    """Raises UserError for a pair of which a side is missing or has no word."""
    for side in sides:
        lacking = [row for row, text in enumerate(raw[side], start=1) if not words(text or "")]
        if lacking:
            raise UserError(
                f"{place}: {listed(lacking[:3], 'row')}{' and more' if len(lacking) > 3 else ''} of {len(raw)} "
                f"{'has' if len(lacking) == 1 else 'have'} no word in {side!r}, and a pair needs both sides; leave "
                "them out, or fill them in"
            )


def prepare(raw: pl.DataFrame, labels: Sequence[str] = ()) -> Corpus:
    """Drop texts without a word, merge duplicates, number the words and give every text its stable id.

    raw: columns text, split and the labels. Two texts are one when they differ in white space alone; the first row of
    train, else of validation, else of test stands for all. The texts themselves stay as they are. Raises UserError
    when nothing is left.
    """
    order = {name: i for i, name in enumerate(_SPLITS)}
    counted = raw.with_columns(pl.col("text").fill_null(""), pl.col(list(labels)).cast(pl.String)).with_columns(
        pl.col("text").map_elements(lambda t: len(words(t)), return_dtype=pl.Int32).alias("words"),
        layout_free("text").alias("_key"),
        pl.col("split").replace_strict(order, default=len(order), return_dtype=pl.Int32).alias("_rank"),
        pl.int_range(pl.len()).alias("_row"),
    )
    worded = counted.filter(pl.col("words") > 0)
    if worded.is_empty():
        raise UserError(f"the corpus is empty: none of its {len(raw)} rows holds a word; check the text column")
    unique = worded.sort("_rank", "_row").unique("_key", keep="first", maintain_order=True).sort("_row")
    ids = pl.Series("id", [hashlib.blake2b(t.encode(), digest_size=8).hexdigest() for t in unique["text"]])
    extra = [name for name in _RECORD if name in raw.columns]
    table = unique.with_columns(ids).select(*PREPARED, *labels, *extra)
    counts = {
        "rows": len(raw),
        "empty_dropped": len(raw) - len(worded),
        "duplicates_merged": len(worded) - len(unique),
        "texts": len(unique),
    }
    return Corpus(tables.check(table, PREPARED, "corpus"), counts)


def layout_free(column: str) -> pl.Expr:
    """A column of texts without layout: white space collapsed and stripped. Texts equal in it count as one."""
    return pl.col(column).str.replace_all(r"\s+", " ").str.strip_chars()


def generator(source: str) -> Callable[[str, int, int], pl.DataFrame]:
    """The function generate(name, count, seed) of a .py file."""
    if not Path(source).is_file():
        raise UserError(f"there is no file {source!r}; check the path of the generator")
    generate: Callable[[str, int, int], pl.DataFrame] | None = getattr(module("corpora", source), "generate", None)
    if generate is None:
        raise UserError(f"{source} must define a function generate(name, count, seed)")
    return generate


def _load(source: str, layout: files.Layout, rows: int | None) -> pl.DataFrame:
    path = Path(source)
    if annotated.holds(path):
        return annotated.read(path)
    if path.suffix == ".json":
        pin = hub.read_pin(path)
        return hub.load(pin.dataset, pin.config, pin.revision, rows)
    dataset, _, revision = source.partition("@")
    if _HUB_ID.fullmatch(source) and not Path(dataset).suffix and not path.exists():
        return hub.load(dataset, revision=revision or None, rows=rows)
    return files.read(path, layout)


def _generate(source: str, request: GeneratorRequest) -> pl.DataFrame:
    if request.part is None or request.count is None:
        raise UserError(f"the generator {source} needs a part (the name of one of its corpora) and a count of texts")
    table = generator(source)(request.part, request.count, request.seed)
    if not isinstance(table, pl.DataFrame):
        raise UserError(f"{source}: generate must return a polars.DataFrame, got {type(table).__name__}")
    return table
