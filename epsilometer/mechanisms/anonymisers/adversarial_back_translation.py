"""Adversarial back-translation (Xu 2019, in the variant of IDT's appendix C): rewrites sentences by an encoder-decoder
that was trained to write their round trips from states that hide a private attribute from an adversary.

In plain words it rewrites each text by a network trained so that another network no longer recognises a private
attribute.

The stage `rewriters` trains the model (`shared/adversarial_rewriter.py`). This mechanism rewrites every sentence with
it, as `round_trip` does. Even if the adversary in training fails, an attacker trained on rewrites may succeed. Nothing
is claimed.
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
    """Adversarial back-translation. resource: the folder of a trained rewriter (data/rewriters/NAME)."""

    resource: str | Path

    @cached_property
    def models(self) -> Sequence[Seq2Seq]:
        """The trained rewriter."""
        from epsilometer.mechanisms.anonymisers.shared.adversarial_rewriter import trained

        return [trained(self.resource)]
