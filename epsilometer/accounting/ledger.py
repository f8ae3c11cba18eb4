"""A ledger of the privacy budget that releases have spent for each person, since a person's epsilons add up.

The ledger is a file of JSON lines in a folder of the curator, with a key in the same folder. An entry records a
release: its claim and, for each person, the budget that it spends. A keyed digest of a person's id stands for the
person. A claim per user counts once for a person. A claim per document counts t times for a person with t texts. A
person's sum is the epsilon and delta for replacing that person. A replacement is a removal and an addition, so a claim
for adding or removing a person counts twice. By group privacy, a claim that counts t times spends
(t epsilon, t e^((t - 1) epsilon) delta) (Vadhan 2017, lemma 2.2). Epsilons add, and deltas add (basic composition,
Dwork et al. 2006).

Some claims give no epsilon for a person, and the ledger records them as unbounded: claims per word, claims for texts of
one length, claims that grow with a distance, claims in zCDP, Renyi or GDP, and missing claims.

An entry is written and synced under a lock before anything is published. A process that is killed before the entry is
written has published nothing. A process that is killed between entry and publication leaves an entry for a release that
nobody saw, which errs on the safe side. A half-written entry of a killed process is dropped when the next entry is
written. The ledger is bookkeeping, not a proof: copies of the folder, other ids for the same people, and deletion evade
it.
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
_TIMES = {Neighbours.ANY: 1, Neighbours.REPLACED: 1, Neighbours.ADDED_OR_REMOVED: 2}  # changes per replaced person


@dataclass(frozen=True)
class Sum:
    """The budget that several releases spend. unbounded: the number of releases whose claims bound no epsilon."""

    epsilon: float = 0.0
    delta: float = 0.0
    unbounded: int = 0

    def __add__(self, other: Sum) -> Sum:
        return Sum(self.epsilon + other.epsilon, self.delta + other.delta, self.unbounded + other.unbounded)

    def describe(self) -> str:
        """Return the sum in a few words."""
        delta = f" and delta {self.delta:g}" if self.delta else ""
        more = f", and {self.unbounded} release{'s' * (self.unbounded > 1)} without a bound" if self.unbounded else ""
        return f"epsilon {self.epsilon:g}{delta}{more}"


def spent(claim: Guarantee | None, times: int) -> Sum:
    """Return the budget that a release with this claim spends for a person with `times` texts."""
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

    before, after: the largest sum of any person of this release, without this release and with it. again: the number of
    people in this release who are also in an earlier release. of_all: the sum for a person with one text in every
    release of the ledger. `of_all` does not reveal who is in a release. It bounds the sum of every person with at most
    one text in each release.
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
        """Record a release with this number of texts for each person, and return the ledger after the entry.

        Raises UserError, and records nothing, if one of these people has an entry and `again` is not set.
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
        """Raise the error that `enter` would raise, before the work of a release is done."""
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
        """Return the ledger after this release, and the budget that the release spends for each person, by digest."""
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
        """Open the file of entries for this process alone."""
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(self.folder / _ENTRIES, flags, 0o600), "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # released when the file is closed, or its process ends
            folder = os.open(self.folder, os.O_RDONLY)
            try:
                os.fsync(folder)  # so that a new file's name is on disk too
            finally:
                os.close(folder)
            yield file

    def _key(self) -> bytes:
        """Return the key of the digests. A new ledger gets a new key."""
        path = self.folder / _KEY
        if path.is_file():
            return path.read_bytes()
        if (self.folder / _ENTRIES).stat().st_size:
            raise UserError(
                f"{path} is missing, and {_ENTRIES} cannot be read without this key; restore the key file", "EPS-L014"
            )
        with whole(path, private=True) as file:
            file.write(secrets.token_bytes(32))
            file.flush()
            os.fsync(file.fileno())
        return path.read_bytes()

    def _entries(self, file: BinaryIO) -> Iterator[dict[str, Any]]:
        """Yield the entries, and leave the file at their end. A last line without a newline is removed."""
        end = 0
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                break
            try:
                yield json.loads(line)
            except ValueError:
                raise UserError(
                    f"{self.folder / _ENTRIES}: line {number} is damaged; restore the file, or start a new ledger "
                    "in another folder, which does not count what was spent so far",
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
    """Return the largest sum, compared by unbounded releases, then by epsilon, then by delta."""
    largest: Sum = max(sums, key=lambda each: (each.unbounded, each.epsilon, each.delta), default=Sum())
    return largest


def _refusal(standing: Standing) -> str:
    return (
        f"{standing.again:,} people of this release are in an earlier release of the ledger. The largest budget spent "
        f"for one person would rise from {standing.before.describe()} to {standing.after.describe()}, so the statement "
        "of the earlier release would no longer hold; allow this with --again, or leave these people out"
    )
