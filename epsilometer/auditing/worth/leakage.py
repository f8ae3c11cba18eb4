"""Verbatim leakage: the number of identifiers in the texts that survive in their rewrites.

Identifiers are those that the corpus records as planted (columns `identifiers` and `identifier_kinds`), and those
that match a pattern (`text.identifiers`). Names have no pattern, so they are known from the record alone. A match that
overlaps a recorded identifier is counted as that one.

An identifier survives if the canonical form of the rewrite holds its own (`text.identifier_matching`). Partial survival
is counted in a column of its own, `partly`, and never in both. Other spellings are not counted, so the share is a lower
bound on the leak. A word that a mechanism draws by chance (for a person called May) counts. Where a
corpus records which mentions are of one entity (column `identifier_entities`), these are one identifier, which is
masked only if all its mentions are (Pilan et al. 2022).

A share's interval is clustered by source (`auditing.worth.intervals`): several identifiers of one text, and
several rewrites of it, do not survive independently.
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

COUNTS: Schema = {name: LEAKAGE[name] for name in list(LEAKAGE)[3:]}  # without the cell
ALL = "all"
OTHER = "other"  # kind of an identifier that a corpus records without one


@dataclass(frozen=True)
class Identifier:
    """A name, an address or a number in a text.

    kind: "name", "e-mail address", "phone number", "order number" or a corpus's own. recorded: by the corpus. entity:
    the entity that it mentions; empty where the corpus does not record it. source: its text.
    """

    kind: str
    text: str
    recorded: bool
    entity: str = ""
    source: str = field(default="", compare=False, repr=False)

    def survives(self, rewrite: str) -> bool:
        """Return whether the rewrite holds it as a whole."""
        return identifier_matching.stands(self.text, self.source, rewrite)

    def survives_in_part(self, rewrite: str) -> bool:
        """Return whether the rewrite holds a part of it that is nowhere else in its source."""
        return identifier_matching.survives_in_part(self.text, self.source, rewrite)


def identifiers(table: pl.DataFrame) -> list[list[Identifier]]:
    """Return the identifiers of each text of a prepared table (column `text`, and the records where it has them)."""
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
    """Return a row per kind, and one for all kinds together: the number of identifiers, and of those that survived.

    identifiers: those of each rewrite's original; sources: the number of the original. Returns kind, identifiers,
    recorded (how many of these the corpus recorded), survived, partly (how many others survived in part), share, low,
    high (of those that survived, at confidence 1 - alpha); no row for a kind that does not occur.
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
    """Return the mentions of each entity; a mention without a known entity is an entity of its own."""
    entities: dict[str | int, list[Identifier]] = {}
    for number, identifier in enumerate(some):
        entities.setdefault(identifier.entity or number, []).append(identifier)
    return list(entities.values())


def _among(new: Identifier, others: Sequence[Identifier]) -> bool:
    key = identifier_matching.squeezed(new.text)
    return any(key in other or other in key for other in (identifier_matching.squeezed(each.text) for each in others))


def recorded(table: pl.DataFrame) -> list[list[Identifier]]:
    """Return the identifiers that the corpus recorded for each text of a table; UserError for unequal list lengths."""
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
                "every text needs as many identifier_kinds as identifiers, and as many identifier_entities; fix the "
                "corpus",
                "EPS-A192",
            )
        record = zip(kinds, texts, entities, strict=True)
        some = [Identifier(kind, text, True, entity=entity, source=source) for kind, text, entity in record]
        rows.append([each for each in some if identifier_matching.squeezed(each.text)])
    return rows


def _column(table: pl.DataFrame, name: str) -> pl.Expr:
    return pl.col(name) if name in table.columns else pl.lit(None).alias(name)
