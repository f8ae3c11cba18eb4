"""Fluent texts from released triples: a language model writes a text from notes by greedy decoding."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from epsilometer.core.errors import UserError

INSTRUCTION = (
    "Write one short, fluent English text that says what these notes say, in their order, and nothing else.\n\n"
    "Notes: the driver lost my parcel. it was not a surprise.\nText: The driver lost my parcel, which was no surprise."
    "\n\nNotes: {}\nText:"
)


class NoteWriter:
    """An encoder-decoder or decoder-only model that writes texts.

    If a decoder-only model has a chat template, prompts follow the template.

    prompt:   a prompt in which {} is replaced by the notes. None: an encoder-decoder reads only the notes, and other
              models read an instruction with an example.
    longest:  most tokens in a text, a public number.

    Raises UserError for a model that does not write text, or a prompt without {}.
    """

    def __init__(self, model: str | Path, prompt: str | None = None, longest: int = 64) -> None:
        from epsilometer.models.causal_lm import CausalLM
        from epsilometer.models.generator import KINDS, architecture
        from epsilometer.models.seq2seq import Seq2Seq

        kind = architecture(model)
        if kind not in ("seq2seq", "causal"):
            raise UserError(
                f"writer must be a model that generates text, but {str(model)!r} is {KINDS[kind]}", "EPS-M072"
            )
        self._prompt = prompt or ("{}" if kind == "seq2seq" else INSTRUCTION)
        if "{}" not in self._prompt:
            raise UserError(
                f"prompt must contain {{}}, which is replaced by the released triples, got {prompt!r}", "EPS-M073"
            )
        self._model = Seq2Seq(model) if kind == "seq2seq" else CausalLM(model)
        self._longest = longest

    def length(self, text: str) -> int:
        """Return the number of tokens in a text."""
        return len(self._model.plain(text))

    def write(self, notes: Sequence[str], limits: Sequence[int] | None = None) -> list[str]:
        """Return one text for each of the notes. A text does not depend on other notes.

        limits: most tokens of each text, at most `longest`; None: `longest`.
        """
        from epsilometer.models.causal_lm import CausalLM
        from epsilometer.models.generation import TokenLaw, generate

        written = [self._prompt.replace("{}", note) for note in notes]
        if isinstance(self._model, CausalLM) and self._model.chats:
            prompts = self._model.chat_tokens(written)
        else:
            prompts = self._model.tokens(written)
        room, most = self._model.room(self._longest), max(map(len, prompts), default=0)
        if most > room:
            raise UserError(
                f"notes of {most} tokens exceed the {room} that the writer's window leaves beside a text of "
                f"{self._longest}; release fewer triples, lower longest, or give a model with a larger window",
                "EPS-M074",
            )
        law = TokenLaw(-1e4, 1e4, top_k=1)  # bounds too wide to clip; samples the likeliest token
        count = len(prompts)
        most_tokens = np.full(count, self._longest) if limits is None else np.minimum(limits, self._longest)
        uniforms = np.full((count, self._longest), 0.5)
        outputs = generate(
            self._model, law, prompts, np.arange(count), epsilons=np.ones(count), limits=most_tokens, draws=uniforms
        )
        return [self._model.text(outputs.row(i)) for i in range(count)]
