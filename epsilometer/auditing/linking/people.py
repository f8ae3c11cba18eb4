"""People about whom facts are known (statements about them, or other texts by them), and sets of these people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.errors import UserError
from epsilometer.core.linking import Facts
from epsilometer.core.randomness import Noise
from epsilometer.runtime.progress import note, track


@dataclass(frozen=True)
class People:
    """Facts known about people.

    texts: n texts. facts: for each text, the known facts about its person; they do not contain the text itself. person:
    [n], the index of each text's person.
    """

    texts: Sequence[str]
    facts: Sequence[Facts]
    person: NDArray[np.int64]

    @classmethod
    def by_claims(cls, texts: Sequence[str], claims: Sequence[str | None]) -> People:
        """Return one person per text. claims: each person's facts, one per line; texts without facts are omitted."""
        listed = [[line for line in (some or "").splitlines() if line.strip()] for some in claims]
        rows = [i for i, some in enumerate(listed) if some]
        _say_left_out(len(texts) - len(rows), "without facts")
        return cls([texts[i] for i in rows], [listed[i] for i in rows], np.arange(len(rows)))

    @classmethod
    def by_author(cls, texts: Sequence[str], authors: Sequence[str | None]) -> People:
        """Return authors whose other texts are known. Authors of one text, and texts without an author, are omitted."""
        of: dict[str, list[int]] = {}
        for i, author in enumerate(authors):
            if author is not None:
                of.setdefault(author, []).append(i)
        several = [some for some in of.values() if len(some) > 1]
        rows = [i for some in several for i in some]
        _say_left_out(len(texts) - len(rows), "whose author has no other text")
        facts = [[texts[other] for other in some if other != i] for some in several for i in some]
        person = np.repeat(np.arange(len(several)), [len(some) for some in several])
        return cls([texts[i] for i in rows], facts, person)

    @property
    def count(self) -> int:
        """The number of people."""
        return int(self.person.max()) + 1 if len(self.person) else 0

    def check(self, among: int) -> None:
        """Raise UserError if `among`, the size of a set, is below 2 or above the number of people."""
        if not 2 <= among <= self.count:
            raise UserError(
                "the number of rewrites per set (among) must be at least 2 and at most the number of people with "
                f"facts, {self.count}, got {among}; give facts of more people, or a smaller number",
                "EPS-A129",
            )


def _say_left_out(count: int, why: str) -> None:
    if count:
        note(f"{count:,} texts {why} are left out")


def draw(people: People, count: int, among: int, seed: int) -> NDArray[np.int64]:
    """Draw `count` sets of `among` people and one text of each person; return the texts' indices [count, among].

    Raises UserError if `among` is below 2, or above the number of people.
    """
    people.check(among)
    first = np.searchsorted(people.person, np.arange(people.count))  # texts of a person are consecutive
    many = np.bincount(people.person)
    noise = Noise.named(count, seed, "linking", "sets", among)
    sets = np.empty((count, among), np.int64)
    for row in track(range(count), count, "draw sets"):
        uniforms = noise[row : row + 1].uniforms(people.count + among)[0]
        who = uniforms[: people.count].argsort(kind="stable")[:among]
        sets[row] = first[who] + (uniforms[people.count :] * many[who]).astype(np.int64)
    return sets
