"""Grammars: rules of a YAML file in this folder, compiled for the random generation of texts."""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from epsilometer.core import yaml_text

# Factors by which authors prefer alternatives of their own taste, and avoid alternatives of other tastes. With these
# factors, a linear classifier predicts the author's gender right for three in four texts, and age group or country
# right for three in five.
_STRENGTHS = (
    (frozenset({"F", "M"}), 2.3),
    (frozenset({"young", "middle", "old"}), 3.2),
    (frozenset({"uk", "us", "de", "dk", "fr"}), 6.5),
)

_TOKEN = re.compile(r"\{([^}]+)\}|([][|])|([^][{}|]+)")


@cache
def grammar(name: str) -> dict[str, Any]:
    """Return the sections of the file `name`.yaml in this folder, by the section's name."""
    sections: dict[str, Any] = yaml_text.load((Path(__file__).parent / f"{name}.yaml").read_bytes())
    return sections


@dataclass(frozen=True)
class Slot:
    """A place in a phrase where an alternative of another rule is inserted."""

    rule: str


@dataclass(frozen=True)
class Choice:
    """Options at a place in a phrase, all equally likely."""

    options: list[Parts]


Parts: TypeAlias = "list[str | Slot | Choice]"


@dataclass(frozen=True)
class Rule:
    """Alternative phrases, each with the tastes of its authors.

    ends: a cache of the cumulative weights of the phrases, by the tastes of an author.
    """

    phrases: list[tuple[Parts, frozenset[str]]]
    ends: dict[frozenset[str], list[float]] = field(default_factory=dict)

    def draw(self, rng: np.random.Generator, author: frozenset[str]) -> int:
        """Return the number of a random alternative for an author of these tastes."""
        ends = self.ends.get(author)
        if ends is None:
            ends = self.ends[author] = list(accumulate(_weight(tastes, author) for _, tastes in self.phrases))
        return min(bisect(ends, rng.random() * ends[-1]), len(ends) - 1)


def _weight(tastes: frozenset[str], author: frozenset[str]) -> float:
    weight = 1.0
    for kind, strength in _STRENGTHS:
        if wanted := tastes & kind:
            weight *= strength if wanted & author else 1 / strength
    return weight


def compiled(rules: Mapping[str, str]) -> dict[str, Rule]:
    """Return the compiled rules by name. Alternatives are on separate lines, or separated by " / "."""
    return {
        name: Rule([_phrase(phrase) for line in text.splitlines() for phrase in line.split(" / ") if phrase.strip()])
        for name, text in rules.items()
    }


def _phrase(text: str) -> tuple[Parts, frozenset[str]]:
    words, _, tastes = text.strip().partition(" ~")
    (parts,) = _options(_TOKEN.finditer(words))
    return parts, frozenset(tastes.split())


def _options(tokens: Iterator[re.Match[str]]) -> list[Parts]:
    """Parse the options up to the closing bracket, or to the end of the phrase."""
    options: list[Parts] = [[]]
    for token in tokens:
        if token[1]:
            options[-1].append(Slot(token[1]))
        elif token[2] == "[":
            options[-1].append(Choice(_options(tokens)))
        elif token[2] == "|":
            options.append([])
        elif token[2] == "]":
            break
        else:
            options[-1].append(token[3])
    return options
