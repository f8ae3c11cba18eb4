"""Verbatim leakage: how many of the identifiers in the texts survive in their rewrites.

Identifiers are those that the corpus records having planted (columns `identifiers` and `identifier_kinds`), and those
that have a pattern (`text.identifiers`). Names have no pattern, so they are known from the record alone. A match that
overlaps a recorded identifier is counted as that one.

**Rule.** An identifier has survived where the rewrite has the same letters and digits in a row, whatever their case and
whatever stands between them, from one word's border to another's: "Lee Hewitt" survives in "lee, hewitt rang" and
"(01632) 960262" in "01632960262", but "Lee" not in "sleep". A part that survives (a first name of two, a number without
its prefix) is not counted, so the share is a lower bound on what leaks. A word that a mechanism happens to draw
(of a person called May) counts. Where a corpus says which mentions are of one entity (column `identifier_entities`),
these are one identifier, which is masked only if none of its mentions has survived (Pilan et al. 2022).

A share's interval is clustered by source (`auditing.worth.intervals`): several identifiers of one text, and
several rewrites of it, do not survive independently.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epsilometer.auditing.schemas import LEAKAGE
from epsilometer.auditing.worth.intervals import share_interval
from epsilometer.core.errors import UserError
from epsilometer.core.tables import Schema
from epsilometer.text.identifiers import matches
from epsilometer.text.words import words

COUNTS: Schema = {name: LEAKAGE[name] for name in list(LEAKAGE)[3:]}  # without the cell
ALL = "all"
OTHER = "other"  # the kind of what a corpus records without one


class Identifier(NamedTuple):
    """A name, an address or a number in a text.

    kind: "name", "e-mail address", "phone number", "order number" or a corpus's own. recorded: by the corpus. entity:
    what it mentions; empty where the corpus does not say.
    """

    kind: str
    text: str
    recorded: bool
    entity: str = ""


def identifiers(table: pl.DataFrame) -> list[list[Identifier]]:
    """The identifiers of each text of a prepared table (column `text`, and the records where it has them)."""
    texts = table["text"].to_list()
    rows = []
    for text, listed, matched in zip(texts, recorded(table), matches(texts), strict=True):
        more = [Identifier(kind, text[start:end], False) for kind, start, end in matched]
        rows.append([*listed, *(new for new in more if not _among(new, listed))])
    return rows


def survives(text: str, rewrite: str) -> bool:
    """Whether an identifier stands in the rewrite, by the module's rule."""
    key, (joined, borders) = _key(text), _joined(rewrite)
    at = joined.find(key) if key else -1
    while at >= 0 and not (at in borders and at + len(key) in borders):
        at = joined.find(key, at + 1)
    return at >= 0


def leakage(
    identifiers: Sequence[Sequence[Identifier]],
    rewrites: Sequence[str],
    sources: Sequence[int] | NDArray[np.integer],
    alpha: float,
) -> pl.DataFrame:
    """One row a kind, and one for all kinds together: how many identifiers there were, and how many survived.

    known: the identifiers of each rewrite's original; sources: the number of the original. Returns kind, identifiers,
    recorded (how many of these the corpus recorded), survived, share, low, high (at confidence 1 - alpha); no row of a
    kind that does not occur.
    """
    seen: dict[str, list[tuple[bool, bool, int]]] = {}  # survived, recorded, source
    for some, rewrite, source in zip(identifiers, rewrites, sources, strict=True):
        for mentions in by_entity(some):
            first = mentions[0]
            outcome = (any(survives(mention.text, rewrite) for mention in mentions), first.recorded, int(source))
            for kind in (first.kind, ALL):
                seen.setdefault(kind, []).append(outcome)
    rows = []
    for kind, every in sorted(seen.items(), key=lambda item: (item[0] == ALL, item[0])):
        survived, recorded, texts = zip(*every, strict=True)
        rows.append((kind, len(survived), sum(recorded), sum(survived), *share_interval(survived, texts, alpha)))
    return pl.DataFrame(rows, schema=dict(COUNTS), orient="row")


def by_entity(some: Sequence[Identifier]) -> list[list[Identifier]]:
    """The mentions of each entity; what mentions none that is known is one of its own."""
    entities: dict[str | int, list[Identifier]] = {}
    for number, identifier in enumerate(some):
        entities.setdefault(identifier.entity or number, []).append(identifier)
    return list(entities.values())


def _key(text: str) -> str:
    """The letters and digits of a text, with their marks."""
    return "".join(words(text)).replace("'", "")


@lru_cache(maxsize=1)  # one rewrite is asked about many identifiers
def _joined(rewrite: str) -> tuple[str, frozenset[int]]:
    """The letters and digits of a rewrite, and where its words begin and end among them."""
    parts = [part.replace("'", "") for part in words(rewrite)]
    return "".join(parts), frozenset(accumulate(map(len, parts), initial=0))


def _among(new: Identifier, others: Sequence[Identifier]) -> bool:
    return any(_key(new.text) in _key(other.text) or _key(other.text) in _key(new.text) for other in others)


def recorded(table: pl.DataFrame) -> list[list[Identifier]]:
    """The identifiers that the corpus recorded of each text of a table; UserError for lists of different lengths."""
    if "identifiers" not in table.columns:
        return [[] for _ in range(len(table))]
    rows = []
    for texts, kinds, entities in table.select(
        "identifiers", *(_column(table, name) for name in ("identifier_kinds", "identifier_entities"))
    ).iter_rows():
        texts, kinds = texts or [], kinds or [OTHER] * len(texts or [])
        entities = entities or [""] * len(texts)
        if not len(texts) == len(kinds) == len(entities):
            raise UserError(
                "every text needs as many identifier_kinds as identifiers, and as many identifier_entities; fix the "
                "corpus"
            )
        record = zip(kinds, texts, entities, strict=True)
        rows.append([Identifier(kind, text, True, entity) for kind, text, entity in record if _key(text)])
    return rows


def _column(table: pl.DataFrame, name: str) -> pl.Expr:
    return pl.col(name) if name in table.columns else pl.lit(None).alias(name)
