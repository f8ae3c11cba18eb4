"""A round trip through one encoder-decoder: encodes every sentence, and decodes it to the model's most likely words.

In plain words it passes each sentence through a network that writes it again.

Use it instead of back-translation if no translation model is available. The embedded encoder-decoder copies most words
in lower case, and loses rare words (`data/embedded/models/minilm-seq2seq/README.md`). Nothing is claimed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from epsilometer.core.component import component
from epsilometer.mechanisms.anonymisers.shared.by_sentence import SentenceMechanism
from epsilometer.models.embedded import seq2seq

if TYPE_CHECKING:
    from epsilometer.models.seq2seq import Seq2Seq


@component
class RoundTrip(SentenceMechanism):
    """A round trip. resource: an encoder-decoder by id or folder; by default the embedded one."""

    default_resource: ClassVar[Callable[[], Path]] = staticmethod(seq2seq)

    resource: str | Path

    @cached_property
    def models(self) -> Sequence[Seq2Seq]:
        """The only model, the encoder-decoder."""
        from epsilometer.models.seq2seq import Seq2Seq

        return [Seq2Seq(self.resource)]
