"""The shadow attack, on codes that no attack without query access can read, and on releases that contain no code."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Sequence

import numpy as np
import polars as pl
import pytest

import epsilometer
from epsilometer.attacks.identification.shadow import ShadowAttack
from epsilometer.auditing.conformance.attack import check_attack
from epsilometer.core.attack import Context, guess_and_score
from epsilometer.core.mechanism import FunctionMechanism, Rewrites
from epsilometer.core.randomness import Noise

LETTERS = "abcdefghijklmnopqrstuvwxyz"
RNG = random.Random(0)
WORDS = ["".join(RNG.choices(LETTERS, k=RNG.randint(3, 8))) for _ in range(300)]
TEXTS = sorted({" ".join(RNG.sample(WORDS, 8)) for _ in range(80)})
TRIALS, ALPHA = 400, 0.01
Rewrite = Callable[[str, float, np.random.Generator], str]


def bits(text: str, count: int) -> list[int]:
    """A keyed hash: what a code says of its text."""
    number = int.from_bytes(hashlib.sha256(b"key " + text.encode()).digest()[:8], "big")
    return [number >> i & 1 for i in range(count)]


def carrier(rng: np.random.Generator, words: int) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(words))


def cipher(text: str, epsilon: float, rng: np.random.Generator) -> str:
    table = str.maketrans(LETTERS, "".join(random.Random(1).sample(LETTERS, 26)))
    return " ".join(rng.permutation(text.translate(table).split()))


def keyed_tokens(text: str, epsilon: float, rng: np.random.Generator) -> str:
    return " ".join(hashlib.sha256(b"key " + word.encode()).hexdigest()[:6] for word in text.split())


def letter_case(text: str, epsilon: float, rng: np.random.Generator) -> str:
    signs, code = list(carrier(rng, 20)), bits(text, 40)
    places = [i for i, sign in enumerate(signs) if sign != " "][:40]
    for place, bit in zip(places, code, strict=True):
        signs[place] = signs[place].upper() if bit else signs[place]
    return "".join(signs)


def zero_width(text: str, epsilon: float, rng: np.random.Generator) -> str:
    return carrier(rng, 8) + "".join("\u200b\u200c"[bit] for bit in bits(text, 40))


def synonym(text: str, epsilon: float, rng: np.random.Generator) -> str:
    named = ["big", "large", "huge", "vast", "great", "grand", "ample", "broad"]
    return f"the {carrier(rng, 1)} was {named[int(''.join(map(str, bits(text, 3))), 2)]} and {carrier(rng, 2)}"


def trailing_blanks(text: str, epsilon: float, rng: np.random.Generator) -> str:
    return carrier(rng, 1) + " " * int("".join(map(str, bits(text, 4))), 2)


def homoglyphs(text: str, epsilon: float, rng: np.random.Generator) -> str:
    signs, code = list("a reasonable sentence"), bits(text, 8)
    places = [i for i, sign in enumerate(signs) if sign in "aeo"][:8]
    for place, bit in zip(places, code, strict=False):
        signs[place] = {"a": "\u0430", "e": "\u0435", "o": "\u043e"}[signs[place]] if bit else signs[place]
    return "".join(signs) + " " + carrier(rng, 1)


def constant(text: str, epsilon: float, rng: np.random.Generator) -> str:
    return "nothing to see"


def key_per_call(text: str, epsilon: float, rng: np.random.Generator) -> str:
    key = rng.bytes(8)
    return " ".join(hashlib.sha256(key + word.encode()).hexdigest()[:6] for word in text.split())


def row(mechanism: object, attack: str, texts: Sequence[str] = TEXTS, epsilon: float = 1.0) -> dict[str, object]:
    design = epsilometer.Design(temperature=0, alpha=ALPHA)
    table: pl.DataFrame = epsilometer.audit(texts, mechanism, [epsilon], [attack], TRIALS, design=design)
    return table.row(0, named=True)


@pytest.mark.parametrize("code", [cipher, keyed_tokens, letter_case, zero_width, synonym, homoglyphs])
def test_a_code_is_read(code: Rewrite) -> None:
    """Each says at least 3 bits of its text. By chance a lower bound is above 0 with probability .005."""
    assert row(code, "shadow")["loss"] > 1


def test_a_weak_code_is_found() -> None:
    """Trailing blanks behind a word of any length: no view looks for them."""
    assert row(trailing_blanks, "shadow")["loss"] > 0


@pytest.mark.parametrize("code", [letter_case, zero_width, synonym, homoglyphs])
def test_an_attack_without_query_access_reads_none(code: Rewrite) -> None:
    """So that the test above shows what query access adds; false alarm .005 each."""
    assert row(code, "lexical")["loss"] == 0


@pytest.mark.parametrize("mechanism", [constant, key_per_call], ids=lambda mechanism: mechanism.__name__)
def test_it_is_at_chance_where_nothing_is_said(mechanism: Rewrite) -> None:
    """False alarm .005 each."""
    assert row(mechanism, "shadow")["loss"] == 0


def test_it_is_at_chance_against_randomised_response_that_says_nothing() -> None:
    """At an epsilon of 1e-9; false alarm .005."""
    assert row("randomized_response", "shadow", epsilon=1e-9)["loss"] == 0


def test_it_keeps_the_rules_of_attacks() -> None:
    """The same stream gives the same guesses, and a guess depends on its own trial alone."""
    assert [check.problem for check in check_attack(ShadowAttack()) if check.problem] == []


def test_shadows_are_drawn_once_and_as_many_as_said() -> None:
    """Batches of trials share them, and no stream of a trial draws them."""
    asked_for: list[str] = []
    numbers: list[float] = []

    def counting(text: str, epsilon: float, rng: np.random.Generator) -> str:
        asked_for.append(text)
        numbers.append(rng.random())
        return text

    attack, mechanism = ShadowAttack(rewrites=3), FunctionMechanism(counting)
    candidates = np.array([[0, 1], [2, 3], [1, 4]])
    contexts = [Context(TEXTS, mechanism, 1.0, Noise.named(3, "batch", i)) for i in range(2)]
    for context in contexts:
        guess_and_score(attack, [Rewrites(TEXTS[:3])], candidates, [context])
    assert len(asked_for) == len(set(numbers))
    assert sorted(asked_for) == sorted(attack.queries(TEXTS, candidates))
    attack.ask(mechanism, TEXTS, candidates, [1.0])
    assert len(asked_for) == len(set(numbers)), "nothing is drawn again"
    assert {asked_for.count(text) for text in asked_for} == {3}
    assert {*TEXTS[:5]} <= {*asked_for}


@pytest.mark.slow
def test_its_lower_bound_is_above_the_exact_loss_no_more_often_than_stated() -> None:
    """Randomised response of 1 nat, 300 audits at alpha = .1: more than 30 of 300 bounds above 1 nat, where .05 of them
    may be, happen with probability 1e-4.
    """
    above = 0
    for seed in range(300):
        design = epsilometer.Design(temperature=0, alpha=0.1, seed=seed)
        table = epsilometer.audit(["no", "yes"], "randomized_response", [1.0], ["shadow"], 100, design=design)
        above += table["loss"].item() > 1.0
    assert above <= 30
