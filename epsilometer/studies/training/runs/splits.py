"""The texts of a membership game: the asked texts, whose membership is in question, and the references' training texts.

A target was trained on N texts; there are H other texts. In each class, half of the asked texts are training texts and
half are other texts. Otherwise an attack could exploit different class shares, for example if only the training texts
were balanced. Other differences between a data set's splits remain; random splits (`resplit`) have none.

- `overlapping` (Carlini et al. 2022): each reference trains on half of the asked texts and on all training texts that
  are not asked about: N texts, like the target. References come in pairs with complementary halves. So of an even
  number of references, exactly half are trained on each asked text. The adversary thus knows every training text except
  the asked texts, as differential privacy assumes.
- `disjoint` (IEEE Access 13, 2025, table 6: 11 models on parts of 259 texts): each reference trains on N texts that are
  not asked about and that no other model trains on. So the target's training texts must be a small part of the data.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.errors import UserError

LEAST = 4  # minimum number of asked members: two for setting thresholds, two for measuring rates


@dataclass(frozen=True)
class Split:
    """The roles of texts in a membership game. Texts are numbered: the N training texts first, then the H others.

    examples:   int [n], the texts on which models are evaluated, ascending.
    questioned: int [q], the asked texts as indices in `examples`, in random order.
    inside:     bool [q], whether the target was trained on each asked text.
    chosen:     int [m, N], the training texts of each reference, ascending.
    """

    examples: NDArray[np.int64]
    questioned: NDArray[np.int64]
    inside: NDArray[np.bool_]
    chosen: NDArray[np.int64]

    @property
    def members(self) -> NDArray[np.bool_]:
        """Bool [m, n]: whether each reference was trained on each example."""
        return np.stack([np.isin(self.examples, rows) for rows in self.chosen])


def overlapping(
    labels: NDArray[np.integer], training: int, count: int, rng: np.random.Generator, place: str = "references"
) -> Split:
    """Return a split in which each reference is trained on a random half of the asked texts.

    labels: [N + H], indices of classes; training: N; count: the number of references; place: for the error message.
    Raises UserError if too few other texts have the labels of the training texts.
    """
    members, others = _alike(labels, training, rng, place)
    questioned = rng.permutation(np.concatenate([members, others]))
    rest = np.setdiff1d(np.arange(training), members)
    chosen = []
    for _ in range((count + 1) // 2):
        order = rng.permutation(questioned)
        chosen += [np.sort(np.concatenate([rest, half])) for half in np.split(order, 2)]
    return _split(np.sort(questioned), questioned, training, np.stack(chosen[:count]))


def disjoint(
    labels: NDArray[np.integer], training: int, count: int, rng: np.random.Generator, place: str = "references"
) -> Split:
    """Return a split in which no two models share a training text, and all have equal class counts.

    All training texts and as many others are asked about. Arguments are as in `overlapping`. Raises UserError if there
    are too few other texts.
    """
    classes, sizes = np.unique(labels[:training], return_counts=True)
    parts: list[list[NDArray[np.int64]]] = [[] for _ in range(count + 1)]
    for c, size in zip(classes, sizes.tolist(), strict=True):
        rows = rng.permutation(training + np.flatnonzero(labels[training:] == c))
        if len(rows) < (count + 1) * size:
            raise UserError(
                f"{place}: {count} disjoint references of {training} texts, and as many texts to test, need "
                f"{(count + 1) * size} texts of class {c} outside the training set, got {len(rows)}; train on fewer "
                "texts, set fewer references (count), or set split: overlapping",
                "EPS-T042",
            )
        for number, part in enumerate(parts):
            part.append(rows[number * size : (number + 1) * size])
    others, *chosen = [np.sort(np.concatenate(part)) for part in parts]
    questioned = rng.permutation(np.concatenate([np.arange(training), others]))
    return _split(np.sort(np.concatenate([questioned, *chosen])), questioned, training, np.stack(chosen))


def _alike(
    labels: NDArray[np.integer], training: int, rng: np.random.Generator, place: str
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return equally many training texts and other texts, with the same share of each class, as many as possible."""
    classes, sizes = np.unique(labels[:training], return_counts=True)
    there = np.array([(labels[training:] == c).sum() for c in classes])
    share = min(1.0, float((there / sizes).min()))
    taken = np.floor(share * sizes + 1e-9).astype(int)
    if taken.sum() < LEAST:
        raise UserError(
            f"{place}: membership attacks need at least {LEAST} training texts and as many others of the same classes, "
            f"got {training} and {len(labels) - training}, with {taken.sum()} matching; hold out more texts (resplit)",
            "EPS-T043",
        )
    members, others = [], []
    for c, many in zip(classes, taken.tolist(), strict=True):
        members.append(rng.permutation(np.flatnonzero(labels[:training] == c))[:many])
        others.append(training + rng.permutation(np.flatnonzero(labels[training:] == c))[:many])
    return np.concatenate(members), np.concatenate(others)


def _split(
    examples: NDArray[np.int64], questioned: NDArray[np.int64], training: int, chosen: NDArray[np.int64]
) -> Split:
    """Return the split. questioned: the asked texts, as numbers of texts."""
    return Split(examples, np.searchsorted(examples, questioned), questioned < training, chosen)
