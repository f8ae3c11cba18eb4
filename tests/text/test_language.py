"""English is distinguished from other languages by its function words; few words give no decision."""

from __future__ import annotations

import pytest

from epsilometer.corpora.synthetic import generate
from epsilometer.text.language import LEAST, function_words
from tests.support.languages import TEXTS


@pytest.mark.parametrize("language", TEXTS)
def test_english_alone_has_many_of_its_function_words(language: str) -> None:
    share = function_words(TEXTS[language])
    assert share is not None
    assert (share > 3 * LEAST) if language == "English" else (share < LEAST / 2)


@pytest.mark.parametrize("corpus", ["queries", "reviews", "judgements"])
def test_embedded_corpora_are_english(corpus: str) -> None:
    share = function_words(generate(corpus, 200, 1)["text"])
    assert share is not None
    assert share > 3 * LEAST


def test_of_a_few_words_nothing_is_said() -> None:
    assert function_words(["Bitte weniger Kaffee"]) is None
    assert function_words([]) is None
