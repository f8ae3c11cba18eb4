"""The meaning of each status of a rewrite, by mechanism. `keeps_labels` tells which mechanisms try to keep labels.

The meanings in `core.outcomes` apply to a mechanism that asks classifiers of the labels to hide and of the labels to
keep. For a mechanism that asks fewer classifiers, `found` says less about the rewrite.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from epsilometer.core.mechanism import Mechanism
from epsilometer.core.outcomes import FOUND, MEANING
from epsilometer.mechanisms.anonymisers.idt import IDT
from epsilometer.mechanisms.anonymisers.llm_adversarial import LLMAdversarial
from epsilometer.mechanisms.anonymisers.llm_rewrite import LLMRewrite
from epsilometer.mechanisms.anonymisers.shared.word_search import WordSearch

_UNSEEN = "labels to keep were not considered"
_FOUND_BY: Mapping[type, str] = {
    IDT: MEANING[FOUND],
    LLMRewrite: "the model changed the text; no classifier was asked about the attribute or the labels to keep",
    LLMAdversarial: f"the model infers the intended class of the attribute from its rewrite, or none; {_UNSEEN}",
    WordSearch: f"the classifier that was asked is wrong about the attribute; {_UNSEEN}",
}
_UNASKED = f"rewritten; no auxiliary was asked about the attribute, and {_UNSEEN}"


def reads(mechanism: Mechanism, folder: Path) -> bool:
    """Return True if a mechanism reads the auxiliaries in this folder (`anonymizing.over`)."""
    return str(getattr(mechanism, "resource", None)) == str(folder)


def keeps_labels(mechanism: Mechanism, folder: Path) -> bool:
    """Return True if a mechanism tries to keep the labels that rewrites should preserve.

    A user's mechanism is assumed to do so if it reads the auxiliaries in this folder.
    """
    if isinstance(mechanism, (WordSearch, LLMAdversarial)):
        return False
    return isinstance(mechanism, (IDT, LLMRewrite)) or reads(mechanism, folder)


def meanings(mechanism: Mechanism, folder: Path) -> Mapping[str, str]:
    """Return the meaning of each status for this mechanism's rewrites. folder: the folder of the auxiliaries."""
    own = next((meaning for kind, meaning in _FOUND_BY.items() if isinstance(mechanism, kind)), None)
    if own is None:  # a user's mechanism with auxiliaries, or a mechanism without classifiers
        own = MEANING[FOUND] if reads(mechanism, folder) else _UNASKED
    return {**MEANING, FOUND: own}
