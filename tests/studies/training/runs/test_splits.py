"""Who is asked about, and who trains on what."""

from __future__ import annotations

from collections import Counter

import numpy as np

from epsilometer.studies.training.runs.splits import Split, disjoint, overlapping
from tests.support.refusals import refused

TRAINING = 60


def texts(of_class: dict[int, tuple[int, int]]) -> np.ndarray:
    """Labels of so many training texts and others of each class, shuffled within each."""
    rng = np.random.default_rng(0)
    sides = [np.concatenate([np.full(pair[side], c) for c, pair in of_class.items()]) for side in (0, 1)]
    return np.concatenate([rng.permutation(side) for side in sides])


def asked_texts(split: Split) -> np.ndarray:
    return split.examples[split.questioned]


def test_overlapping_references_are_like_the_target() -> None:
    """Each has the rest of the target's texts and half of those asked about; each of these is in half of them."""
    labels = texts({0: (40, 10), 1: (20, 30)})
    split = overlapping(labels, TRAINING, 6, np.random.default_rng(1))
    questioned = asked_texts(split)
    assert (split.inside == (questioned < TRAINING)).all()
    assert Counter(labels[questioned[split.inside]]) == Counter(labels[questioned[~split.inside]]) == {0: 10, 1: 5}
    rest = {*range(TRAINING)} - {*questioned.tolist()}
    for rows in split.chosen.tolist():
        assert len({*rows}) == TRAINING
        assert rest < {*rows}
    assert (split.members.sum(axis=0) == 3).all()
    assert split.members.shape == (6, 30)
    assert len({tuple(row) for row in split.members}) == 6
    assert not (np.diff(questioned) > 0).all()  # in random order, so that any part of them is a sample
    odd = overlapping(labels, TRAINING, 5, np.random.default_rng(1))
    assert (odd.chosen == split.chosen[:5]).all()


def test_disjoint_references_share_no_text() -> None:
    labels = texts({0: (40, 205), 1: (20, 110)})
    split = disjoint(labels, TRAINING, 4, np.random.default_rng(2))
    questioned = asked_texts(split)
    assert {*questioned[split.inside].tolist()} == {*range(TRAINING)}
    every = np.concatenate([questioned, *split.chosen])
    assert len(np.unique(every)) == len(every) == 6 * TRAINING
    for rows in (*split.chosen, questioned[~split.inside]):
        assert Counter(labels[rows]) == {0: 40, 1: 20}
    assert not split.members[:, split.questioned].any()
    assert (split.members.sum(axis=1) == TRAINING).all()


def test_too_few_texts_are_refused_before_any_work() -> None:
    few = texts({0: (40, 1), 1: (20, 9)})
    with refused("EPS-T043", "4", "60", "10", "1"):
        overlapping(few, TRAINING, 6, np.random.default_rng(0), "references.r")
    labels = texts({0: (40, 205), 1: (20, 80)})
    with refused("EPS-T042", "100", "1", "80"):
        disjoint(labels, TRAINING, 4, np.random.default_rng(0), "references.r")


def test_other_classes_are_left_out() -> None:
    """A class that no training text has is asked about neither."""
    labels = texts({0: (40, 20), 1: (20, 20), 2: (0, 50)})
    questioned = asked_texts(overlapping(labels, TRAINING, 2, np.random.default_rng(0)))
    assert {*labels[questioned].tolist()} == {0, 1}
