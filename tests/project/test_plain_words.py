"""Each mechanism's file contains a sentence that describes it in plain words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from epsilometer.core.component import shipped
from epsilometer.project.plain_words import BEGINNING, plain_words
from tests.support.refusals import refused

# Technical words that a reader without statistics would not understand.
JARGON = re.compile(
    r"epsilon|\bnats?\b|\blaw\b|distribution|exponential|gumbel|laplace|gaussian|latent|embedding|vector|token|logit|"
    r"perturb|mechanism|randomi[sz]ed|metric|sensitivity|adversar|[=|~^_{}\\]",
    re.IGNORECASE,
)


@pytest.mark.parametrize("name", sorted(shipped("mechanisms")))
def test_every_mechanism_says_in_plain_words_what_it_does(name: str) -> None:
    said = plain_words(shipped("mechanisms")[name])
    assert said is not None
    assert re.match(r"[a-z]+s\b", said), "it follows the name of the mechanism: `tem replaces each word by ...`"
    assert not JARGON.search(said)
    assert len(said.split()) <= 25


def test_a_file_of_ones_own_may_say_it_or_not(tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text(f'"""Mine.\n\n{BEGINNING}swaps the words\nof a text.\n\nMore.\n"""\n')
    assert plain_words(mine) == "swaps the words of a text"
    mine.write_text("def rewrite(text, rng):\n    return text\n")
    assert plain_words(mine) is None
    mine.write_text("def rewrite(")
    with refused("EPS-C037", "mine.py, line 1"):
        plain_words(mine)
