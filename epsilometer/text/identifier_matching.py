"""Tests of whether an identifier survives in a text, by comparing canonical forms.

`survives` searches the text for the identifier's letters and digits, without the spaces and marks between them. A match
must start and end at a border: the end of a word, an apostrophe (possessives, elisions, Turkish suffixes), or a change
between letters and digits. So "Nora Quill" survives in "nora quill's", "l'NORA-QUILL" and "Nora Quill12", but "Ann"
does not survive in "annual". Identifier and text are compared after these steps:

- case is folded, compatibility characters (such as full-width letters) are replaced, and accents are removed:
  "STRASSE" equals "Straße", "ipek" equals "İpek";
- HTML entities, percent escapes and JSON escapes are decoded, even if they are nested. Up to `_READINGS` decodings are
  compared, including the unchanged text;
- dates are compared as dates, read both as day-month and as month-day, with English names of months;
- telephone numbers are compared by their national significant number, with or without a country code;
- an identifier with at least six digits, and without three letters in a row, also survives if its digits alone survive.

Survival may be overestimated: "bill" counts as the name "Bill", and 12/03/1981 as the 3rd of December. It may also be
underestimated. Other variants that a reader would recognise do not count: "Kwill" for "Quill", "Mueller" for "Müller",
spelled-out numbers, other encodings.

`survives_in_part` needs only one word of a name or an address, the initials, the last four digits of a number, the part
of an e-mail address before the @, or the year or the day of a date.
"""

from __future__ import annotations

import html
import json
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate
from urllib.parse import unquote

import regex

from epsilometer.text.words import STOP_WORDS, words

_READINGS = 16  # most decodings of a text with nested escapes
_ENCODED = re.compile(r"&[#\w]|%[0-9a-fA-F]{2}|\\[a-zA-Z\"'/\\]")
_ESCAPE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\U000[0-9a-fA-F]{5}"
    r"|\\x[0-9a-fA-F]{2}|\\[bfnrt\"'/\\]"
)
_SIGNS = regex.compile(r"[[\p{S}\p{No}]--[\x00-\x7f]]", regex.V1)  # ™, ² and similar, which are separated from words
_ACCENTS = regex.compile(r"[[\p{Mn}&&[\p{Script=Inherited}\p{Script=Hebrew}]]--[\u3099\u309a]]", regex.V1)
_DASHES = regex.compile(r"\p{Pd}")
_OTHERS = regex.compile(r"[^\p{L}\p{M}\p{N}\x00-\x7f]")  # without these characters, most Latin texts are ASCII
_DECIMALS = regex.compile(r"[\p{Nd}--[0-9]]", regex.V1)
_LETTERS = str.maketrans(
    dict(zip("ıøłđðħŧŋĸ", "iolddhtnk", strict=True))
    | {"æ": "ae", "œ": "oe", "þ": "th"}
    | dict.fromkeys("’‘ʼʻʹ′`´ꞌ", "'")
)
_NO_LETTERS = {code: None for code in range(128) if not chr(code).isalnum()}
_ASCII_PART = re.compile(r"[a-z]+|[0-9]+")
_PART = re.compile(r"\d+|[^\d']+")

_MONTHS = {
    name: number
    for number, name in enumerate("jan feb mar apr may jun jul aug sep oct nov dec".split(), 1)  # noqa: SIM905
}
_MONTH = (
    r"(jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)(?![a-z])"
)
_DAY, _YEAR = r"(\d{1,2})(?:st|nd|rd|th)?(?!\d)", r"'?(\d{4}|\d{2})(?!\d)"
_YEAR_FIRST = re.compile(r"(?<!\d)(\d{4})([-/. ]?)(\d\d?)\2(\d\d?)(?!\d)")
_YEAR_LAST = re.compile(r"(?<!\d)(\d\d?)\s?([-/.])\s?(\d\d?)\s?\2\s?(\d{4}|\d\d)(?!\d)")
_DAY_MONTH = re.compile(rf"(?<!\d){_DAY}(?:\s+of)?[\s.\-/]*{_MONTH}(?:[\s.,\-/]*{_YEAR})?")
_MONTH_DAY = re.compile(rf"(?<![a-z]){_MONTH}[\s.\-/]*{_DAY}(?:[\s.,\-/]+{_YEAR})?")

_PHONE = re.compile(r"[\d\s()+./-]*")
_COUNTRY = (  # country codes (ITU-T E.164)
    r"(?:1|(?:7|2[07]|2[1-689]\d|3[0-469]|3[578]\d|4[013-9]|42\d|5[1-8]|5[09]\d|6[0-6]|6[789]\d|8[1246]|8[0578]\d"
    r"|9[0-58]|9[679]\d)0?)"
)
_ABROAD = re.compile(rf"\+?0*{_COUNTRY}")
_BEFORE_NATIONAL = re.compile(rf"0|(?:00|011)?{_COUNTRY}")
_PHONE_DIGITS = range(7, 16)
_NUMBER_DIGITS = 6  # fewest digits of a number that is compared without its letters
_LAST_DIGITS = 4  # last digits of a number that count as a surviving part

_EMAIL = re.compile(r"([^\s@]+)@[^\s@]+\.[^\s@]+")
_UNTELLING = STOP_WORDS | frozenset(
    "mr mrs ms miss mx dr prof sir madam jr sr st rd de la le du van von der".split()  # noqa: SIM905
)

_Date = tuple[int | None, int, int]  # year, month, day


def survives(value: str, text: str) -> bool:
    """Return True if the whole identifier occurs in a text, by the module's rules."""
    key = _key(value)
    return any(_whole(key, reading) for reading in _readings(text))


def stands(value: str, source: str, text: str) -> bool:
    """Return True if an identifier of a source text survives in another text.

    If the identifier occurs in the source only as a part of a word, a part of a word is also enough in the other text.
    """
    if survives(value, text):
        return True
    inside = all(
        any(joined in reading.joined for joined in _key(value).joined for reading in _readings(each))
        for each in (source, text)
    )
    return inside and not survives(value, source)


def survives_in_part(value: str, source: str, text: str) -> bool:
    """Return True if a part of an identifier occurs in a text, but not in the source outside the identifier."""
    key = _key(value)
    parts = {part for reading in _readings(text) for part in _parts(key, reading)}
    if not parts:
        return False
    rest = re.sub(re.escape(value), " ", source, flags=re.IGNORECASE)
    return not parts <= {part for reading in _readings(rest) for part in _parts(key, reading)}


def keys(value: str) -> frozenset[str]:
    """Return search keys of an identifier. If the identifier survives other than as a date, the text contains a key."""
    key = _key(value)
    return key.joined | {key.digits, key.phone} - {""}


def squeezed(text: str) -> str:
    """Return the folded letters and digits of a text, joined."""
    return _Reading(text).joined


def readings(text: str) -> list[str]:
    """Return the unchanged text and its decodings of HTML entities, percent escapes and JSON escapes."""
    decodings = [text]
    for each in decodings:
        if len(decodings) < _READINGS and _ENCODED.search(each):
            decoded = dict.fromkeys((html.unescape(each), unquote(each), _ESCAPE.sub(_unescaped, each)))
            decodings += [new for new in decoded if new not in decodings]
    return decodings[:_READINGS]


def fold(text: str) -> str:
    """Return a text in lower case, without accents, with plain characters for compatibility characters and digits."""
    if text.isascii():
        return text.lower()
    apart = unicodedata.normalize("NFKD", _SIGNS.sub(r" \g<0> ", text)).casefold()
    plain = _ACCENTS.sub("", unicodedata.normalize("NFKD", apart)).translate(_LETTERS)
    plain = _OTHERS.sub(" ", _DASHES.sub("-", unicodedata.normalize("NFC", plain)))
    return _DECIMALS.sub(lambda digit: str(unicodedata.decimal(digit[0])), plain)


def _unescaped(escape: re.Match[str]) -> str:
    written = escape[0]
    if written[1] in "Ux":
        return chr(int(written[2:], 16)) if int(written[2:], 16) < 0x110000 else written
    return "'" if written[1] == "'" else str(json.loads(f'"{written}"'))


class _Reading:
    """One decoding of a text: its folded letters and digits, joined, and the positions of borders among them."""

    def __init__(self, text: str) -> None:
        self.text, self.folded = text, fold(text)

    @cached_property
    def _parts(self) -> list[str]:
        if self.folded.isascii():
            return _ASCII_PART.findall(self.folded)
        return [part for word in words(self.folded) for part in _PART.findall(word)]

    @cached_property
    def joined(self) -> str:
        return self.folded.translate(_NO_LETTERS) if self.folded.isascii() else "".join(self._parts)

    @cached_property
    def borders(self) -> frozenset[int]:
        return frozenset(accumulate(map(len, self._parts), initial=0))

    @cached_property
    def dates(self) -> frozenset[_Date]:
        return frozenset(date for _, some in _dates(self.folded) for date in some)

    def ends(self, key: str) -> Iterator[int]:
        """Yield the start of each occurrence of the key that ends at a border."""
        at = self.joined.find(key) if key else -1
        while at >= 0:
            if at + len(key) in self.borders:
                yield at
            at = self.joined.find(key, at + 1)

    def holds(self, key: str) -> bool:
        """Return True if the key occurs between two borders."""
        return any(at in self.borders for at in self.ends(key))

    def calls(self, number: str) -> bool:
        """Return True if a national telephone number occurs, with or without a country code."""
        for at in self.ends(number):
            before = next((self.joined[at - n : at] for n in range(min(at, 7) + 1) if at - n in self.borders), None)
            if before == "" or (before is not None and _BEFORE_NATIONAL.fullmatch(before)):
                return True
        return False


@lru_cache(maxsize=4)  # one rewrite is searched for many identifiers
def _readings(text: str) -> list[_Reading]:
    return [_Reading(reading) for reading in readings(text)]


@dataclass(frozen=True)
class _Key:
    """An identifier, prepared for comparison.

    joined:   its joined letters and digits, in each decoding.
    digits:   the digits of a number, else empty.
    phone:    the national telephone number, else empty.
    dates:    dates that it may denote.
    words:    words that count as surviving parts.
    initials: pattern of the initials, if it has any.
    """

    joined: frozenset[str]
    digits: str
    phone: str
    dates: frozenset[_Date]
    words: frozenset[str]
    initials: re.Pattern[str] | None


@lru_cache(maxsize=2**16)
def _key(value: str) -> _Key:
    read = [_Reading(reading) for reading in readings(value)]
    first = read[0]
    digits = "" if re.search(r"[^\W\d_]{3}", first.folded) else re.sub(r"\D", "", first.folded)
    dates = _date_of(first.folded)
    return _Key(
        joined=frozenset(reading.joined for reading in read) - {""},
        digits=digits if len(digits) >= _NUMBER_DIGITS else "",
        phone=_national(first.folded),
        dates=dates,
        words=frozenset() if digits or dates else _telling(first),
        initials=None if digits or dates else _initials(first),
    )


def _whole(key: _Key, reading: _Reading) -> bool:
    if any(reading.holds(joined) for joined in key.joined) or (key.digits and reading.holds(key.digits)):
        return True
    if key.phone and reading.calls(key.phone):
        return True
    return any(
        date in reading.dates or (date[0] is None and date[1:] in {other[1:] for other in reading.dates})
        for date in key.dates
    )


def _parts(key: _Key, reading: _Reading) -> set[str]:
    """Return labels of the identifier's parts that occur in a text."""
    standing = {word for word in key.words if reading.holds(word)}
    if key.initials is not None and key.initials.search(reading.text):
        standing.add("initials")
    if key.dates:
        standing |= {f"{date[0]}" for date in key.dates if date[0] is not None and reading.holds(f"{date[0]}")}
        standing |= {f"{date[1:]}" for date in key.dates if date[1:] in {other[1:] for other in reading.dates}}
    elif any(reading.holds(key.digits[-n:]) for n in range(_LAST_DIGITS, len(key.digits))):
        standing.add("last digits")
    return standing


def _telling(value: _Reading) -> frozenset[str]:
    """Return the identifying words of an identifier with several words; of an e-mail address, those before the @."""
    email = _EMAIL.fullmatch(value.folded.strip())
    parts = _Reading(email[1])._parts if email else value._parts
    whole = {"".join(parts)} if email else set()
    several = parts if email or len(parts) > 1 else []
    return frozenset(whole | {part for part in several if len(part) > 1 and part not in _UNTELLING})


def _initials(value: _Reading) -> re.Pattern[str] | None:
    """Return a pattern of two to four words' initials (capitals, or letters with full stops); None without initials."""
    parts = [part for part in value.text.split() if fold(part).strip(".") not in _UNTELLING]
    if not 2 <= len(parts) <= 4 or not all(part[0].isalpha() for part in parts) or "@" in value.text:
        return None
    letters = [re.escape(part[0]) for part in parts]
    dotted, capitals = r"\s?".join(f"{letter}\\." for letter in letters), "".join(letters).upper()
    return re.compile(rf"(?<!\w)(?:(?i:{dotted})|{capitals}(?!\w))")


def _national(value: str) -> str:
    """Return the national significant number of a telephone number; empty if the value is not a telephone number."""
    digits = re.sub(r"\D", "", value.replace("(0)", ""))
    if not _PHONE.fullmatch(value) or len(digits) not in _PHONE_DIGITS:
        return ""
    abroad = _ABROAD.match(digits) if value.strip(" (").startswith(("+", "00")) else None
    national = digits[abroad.end() :] if abroad else digits.lstrip("0")
    return national if len(national) in _PHONE_DIGITS else ""


def _date_of(value: str) -> frozenset[_Date]:
    """Return the possible dates that a value denotes as a whole; empty if it is not a date."""
    value = value.strip(" .,")
    return frozenset(date for span, some in _dates(value) for date in some if span == (0, len(value)))


def _dates(text: str) -> Iterator[tuple[tuple[int, int], list[_Date]]]:
    """Yield the dates in a folded text: for each, its character range and its possible readings."""
    for match in _YEAR_FIRST.finditer(text):
        yield match.span(), _valid(match[1], (match[3], match[4]))
    for match in _YEAR_LAST.finditer(text):
        yield match.span(), _valid(match[4], (match[1], match[3]), (match[3], match[1]))
    for match in _DAY_MONTH.finditer(text):
        yield match.span(), _valid(match[3], (str(_MONTHS[match[2][:3]]), match[1]))
    for match in _MONTH_DAY.finditer(text):
        yield match.span(), _valid(match[3], (str(_MONTHS[match[1][:3]]), match[2]))


def _valid(year: str | None, *months_days: tuple[str, str]) -> list[_Date]:
    """Return the valid dates among (month, day) pairs of a year. A year of two digits is read as 19xx and as 20xx."""
    years: list[int | None] = [None]
    if year is not None:
        years = [int(year)] if len(year) == 4 else [1900 + int(year), 2000 + int(year)]
    pairs = [(int(month), int(day)) for month, day in months_days]
    return [(each, month, day) for each in years for month, day in pairs if 1 <= month <= 12 and 1 <= day <= 31]
