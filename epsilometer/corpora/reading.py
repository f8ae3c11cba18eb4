"""Read the texts of a source, drop texts without words, merge duplicates, and count what remains."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from epsilometer.core import tables
from epsilometer.core.component import module
from epsilometer.core.errors import UserError, by_number
from epsilometer.core.file_names import no_column
from epsilometer.core.readable import check_readable
from epsilometer.core.tables import Schema
from epsilometer.corpora import annotated, conversations, files, hub
from epsilometer.corpora.joint import parts, with_joint
from epsilometer.corpora.parts import GROUP
from epsilometer.runtime import packages
from epsilometer.runtime.progress import note
from epsilometer.text.words import words

PREPARED: Schema = {"id": pl.String, "text": pl.String, "split": pl.String, "words": pl.Int32}  # and a column per label

_EACH = "[]"  # in a path, follows the name of a column of lists, and stands for every value of a list
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+(@[\w./-]+)?")
# Optional columns of a corpus, lists of strings: the identifiers of a text, their kinds, and their entities.
_RECORD = ("identifiers", "identifier_kinds", "identifier_entities")
_OWN = (*PREPARED, *_RECORD, GROUP)  # names of columns that a label must not have
_SPLITS = ("train", "validation", "test")


@dataclass(frozen=True)
class GeneratorRequest:
    """A request to a generator. count: the number of texts. part: the generator's name for a corpus."""

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
    """Return the texts of a source: columns `text`, `split`, the labels, and annotated identifiers, if any.

    source: a file (`files.read`); a folder of .txt files; a pin (.json) of a data set on the hub or of a file in a
    package; a file (.json) in the form of the Text Anonymization Benchmark, Presidio or chitchat-dataset; a generator
    (.py with `generate(name, count, seed)`); or the id of a Hugging Face data set.
    text, labels, split: columns of the source, or paths into objects. With the path `comments[].text`, each comment
    becomes a text, in a row that repeats the other values of its source row. A label `a,b` joins two columns
    (`corpora.joint`). Several columns of text are joined by line breaks. Without a column `split` all rows are "train".
    rows: the number of rows to read; None: all. layout: the layout of a file. request: the request to a generator.

    Annotated identifiers are in the columns `identifiers`, `identifier_kinds` and `identifier_entities`. Raises
    UserError for a source, column or value that is missing, unknown or damaged.
    """
    check_readable(source, "the source of the texts")
    for label in labels:
        if label in _OWN:
            raise UserError(f"the label name {label!r} is reserved by epsilometer; rename that column", "EPS-D037")
    if Path(source).suffix == ".py":
        raw = _generate(str(source), request)
    elif request.part is not None or request.count is not None:
        raise UserError(
            f"part and count apply to a generator (.py), and {str(source)!r} is not one; leave them out", "EPS-D038"
        )
    else:
        raw = _load(str(source), layout, rows)
    if rows is not None:
        raw = raw.head(rows)
    texts = [text] if isinstance(text, str) else list(text)
    raw = unfolded(raw, [*texts, *labels], str(source))
    if split == "split" and split not in raw.columns:
        split = None
    raw = with_joint(raw, labels)
    _check_columns(raw, source, texts, labels=labels, split=split)
    for column in texts:
        check_strings(raw, column, str(source))
        if nul := (raw[column].str.contains("\0", literal=True).fill_null(False).arg_true() + 1).to_list():
            raise UserError(f"{source}: {by_number('row', nul)} of {len(raw):,} contains a NUL; remove it", "EPS-D039")
    if split and (missing := (raw[split].is_null().arg_true() + 1).to_list()):
        raise UserError(
            f"{source}: the split column {split!r} has no value in {by_number('row', missing)} of {len(raw):,}; "
            "fill it in",
            "EPS-D040",
        )
    return raw.select(
        pl.concat_str(texts, separator="\n", ignore_nulls=True).alias("text")
        if len(texts) > 1
        else pl.col(*texts).alias("text"),
        pl.col(split).cast(pl.String).alias("split") if split else pl.lit("train").alias("split"),
        *(pl.col(label) for label in labels),
        *(name for name in _RECORD if raw.schema.get(name) == pl.List(pl.String)),
    )


def unfolded(table: pl.DataFrame, columns: Sequence[str], source: str) -> pl.DataFrame:
    """Return the table with a column for each path into objects, such as `comments[].text`.

    columns: the names of columns, and the paths. Each object in a list becomes a row. Raises UserError for a path that
    does not exist, and for paths into two lists.
    """
    lists: set[str] = set()
    for column in columns:
        head, *parts = column.split(".")
        if column in table.columns or not (parts or head.endswith(_EACH)):
            continue
        name = head.removesuffix(_EACH)
        if name not in table.columns:
            raise no_column(source, "column", name, table.columns)
        for place, part in enumerate([head, *parts]):
            if place:
                kind = table.schema[name]
                if isinstance(kind, pl.List):
                    raise UserError(f"{source}: {name!r} is a list; write the path as {name}{_EACH}.{part}", "EPS-D041")
                fields = [field.name for field in kind.fields] if isinstance(kind, pl.Struct) else []
                if part.removesuffix(_EACH) not in fields:
                    raise no_column(f"{source}: {name}", "field", part.removesuffix(_EACH), fields)
                inner = f"{name}.{part.removesuffix(_EACH)}"
                table = table.with_columns(pl.col(name).struct.field(part.removesuffix(_EACH)).alias(inner))
                name = inner
            if part.endswith(_EACH) and f"{name}{_EACH}" not in table.columns:
                if not isinstance(table.schema[name], pl.List):
                    raise UserError(
                        f"{source}: {name!r} contains single values; write the path without {_EACH}", "EPS-D042"
                    )
                if lists and not any(f"{name}{_EACH}".startswith(other) for other in lists):
                    raise UserError(
                        f"{source}: the paths lead into two lists; name columns of a single list", "EPS-D043"
                    )
                lists.add(f"{name}{_EACH}")
                table = table.with_columns(pl.col(name).alias(f"{name}{_EACH}")).explode(f"{name}{_EACH}")
            name = f"{name}{_EACH}" if part.endswith(_EACH) else name
    return table


def check_strings(table: pl.DataFrame, column: str, source: str) -> None:
    """Raise UserError for a column of texts with values other than strings.

    The error suggests no other column, since other columns may contain names of people.
    """
    kind = table.schema[column]
    if kind == pl.String:
        return
    said = f"{source}: the text column {column!r} must contain strings, got {kind.base_type()}"
    within = kind.inner if isinstance(kind, pl.List) else kind
    if within == pl.String:
        raise UserError(f"{said}; to read each value as a text, write the path {column}{_EACH} (--text)", "EPS-D044")
    if not isinstance(within, pl.Struct):
        raise UserError(f"{said}; name the column of the texts (--text)", "EPS-D045")
    path = f"{column}{_EACH}" if isinstance(kind, pl.List) else column
    raise UserError(f"{said} of objects; name the text field by its path, {path}.FIELD (--text)", "EPS-D046")


@dataclass(frozen=True)
class Corpus:
    """A prepared corpus.

    table: the columns of PREPARED, the labels as strings, and annotated identifiers.

    counts: the numbers of rows that were read (`rows`), rows without a word (`empty_dropped`), merged duplicates
    (`duplicates_merged`), and remaining texts (`texts`).
    """

    table: pl.DataFrame
    counts: dict[str, int]


def check_sides(raw: pl.DataFrame, sides: Sequence[str], place: str) -> None:
    """Raise UserError for a row that has no word in one of the columns `sides`. A pair needs both of its sides."""
    for side in sides:
        lacking = [row for row, text in enumerate(raw[side], start=1) if not words(text or "")]
        if lacking:
            raise UserError(
                f"{place}: {by_number('row', lacking)} of {len(raw)} {'has' if len(lacking) == 1 else 'have'} no word "
                f"in {side!r}, but a pair needs both sides; leave these rows out, or fill them in",
                "EPS-D047",
            )


def prepare(raw: pl.DataFrame, labels: Sequence[str] = ()) -> Corpus:
    """Drop texts without a word, merge duplicates, count the words, and give every text a stable id.

    raw: columns text, split and the labels. Texts are duplicates if they differ only in white space, or in the
    composition of their characters (NFC, NFD). One row of each group of duplicates stays: the first row of train;
    without one, the first of validation; without one, the first of test. The texts themselves stay unchanged. Raises
    UserError if no text is left.
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
        raise UserError(f"the corpus is empty: its {len(raw)} rows contain no word; check the text column", "EPS-D048")
    unique = worded.sort("_rank", "_row").unique("_key", keep="first", maintain_order=True).sort("_row")
    layouts = worded.select(pl.col("text").str.replace_all(r"\s+", " ").str.strip_chars().n_unique()).item()
    note_composed(layouts - len(unique))
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


def note_composed(merged: int) -> None:
    """Print how many texts were merged with another text that differs only in the composition of characters."""
    if merged:
        note(f"{merged:,} texts differ from another one only in Unicode composition (NFC, NFD) and were merged with it")


def layout_free(column: str) -> pl.Expr:
    """Return a column of texts without layout: white space collapsed and stripped, characters composed (NFC).

    Texts that are equal in this form count as the same text.
    """
    return pl.col(column).str.replace_all(r"\s+", " ").str.strip_chars().str.normalize("NFC")


def generator(source: str) -> Callable[[str, int, int], pl.DataFrame]:
    """Return the function generate(name, count, seed) of a .py file."""
    if not Path(source).is_file():
        raise UserError(f"file {source!r} not found; check the path of the generator", "EPS-D049")
    generate: Callable[[str, int, int], pl.DataFrame] | None = getattr(module("corpora", source), "generate", None)
    if generate is None:
        raise UserError(f"{source} does not define a function generate(name, count, seed); add it", "EPS-D050")
    return generate


def _load(source: str, layout: files.Layout, rows: int | None) -> pl.DataFrame:
    path = Path(source)
    if (package := packages.read_pin(path)) is not None:
        path = packages.file(package)
    if annotated.holds(path):
        return annotated.read(path)
    if conversations.holds(path):
        return conversations.read(path)
    if path.suffix == ".json" and not files.is_json_lines(path):
        pin = hub.read_pin(path)
        return hub.load(pin.dataset, pin.config, pin.revision, rows)
    dataset, _, revision = source.partition("@")
    if package is None and _HUB_ID.fullmatch(source) and not Path(dataset).suffix and not path.exists():
        return hub.load(dataset, revision=revision or None, rows=rows)
    return files.read(path, layout)


def _check_columns(
    raw: pl.DataFrame, source: str | Path, texts: Sequence[str], labels: Sequence[str], split: str | None
) -> None:
    wanted = [*(("text", column) for column in texts), *(("label", label) for label in labels)]
    for kind, column in [*wanted, *([("split", split)] if split else [])]:
        if column not in raw.columns:
            missing_parts = [part for part in parts(column) if part not in raw.columns] if kind == "label" else []
            raise no_column(source, f"{kind} column", (missing_parts or [column])[0], raw.columns)


def _generate(source: str, request: GeneratorRequest) -> pl.DataFrame:
    if request.part is None or request.count is None:
        raise UserError(
            f"the generator {source} needs a part (the name of one of its corpora) and a count of texts", "EPS-D051"
        )
    table = generator(source)(request.part, request.count, request.seed)
    if not isinstance(table, pl.DataFrame):
        raise UserError(f"{source}: generate must return a polars.DataFrame, got {type(table).__name__}", "EPS-D052")
    return table
