"""`epsilometer rewrite`: private texts for publication."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from epsilometer.cli.options import (
    A_MECHANISM,
    DrawnSeed,
    Epsilon,
    LedgerOptions,
    Public,
    Settings,
    TextOptions,
    out_option,
    settings_of,
    writable,
)
from epsilometer.core.errors import UserError
from epsilometer.runtime.progress import note, warn

if TYPE_CHECKING:
    from epsilometer.core.guarantees import Guarantee


def rewrite(
    mechanism: Annotated[str, typer.Option(help=A_MECHANISM)],
    epsilon: Epsilon = None,
    file: Annotated[
        Path | None,
        typer.Argument(help="A table, or a file with one text per line (default: lines on standard input)."),
    ] = None,
    out: Annotated[Path | None, out_option(writable)] = None,
    *,
    recording: LedgerOptions,
    reading: TextOptions,
    seed: DrawnSeed = None,
    settings: Settings = [],  # noqa: B006
    public: Public = None,
) -> None:
    """Privatise texts for publication.

    The texts are lines, or the text columns of a table (.parquet, .csv, .tsv, .jsonl); each row is rewritten
    separately, and --out is in the same format.

    Shipped mechanisms draw exactly, from the operating system's randomness, and reserve a millionth of the epsilon for
    rounding. The randomness of your own mechanism is your responsibility. With --seed the rewrites can be inverted, so
    do not publish them. With --person, a ledger first records the budget spent for each person.
    """
    from epsilometer.auditing import text_audit
    from epsilometer.auditing.publication import Publisher, publish_lines, publish_table
    from epsilometer.auditing.trials.unread import say
    from epsilometer.core.component import shipped
    from epsilometer.core.guarantees import check_epsilons
    from epsilometer.core.mechanism import budgets
    from epsilometer.corpora.files import TABLES, suffix

    if epsilon is not None:
        check_epsilons([epsilon], "--epsilon")
    reading.files.check(file)
    layout = reading.files.layout
    if file is not None and not file.is_file():
        if file.is_dir():
            raise UserError(
                f"{str(file)!r} is a folder, and rewrite reads one file; run it for each file of texts", "EPS-U066"
            )
        raise UserError(f"{str(file)!r} does not exist; check the path", "EPS-U067")
    built = text_audit.mechanism(mechanism, settings_of(mechanism, settings, public))
    (budget,) = budgets(built, None if epsilon is None else [epsilon], "--epsilon")
    publisher = Publisher(built, budget, seed, own=mechanism not in shipped("mechanisms"))
    if seed is not None:
        note("with --seed, anyone who knows the seed can invert the output; do not publish it")
    _record(file, reading, recording, built.guarantee(budget))
    if file is not None and suffix(file) in TABLES:
        publish_table(publisher, file, out, columns=reading.text, rows=reading.rows, layout=layout)
    else:
        publish_lines(publisher, file, out, rows=reading.rows, encoding=layout.encoding)
    say(publisher.unread)
    publisher.tally.say()
    if publisher.public:
        warn(
            f"{publisher.public} of the texts are among the public texts that the mechanism was made from. The claim "
            "holds only if the public texts were collected apart from the private ones; do not show this warning to "
            "readers of the output"
        )


def _record(file: Path | None, reading: TextOptions, recording: LedgerOptions, claim: Guarantee | None) -> None:
    """Record in the ledger the budget that a table's rewrites spend for each person, before a rewrite is published."""
    from collections import Counter

    from epsilometer.accounting.ledger import Ledger
    from epsilometer.corpora.authors import people_of
    from epsilometer.corpora.files import TABLES, read, suffix

    if recording.person is None:
        if recording != LedgerOptions():
            raise UserError("--ledger and --again need --person; give the column of people", "EPS-U077")
        return
    if file is None or suffix(file) not in TABLES:
        raise UserError(
            "--person names a column, and lines have no columns; give a table (.csv, .parquet, .jsonl)", "EPS-U078"
        )
    if recording.person in reading.text:
        raise UserError(
            f"--person {recording.person!r} is a column of texts; name the column with their authors", "EPS-U079"
        )
    table = read(file, reading.files.layout).head(reading.rows or 1 << 31)
    people = Counter(people_of(table, recording.person, reading.text[0], str(file)))
    counts = {name: rows * len(reading.text) for name, rows in people.items()}
    recording.say(Ledger(recording.folder(file)).enter(claim, counts, again=recording.again))
