"""Counts of the audited texts' identifiers that occur in some text that a mechanism can release.

Some mechanisms choose their output among texts that are fixed before the mechanism sees a private text. Then an
identifier can survive only if it occurs in one of the fixed texts. So the share of the audited texts' identifiers that
occur in the fixed texts is an upper bound of the share that can survive. This bound is an exact count, without a
sampling error.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, runtime_checkable

import polars as pl

from epsilometer.auditing.worth.leakage import Identifier, by_entity
from epsilometer.core.errors import UserError
from epsilometer.core.tables import Schema

STANDING: Schema = {  # a row per kind of identifier, for a mechanism whose releases are fixed public texts
    "dataset": pl.String,
    "mechanism": pl.String,
    "kind": pl.String,
    "identifiers": pl.Int64,  # number in all audited texts
    "recorded": pl.Int64,  # number recorded by the corpus; the others match patterns
    "standing": pl.Int64,  # number that occur in some text that can be released
}
_COUNTS: Schema = {name: STANDING[name] for name in list(STANDING)[2:]}


@runtime_checkable
class HasPublicReleases(Protocol):
    """A mechanism that releases only texts from a set that is fixed before the mechanism sees a private text."""

    @property
    def public_releases(self) -> Sequence[str]:
        """All texts that the mechanism can release."""
        ...


def standing(identifiers: Iterable[Sequence[Identifier]], releases: Sequence[str]) -> pl.DataFrame:
    """Return a row per kind: the number of identifiers, and the number of those that occur in some release.

    identifiers: the identifiers of each audited text. As in `leakage`, all mentions of an entity are one identifier,
    which occurs if any of its mentions occurs.
    """
    every = [mentions for some in identifiers for mentions in by_entity(some)]
    there = [False] * len(every)
    for release in releases:
        there = [
            seen or any(mention.survives(release) for mention in mentions)
            for mentions, seen in zip(every, there, strict=True)
        ]
    counts: dict[str, list[int]] = {}
    for (each, *_), seen in zip(every, there, strict=True):
        of_kind = counts.setdefault(each.kind, [0, 0, 0])
        of_kind[:] = [of_kind[0] + 1, of_kind[1] + each.recorded, of_kind[2] + seen]
    return pl.DataFrame(
        [(kind, *of_kind) for kind, of_kind in sorted(counts.items())], schema=dict(_COUNTS), orient="row"
    )


def check_released(mechanism: HasPublicReleases, rewrites: Iterable[str]) -> None:
    """Raise UserError if some rewrites are not among a mechanism's `public_releases`."""
    if strange := len({*rewrites} - {*mechanism.public_releases}):
        raise UserError(
            f"{strange} rewrites are not among the `public_releases` of {type(mechanism).__name__}; list every text "
            "that it can release, or remove `public_releases`",
            "EPS-A193",
        )
