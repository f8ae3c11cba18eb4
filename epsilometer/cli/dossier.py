"""`epsilometer dossier`: a page to sign and a page of evidence about one release."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from epsilometer.cli.output import tell


def dossier(
    cell: Annotated[str, typer.Argument(help="A cell of params.yaml, such as queries-tem.")],
    epsilon: Annotated[
        float | None,
        typer.Option(help="Audited privacy budget (default: the largest within the limits, or the smallest)."),
    ] = None,
    texts_per_person: Annotated[
        int | None, typer.Option(help="Most texts of a person, as confirmed (default: 1, stated as assumed).")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder to write to.")] = Path("reports/dossier"),
) -> None:
    """Write what a finished audit says of one release: a page to sign and a page of evidence (HTML, PDF and JSON).

    No text is shown. An audit that is not finished is refused.
    """
    from epsilometer.pipeline.dossier import write
    from epsilometer.pipeline.params import read

    tell(*(path.resolve() for path in write(read(), cell, epsilon, out, texts_per_person=texts_per_person)))
