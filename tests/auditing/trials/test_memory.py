"""Mechanisms that cache their answers, compared with mechanisms that draw each time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from epsilometer.auditing.estimation.successes import loss_at, success_bound
from epsilometer.auditing.text_audit import loss_of_law
from epsilometer.auditing.trials.memory import (
    BY_TEXT,
    BY_WORD,
    CONSTANT,
    FRESH,
    IDENTITY,
    REPEATS,
    Memory,
    Recollection,
)

NAMES = ["ada", "bea", "cy", "dora", "eve"]
TEXTS = [f"{name} met {other} in town" for name in NAMES for other in NAMES if name != other]
RNG = np.random.default_rng(0)
SOURCE = RNG.integers(0, len(TEXTS), 400)


def fresh(text: str) -> str:
    return " ".join(RNG.choice(NAMES) if word in NAMES else word for word in text.split())


def remembered(rewrite: Callable[[str], str]) -> Callable[[str], str]:
    held: dict[str, str] = {}
    return lambda text: held.setdefault(text, rewrite(text))


def pseudonyms(text: str) -> str:
    named = dict(zip(NAMES, ["nn1", "nn2", "nn3", "nn4", "nn5"], strict=True))
    return " ".join(named.get(word, word) for word in text.split())


MECHANISMS: dict[str, Callable[[str], str]] = {
    FRESH: fresh,
    CONSTANT: lambda text: "nothing",
    IDENTITY: lambda text: text,
    BY_TEXT: remembered(fresh),
    BY_WORD: pseudonyms,
}


def seen(rewrite: Callable[[str], str], count: int = 400) -> Memory | None:
    recollection = Recollection()
    for part in np.array_split(SOURCE[:count], 3):
        texts = [TEXTS[number] for number in part]
        recollection.add(texts, [rewrite(text) for text in texts])
    return recollection.memory


@pytest.mark.parametrize("kind", MECHANISMS)
def test_each_kind_is_named(kind: str) -> None:
    of = seen(MECHANISMS[kind])
    assert of is not None
    assert of.kind == kind
    assert of.repeated == (kind != FRESH)
    assert of.repeats == 400 - len(TEXTS)


def test_too_few_repeats_name_nothing() -> None:
    assert seen(MECHANISMS[IDENTITY], len(TEXTS) + REPEATS // 2) is None


@pytest.mark.parametrize(("texts", "missed_by_trials"), [(40, 80), (200, 40)])
def test_counting_each_text_once_covers_the_law(texts: int, missed_by_trials: int) -> None:
    """Each text's answer says "right" with probability .75 for good. Of 400 sets of answers at alpha = .1 the bound is
    above the law's loss in .05 at most; more than 40 of 400 happen with probability 2e-5. The same bound from trials as
    independent draws is above it more often than that.
    """
    loss, k, alpha = loss_at(0.75, 2), 2, 0.1
    rng, by_text, by_trial = np.random.default_rng(1), 0, 0
    for _ in range(400):
        answers = rng.random(texts) < success_bound(loss, k)
        source = rng.integers(0, texts, 1000)
        right = answers[source]
        by_text += loss_of_law(right, source, k, alpha) > loss
        by_trial += loss_of_law(right, np.arange(1000), k, alpha) > loss
    assert by_text <= 40
    assert by_trial > missed_by_trials
