"""What attacks that compare with other models need of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.errors import UserError
from epsilometer.core.membership import Evidence

Answers = tuple[NDArray[np.float64], NDArray[np.bool_]]


def references(evidence: Evidence, attack: str) -> Answers:
    """The references' log-probabilities [m, n, k], and which of them trained on what [m, n].

    Raises UserError where there are none.
    """
    if evidence.references is None or evidence.members is None:
        raise UserError(f"{attack} compares with other models, and there are none; name `references` for it")
    return evidence.references, evidence.members


def check_outside(members: NDArray[np.bool_], least: int, attack: str) -> None:
    """Raises UserError where an example [m, n] has fewer than `least` references that did not train on it."""
    fewest = int((~members).sum(axis=0).min())
    if fewest < least:
        raise UserError(
            f"{attack} needs {least} references that were not trained on an example, and some example has {fewest}; "
            "train more references (count)"
        )
