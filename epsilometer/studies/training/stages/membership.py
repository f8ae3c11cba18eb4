"""Stage membership@name: the results of membership attacks on every model of a cell.

Each attack runs on all models at once, so that it can share work between models.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epsilometer.core import tables
from epsilometer.core.randomness import Noise
from epsilometer.runtime.progress import track
from epsilometer.runtime.resuming import Parts, parts
from epsilometer.studies.training import tables as of_study
from epsilometer.studies.training.members import MembershipGame, attacks, check_references, game
from epsilometer.studies.training.membership import Decides, Evidence, MembershipAttack
from epsilometer.studies.training.params import TrainingParams
from epsilometer.studies.training.params import read as read_params
from epsilometer.studies.training.results.membership import MembershipJudging, Target, area_rows, curve_rows, rate_rows
from epsilometer.studies.training.results.membership import rows as loss_rows


def main(name: str) -> None:
    """Write <name>.parquet, <name>.rates.parquet, <name>.roc.parquet and <name>.areas.parquet to data/membership."""
    params = read_params()
    entry = params.membership[name]
    built = attacks(entry, f"membership.{name}")
    check_references(params.references[entry.references], built, f"membership.{name}")
    played = game(params, name)
    scores, thresholds = {}, {}
    with parts() as begun:
        for number, (attack, built_attack) in enumerate(track(built.items(), len(built), name)):
            stream = params.audit.seed, params.audit.round, "membership", name, attack
            evidence = replace(played.evidence, noise=Noise.named(len(played.evidence.asked), *stream))
            scores[attack] = _scores(built_attack, evidence, begun, str(number))
            if isinstance(built_attack, Decides):
                thresholds[attack] = built_attack.thresholds(evidence)
        _write(params, name, _targets(params, name, played, scores, thresholds=thresholds))


def _scores(attack: MembershipAttack, evidence: Evidence, begun: Parts, number: str) -> NDArray[np.float64]:
    """Return the attack's scores. Scores that an interrupted run finished are in `begun`, under the key `number`."""
    if number not in begun:
        with begun.part(number) as folder:
            tables.write_array(attack.score(evidence), folder / "scores.npy")
    scores: NDArray[np.float64] = np.load(begun.folder / number / "scores.npy", allow_pickle=False)
    return scores


def _targets(
    params: TrainingParams,
    name: str,
    played: MembershipGame,
    scores: dict[str, NDArray[np.float64]],
    *,
    thresholds: dict[str, NDArray[np.float64]],
) -> list[Target]:
    """Return the models under attack, each with scores and thresholds by attack."""
    cell, questioned = params.membership[name].training, played.evidence.asked
    guessed = played.evidence.targets[:, questioned].argmax(axis=-1)
    targets = []
    for number, (level, seed) in enumerate(played.models):
        overfit = params.private_training[cell].overfit
        targets.append(
            Target(
                of={"training": cell, "level": level, "seed": seed, "overfit": overfit},
                inside=played.inside,
                right=guessed[number] == played.evidence.labels[questioned],
                scores={attack: values[number] for attack, values in scores.items()},
                thresholds={attack: float(values[number]) for attack, values in thresholds.items()},
                delta=1 / played.training,
            )
        )
    return targets


def _write(params: TrainingParams, name: str, targets: list[Target]) -> None:
    entry = params.membership[name]
    noise = Noise.named(1, params.audit.seed, params.audit.round, "membership", "halves")
    judging = MembershipJudging(params.audit.alpha, entry.fprs, noise)
    of = params.references[entry.references]
    compared = {"references": of.count, "references_level": of.level}
    measured = [row | compared for target in targets for row in loss_rows(target, judging)]
    at_rates = [row for target in targets for row in rate_rows(target, judging)]
    curves = [row for target in targets for row in curve_rows(target)]
    areas = area_rows(targets, params.private_training[entry.training].from_least_noise)
    for lines, schema, what in (
        (measured, of_study.MEMBERSHIP, None),
        (at_rates, of_study.MEMBERSHIP_RATES, "rates"),
        (curves, of_study.MEMBERSHIP_CURVES, "roc"),
        (areas, of_study.MEMBERSHIP_AREAS, "areas"),
    ):
        tables.write(pl.DataFrame(lines, schema=dict(schema)), of_study.membership_path(name, what), schema)
