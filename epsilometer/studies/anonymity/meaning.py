"""The meaning of each status, by mechanism, and a test that a mechanism looks at the labels to keep.

The meanings of `core.outcomes` apply to a mechanism that asks all auxiliaries, for labels to hide and to keep. Others
ask fewer auxiliaries, or none, so their `found` means less.
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

_UNSEEN = "labels to keep are not looked at"
_FOUND_BY: Mapping[type, str] = {
    IDT: MEANING[FOUND],
    LLMRewrite: "the model changed it; no classifier was asked whether it errs, or still reads the labels to keep",
    LLMAdversarial: f"the model that rewrote it infers of the attribute what it was to, or nothing; {_UNSEEN}",
    WordSearch: f"the classifier that was asked errs; {_UNSEEN}",
}
_UNASKED = f"rewritten; none of the auxiliaries was asked whether it errs, and {_UNSEEN}"


def reads(mechanism: Mechanism, folder: Path) -> bool:
    """Return True if a mechanism reads this folder of auxiliaries (`anonymizing.over`)."""
    return str(getattr(mechanism, "resource", None)) == str(folder)


def keeps_labels(mechanism: Mechanism, folder: Path) -> bool:
    """Return True if a mechanism looks at the labels to keep, which the auxiliaries name: not if it reads none."""
    if isinstance(mechanism, (WordSearch, LLMAdversarial)):
        return False
    return isinstance(mechanism, (IDT, LLMRewrite)) or reads(mechanism, folder)


def meanings(mechanism: Mechanism, folder: Path) -> Mapping[str, str]:
    """Return the meaning of each status for this mechanism's rewrites; folder: of the auxiliaries."""
    own = next((meaning for kind, meaning in _FOUND_BY.items() if isinstance(mechanism, kind)), None)
    if own is None:  # a user's mechanism, which means what it states, or one that knows no classifiers
        own = MEANING[FOUND] if reads(mechanism, folder) else _UNASKED
    return {**MEANING, FOUND: own}
