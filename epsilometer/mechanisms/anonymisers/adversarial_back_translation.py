"""Adversarial back-translation (Xu 2019, as IDT's appendix C does it): an encoder-decoder trained to write round trips
of texts from states in which an adversary cannot read an attribute.

In plain words it rewrites each text by a network trained so that another network no longer recognises a private
attribute.

The stage `rewriters` trains the model (`shared/adversarial_rewriter.py`); this mechanism rewrites every sentence with
it, as `round_trip` does. An adversary that failed in training says nothing about an adversary trained on rewrites.
Nothing is claimed.
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
        """Return the trained rewriter."""
        from epsilometer.mechanisms.anonymisers.shared.adversarial_rewriter import trained

        return [trained(self.resource)]
