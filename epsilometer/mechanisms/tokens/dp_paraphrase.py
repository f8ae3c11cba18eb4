"""DP-Paraphrase: a decoder-only paraphraser writes on after a marker (Mattern et al., NAACL Findings 2022).

In plain words it has a language model write a paraphrase, choosing each word at random.

The model was trained on lines "source >>>>> paraphrase". It reads the text and the marker, and writes a paraphrase
token by token from clipped logits l at temperature T = 2 Delta / epsilon,

    P(y_t | x, y_<t) = softmax(clip(l) / T),    Delta = high - low:

the exponential mechanism for each token (McSherry and Talwar 2007, definition 2 and theorem 6), hence max_new_tokens *
epsilon between any two texts (`shared/generative.py`).

Assumptions: epsilon belongs to a generated token; any two texts are neighbours; clip range and maximum are public.

Departures from the reference code (sjmeis/DPMLM 3ce9390), which draws through a text-generation pipeline. There the
library's default applies, and only the 50 likeliest tokens can be drawn. Which 50 depends on the private text, so an
output can rule a text out, and no finite epsilon holds; here every token of the vocabulary can be drawn. The number of
new tokens is a public maximum, not the prompt's own length. `as_published: true` has both, and the published claim: the
likelihood attack sees outputs of probability 0 under one candidate. Its bounds belong to weights that have no name or
revision to pin; with those weights set clip: [-96.85249956065758, -8.747697966442914].
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
TOP_K = 50  # the default of the library that the reference code draws with


@component
class DPParaphrase(GenerativeMechanism):
    """A decoder-only paraphraser, its tokens drawn by the exponential mechanism.

    resource: a decoder-only model, trained on a source, a marker and its paraphrase.
    """

    default_resource: ClassVar[Callable[[], Path]] = staticmethod(paraphraser)

    @cached_property
    def model(self) -> CausalLM:
        """The language model, loaded once."""
        from epsilometer.models.causal_lm import CausalLM

        return CausalLM(self.resource, self.precision)

    @property
    def top_k(self) -> int | None:
        """The 50 likeliest tokens in the published form, else all."""
        return TOP_K if self.as_published else None

    def framed(self, texts: Sequence[str]) -> list[list[int]]:
        """Return each text with the marker."""
        return self.model.tokens([text + MARKER for text in texts])
