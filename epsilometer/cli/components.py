"""Lists of shipped components, and the clip bounds of a model: `epsilometer list` and `bounds`."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Annotated

import typer

from epsilometer.cli.options import Json, TextOptions, writable
from epsilometer.cli.output import show, tell

_KINDS = {"mechanisms": "{mechanism}\n  {source}\n  Claim: {claim}", "questions": "{question}\n  {asks}\n  {settings}"}


def listed(
    kind: Annotated[str, typer.Argument(metavar="KIND", help=f"{' or '.join(_KINDS)}.")] = "mechanisms",
    as_json: Json = False,
) -> None:
    """List the mechanisms, or the questions.

    Prints the claim and the source of each mechanism, or the settings of each question.
    """
    from epsilometer.core.component import find, module, names
    from epsilometer.core.errors import unknown

    if kind not in _KINDS:
        raise unknown("kind of component", kind, _KINDS)
    rows = []
    for name in names(kind):
        about = _first(module(kind, name).__doc__)
        if kind == "mechanisms":
            guarantee = getattr(find(kind, name, "rewrite"), "guarantee", None)
            rows.append({"mechanism": name, "claim": _first(inspect.getdoc(guarantee)), "source": about})
        else:
            rows.append({"question": name, "asks": about, "settings": _first(find(kind, name, "observe").__doc__)})
    if as_json:
        show(rows, as_json)
    else:
        tell(*(_KINDS[kind].format(**row) for row in rows), sep="\n\n")


def _first(doc: str | None) -> str:
    """Return the first paragraph of a docstring, on one line."""
    return " ".join((doc or "").split("\n\n")[0].split())


def bounds(
    model: Annotated[str, typer.Argument(help="Language model: a folder, a hub id, or a file that pins one.")],
    texts: Annotated[
        Path | None, typer.Option(help="File of public texts (default: a sample of the bundled corpora).")
    ] = None,
    mechanism: Annotated[
        str | None, typer.Option(help="Mechanism whose prompts are used (default: derived from the model).")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="File to write the pin of a hub model to.", callback=writable)
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace existing bounds.")] = False,
    as_json: Json = False,
) -> None:
    """Measure the clip bounds of a language model's logits.

    They are measured on public text, and stored with the model.
    """
    from epsilometer.mechanisms.tokens.shared.measuring import measure_bounds, public_texts
    from epsilometer.models.bounds import destination, store

    destination(model, out, replace)  # refused before any work
    if texts is not None:
        public, source = TextOptions().distinct(texts), texts.name
    else:
        public, source = public_texts(), "the embedded corpora"
    measured = measure_bounds(model, public, source, mechanism)
    file = store(model, measured, out, replace)
    show([{key: measured[key] for key in ("low", "high", "positions", "rule")} | {"kept in": str(file)}], as_json)
