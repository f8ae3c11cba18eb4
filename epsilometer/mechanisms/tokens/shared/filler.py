"""Model that fills one blank of a text: an encoder-decoder that reads only the text, without an instruction."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from epsilometer.core.component import component
from epsilometer.mechanisms.tokens.shared.generative import GenerativeMechanism

if TYPE_CHECKING:
    from epsilometer.models.seq2seq import Seq2Seq


@component
class Filler(GenerativeMechanism):
    """An encoder-decoder whose tokens are sampled by the exponential mechanism. Its prompt is the text alone."""

    @cached_property
    def model(self) -> Seq2Seq:
        """The model, loaded once."""
        from epsilometer.models.seq2seq import Seq2Seq

        return Seq2Seq(self.resource, self.precision)

    def framed(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each text."""
        return self.model.tokens(texts)
