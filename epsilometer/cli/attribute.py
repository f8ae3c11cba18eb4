"""`epsilometer audit TEXTS --rewrites FILE --attribute ...`: what rewrites made elsewhere hide of an attribute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epsilometer.cli.options import Group, Kinds, TextOptions
from epsilometer.cli.output import show, tell
from epsilometer.core.errors import UserError
from epsilometer.runtime.progress import note
from epsilometer.runtime.withholding import withheld

if TYPE_CHECKING:
    import polars as pl

_SHARES = ("both_right", "rs_all", "rs_all_low", "rs_all_high", "coverage", "rs", "ur", "pa", "words_changed")
_SHOWN = ("texts_each", "trained_on", "texts", "accuracy", "majority", "loss", "point", "upper", "ceiling")


@dataclass(frozen=True)
class RecordedLabels:
    """The labels of recorded rewrites, and what attackers of one learn from."""

    attribute: Annotated[
        str | None,
        typer.Option(
            help="A label that recorded rewrites are to hide, or labels jointly (a,b): measure how attackers infer it."
        ),
    ] = None
    keep: Annotated[str | None, typer.Option(help="With --attribute: the label that they are to keep, if any.")] = None
    labelled: Annotated[
        Path | None, typer.Option(help="With --attribute: other labelled texts, from which attackers learn.")
    ] = None
    group: Group = None
    kinds: Kinds = None

    def check_unused(self) -> None:
        """Refuse what has no effect without an attribute."""
        if any(option is not None for option in (self.keep, self.labelled, self.group, self.kinds)):
            raise UserError("--keep, --labelled, --group and --kinds are for --attribute; give it, or leave them out")


def audit_attribute(
    labels: RecordedLabels,
    file: Path | None,
    recorded: Path | None,
    reading: TextOptions,
    *,
    alpha: float,
    seed: int,
    as_json: bool,
) -> None:
    """Print a row a victim and, below it, a row an attacker; with JSON all that was measured, a row an attacker.

    file: of the texts; recorded: of their rewrites. Raises UserError for what is missing.
    """
    if file is None or recorded is None:
        raise UserError("--attribute is measured on a FILE of labelled texts and their --rewrites; give both")
    from epsilometer.corpora.joint import parts
    from epsilometer.questions.attribute import Attribute
    from epsilometer.report.gate import beyond_joined
    from epsilometer.studies.anonymity.measuring import Attacking
    from epsilometer.studies.anonymity.one_call import AnonymityDesign
    from epsilometer.studies.anonymity.recorded import pairs, recorded_anonymity

    kinds = Attribute(attribute=str(labels.attribute), kinds=labels.kinds and labels.kinds.split(",")).learners
    design = AnonymityDesign(kinds, group=labels.group, attacking=Attacking(alpha=alpha, seed=seed))
    texts, rewrites = _labelled(labels, file, reading), pairs(recorded, reading.files.layout)
    others = None if labels.labelled is None else _labelled(labels, labels.labelled, reading)
    with withheld():
        table = recorded_anonymity(
            texts, rewrites, others, attribute=str(labels.attribute), keep=labels.keep, design=design
        )
    note(beyond_joined(len(parts(str(labels.attribute)))))
    if as_json:
        show(table.to_dicts(), as_json)
        return
    rows = list(table.iter_rows(named=True))
    victims = {(row["epsilon"], row["kind"]): row for row in rows if row["both_right"] is not None}
    show([{"epsilon": at, "victim": kind, **_of(row, _SHARES)} for (at, kind), row in victims.items()], as_json)
    tell("")
    show([{"epsilon": row["epsilon"], "attacker": _named(row), **_of(row, _SHOWN)} for row in rows], as_json)


def _labelled(labels: RecordedLabels, source: Path, reading: TextOptions) -> pl.DataFrame:
    from epsilometer.corpora.reading import prepare, read

    columns = [name for name in (labels.attribute, labels.keep, labels.group) if name is not None]
    layout = reading.files.layout
    table = prepare(read(source, reading.text, columns, rows=reading.rows, layout=layout), columns).table
    return table.select("text", *columns)


def _named(row: Mapping[str, Any]) -> str:
    best = row["best_attacker"]
    name = row["attacker"] if best is None else f"{row['attacker']}: {best}"
    return f"{name} ({row['kind']})"


def _of(row: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: row[name] for name in names}
