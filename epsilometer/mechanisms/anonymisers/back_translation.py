"""Back-translation: translates every sentence into another language and back (Faustini et al. 2025, section 5).

In plain words it translates each sentence into another language and back.

The published baseline uses Helsinki-NLP/opus-mt-en-fr and -fr-en with their default number of beams. Here any two
Marian models work, the number of beams is a setting, and hypotheses are ranked by their mean log-probability
(`models/beam_search.py`). Nothing is claimed.
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
class BackTranslation(SentenceMechanism):
    """Back-translation.

    resource: a Marian model, by id or folder, that translates from the texts' language; back: the model that translates
    back.
    """

    resource: str | Path
    back: str | Path

    @cached_property
    def models(self) -> Sequence[Seq2Seq]:
        """The model that translates into the other language, and the model that translates back."""
        from epsilometer.models.translation import Translator

        return [Translator(model) for model in (self.resource, self.back)]
