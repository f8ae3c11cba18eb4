"""An audit of a whole training by a black-box adversary, who sees only losses of a head trained with canaries.

A canary's score is minus the loss of the trained head at its label. If each canary has two versions, the score is the
loss at the second label minus the loss at the first. The accountant's schedule counts the included canaries among the
texts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from epsilometer.accounting.schedule import Schedule
from epsilometer.core.errors import UserError
from epsilometer.core.randomness import Noise
from epsilometer.studies.training.runs.canaries import coins, random_labels, wrong_labels
from epsilometer.studies.training.runs.gradient_canaries import Run
from epsilometer.studies.training.runs.heads import Head
from epsilometer.studies.training.runs.private import Settings, train

if TYPE_CHECKING:
    from tokenizers import Tokenizer

TOKENS = 24  # maximum number of tokens of a canary of random tokens


@dataclass(frozen=True)
class States:
    """States [n, width] of texts and their labels [n]. others: [n], the labels of the canaries' other version."""

    states: NDArray[np.float32]
    labels: NDArray[np.int64]
    others: NDArray[np.int64]

    def rows(self, numbers: NDArray[np.int64]) -> States:
        """Return the texts with these row numbers."""
        return States(self.states[numbers], self.labels[numbers], self.others[numbers])


def mislabelled(texts: States, classes: int, count: int, generator: np.random.Generator) -> tuple[States, States]:
    """Return `count` random texts with wrong labels as canaries, and the other texts.

    Raises UserError if there are fewer texts than canaries.
    """
    if count > len(texts.labels):
        raise UserError(
            f"{count} canaries exceed the {len(texts.labels)} training texts to mislabel; plant fewer canaries",
            "EPS-T022",
        )
    rows = generator.choice(len(texts.labels), count, replace=False)
    rest = np.setdiff1d(np.arange(len(texts.labels)), rows)
    wrong = wrong_labels(texts.labels[rows], classes, generator)
    return States(texts.states[rows], wrong.first, wrong.second), texts.rows(rest)


def randomly_labelled(states: NDArray[np.float32], classes: int, generator: np.random.Generator) -> States:
    """Return canaries with these states and random labels."""
    labels = random_labels(len(states), classes, generator)
    return States(states, labels.first, labels.second)


def random_token_texts(tokenizer: Tokenizer, length: int, count: int, generator: np.random.Generator) -> list[str]:
    """Return `count` texts of random tokens, without special tokens.

    Each text has TOKENS tokens, or fewer if `length` leaves no room for the special tokens around it.
    """
    special = {token for token, added in tokenizer.get_added_tokens_decoder().items() if added.special}
    usable = np.setdiff1d(np.arange(tokenizer.get_vocab_size()), sorted(special))
    fitting = max(1, min(TOKENS, length - tokenizer.num_special_tokens_to_add(is_pair=False)))
    rows = generator.choice(usable, (count, fitting))
    return [" ".join(tokenizer.decode([int(token)]).strip() for token in row).strip() or "a" for row in rows]


def planted(
    head: Head, canaries: States, others: States, *, settings_for: Callable[[int], Settings], replaced: bool
) -> tuple[Run, Schedule]:
    """Train a copy of a head on the other texts and the canaries that fair coins choose.

    settings_for: returns the training's settings for a number of texts; replaced: whether canaries have two versions.
    Returns the coins and scores, and the schedule of the training.
    """
    settings = settings_for(len(others.labels) + len(canaries.labels))
    chosen = coins(len(canaries.labels), Noise.named(1, settings.seed or 0, "canaries", "coins").generator(0))
    if replaced:
        there, labels = np.ones(len(chosen), bool), np.where(chosen, canaries.labels, canaries.others)
    else:
        there, labels = chosen, canaries.labels
        settings = settings_for(len(others.labels) + int(chosen.sum()))
    states = np.concatenate([others.states, canaries.states[there]])
    trained = train(head, states, np.concatenate([others.labels, labels[there]]), settings)
    score = -trained.head.losses(canaries.states, canaries.labels)
    if replaced:
        score = score + trained.head.losses(canaries.states, canaries.others)
    return Run(chosen, {"loss": score}), settings.schedule
