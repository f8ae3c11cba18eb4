"""`epsilometer rewrite`: private texts for publication."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from epsilometer.cli.options import (
    A_MECHANISM,
    Epsilon,
    Public,
    Settings,
    TextOptions,
    settings_of,
    writable,
)
from epsilometer.core.errors import UserError
from epsilometer.runtime.progress import note, warn


def rewrite(
    mechanism: Annotated[str, typer.Option(help=A_MECHANISM)],
    epsilon: Epsilon = None,
    file: Annotated[
        Path | None, typer.Argument(help="A table, or texts one a line; lines on standard input by default.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="File to write, in the same format (default: standard output).", callback=writable),
    ] = None,
    *,
    reading: TextOptions,
    seed: Annotated[
        int | None, typer.Option(help="Seed for reproducible, hence invertible, rewrites: not for publication.")
    ] = None,
    settings: Settings = [],  # noqa: B006
    public: Public = None,
) -> None:
    """Privatise texts: lines, or the text columns of a table (.parquet, .csv, .tsv, .jsonl), each row by itself.

    Shipped mechanisms draw from the operating system's randomness, exactly (`epsilometer.core.exact_samplers`), and
    spend all but a millionth of the epsilon: the rest is room for the rounding of what is drawn from. How a mechanism
    of your own draws is for you to see to. Lines are read and written block by block.
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
                f"{str(file)!r} is a folder, and rewrite reads one file; call it for each file of texts", "EPS-U066"
            )
        raise UserError(f"there is no file {str(file)!r}; check the path", "EPS-U067")
    built = text_audit.mechanism(mechanism, settings_of(mechanism, settings, public))
    (budget,) = budgets(built, None if epsilon is None else [epsilon], "--epsilon")
    publisher = Publisher(built, budget, seed, own=mechanism not in shipped("mechanisms"))
    if seed is not None:
        note("with --seed, anyone who knows the seed can invert the output; it is not for publication")
    if file is not None and suffix(file) in TABLES:
        publish_table(publisher, file, out, columns=reading.text, rows=reading.rows, layout=layout)
    else:
        publish_lines(publisher, file, out, rows=reading.rows, encoding=layout.encoding)
    say(publisher.unread)
    publisher.tally.say()
    if publisher.public:
        warn(
            f"{publisher.public} of the texts are among the public texts that the mechanism was made from. The claim "
            "holds if these were collected apart from the private ones, and not otherwise; whoever reads the output "
            "must not learn of this warning"
        )
