"""DP-Prompt: has a language model paraphrase a text, with tokens sampled at a temperature (Utpala et al., EMNLP 2023).

In plain words it asks a language model for a paraphrase, choosing each word at random.

An instruction-following model reads "Document : <text>", a line break and "Paraphrase of the document :", and writes a
paraphrase token by token from clipped logits l at temperature T = 2 Delta / epsilon,

    P(y_t | x, y_<t) = softmax(clip(l) / T),    Delta = high - low.

This is the exponential mechanism for each token (McSherry and Talwar 2007, definition 2: P(y) ~ exp(epsilon q(x, y) /
(2 Delta)); theorem 6). So every token costs epsilon, and a paraphrase at most max_new_tokens * epsilon between any two
texts (`shared/generative.py`).

Assumptions: the claim is per generated token; any two texts are neighbours; the clip range [low, high] and
max_new_tokens are public.

Departures from the reference code (sjmeis/DPMLM 3ce9390): the number of new tokens has a public maximum; in the
reference code the maximum is the prompt's length. A text that is too long is truncated, but the instruction after it is
not. Clip bounds are stored with the model that they were measured on. Special and unused vocabulary entries are never
sampled. `as_published: true` restores the prompt's length as the maximum. For a model with a chat template, the prompt
is a user message.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from epsilometer.core.component import component
from epsilometer.core.errors import UserError
from epsilometer.mechanisms.tokens.shared.generative import GenerativeMechanism
from epsilometer.models.embedded import seq2seq

if TYPE_CHECKING:
    from epsilometer.models.causal_lm import CausalLM
    from epsilometer.models.seq2seq import Seq2Seq


@component
class DPPrompt(GenerativeMechanism):
    """DP-Prompt.

    resource: an encoder-decoder or decoder-only model; chat: True to use its chat template; None: use it if it exists.
    """

    default_resource: ClassVar[Callable[[], Path]] = staticmethod(seq2seq)

    chat: bool | None = None

    @cached_property
    def model(self) -> CausalLM | Seq2Seq:
        """The language model, loaded once. Raises UserError for a masked model, and for `chat` without a template."""
        from epsilometer.models.causal_lm import CausalLM
        from epsilometer.models.generator import KINDS, architecture
        from epsilometer.models.seq2seq import Seq2Seq

        kind = architecture(self.resource)
        if kind == "masked":
            raise UserError(
                f"dp_prompt needs a model that generates text, but {self.resource} is {KINDS[kind]}; give another "
                "model, or use dp_mlm",
                "EPS-M075",
            )
        if kind == "seq2seq":
            if self.chat:
                raise UserError(f"{self.resource} is {KINDS[kind]} and has no chat template; omit chat", "EPS-M076")
            return Seq2Seq(self.resource, self.precision)
        model = CausalLM(self.resource, self.precision)
        if self.chat:
            model.chat_tokens([""])
        return model

    def framed(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of the prompt with each text."""
        from epsilometer.models.causal_lm import CausalLM

        written = [prompt(text) for text in texts]
        if isinstance(self.model, CausalLM) and (self.model.chats if self.chat is None else self.chat):
            return self.model.chat_tokens(written)
        return self.model.tokens(written)


def prompt(text: str) -> str:
    """Return the prompt for a text."""
    return f"Document : {text}\nParaphrase of the document :"
