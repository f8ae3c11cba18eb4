"""Measurement of a language model's clip bounds, on the prompts of the mechanism that will use it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from epsilometer.core.component import build, find
from epsilometer.core.errors import UserError
from epsilometer.corpora import synthetic
from epsilometer.models.bounds import measure
from epsilometer.models.causal_lm import has_chat_template
from epsilometer.models.generator import architecture

TEXTS = 300  # most texts on which logits are measured
_USUAL = {"masked": "dp_mlm", "seq2seq": "dp_prompt", "causal": "dp_paraphrase"}


def public_texts() -> list[str]:
    """Return texts of both embedded corpora on which to measure bounds."""
    return [text for name in ("queries", "reviews") for text in synthetic.generate(name, TEXTS // 2, 1)["text"]]


def measure_bounds(model: str, texts: Sequence[str], source: str, mechanism: str | None = None) -> dict[str, Any]:
    """Return the clip bounds of a model, measured on some of these public texts, as `bounds.measure` returns them.

    source: name of the texts' origin. mechanism: name of the mechanism whose prompts are used; None: the usual one for
    the model's kind. Raises UserError for a mechanism that does not clip logits.
    """
    name = mechanism or ("dp_prompt" if has_chat_template(model) else _USUAL[architecture(model)])
    definition = find("mechanisms", name, "rewrite")
    if not hasattr(definition, "logits"):
        raise UserError(
            f"{name} does not clip logits; set --mechanism to one of {', '.join(_USUAL.values())}", "EPS-M078"
        )
    few = texts[:: max(1, len(texts) // TEXTS)][:TEXTS]
    built = build(definition, {"resource": model}, f"the settings of {name}")
    return measure(built.logits(few), f"{len(few)} texts of {source}, prompts of {name}")
