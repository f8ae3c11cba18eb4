"""Texts in which one word marks each label, so that the best success of any attacker is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from epsilometer.auditing.attributes.attackers import Inferred, Learned, Learners, detect, infer
from epsilometer.auditing.attributes.released import Released
from epsilometer.core.randomness import Noise
from epsilometer.models.classifier import Classifier, Examples
from epsilometer.models.classifiers.linear import Linear

MARKS = {"f": "madam", "m": "sir"}
RATINGS = {"bad": "awful", "good": "lovely"}
SWAP = {"madam": "sir", "sir": "madam"}
Rewrite = Callable[[str], str]
ALL = Learners()


def texts(count: int, first: int, groups: int | None = None) -> Released:
    """Return unchanged texts, alternating in gender and rating. first: the first text's number; groups: of authors."""
    genders = [("f", "m")[i % 2] for i in range(count)]
    ratings = [("bad", "good")[i // 2 % 2] for i in range(count)]
    written = [
        f"{MARKS[g]} the room {first + i} was {RATINGS[r]} in week {(first + i) % 50}"
        for i, (g, r) in enumerate(zip(genders, ratings, strict=True))
    ]
    authors = None if groups is None else [f"author {first} {i % groups}" for i in range(count)]
    return Released(written, written, {"gender": genders, "rating": ratings}, groups=authors)


def rewritten(part: Released, rewrite: Rewrite) -> Released:
    return Released(part.originals, [rewrite(text) for text in part.originals], part.labels, groups=part.groups)


def swapped(text: str) -> str:
    return " ".join(SWAP.get(word, word) for word in text.split())


def constant(text: str) -> str:
    return "a text"


class ByLetter:
    """A tagger without a network, which tags a word with its first letter."""

    def upos(self, split: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
        return [tuple(word[:1] for word in words) for words in split]


def fit(examples: Examples) -> Classifier:
    return Linear.fit(examples)


def attack(
    training: Released,
    test: Released,
    wanted: Learners = ALL,
    learn: Callable[[Examples], Classifier] = fit,
    label: str = "gender",
) -> list[Inferred]:
    """Return the results of all linear attackers; the last one is the detector."""
    examples = training.clean(label)
    static = Learned(fit(examples), examples)
    noise = Noise.named(1, "attack")
    rows = list(infer(training, test, label, static, learn=learn, request=wanted, noise=noise))
    return [*rows, detect(training, test, learn, seed=0, noise=noise)]
