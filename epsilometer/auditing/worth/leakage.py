"""Verbatim leakage: counts of the texts' identifiers that survive in the rewrites.

Identifiers are recorded by the corpus (columns `identifiers` and `identifier_kinds`), or match patterns
(`text.identifiers`). Names have no pattern, so only recorded names are counted. A match that overlaps a recorded
identifier counts as that identifier.

An identifier survives if the canonical form of the rewrite contains the canonical form of the identifier
(`text.identifier_matching`). Partial survival is counted separately, in the column `partly`. Identifiers in other
spellings are not counted, so the share is a lower bound of the leak. A word that a mechanism outputs by chance also
counts ("may", for a person called May). If a corpus records which mentions refer to the same entity (column
`identifier_entities`), all mentions of an entity are one identifier, which is masked only if every mention is masked
(Pilan et al. 2022).

A share's interval is clustered by source (`auditing.worth.intervals`): identifiers of one text do not survive
independently, and neither do identifiers in several rewrites of one text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epsilometer.auditing.schemas import LEAKAGE
from epsilometer.auditing.worth.intervals import share_interval
from epsilometer.core.errors import UserError
from epsilometer.core.tables import Schema
from epsilometer.text import identifier_matching
from epsilometer.text.identifiers import matches

COUNTS: Schema = {name: LEAKAGE[name] for name in list(LEAKAGE)[3:]}  # without dataset, mechanism and epsilon
ALL = "all"
OTHER = "other"  # kind of an identifier that is recorded without a kind


@dataclass(frozen=True)
class Identifier:
    """A name, an address or a number in a text.

    kind: "name", "e-mail address", "phone number", "order number" or a corpus's kind. recorded: True if the corpus
    records the identifier, False for a match of a pattern. entity: the entity that the identifier refers to; empty if
    not recorded. source: the text that contains the identifier.
    """

    kind: str
    text: str
    recorded: bool
    entity: str = ""
    source: str = field(default="", compare=False, repr=False)

    def survives(self, rewrite: str) -> bool:
        """Return True if the rewrite contains the whole identifier."""
        return identifier_matching.stands(self.text, self.source, rewrite)

    def survives_in_part(self, rewrite: str) -> bool:
        """Return True if the rewrite contains a part of the identifier that occurs nowhere else in the source."""
        return identifier_matching.survives_in_part(self.text, self.source, rewrite)


def identifiers(table: pl.DataFrame) -> list[list[Identifier]]:
    """Return the identifiers of each text of a prepared table (column `text`, and columns of records if any)."""
    texts = table["text"].to_list()
    rows = []
    for text, listed, matched in zip(texts, recorded(table), matches(texts), strict=True):
        more = [Identifier(kind, text[start:end], False, source=text) for kind, start, end in matched]
        rows.append([*listed, *(new for new in more if not _among(new, listed))])
    return rows


def leakage(
    identifiers: Sequence[Sequence[Identifier]],
    rewrites: Sequence[str],
    sources: Sequence[int] | NDArray[np.integer],
    alpha: float,
) -> pl.DataFrame:
    """Count identifiers and surviving identifiers; return a row per kind, and a row for all kinds together.

    identifiers: for each rewrite, the identifiers of its original. sources: the index of each rewrite's original.
    Columns: kind, identifiers, recorded (the number recorded by the corpus), survived, partly (the number that survived
    only in part), share (of survivors), low, high (bounds of the share at confidence 1 - alpha). There is no row for a
    kind that does not occur.
    """
    seen: dict[str, list[tuple[bool, bool, bool, int]]] = {}  # survived, partly, recorded, source
    for some, rewrite, source in zip(identifiers, rewrites, sources, strict=True):
        for mentions in by_entity(some):
            first, survived = mentions[0], any(mention.survives(rewrite) for mention in mentions)
            partly = not survived and any(mention.survives_in_part(rewrite) for mention in mentions)
            outcome = (survived, partly, first.recorded, int(source))
            for kind in (first.kind, ALL):
                seen.setdefault(kind, []).append(outcome)
    rows = []
    for kind, every in sorted(seen.items(), key=lambda item: (item[0] == ALL, item[0])):
        columns = [*zip(*every, strict=True)]  # whole, in part, recorded, text
        counts = (len(every), sum(columns[2]), sum(columns[0]), sum(columns[1]))
        rows.append((kind, *counts, *share_interval(columns[0], columns[3], alpha)))
    return pl.DataFrame(rows, schema=dict(COUNTS), orient="row")


def by_entity(some: Sequence[Identifier]) -> list[list[Identifier]]:
    """Group mentions by entity; a mention without a recorded entity is a separate entity."""
    entities: dict[str | int, list[Identifier]] = {}
    for number, identifier in enumerate(some):
        entities.setdefault(identifier.entity or number, []).append(identifier)
    return list(entities.values())


def _among(new: Identifier, others: Sequence[Identifier]) -> bool:
    key = identifier_matching.squeezed(new.text)
    return any(key in other or other in key for other in (identifier_matching.squeezed(each.text) for each in others))


def recorded(table: pl.DataFrame) -> list[list[Identifier]]:
    """Return the recorded identifiers of each text of a table. Raises UserError for lists of different lengths."""
    if "identifiers" not in table.columns:
        return [[] for _ in range(len(table))]
    rows = []
    for source, texts, kinds, entities in table.select(
        "text", "identifiers", *(_column(table, name) for name in ("identifier_kinds", "identifier_entities"))
    ).iter_rows():
        texts, kinds = texts or [], kinds or [OTHER] * len(texts or [])
        entities = entities or [""] * len(texts)
        if not len(texts) == len(kinds) == len(entities):
            raise UserError(
                "every text needs as many identifier_kinds as identifiers, and as many identifier_entities; correct "
                "the corpus",
                "EPS-A192",
            )
        record = zip(kinds, texts, entities, strict=True)
        some = [Identifier(kind, text, True, entity=entity, source=source) for kind, text, entity in record]
        rows.append([each for each in some if identifier_matching.squeezed(each.text)])
    return rows


def _column(table: pl.DataFrame, name: str) -> pl.Expr:
    return pl.col(name) if name in table.columns else pl.lit(None).alias(name)
