"""Adversarial back-translation: a model trained to hide an attribute rewrites each sentence (Xu 2019).

In plain words it rewrites each text by a network trained so that another network no longer recognises a private
attribute.

As in Faustini et al. 2025, appendix C, the stage `rewriters` trains an encoder-decoder to write round trips from states
that hide the attribute from an adversary (`shared/adversarial_rewriter.py`). This mechanism rewrites every sentence
with the model, as `round_trip` does. Even if the adversary in training fails, an attacker trained on rewrites may
succeed. Nothing is claimed.
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
