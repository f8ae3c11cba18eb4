"""Base class of mechanisms on corpora in which a limited number of texts of each protected unit count."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import PositiveInt, model_validator

from epsilometer.core.component import component
from epsilometer.core.corpus_mechanism import PrivateCorpus
from epsilometer.mechanisms.corpora.shared.counted import check_labels, counted, label_numbers, labelled_only


@component
class Counting:
    """A mechanism in which texts with a listed label count.

    labels:     the public list of labels; texts with other labels do not count.
    unit:       protected unit: user (all texts of a person) or document.
    most:       c, most texts of a person that count; 1 for unit: document.
    neighbours: replaced, or "added or removed".
    """

    labels: tuple[str, ...] = ()
    unit: Literal["user", "document"] = "user"
    most: PositiveInt = 1
    neighbours: Literal["replaced", "added or removed"] = "replaced"

    @model_validator(mode="after")
    def _consistent(self) -> Counting:
        check_labels(self.labels)
        if self.unit == "document" and self.most != 1:
            raise ValueError(f"most must be 1 for unit: document, which protects one text, got {self.most}")
        return self

    @property
    def public_sources(self) -> Sequence[str]:
        """Descriptions of the public data that a release uses."""
        return ["the list of labels"] if self.labels else []

    @property
    def assumed(self) -> str | None:
        """All that the claim takes to be public, in a few words."""
        sizes = {"user": "the number of people", "document": "the number of texts"}
        return ", ".join([*self.public_sources, *([sizes[self.unit]] if self.neighbours == "replaced" else [])]) or None

    def units(self, corpus: PrivateCorpus) -> int:
        """Return the number of people, or of texts for unit: document."""
        return corpus.count_people if self.unit == "user" else len(corpus)

    def eligible(self, corpus: PrivateCorpus, key: bytes) -> tuple[PrivateCorpus, NDArray[np.int64]]:
        """Return the texts that count, and the indices [n] of their labels, 0 without labels.

        key: key of the hash that selects a person's texts.
        """
        numbers = check_labels(self.labels)
        listed = labelled_only(corpus, numbers)
        rows = counted(listed, self.most if self.unit == "user" else None, key)
        labels = label_numbers(listed, numbers)[rows] if numbers else np.zeros_like(rows)
        people = None if listed.people is None else [listed.people[row] for row in rows.tolist()]
        return PrivateCorpus([listed.texts[row] for row in rows.tolist()], people), labels
