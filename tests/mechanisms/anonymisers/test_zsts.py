"""ZSTS: which words are unsafe, how they are replaced, and what its published form depends on."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from epsilometer.auditing.conformance.mechanism import check_mechanism
from epsilometer.core.outcomes import FOUND, NOTHING
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.anonymisers.zsts import MASKED, ZSTS
from epsilometer.models.embedded import masked_lm
from epsilometer.models.encoder import Encoder
from epsilometer.models.fill_mask import FillMask, Place
from epsilometer.models.locate import ENCODER

TEXTS = [
    "I want to book a table for two people at Luigi's trattoria tonight.",
    'The 47 pizzas cost 47 dollars, and 5 were cold: "awful", said Rosalind.',
    "the 47 waiters didn't come, 🎉 and ROSALIND left",
    "",
    "...",
]


@cache
def mechanism(**settings: float | bool) -> ZSTS:
    return ZSTS(resource=masked_lm(), **settings)


def rewrite(mechanism: ZSTS, texts: list[str] = TEXTS, seed: int = 0) -> list[str]:
    return list(mechanism.rewrite(texts, np.nan, Noise.named(len(texts), seed)).texts)


def test_at_p_0_it_is_the_identity() -> None:
    for published in (False, True):
        rewrites = mechanism(p=0.0, as_published=published).rewrite(TEXTS, np.nan, Noise.named(len(TEXTS), 0))
        assert list(rewrites.texts) == TEXTS
        assert rewrites.outcomes is not None
        assert set(rewrites.outcomes.status) == {NOTHING}
        assert not rewrites.outcomes.changed.any()


def test_a_word_becomes_the_nearest_of_the_likeliest() -> None:
    text = "I want to book a table for two people."
    (rewritten,) = rewrite(mechanism(p=1.0, s=2.0), [text])
    model, encoder = FillMask(masked_lm()), Encoder(ENCODER)
    outputs, _ = model.likeliest([text], [Place(0, 17, 22)], 50)
    words = [w for w in (model.outputs[o] for o in outputs[0]) if len(w) > 2 and w.isalpha() and w != "table"]
    cosine = encoder.encode(words) @ encoder.encode(["table"])[0]
    assert rewritten.split()[5] == words[int(cosine.argmax())]


def test_what_has_no_near_word_is_masked() -> None:
    (rewritten,) = rewrite(mechanism(p=1.0, s=0.0), ["Book a table, please!"])
    assert rewritten == f"{MASKED} {MASKED} {MASKED}, {MASKED}!"


def test_unsafe_numbers_get_new_digits_equal_within_a_text() -> None:
    rewritten = [text.split() for text in rewrite(mechanism(p=1.0, s=0.0), ["47 or 47"] * 20)]
    assert all(words[0] == words[2] and len(words[0]) == 2 and words[0].isdigit() for words in rewritten)
    assert len({words[0] for words in rewritten}) > 5  # by chance with probability < 1e-17


@pytest.mark.slow
def test_as_published_is_one_dictionary_for_all_texts() -> None:
    published = mechanism(p=1.0, s=2.0, as_published=True)
    texts = ["Rosalind ate 47 pizzas", "pizzas for 47 people: Rosalind"]
    first, second = (text.split() for text in rewrite(published, texts))
    assert first == rewrite(published, texts, seed=1)[0].split()  # no stream has an effect
    assert first[2] == second[2] == "50"  # the first two digits from numpy after seed 0
    assert (second[0], second[-1]) == (first[3], first[0])
    assert rewrite(published, texts[::-1])[0].split() != second  # a rewrite also depends on the other texts
    assert rewrite(mechanism(p=1.0, s=2.0), texts[::-1])[0].split()[0] != second[0]


def test_by_default_a_text_is_rewritten_alone() -> None:
    checks = check_mechanism(mechanism(p=0.3), None, ["47 waiters left", "yes"])
    assert [check.rule for check in checks if check.problem] == []


def test_capitals_stay() -> None:
    (rewritten,) = rewrite(mechanism(p=1.0, s=2.0), ["Book a TABLE, please"])
    assert [word[:1].isupper() for word in rewritten.split()] == [True, False, True, False]
    assert rewritten.split()[2].rstrip(",").isupper()


def test_every_text_has_its_outcome() -> None:
    outcomes = mechanism(p=0.3).rewrite(TEXTS, np.nan, Noise.named(len(TEXTS), 0)).outcomes
    assert outcomes is not None
    assert list(outcomes.status) == [FOUND, FOUND, FOUND, NOTHING, NOTHING]
    assert (outcomes.changed[:3] > 0).all()
    assert not outcomes.asked.any()
    assert not outcomes.asked_victim.any()


@pytest.mark.parametrize("setting", [{"p": 1.5}, {"s": -0.1}, {"candidates": 0}])
def test_settings_out_of_range_are_refused(setting: dict[str, float]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        ZSTS(resource="x", **setting)
