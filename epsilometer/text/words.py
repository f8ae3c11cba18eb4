"""The project's word tokeniser, used by all code that counts, matches or privatises words."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator

import regex

# A word consists of letters and digits of any script with their combining marks, and inner apostrophes ("don't").
# Punctuation and underscores separate words. Scripts without spaces between words are Han, Kana, and Unicode's line
# breaking class SA (Thai, Lao, Khmer, Myanmar and similar scripts). In these scripts each character, with its marks, is
# a word. A variation selector only changes how a character looks, and is not part of a word.
_LETTER, _MARK = r"[\p{L}\p{N}]", r"[[\p{Mn}\p{Mc}]--\p{Variation_Selector}]"
_UNSPACED = r"[\p{scx=Han}\p{scx=Hira}\p{scx=Kana}\p{Line_Break=SA}]"
_SPACED = rf"[{_LETTER}--{_UNSPACED}][[{_LETTER}--{_UNSPACED}]{_MARK}]*"
_CHARACTER = rf"[{_LETTER}&&{_UNSPACED}]{_MARK}*"
_WORD = regex.compile(rf"{_CHARACTER}|{_SPACED}(?:'{_SPACED})*", regex.V1)
_RUN = regex.compile(rf"{_CHARACTER}(?:\s*{_CHARACTER})*", regex.V1)
# Faster patterns for the same words: for ASCII texts, and for texts of only Latin letters, signs and emoji.
_ASCII_WORD = re.compile(r"[a-z0-9]+(?:'[a-z0-9]+)*")
_LATIN_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
_LATIN = re.compile(r"[\0-\u02ff\u2000-\u20cf\u2100-\u2bff\ufe0f\U0001f000-\U0001faff]*")


def words(text: str) -> list[str]:
    """Return the words of a text in lower case, without punctuation.

    In scripts without spaces between words (Chinese, Japanese, Thai, Lao, Khmer, Burmese) each character is a word.
    """
    if text.isascii():
        return _ASCII_WORD.findall(text.lower())
    lowered = _normalised(text).lower()
    return (_LATIN_WORD if _LATIN.fullmatch(lowered) else _WORD).findall(lowered)


def places(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and the end (exclusive) of each word, in the unchanged text."""
    return (match.span() for match in _WORD.finditer(text.replace("’", "'")))


def with_spaces(text: str) -> str:
    """Return the text normalised as in `words`, but with its punctuation, for code that compares parts of words.

    In scripts without spaces, a run of characters appears twice in the result: joined, and as separate characters. So
    spaces between the characters do not change the result.
    """
    if text.isascii():
        return text.lower()
    lowered = _normalised(text).lower()
    return lowered if _LATIN.fullmatch(lowered) else _RUN.sub(_joined_and_apart, lowered)


def _joined_and_apart(run: regex.Match[str]) -> str:
    parts = _WORD.findall(run[0])
    return f" {''.join(parts)} {' '.join(parts)} "


def lay_out(text: str, words: Iterable[str]) -> str:
    """Return the text with its words replaced by `words`, one by one. Layout and capitalisation stay the same.

    words: as many words as `words(text)` returns. If two adjacent words would become one word (in a script without
    spaces), a space is inserted.
    """
    text = _normalised(text)
    parts, end = [""], 0
    for match, word in zip(_WORD.finditer(text), words, strict=True):
        gap, written = text[end : match.start()], _in_case_of(match.group(), word)
        if gap in ("", "'") and _count(parts[-1] + gap + written) < _count(parts[-1]) + _count(written):
            gap += " "
        parts += [gap, written]
        end = match.end()
    return "".join([*parts, text[end:]])


def _in_case_of(source: str, word: str) -> str:
    if source.isupper() and len(source) > 1:
        return word.upper()
    return word[:1].upper() + word[1:] if source[:1].isupper() else word


def _count(text: str) -> int:
    return len(_WORD.findall(text))


def _normalised(text: str) -> str:
    return unicodedata.normalize("NFKC", text).replace("’", "'")


def write(words: Iterable[str]) -> str:
    """Return the words joined by spaces."""
    return " ".join(words)


# NLTK's English stop words (`nltk_data`, corpora/stopwords): the 179 words of commit 5db857e, and 19 contractions of
# pronouns that NLTK added later. Anonymisers by word search leave these words unchanged, as their reference code does.
STOP_WORDS = frozenset(
    """
    a about above after again against ain all am an and any are aren as at be because been before being below
    between both but by can couldn d did didn do does doesn doing don down during each few for from further had hadn
    has hasn have haven having he her here hers herself him himself his how i if in into is isn it its itself just
    ll m ma me mightn more most mustn my myself needn no nor not now o of off on once only or other our ours
    ourselves out over own re s same shan she should shouldn so some such t than that the their theirs them
    themselves then there these they this those through to too under until up ve very was wasn we were weren what
    when where which while who whom why will with won wouldn y you your yours yourself yourselves
    aren't couldn't didn't doesn't don't hadn't hasn't haven't he'd he'll he's i'd i'll i'm i've isn't it'd it'll
    it's mightn't mustn't needn't shan't she'd she'll she's should've shouldn't that'll they'd they'll they're
    they've wasn't we'd we'll we're we've weren't won't wouldn't you'd you'll you're you've
    """.split()  # noqa: SIM905
)
