"""An audit of a training by canaries, compared with its accountants: the bracket, Renyi and the published epsilon.

All epsilons in a row have one delta and one kind of neighbours (for directional noise, `published` has delta 0).
`p_value` and `verdict` are about the claimed curve (`training_claims.profile`), which consists of proved upper bounds.
So if a claim is refuted, the training is not what the accountant assumes. A lower bound above the bracket shows this,
too, at the bound's confidence. All tests of claims share alpha.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epsilometer.accounting.releases import Release
from epsilometer.accounting.schedule import Schedule
from epsilometer.accounting.statement import LOSS_DISTRIBUTION, PUBLISHED, RENYI, account
from epsilometer.core.guarantees import Neighbours
from epsilometer.studies.training.one_run.scores import BOUNDS, Judging, judged, ordered
from epsilometer.studies.training.one_run.training_claims import family, profile

AUDITED = {
    "cell": pl.String,
    "noise": pl.String,
    "level": pl.Float64,  # null without noise
    "kind": pl.String,  # the kind of canaries
    "score": pl.String,  # the score by which the adversary guesses
    "neighbours": pl.String,
    "sampling": pl.String,
    **BOUNDS,
    "bracket_lower": pl.Float64,  # lower bound on epsilon by the loss distribution; null if there is none
    "bracket_upper": pl.Float64,  # upper bound on epsilon by the loss distribution
    "renyi": pl.Float64,  # epsilon by Renyi orders
    "published": pl.Float64,  # the paper's epsilon, at delta 0 for directional noise
}
ACCOUNTANTS = {LOSS_DISTRIBUTION: "bracket_upper", RENYI: "renyi", PUBLISHED: "published"}


@dataclass(frozen=True)
class ClaimedTraining:
    """The training that an accountant assumes. release: None without noise, and so without a claim."""

    release: Release | None
    schedule: Schedule
    neighbours: Neighbours


def audited(
    coins: NDArray[np.bool_], scores: Mapping[str, NDArray[np.floating]], claimed: ClaimedTraining, judging: Judging
) -> list[dict[str, Any]]:
    """Return a row for every score and method, with the columns of `AUDITED` from `score` on.

    coins: [canaries], whether each was included; scores: [canaries] by the score's name.
    """
    columns: dict[str, float | None] = dict.fromkeys(("bracket_lower", *ACCOUNTANTS.values()))
    own = curve = None
    if claimed.release is not None:
        own = family(claimed.release, claimed.schedule, claimed.neighbours)
        curve = profile(claimed.release, claimed.schedule, claimed.neighbours)
        for statement in account(claimed.release, claimed.schedule, judging.delta, claimed.neighbours):
            if statement.accountant in ACCOUNTANTS:
                columns[ACCOUNTANTS[statement.accountant]] = statement.upper
            if statement.accountant == LOSS_DISTRIBUTION:
                columns["bracket_lower"] = statement.lower
    about = {"neighbours": claimed.neighbours.value, "sampling": claimed.schedule.sampling}
    return [
        {"score": name, **about, **row, **columns}
        for name, values in scores.items()
        for row in judged(ordered(values[coins], values[~coins]), judging, own, curve)
    ]


def guessing(judging: Judging, canaries: int, share: float | None) -> Judging:
    """Return the settings with a number of guesses: this share of the canaries. None leaves them unchanged."""
    return judging if share is None else replace(judging, guesses=max(1, round(share * canaries)))
