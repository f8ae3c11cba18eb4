"""`epsilometer audit TEXTS --rewrites FILE --attribute ...`: what rewrites made elsewhere hide of an attribute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epsilometer.cli.output import show
from epsilometer.core.errors import UserError
from epsilometer.runtime.withholding import withheld

if TYPE_CHECKING:
    import polars as pl

    from epsilometer.corpora.files import Layout

_SHARES = ("both_right", "rs_all", "rs_all_low", "rs_all_high", "coverage", "rs", "ur", "pa", "words_changed")
_SHOWN = ("texts_each", "trained_on", "texts", "accuracy", "majority", "loss", "point", "upper", "ceiling")


@dataclass(frozen=True)
class Recorded:
    """What a user names: the file of texts and those of their rewrites and of labelled texts to learn from; labels.

    kinds: of classifiers, separated by commas. text: the columns of the texts; rows: only the first so many.
    """

    texts: Path | None
    rewrites: Path | None
    attribute: str
    keep: str | None
    labelled: Path | None = None
    group: str | None = None
    kinds: str | None = None
    text: tuple[str, ...] = ("text",)
    rows: int | None = None


def audit_attribute(recorded: Recorded, layout: Layout, alpha: float, seed: int, *, as_json: bool) -> None:
    """Print a row a victim and, below it, a row an attacker; with JSON all that was measured, a row an attacker.

    layout: of all files. Raises UserError for what is missing.
    """
    if recorded.texts is None or recorded.rewrites is None:
        raise UserError("--attribute is measured on a FILE of labelled texts and their --rewrites; give both")
    from epsilometer.models.classifier import KINDS
    from epsilometer.utility.measuring import Attacking
    from epsilometer.utility.one_call import STANDARD, AnonymityDesign
    from epsilometer.utility.recorded import pairs, recorded_anonymity

    kinds = STANDARD.kinds if recorded.kinds is None else recorded.kinds.split(",")
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        raise UserError(f"--kinds must be among {', '.join(KINDS)}, got {unknown[0]!r}")
    design = AnonymityDesign(kinds, group=recorded.group, attacking=Attacking(alpha=alpha, seed=seed))
    texts, rewrites = _labelled(recorded, recorded.texts, layout), pairs(recorded.rewrites, layout)
    others = None if recorded.labelled is None else _labelled(recorded, recorded.labelled, layout)
    with withheld():
        table = recorded_anonymity(
            texts, rewrites, others, attribute=recorded.attribute, keep=recorded.keep, design=design
        )
    if as_json:
        show(table.to_dicts(), as_json)
        return
    rows = list(table.iter_rows(named=True))
    victims = {(row["epsilon"], row["kind"]): row for row in rows if row["both_right"] is not None}
    show([{"epsilon": at, "victim": kind, **_of(row, _SHARES)} for (at, kind), row in victims.items()], as_json)
    print()
    show([{"epsilon": row["epsilon"], "attacker": _named(row), **_of(row, _SHOWN)} for row in rows], as_json)


def _labelled(recorded: Recorded, source: Path, layout: Layout) -> pl.DataFrame:
    from epsilometer.corpora.reading import prepare, read

    labels = [name for name in (recorded.attribute, recorded.keep, recorded.group) if name is not None]
    table = prepare(read(source, recorded.text, labels, rows=recorded.rows, layout=layout), labels).table
    return table.select("text", *labels)


def _named(row: Mapping[str, Any]) -> str:
    best = row["best_attacker"]
    name = row["attacker"] if best is None else f"{row['attacker']}: {best}"
    return f"{name} ({row['kind']})"


def _of(row: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: row[name] for name in names}
