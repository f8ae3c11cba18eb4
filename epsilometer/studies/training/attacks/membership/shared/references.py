"""Access to the references that attacks compare a target with, and a check that they suffice."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.errors import UserError
from epsilometer.studies.training.membership import Evidence

Answers = tuple[NDArray[np.float64], NDArray[np.bool_]]


def references(evidence: Evidence, attack: str) -> Answers:
    """Return the references' log probabilities [m, n, k], and whether each was trained on each example [m, n].

    attack: the attack's name, for the error message. Raises UserError if there are no references.
    """
    if evidence.references is None or evidence.members is None:
        raise UserError(f"{attack} needs reference models, but has none; set `references` for it", "EPS-A017")
    return evidence.references, evidence.members


def check_outside(members: NDArray[np.bool_], least: int, attack: str) -> None:
    """Raise UserError if some example has fewer than `least` references that were not trained on it.

    members: [m, n], whether each reference was trained on each example.
    """
    fewest = int((~members).sum(axis=0).min())
    if fewest < least:
        raise UserError(
            f"{attack} needs {least} references not trained on an example, but an example has {fewest}; train more "
            "references (count)",
            "EPS-A018",
        )
