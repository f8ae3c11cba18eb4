"""Stage references@name: reference models for membership attacks, trained like a cell's models but on other texts.

The stage writes only the models' answers on the examples, not the models. Their training sets follow from the settings.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from epsilometer.core import tables
from epsilometer.runtime.resuming import parts
from epsilometer.runtime.scaling import run
from epsilometer.studies.training.members import (
    ANSWERS,
    attacks,
    check_models,
    first_heads,
    game_texts,
    reference_settings,
    split,
)
from epsilometer.studies.training.params import read as read_params
from epsilometer.studies.training.runs.shadows import answers, train_together
from epsilometer.studies.training.tables import references_path

BLOCK = 8  # models trained at once; another number would change the last bits of sums


def main(name: str) -> None:
    """Write data/references/<name>/answers.npy: log probabilities [models, examples, classes]."""
    params = read_params()
    entry = params.references[name]
    split(params, name, game_texts(params, entry.training))  # raises before any work
    for place, compared in params.membership.items():  # the attacks that will use these references
        if compared.references == name:
            check_models(compared, attacks(compared, f"membership.{place}"), f"membership.{place}")
    blocks = {
        str(block[0]): block for block in np.array_split(np.arange(entry.count), range(BLOCK, entry.count, BLOCK))
    }
    with parts() as begun:
        missing = {first: block for first, block in blocks.items() if first not in begun}
        trained = run(partial(_training, name), list(missing.values()), params.runtime.engine, name)
        for first, said in zip(missing, trained, strict=True):
            with begun.part(first) as folder:
                tables.write_array(said, folder / ANSWERS)
        answered = [np.load(begun.folder / first / ANSWERS, allow_pickle=False) for first in blocks]
        tables.write_array(np.concatenate(answered), references_path(name) / ANSWERS)


def _training(name: str) -> Callable[[NDArray[np.int64]], NDArray[np.float64]]:
    """Return a function that trains references, given by their numbers, and returns their answers on the examples."""
    params = read_params()
    texts = game_texts(params, params.references[name].training)
    cut = split(params, name, texts)

    def trained(block: NDArray[np.int64]) -> NDArray[np.float64]:
        settings = [reference_settings(params, name, int(number), texts.training) for number in block]
        first = first_heads(params, name, block)
        heads = train_together(first, texts.states, texts.labels, cut.chosen[block], settings=settings)
        return answers(heads, texts.states[cut.examples])

    return trained
