"""A ledger of what releases have spent of each person: epsilons of the same people add up.

One file of JSON lines in a folder that belongs to the curator, and a key beside it. An entry is a release: its claim,
and for each of its people a keyed digest of their id and the number of times that the claim counts for them (1 for a
claim per user, the number t of their texts for one per document). Sums are by replacement of a person: a claim by
adding or removing counts twice, since a replacement is a removal and an addition. A claim that counts t times is
(t epsilon, t e^((t - 1) epsilon) delta), by group privacy (Vadhan 2017, lemma 2.2). Pure epsilons add; of (epsilon,
delta) both add (basic composition, Dwork et al. 2006). Claims per word, for texts of one length, times a metric, in
zCDP, Renyi or GDP, and none at all bound no epsilon of a person here and are recorded as unbounded.

An entry is written and synced under a lock before anything is published. A process that is killed before that has
published nothing; one killed after has a recorded release that nobody saw, which errs on the safe side. An entry that
was cut short by a kill is dropped by the next one. This is bookkeeping, not a proof: copies of the folder, other ids
for the same people, and deletion evade it.
"""

from __future__ import annotations

import fcntl
import hmac
import json
import math
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from epsilometer.core.atomic import whole
from epsilometer.core.errors import UserError
from epsilometer.core.guarantees import Granularity, Guarantee, Neighbours
from epsilometer.core.own_folder import own_folder

_ENTRIES, _KEY = "ledger.jsonl", "key"
_UNBOUNDED = "unbounded"
_WHOLE = (Granularity.DOCUMENT, Granularity.USER)
_TIMES = {Neighbours.ANY: 1, Neighbours.REPLACED: 1, Neighbours.ADDED_OR_REMOVED: 2}  # in a replacement


@dataclass(frozen=True)
class Sum:
    """The sum spent by several releases. unbounded: the number of releases whose claims bound nothing for a person."""

    epsilon: float = 0.0
    delta: float = 0.0
    unbounded: int = 0

    def __add__(self, other: Sum) -> Sum:
        return Sum(self.epsilon + other.epsilon, self.delta + other.delta, self.unbounded + other.unbounded)

    def describe(self) -> str:
        """Return the sum in a few words."""
        delta = f" and delta {self.delta:g}" if self.delta else ""
        more = f", and {self.unbounded} releases that bound nothing" if self.unbounded else ""
        return f"epsilon {self.epsilon:g}{delta}{more}"


def spent(claim: Guarantee | None, times: int) -> Sum:
    """Return what a release with this claim spends of a person whose texts count this many times."""
    if (
        claim is None
        or claim.granularity not in _WHOLE
        or claim.metric
        or claim.curve
        or claim.neighbours not in _TIMES
    ):
        return Sum(unbounded=1)
    times = _TIMES[claim.neighbours] * (1 if claim.granularity is Granularity.USER else times)
    try:
        delta = claim.delta and times * math.exp((times - 1) * claim.epsilon) * claim.delta
    except OverflowError:
        delta = 1.0
    return Sum(times * claim.epsilon, min(1.0, delta))


@dataclass(frozen=True)
class Standing:
    """The ledger after an entry.

    before, after: the largest sum of a person of this release; again: how many of them had been in a release. of_all:
    the sum over all releases of the ledger as if one person had been in each, which bounds every person's and does
    not depend on who was in which. Claims per document count once in it.
    """

    before: Sum
    after: Sum
    again: int
    of_all: Sum


class Ledger:
    """The ledger in a folder. Raises UserError for a folder of another user, and for a damaged file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def enter(self, claim: Guarantee | None, people: Mapping[str, int], *, again: bool) -> Standing:
        """Record a release of these people, each with the number of their texts, and return the ledger after it.

        Raises UserError where one of them has an entry and `again` is not set; nothing is then recorded.
        """
        own_folder(self.folder)
        with self._locked() as file:
            standing, new = self._standing(file, claim, people)
            if standing.again and not again:
                raise UserError(_refusal(standing), "EPS-L012")
            entry = {
                "claim": None if claim is None else claim.describe(),
                "once": _plain(spent(claim, 1)),
                "people": {digest: _plain(own) for digest, own in new.items()},
            }
            file.write(json.dumps(entry).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
            return standing

    def check(self, claim: Guarantee | None, people: Mapping[str, int], *, again: bool) -> None:
        """Raise UserError where `enter` would, before work that would be lost."""
        if not (self.folder / _ENTRIES).is_file():
            return
        own_folder(self.folder)
        with self._locked() as file:
            standing, _ = self._standing(file, claim, people)
        if standing.again and not again:
            raise UserError(_refusal(standing), "EPS-L013")

    def _standing(
        self, file: BinaryIO, claim: Guarantee | None, people: Mapping[str, int]
    ) -> tuple[Standing, dict[str, Sum]]:
        """Return the ledger with this release added, and what it spends of each person, by digest."""
        key = self._key()
        new = {hmac.digest(key, name.encode(), "sha256").hex(): spent(claim, count) for name, count in people.items()}
        totals = dict.fromkeys(new, Sum())
        there: set[str] = set()
        of_all = spent(claim, 1)
        for entry in self._entries(file):
            of_all += _sum(entry["once"])
            for digest in entry["people"].keys() & new.keys():
                totals[digest] += _sum(entry["people"][digest])
                there.add(digest)
        after = _largest(totals[digest] + own for digest, own in new.items())
        return Standing(_largest(totals.values()), after, len(there), of_all), new

    @contextmanager
    def _locked(self) -> Iterator[BinaryIO]:
        """Open the entries, at the end of the last whole one, for this process alone."""
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(self.folder / _ENTRIES, flags, 0o600), "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # released when the file is closed, or its process ends
            folder = os.open(self.folder, os.O_RDONLY)
            try:
                os.fsync(folder)  # so that a new file's name lasts, too
            finally:
                os.close(folder)
            yield file

    def _key(self) -> bytes:
        """Return the key of the digests, a new one for a new ledger."""
        path = self.folder / _KEY
        if path.is_file():
            return path.read_bytes()
        if (self.folder / _ENTRIES).stat().st_size:
            raise UserError(f"{path} is missing, without which {_ENTRIES} cannot be read; restore it", "EPS-L014")
        with whole(path, private=True) as file:
            file.write(secrets.token_bytes(32))
            file.flush()
            os.fsync(file.fileno())
        return path.read_bytes()

    def _entries(self, file: BinaryIO) -> Iterator[dict[str, Any]]:
        """Yield the entries, and leave the file at the end of the last one; a line without an end is dropped."""
        end = 0
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                break
            try:
                yield json.loads(line)
            except ValueError:
                raise UserError(
                    f"{self.folder / _ENTRIES}: line {number} is damaged; restore the file, or keep a new ledger in "
                    "another folder and add these sums yourself",
                    "EPS-L015",
                ) from None
            end += len(line)
        file.seek(end)
        file.truncate()


def _plain(amount: Sum) -> list[float] | str:
    return _UNBOUNDED if amount.unbounded else [amount.epsilon, amount.delta]


def _sum(plain: list[float] | str) -> Sum:
    return Sum(unbounded=1) if isinstance(plain, str) else Sum(plain[0], plain[1])


def _largest(sums: Any) -> Sum:
    """Return the largest sum, first by unbounded releases, then by epsilon, then by delta."""
    largest: Sum = max(sums, key=lambda each: (each.unbounded, each.epsilon, each.delta), default=Sum())
    return largest


def _refusal(standing: Standing) -> str:
    return (
        f"{standing.again:,} of these people are in an earlier release of the ledger. With this one the largest sum of "
        f"a person goes from {standing.before.describe()} to {standing.after.describe()}, and what the earlier "
        "statement promised no longer holds; release again with --again, or leave these people out"
    )
