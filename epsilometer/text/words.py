"""The project-wide word tokenizer, used by all code that counts, matches or privatises words."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator

import regex

# Letters and digits of any script with their combining marks, and inner apostrophes ("don't"); punctuation and
# underscores separate. In scripts without spaces between words (Han, Kana, and Unicode's line breaking class SA, whose
# words only a dictionary finds: Thai, Lao, Khmer, Myanmar and their kin) words are not visible: each character is
# one, with its marks. A variation selector determines how a character looks, and belongs to no word.
_LETTER, _MARK = r"[\p{L}\p{N}]", r"[[\p{Mn}\p{Mc}]--\p{Variation_Selector}]"
_UNSPACED = r"[\p{scx=Han}\p{scx=Hira}\p{scx=Kana}\p{Line_Break=SA}]"
_SPACED = rf"[{_LETTER}--{_UNSPACED}][[{_LETTER}--{_UNSPACED}]{_MARK}]*"
_CHARACTER = rf"[{_LETTER}&&{_UNSPACED}]{_MARK}*"
_WORD = regex.compile(rf"{_CHARACTER}|{_SPACED}(?:'{_SPACED})*", regex.V1)
_RUN = regex.compile(rf"{_CHARACTER}(?:\s*{_CHARACTER})*", regex.V1)
# The same words, found faster: in ASCII, and in texts with only Latin letters, signs and emoji besides.
_ASCII_WORD = re.compile(r"[a-z0-9]+(?:'[a-z0-9]+)*")
_LATIN_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
_LATIN = re.compile(r"[\0-\u02ff\u2000-\u20cf\u2100-\u2bff\ufe0f\U0001f000-\U0001faff]*")


def words(text: str) -> list[str]:
    """Return the words of a text: lower-cased, without punctuation and layout (before any noise).

    In scripts without spaces between words (Chinese, Japanese, Thai, Lao, Khmer, Burmese) each character is one.
    """
    if text.isascii():
        return _ASCII_WORD.findall(text.lower())
    lowered = _normalised(text).lower()
    return (_LATIN_WORD if _LATIN.fullmatch(lowered) else _WORD).findall(lowered)


def places(text: str) -> Iterator[tuple[int, int]]:
    """Yield the first and the last character (exclusive) of each word, in the unchanged text."""
    return (match.span() for match in _WORD.finditer(text.replace("’", "'")))


def with_spaces(text: str) -> str:
    """Return the text normalised as for `words`, with punctuation, for code that compares parts of words.

    A run of characters of a script without spaces appears without the white space between them, and again as separate
    characters: so a text and its words, written with spaces between them, give the same result.
    """
    if text.isascii():
        return text.lower()
    lowered = _normalised(text).lower()
    return lowered if _LATIN.fullmatch(lowered) else _RUN.sub(_joined_and_apart, lowered)


def _joined_and_apart(run: regex.Match[str]) -> str:
    parts = _WORD.findall(run[0])
    return f" {''.join(parts)} {' '.join(parts)} "


def lay_out(text: str, words: Iterable[str]) -> str:
    """Return the text with each of its words replaced by the next of these, in its place and with its capitals.

    words: as many as `words(text)` yields. A space separates two adjacent words, as in a script without spaces, which
    would otherwise become one word.
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
    """Return words as a text."""
    return " ".join(words)


# The English stop-words of NLTK (`nltk_data`, corpora/stopwords), which the reference code leaves unchanged: the 179
# words of its commit 5db857e, and 19 contractions of pronouns added since, as in two public copies of all 198.
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
