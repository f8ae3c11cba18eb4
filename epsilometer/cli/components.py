"""Lists of shipped components, and the clip bounds of a model: `epsilometer list` and `bounds`."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from epsilometer.cli.options import Json, TextOptions, writable
from epsilometer.cli.output import show, tell

_KINDS = {"mechanisms": "{mechanism}\n  {source}\n  Claim: {claim}", "questions": "{question}\n  {asks}\n  {settings}"}
_MEASURED = 300  # most texts on which a model's logits are measured
_USUAL = {"masked": "dp_mlm", "seq2seq": "dp_prompt", "causal": "dp_paraphrase"}  # mechanisms, by kind of model


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
    from epsilometer.models.bounds import destination, store

    destination(model, out, replace)  # refused before any work
    if texts is not None:
        public, source = TextOptions().distinct(texts), texts.name
    else:
        public, source = _public_texts(), "the embedded corpora"
    measured = _measured(model, public, source, mechanism)
    file = store(model, measured, out, replace)
    show([{key: measured[key] for key in ("low", "high", "positions", "rule")} | {"kept in": str(file)}], as_json)


def _public_texts() -> list[str]:
    """Return texts of both embedded corpora on which to measure bounds."""
    from epsilometer.corpora.synthetic import generate

    return [text for name in ("queries", "reviews") for text in generate(name, _MEASURED // 2, 1)["text"]]


def _measured(model: str, texts: Sequence[str], source: str, mechanism: str | None) -> dict[str, Any]:
    """Return the clip bounds of a model, measured on some of these public texts, as `bounds.measure` returns them.

    source: name of the texts' origin. mechanism: name of the mechanism whose prompts are used; None: the usual
    mechanism for the model's kind. Raises UserError for a mechanism that does not clip logits.
    """
    from epsilometer.core.component import build, find
    from epsilometer.core.errors import UserError
    from epsilometer.models.bounds import measure
    from epsilometer.models.causal_lm import has_chat_template
    from epsilometer.models.generator import architecture

    name = mechanism or ("dp_prompt" if has_chat_template(model) else _USUAL[architecture(model)])
    definition = find("mechanisms", name, "rewrite")
    if not hasattr(definition, "logits"):
        raise UserError(
            f"{name} does not clip logits; set --mechanism to one of {', '.join(_USUAL.values())}", "EPS-M078"
        )
    few = texts[:: max(1, len(texts) // _MEASURED)][:_MEASURED]
    built = build(definition, {"resource": model}, f"the settings of {name}")
    return measure(built.logits(few), f"{len(few)} texts of {source}, prompts of {name}")
