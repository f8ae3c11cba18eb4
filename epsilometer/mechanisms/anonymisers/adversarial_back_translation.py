"""Adversarial back-translation (Xu 2019, as IDT's appendix C does it): an encoder-decoder that was trained to write
round trips of texts from states in which an adversary cannot read an attribute.

The training is `shared/adversarial_rewriter.py`, by the stage `rewriters`; here its model rewrites every sentence, as
`round_trip` does. That the adversary in training failed says nothing about one that is trained on rewrites. Nothing is
claimed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from epsilometer.core.component import component
from epsilometer.mechanisms.anonymisers.shared.by_sentence import SentenceMechanism

if TYPE_CHECKING:
    from epsilometer.models.seq2seq import Seq2Seq


@component
class AdversarialBackTranslation(SentenceMechanism):
    """resource: the folder of a trained rewriter (data/rewriters/NAME)."""

    resource: str | Path

    @cached_property
    def models(self) -> Sequence[Seq2Seq]:
        """As `SentenceMechanism`."""
        from epsilometer.mechanisms.anonymisers.shared.adversarial_rewriter import trained

        return [trained(self.resource)]
