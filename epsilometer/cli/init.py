"""`epsilometer init`: a new project."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from epsilometer.cli.options import A_MECHANISM, TEXTS, TextColumn
from epsilometer.cli.output import tell
from epsilometer.core.errors import UserError


def init(
    folder: Annotated[Path, typer.Argument(help="The folder to create; it must be new or empty.")],
    texts: Annotated[Path | None, typer.Option(help=f"{TEXTS} Default: generated reviews.")] = None,
    text: TextColumn = None,
    mechanism: Annotated[str, typer.Option(help=A_MECHANISM)] = "tem",
) -> None:
    """Write a new project.

    It has stages, parameters, an example mechanism and attack, and their test.
    """
    from epsilometer.pipeline.starting import start

    if texts is None and text is not None:
        raise UserError("--text names a column of the file of texts; give the file with --texts", "EPS-U047")
    start(folder, texts, text or "text", mechanism)
    tell(f"{folder} holds a project: cd {folder}, look at params.yaml, then `make audit`")
