"""`epsilometer paper`: a figure, a table and sentences on mechanisms at one loss."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from epsilometer.cli.options import (
    A_MECHANISM,
    TEXTS,
    Json,
    Rewritings,
    Settings,
    TextOptions,
    Trials,
    settings_of,
    writable,
)
from epsilometer.cli.output import show, tell
from epsilometer.core.errors import UserError
from epsilometer.runtime.withholding import withheld

BUDGET = 20_000


def paper(
    file: Annotated[Path, typer.Argument(help=TEXTS)],
    mechanism: Annotated[str, typer.Option(help=A_MECHANISM)],
    against: Annotated[str, typer.Option(help="Mechanisms to compare it with, separated by commas: tem,other.py.")],
    loss: Annotated[float, typer.Option(help="Loss to calibrate each mechanism to, in nats.")] = 1.0,
    *,
    out: Annotated[Path, typer.Option(help="Folder to write to.", file_okay=False)] = Path("paper"),
    budget: Rewritings = BUDGET,
    trials: Trials = None,
    settings: Settings = [],  # noqa: B006 - typer copies it
    reading: TextOptions,
    as_json: Json = False,
) -> None:
    """Write a figure, a table and sentences that compare mechanisms.

    Calibrates each mechanism to --loss between texts with equal numbers of words, by at most --budget rewrites each.
    All are then attacked on the same fresh trials, and the mean cosine of text and rewrite is measured (jaccard without
    the extra `models`). Writes at-loss.pdf, at-loss-table.tex (LaTeX with booktabs) and at-loss-text.tex, and prints
    the sentences. --set is for --mechanism.

    The exit code is 3 if a mechanism could not be calibrated.
    """
    from epsilometer.cells.calibrating.losses import Search
    from epsilometer.doors.at_loss import article  # loads the drawing library before any work

    others = [name for name in against.split(",") if name]
    if not others or mechanism in others:
        raise UserError("--against needs the names of other mechanisms, as tem,exemplars; name one", "EPS-U091")
    search = Search(match="words", budget=budget)
    writable(out / "at-loss.pdf")
    mechanisms = {mechanism: settings_of(mechanism, settings, None), **{name: {} for name in others}}
    texts = reading.distinct(file)
    with withheld():
        measured = article(texts, mechanisms, loss, search, trials=trials, name=file.name)
    written = measured.write(out)
    if as_json:
        show(measured.rows, as_json)
    else:
        tell(*(path.resolve() for path in written), "", *measured.sentences)
    if not all(each.loss for each in measured.mechanisms):
        raise typer.Exit(3)
