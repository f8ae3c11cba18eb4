"""Notes on truncated texts, out-of-vocabulary words, and languages that a component does not read.

If a component hardly reads the texts, a low loss means little.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from epsilometer.core.mechanism import HasUnread, Mechanism, Unread
from epsilometer.models.locate import ENCODER
from epsilometer.runtime.progress import note, warn
from epsilometer.text.language import LEAST, function_words

MECHANISM = "the mechanism"  # name of the mechanism in lists of components
MUCH = 0.2  # share of out-of-vocabulary words or of truncated texts that causes a warning


def unread(mechanism: Mechanism | None, texts: Sequence[str]) -> Unread:
    """Return counts of truncated texts and out-of-vocabulary words; zeros if the mechanism does not report them."""
    return mechanism.unread(texts) if isinstance(mechanism, HasUnread) else Unread()


def much(unknown: float | None, cut: float | None) -> list[str]:
    """Return, in words, the shares of out-of-vocabulary words and truncated texts that are MUCH or more."""
    shares = ((unknown, "of the words out of vocabulary"), (cut, "of the texts truncated"))
    return [f"{share:.1%} {what}" for share, what in shares if share is not None and share >= MUCH]


def say(counts: Unread) -> None:
    """Print shares above 0 on standard error, as warnings if they are MUCH or more."""
    _say(
        counts.unknown / max(counts.words, 1),
        "{:.1%} of the words are outside the mechanism's vocabulary and are replaced by one public word",
        "so a low loss says little about the mechanism; give it vectors of the texts' language",
    )
    _say(
        counts.cut / max(counts.texts, 1),
        f"{counts.cut} of {counts.texts} texts ({{:.1%}}) are longer than the mechanism's limit and are truncated",
        "so a low loss says little about the mechanism; raise its limit, or split the texts",
    )
    _say(
        counts.far / max(counts.compared, 1),
        f"{counts.far} of {counts.compared} texts ({{:.1%}}) resemble no public text that can replace them (cosine "
        "below .25)",
        "so rewrites have little of their meaning; give public texts of their language and kind",
    )


def say_language(texts: Sequence[str], parts: Mapping[str, Any]) -> None:
    """Warn if the texts are not English, but some of these components read only English.

    parts: attacks, metrics or mechanisms, by name.
    """
    english = [name for name, part in parts.items() if reads_english(part)]
    share = function_words(texts) if english else None
    if share is not None and share < LEAST:
        warn(
            f"{share:.1%} of the texts' words are English function words, so the texts are not English sentences, and "
            f"a low loss or a high similarity by components for English ({', '.join(english)}) means little; give "
            "these a model or vectors of the texts' language"
        )


def reads_english(part: Any) -> bool:
    """Return True if a component has `english` set, or uses the embedded encoder or its embedded default resource."""
    if getattr(part, "english", False) or ENCODER in (getattr(part, "model", None), getattr(part, "encoder", None)):
        return True
    default, resource = getattr(type(part), "default_resource", None), getattr(part, "resource", None)
    return default is not None and resource is not None and str(resource) == str(default())


def _say(share: float, remark: str, consequence: str) -> None:
    if share >= MUCH:
        warn(f"{remark.format(share)}, {consequence}")
    elif share:
        note(remark.format(share))
