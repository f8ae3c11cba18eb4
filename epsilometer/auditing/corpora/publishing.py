"""Publication of a corpus: noise from the operating system, the ledger, a statement, and the released texts.

The order is: check everything, draw the release, write and sync the ledger, write the statement, write the released
texts. The statement and the released texts are written atomically and readable only by their owner. Both depend only on
the release and on public data: two neighbouring corpora with equal noisy tables give equal files, byte by byte.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from epsilometer.accounting.ledger import Ledger, Standing, Sum, spent
from epsilometer.auditing.corpora.checks import check
from epsilometer.auditing.corpora.rounds_loss import RoundsLoss
from epsilometer.auditing.estimation.successes import success_bound
from epsilometer.core.atomic import write_text
from epsilometer.core.corpus_mechanism import CorpusMechanism, PrivateCorpus, Release
from epsilometer.core.guarantees import Granularity, Neighbours
from epsilometer.core.mechanism import HasPublicTexts
from epsilometer.core.randomness import Noise
from epsilometer.core.rounding import UP, rounded
from epsilometer.corpora import files
from epsilometer.mechanisms.corpora.shared.base import NoisyVotes
from epsilometer.mechanisms.corpora.shared.counting import Counting
from epsilometer.runtime.withholding import withheld

_COVERS = (
    "Completed runs that are published. A run may be refused (too few people, one person with too many texts, or "
    "private texts that are also public), and a missing release may reveal the refusal."
)
_NOT_CLAIMED = [
    "that the release is anonymous, or lawful to publish",
    "that people mentioned in texts of others are protected: the claim covers a text's author",
    "that the private texts are absent from the public texts and from the training data of the public encoder",
    "that no released sentence resembles a private one",
]


@dataclass(frozen=True)
class Publication:
    """A publication of a corpus by a mechanism at an epsilon.

    name: the mechanism's name. ledger: the path of the ledger. again: True if people may be in earlier releases.
    """

    name: str
    mechanism: CorpusMechanism
    epsilon: float
    ledger: Path
    again: bool = False

    def publish(self, corpus: PrivateCorpus, out: Path) -> tuple[Release, Standing]:
        """Write the released texts to `out` and the statement next to it; return the release and the ledger's standing.

        Raises UserError if the corpus is refused (`checks.check`), and for people of an earlier release.
        """
        check(self.mechanism, corpus, self.epsilon)
        claim, ledger = self.mechanism.guarantee(self.epsilon), Ledger(self.ledger)
        people = Counter(corpus.texts if corpus.people is None else corpus.people)
        ledger.check(claim, people, again=self.again)
        with withheld():
            release = self.mechanism.release(corpus, self.epsilon, Noise.operating_system(1))
        standing = ledger.enter(claim, people, again=self.again)
        self.write(release, standing.of_all, self._units(corpus), out)
        return release, standing

    @property
    def guesses(self) -> float | None:
        """The right guesses of 100, rounded up, of the best adversary who knows all other texts; None without a law."""
        return None if self._law is None else rounded(100 * success_bound(self._law.guess_loss(), 2), 1, UP)

    @property
    def _law(self) -> RoundsLoss | None:
        if isinstance(self.mechanism, NoisyVotes) and not self.mechanism.delta:
            return RoundsLoss.of(self.mechanism, self.epsilon)
        return None

    def _loss(self) -> dict[str, Any]:
        """Return the guess loss of one release, as data; it depends on the mechanism and epsilon alone."""
        if self._law is None:
            return {}
        said = {"right guesses of 100, at most": self.guesses, "nats": self._law.guess_loss()}
        return {"guess loss": {**said, "exact for votes in different cells": self._law.exact}}

    def _units(self, corpus: PrivateCorpus) -> int | None:
        """Return the number of people or texts if the claim treats this number as public, else None."""
        claim = self.mechanism.guarantee(self.epsilon)
        if claim.neighbours is not Neighbours.REPLACED:
            return None
        return corpus.count_people if claim.granularity is Granularity.USER else len(corpus)

    def write(self, release: Release, of_all: Sum, units: int | None, out: Path) -> None:
        """Write the statement, then the released texts. units: the public number of people or texts, if any."""
        statement = json.dumps(self.statement(release, of_all, units), indent=1, ensure_ascii=False) + "\n"
        write_text(statement, statement_of(out), private=True)
        columns: dict[str, Any] = {"text": release.texts, "label": release.labels, "weight": release.weights}
        table = pl.DataFrame({name: values for name, values in columns.items() if values is not None})
        files.write(table, out, files.suffix(out), private=True)

    def statement(self, release: Release, of_all: Sum, units: int | None) -> dict[str, Any]:
        """Return the statement that is published with the release; it does not depend on private texts."""
        claim, mechanism = self.mechanism.guarantee(self.epsilon), self.mechanism
        user = claim.granularity is Granularity.USER
        per_person = (mechanism.most if user else "all") if isinstance(mechanism, Counting) else "as the mechanism says"
        public: dict[str, Any] = {"assumed": claim.public}
        if isinstance(mechanism, HasPublicTexts):
            public["texts"] = len(mechanism.public_texts)
            public["sha256"] = hashlib.sha256("\n".join(mechanism.public_texts).encode()).hexdigest()
        if isinstance(mechanism, Counting):
            public["labels"] = list(mechanism.labels)
        if units is not None:
            public["people" if user else "private texts"] = units
        return {
            "schema": "epsilometer/release/1",
            "mechanism": self.name,
            "claim": {
                "epsilon": claim.epsilon,
                "delta": claim.delta,
                "unit": claim.granularity.value,
                "neighbours": claim.neighbours.value,
                "sentence": claim.describe(),
            },
            **self._loss(),
            "texts counted per person": per_person,
            "public": public,
            "rows": len(release.texts),
            "spent": {
                "this release": _spent(spent(claim, 1), user),
                "at most, with all releases of the ledger": _spent(of_all, user),
            },
            "covers": _COVERS,
            "not claimed": _NOT_CLAIMED,
        }


def _spent(amount: Sum, user: bool) -> dict[str, Any]:
    """Return a sum of spent budgets as data, for neighbours that differ by the replacement of one person."""
    times = {} if user else {"times": "the number of a person's texts"}
    return {"epsilon": amount.epsilon, "delta": amount.delta, "releases without a bound": amount.unbounded, **times}


def statement_of(out: Path) -> Path:
    """Return the path of the statement next to a release."""
    return out.with_name(f"{out.name}.statement.json")
