"""The project-wide word tokenizer: what counts as a word wherever words are counted, matched or privatised."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from itertools import islice

# Letters and digits of any script, with inner apostrophes ("don't"); punctuation and underscores separate.
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")


def words(text: str) -> list[str]:
    """The words of a text: lower-cased, punctuation and layout normalised away (before any noise)."""
    return _WORD.findall(_normalised(text).lower())


def lay_out(text: str, words: Iterable[str]) -> str:
    """The text with each of its words replaced by the next of these, in its place and with its capitals.

    words: as many as `words(text)` yields.
    """
    left = iter(words)

    def put(match: re.Match[str]) -> str:
        source = match.group()
        # A capital may fall apart when lowered (the Turkish dotted I), and a word with it.
        word = " ".join(islice(left, len(_WORD.findall(source.lower()))))
        if source.isupper() and len(source) > 1:
            return word.upper()
        return word[:1].upper() + word[1:] if source[:1].isupper() else word

    return _WORD.sub(put, _normalised(text))


def _normalised(text: str) -> str:
    return unicodedata.normalize("NFKC", text).replace("’", "'")


def write(words: Iterable[str]) -> str:
    """Words as a text."""
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
