"""Reporting what a mechanism does not read of some texts: a loss of 0 on texts that it hardly reads means little."""

from __future__ import annotations

from collections.abc import Sequence

from epsilometer.core.mechanism import HasUnread, Mechanism, Unread
from epsilometer.runtime.progress import note, warn

MUCH = 0.2  # a share of unknown words or of cut texts that is this large deserves a warning


def unread(mechanism: Mechanism | None, texts: Sequence[str]) -> Unread:
    """Returns what this mechanism says it does not read of these texts; nothing if it cannot tell."""
    return mechanism.unread(texts) if isinstance(mechanism, HasUnread) else Unread()


def much(unknown: float | None, cut: float | None) -> list[str]:
    """Returns, in words, the shares of unknown words and of cut texts that must be reported beside a low loss."""
    shares = ((unknown, "of the words unknown"), (cut, "of the texts cut"))
    return [f"{share:.1%} {what}" for share, what in shares if share is not None and share >= MUCH]


def say(counts: Unread) -> None:
    """Prints shares above 0 on standard error; as a warning if they are MUCH or more."""
    _say(
        counts.unknown / max(counts.words, 1),
        "{:.1%} of the words are outside the mechanism's vocabulary and are replaced by one public word",
        "so a low loss says little about the mechanism; give it vectors of the texts' language",
    )
    _say(
        counts.cut / max(counts.texts, 1),
        f"{counts.cut} of {counts.texts} texts ({{:.1%}}) are longer than the mechanism's limit and are cut",
        "so a low loss says little about the mechanism; raise its limit, or split the texts",
    )
    _say(
        counts.far / max(counts.compared, 1),
        f"{counts.far} of {counts.compared} texts ({{:.1%}}) have a cosine below .25, near 0, with every public text "
        "that stands for them",
        "so rewrites say little of them; give public texts of their language and kind",
    )


def _say(share: float, remark: str, consequence: str) -> None:
    if share >= MUCH:
        warn(f"{remark.format(share)}, {consequence}")
    elif share:
        note(remark.format(share))
