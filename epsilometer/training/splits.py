"""The texts of a membership game: those whose membership is in question, and the training texts of each model.

A target was trained on N texts; H others have the same labels. Equally many of both are scored, also within each
class; otherwise an attack could exploit different class shares (if the training texts were balanced, say) instead of
what the model has learnt. Any other difference between the splits of a file still shows; splits that are drawn at
random (`resplit`) have none.

- `overlapping` (Carlini et al. 2022): each reference trains on half of the scored texts, and on all training texts that
  are not scored, N as the target does. References come in pairs that share a split in halves, so every scored
  text is in exactly half of the references. The adversary thus knows every training text but those in question, as
  differential privacy assumes.
- `disjoint` (paper, table 6: 11 models on parts of 259 texts): references train on texts that no other model sees, and
  that are not scored. It needs N texts for each of them, so the target's must be a small part of the data.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.errors import UserError

LEAST = 4  # fewest scored members: two to set thresholds on, two to measure them


@dataclass(frozen=True)
class Split:
    """The parts of texts; numbers are those of the N training texts first, and of the H others after them.

    examples: int [n], the texts that models score, ascending. questioned: int [q], in random order, those of
    them whose membership is in question; inside: bool [q], whether the target trained on them. chosen: int [m, N], the
    training texts of each reference, ascending.
    """

    examples: NDArray[np.int64]
    questioned: NDArray[np.int64]
    inside: NDArray[np.bool_]
    chosen: NDArray[np.int64]

    @property
    def members(self) -> NDArray[np.bool_]:
        """Bool [m, n]: which reference trained on which example."""
        return np.stack([np.isin(self.examples, rows) for rows in self.chosen])


def overlapping(
    labels: NDArray[np.integer], training: int, count: int, rng: np.random.Generator, place: str = "references"
) -> Split:
    """Return a split in which references share the scored texts among them.

    labels: [N + H] numbers of classes; training: N; count: of references, which are drawn in pairs, then truncated.
    Raises UserError where too few others have the labels of the training texts.
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
    """Return a split in which no two models train on one text, and each on as many of each class as the target.

    Arguments as in `overlapping`; all training texts are scored, and as many others.
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
    """Return equally many training texts and others: the same share of each class, as large as the others allow."""
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
    """Return the split. questioned: numbers of texts."""
    return Split(examples, np.searchsorted(examples, questioned), questioned < training, chosen)
