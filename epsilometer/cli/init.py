"""`epsilometer init`: a project of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from epsilometer.cli.options import A_MECHANISM, TEXTS
from epsilometer.cli.output import tell
from epsilometer.core.errors import UserError


def init(
    folder: Annotated[Path, typer.Argument(help="The folder to make; it must not exist, or be empty.")],
    texts: Annotated[Path | None, typer.Option(help=f"{TEXTS} Generated reviews else.")] = None,
    text: Annotated[str | None, typer.Option(help="The column of the texts.")] = None,
    mechanism: Annotated[str, typer.Option(help=A_MECHANISM)] = "tem",
) -> None:
    """Write a project of one's own: stages, parameters, an example mechanism and attack, their test."""
    from epsilometer.pipeline.starting import start

    if texts is None and text is not None:
        raise UserError("--text names the column of --texts; give that, too", "EPS-U047")
    start(folder, texts, text or "text", mechanism)
    tell(f"{folder} holds a project: cd {folder}, look at params.yaml, then `make audit`")
