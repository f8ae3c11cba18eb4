"""Selection of the texts of a corpus that count: at most c texts of each person, by a keyed hash.

The selection among a person's texts depends only on these texts and on a fresh random key. It does not depend on the
order of rows or on other people. So two corpora that differ in one person's texts differ in at most c votes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.corpus_mechanism import PrivateCorpus
from epsilometer.core.errors import UserError


def counted(corpus: PrivateCorpus, most: int | None, key: bytes) -> NDArray[np.int64]:
    """Return the rows that count, ascending. most: most texts per person; None: no limit. key: 16 to 64 bytes."""
    if corpus.people is None or most is None:
        return np.arange(len(corpus))
    rows: dict[str, list[tuple[bytes, int]]] = {}
    for row, (person, text) in enumerate(zip(corpus.people, corpus.texts, strict=True)):
        label = "" if corpus.labels is None else corpus.labels[row] or ""
        digest = hashlib.blake2b(f"{len(label)}:{label}{text}".encode(), key=key, digest_size=16).digest()
        rows.setdefault(person, []).append((digest, row))
    return np.array(sorted(row for of_person in rows.values() for _, row in sorted(of_person)[:most]), np.int64)


def label_numbers(corpus: PrivateCorpus, labels: Mapping[str, int]) -> NDArray[np.int64]:
    """Return the index [n] of each text's label in the public list, -1 for other labels.

    Raises UserError for a corpus without labels.
    """
    if corpus.labels is None:
        raise UserError(
            "the mechanism has a list of labels, but the corpus has no labels; add them, or omit the list", "EPS-M100"
        )
    return np.fromiter((labels.get(label or "", -1) for label in corpus.labels), np.int64, len(corpus))


def labelled_only(corpus: PrivateCorpus, labels: Mapping[str, int]) -> PrivateCorpus:
    """Return the corpus of the texts whose label is in the public list, since other texts cast no vote."""
    if not labels:
        return PrivateCorpus(corpus.texts, corpus.people)
    rows = np.flatnonzero(label_numbers(corpus, labels) >= 0).tolist()
    assert corpus.labels is not None
    people = None if corpus.people is None else [corpus.people[row] for row in rows]
    return PrivateCorpus([corpus.texts[row] for row in rows], people, [corpus.labels[row] for row in rows])


def check_labels(labels: tuple[str, ...]) -> dict[str, int]:
    """Return the index of each label in a public list. Raises ValueError for an empty or duplicate label."""
    if len(set(labels)) < len(labels) or not all(label.strip() for label in labels):
        raise ValueError("labels must be distinct and not blank")
    return {label: number for number, label in enumerate(labels)}
