"""The interface of mechanisms that turn a curator's corpus into a release: public texts with weights and labels.

The curator sees all private texts, and adds noise to statistics of the whole corpus (central differential privacy). By
contrast, a `Mechanism` adds noise to every text. A user's own corpus mechanism is a Python file with a class that has
the methods `release(corpus, epsilon, noise)` and `guarantee(epsilon)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.errors import UserError
from epsilometer.core.guarantees import Guarantee
from epsilometer.core.randomness import Noise


@dataclass(frozen=True)
class PrivateCorpus:
    """n private texts.

    people: n identifiers of the texts' authors; None: every text has a different author.
    labels: n labels, with None for a text without a label; None in place of the list if no text has a label.
    """

    texts: Sequence[str]
    people: Sequence[str] | None = None
    labels: Sequence[str | None] | None = None

    def __post_init__(self) -> None:
        for name, values in (("people", self.people), ("labels", self.labels)):
            if values is not None and len(values) != len(self.texts):
                raise UserError(
                    f"{name} has {len(values)} entries for {len(self.texts)} texts; give one for each text", "EPS-C117"
                )

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def count_people(self) -> int:
        """The number of people."""
        return len(self) if self.people is None else len(set(self.people))


@dataclass(frozen=True)
class Release:
    """A corpus for publication.

    texts: n public texts. weights: float64 [n], the weights of the texts. labels: n labels, None without labels.
    """

    texts: Sequence[str]
    weights: NDArray[np.float64]
    labels: Sequence[str] | None


class CorpusMechanism(Protocol):
    """A mechanism on corpora. Models are loaded once, at first use."""

    def release(self, corpus: PrivateCorpus, epsilon: float, noise: Noise) -> Release:
        """Return one release of the corpus. All its noise comes from the first stream of `noise`."""
        ...

    def guarantee(self, epsilon: float) -> Guarantee:
        """Return the claim at this privacy budget (nats). The claim never depends on a private text.

        Its granularity is user or document. Its neighbours are corpora with one unit replaced, or added or removed.
        """
        ...
