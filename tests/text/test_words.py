"""The tokenizer and the layout: every replaced word is put back in its place."""

from __future__ import annotations

import re
import unicodedata
from hashlib import sha256
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epsilometer.corpora.synthetic import generate
from epsilometer.text.words import STOP_WORDS, lay_out, places, with_spaces, words, write

SHARED = Path(__file__).parents[3] / "shared/data"
ENGLISH = re.compile(r"[^\W_]+(?:'[^\W_]+)*")  # words of texts without such scripts and without marks


def test_layout_is_kept() -> None:
    assert lay_out("Dear Ann,\n  don't CALL 555-0199!", ["hi", "bob", "never", "ring", "1", "2"]) == (
        "Hi Bob,\n  never RING 1-2!"
    )
    assert lay_out("İstanbul is far", ["a", "b", "c"]) == "A b c"  # this capital becomes two characters in lower case
    assert lay_out("...", []) == "..."


def test_replaced_characters_stay_as_many_words() -> None:
    """Side by side, Han needs no space; words of letters would run together, an apostrophe between them included."""
    assert lay_out("我爱你。", ["他", "恨", "她"]) == "他恨她。"
    assert lay_out("我爱Anna!", ["i", "love", "bob"]) == "i love Bob!"
    assert lay_out("我'爱", ["i", "love"]) == "i' love"


@pytest.mark.parametrize(
    ("text", "units"),
    [
        ("我喜欢Python3，don’t你?", ["我", "喜", "欢", "python3", "don't", "你"]),
        ("コーヒーを飲む、々〆", ["コ", "ー", "ヒ", "ー", "を", "飲", "む", "々", "〆"]),
        ("葛\U000e0100飾", ["葛", "飾"]),  # a variation selector
        ("สวัสดี ๑๒๓", ["ส", "วั", "ส", "ดี", "๑๒๓"]),  # a number is one word in every script
        ("ສະບາຍດີ", ["ສ", "ະ", "ບ", "າ", "ຍ", "ດີ"]),
        ("ភាសាខ្មែរ", ["ភា", "សា", "ខ្", "មែ", "រ"]),
        ("မြန်မာ", ["မြ", "န်", "မာ"]),
        ("हिन्दी में", ["हिन्दी", "में"]),  # marks stay with their letters
        ("اللُّغَة العَرَبِيَّة", ["اللُّغَة", "العَرَبِيَّة"]),
        ("한국어가 좋다", ["한국어가", "좋다"]),
        ("İstanbul, donʼt 1️⃣ café", ["i̇stanbul", "donʼt", "1", "café"]),
    ],
)
def test_scripts_without_spaces_count_by_the_character(text: str, units: list[str]) -> None:
    assert words(text) == [unicodedata.normalize("NFKC", unit) for unit in units]


@pytest.mark.parametrize("corpus", ["queries", "reviews", "judgements"])
def test_english_keeps_its_words(corpus: str) -> None:
    for text in generate(corpus, 2000, 0)["text"]:
        assert words(text) == ENGLISH.findall(unicodedata.normalize("NFKC", text).replace("’", "'").lower()), text


@pytest.mark.skipif(not SHARED.is_dir(), reason="../shared/data, the real data sets, is not there")
@pytest.mark.parametrize("name", ["atis", "imdb", "meld", "shakespeare", "snips", "synthpai", "trustpilot"])
def test_real_english_keeps_its_words(name: str) -> None:
    """But for the few texts that quote Chinese or a mark: categories Lo, Mn and Mc are not English."""
    for text in pl.read_parquet(SHARED / f"{name}.parquet")["text"].drop_nulls().head(5000):
        plain = unicodedata.normalize("NFKC", text).replace("’", "'").lower()
        if not any(unicodedata.category(sign) in ("Lo", "Mn", "Mc") for sign in plain if sign > "\xff"):
            assert words(text) == ENGLISH.findall(plain)


@given(st.text(max_size=40))
@settings(max_examples=300, deadline=None, derandomize=True)
def test_every_word_has_its_place(text: str) -> None:
    places = words(text)
    numbered = [f"x{i}x" for i in range(len(places))]
    assert words(lay_out(text, numbered)) == numbered


def test_stop_words_are_those_of_the_released_mechanisms() -> None:
    """The checksum is that of the 179 words that NLTK's data held at commit 5db857e (2023), sorted, one a line."""
    added = {"i'd", "i'll", "i'm", "i've", "he'd", "he'll", "he's", "she'd", "she'll", "it'd", "it'll"}
    added |= {"we'd", "we'll", "we're", "we've", "they'd", "they'll", "they're", "they've"}
    assert added <= STOP_WORDS
    earlier = "\n".join(sorted(STOP_WORDS - added))
    assert sha256(earlier.encode()).hexdigest() == "63c081f949766b37ecdc95ac5b55639990d34295166996357ff47df805fda211"
    assert all(words(word) == [word] for word in STOP_WORDS)


def test_a_text_and_its_words_have_the_same_parts() -> None:
    """Written with spaces, a Chinese text had none of its pairs of characters left."""
    assert with_spaces("我们 喜欢 Python 3，你呢？").split() == with_spaces("我 们 喜 欢 Python 3，你 呢？").split()
    assert with_spaces("我们a").split() == ["我们", "我", "们", "a"]
    assert with_spaces("สวัสดี").split() == ["สวัสดี", *words("สวัสดี")]
    assert with_spaces("Don’t u\u0308ben!") == "don't üben!"
    assert with_spaces("Plain, Text") == "plain, text"


@pytest.mark.parametrize("text", ["Don't go, Ann-Lee!", "我们喜欢 Python。", "شُكْرًا جزيلاً", "नमस्ते दुनिया", "Ünïcode’s"])
def test_places_are_those_of_the_words(text: str) -> None:
    assert [write(words(text[start:end])) for start, end in places(text)] == words(text)
