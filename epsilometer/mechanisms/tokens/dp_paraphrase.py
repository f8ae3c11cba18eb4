"""DP-Paraphrase: has a decoder-only paraphraser continue a text after a marker (Mattern et al., NAACL Findings 2022).

In plain words it has a language model write a paraphrase, choosing each word at random.

The model was trained on lines "source >>>>> paraphrase". It reads the text and the marker, and writes a paraphrase
token by token from clipped logits l at temperature T = 2 Delta / epsilon,

    P(y_t | x, y_<t) = softmax(clip(l) / T),    Delta = high - low.

This is the exponential mechanism for each token (McSherry and Talwar 2007, definition 2 and theorem 6), so the claim is
max_new_tokens * epsilon between any two texts (`shared/generative.py`).

Assumptions: the claim is per generated token; any two texts are neighbours; the clip range [low, high] and
max_new_tokens are public.

Departures from the reference code (sjmeis/DPMLM 3ce9390): the reference code samples through a text-generation
pipeline, whose default allows only the 50 likeliest tokens. These tokens depend on the private text, so an output can
exclude a text, and no finite epsilon holds. Here every token of the vocabulary can be sampled. The number of new tokens
has a public maximum; in the reference code the maximum is the prompt's length. `as_published: true` restores the 50
tokens and the prompt's length, and makes the published claim; the likelihood attack then finds outputs with probability
0 under a candidate. The published clip bounds belong to weights that were published without a revision to pin. For
those weights, set clip: [-96.85249956065758, -8.747697966442914].
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from epsilometer.core.component import component
from epsilometer.mechanisms.tokens.shared.generative import GenerativeMechanism
from epsilometer.models.embedded import paraphraser

if TYPE_CHECKING:
    from epsilometer.models.causal_lm import CausalLM

MARKER = " >>>>>"
TOP_K = 50  # default of the library with which the reference code samples


@component
class DPParaphrase(GenerativeMechanism):
    """DP-Paraphrase.

    resource: a decoder-only model trained on lines of a source, a marker and its paraphrase.
    """

    default_resource: ClassVar[Callable[[], Path]] = staticmethod(paraphraser)

    @cached_property
    def model(self) -> CausalLM:
        """The language model, loaded once."""
        from epsilometer.models.causal_lm import CausalLM

        return CausalLM(self.resource, self.precision)

    @property
    def top_k(self) -> int | None:
        """50 in the published form, which samples only the 50 likeliest tokens; None for all tokens."""
        return TOP_K if self.as_published else None

    def framed(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each text with the marker."""
        return self.model.tokens([text + MARKER for text in texts])
