"""The rows of an audit: what each attack's guesses say of a mechanism's loss, beside its claim. Losses are in nats.

Used by the pipeline and by the one call alike (schema `tables.ESTIMATES`, less the data set's and mechanism's names).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsilometer.auditing.claims import (
    NO_CLAIM,
    describe,
    divisor,
    expected_successes,
    p_value,
    refutable,
    smallest_p_value,
    trials_needed,
    verdict,
)
from epsilometer.auditing.diagnostics import CHOSEN, STRONGEST, STRONGEST_INSIDE
from epsilometer.auditing.estimation import Estimate, estimate, strongest
from epsilometer.auditing.trials import Trials, matched
from epsilometer.core.attack import Attack, is_validated, sees
from epsilometer.core.guarantees import stored
from epsilometer.core.mechanism import Mechanism, is_control, releases


def rows(
    guesses: Mapping[str, NDArray[np.integer]],
    attacks: Mapping[str, Attack],
    drawn: Trials,
    words: NDArray[np.integer],
    mechanism: Mechanism | None,
    epsilon: float,
    claims: NDArray[np.float64] | None,
    alpha: float,
) -> list[dict[str, Any]]:
    """A row for each attack of a mechanism at one epsilon, and for the strongest of them; `judge` adds the verdicts.

    guesses: for each attack [trials] slots; attacks: these and perhaps others, by name; words: [texts], how many each
    audited text has; mechanism: None where it is unknown; claims: [trials], the loss claimed for each trial
    (`claims.trial_claims`), None without a claim.

    The row `strongest` is that of the attack with most successes among those that see nothing but what is released,
    at level alpha / m for m of them; it is left out where there is none. `strongest_inside` is the same over all
    attacks. `best_attack` names which one it is.
    """
    guarantee = None if mechanism is None else mechanism.guarantee(epsilon)
    delta = 0.0 if guarantee is None else guarantee.delta
    count, candidates = drawn.candidates.shape
    right = {name: guess == drawn.target for name, guess in guesses.items()}
    equal = matched(drawn.candidates, words)
    equals = int(equal.sum())
    seen = {name: sees(attacks[name], mechanism) for name in guesses}
    released = [name for name in guesses if seen[name] in releases(mechanism)]
    expected = None
    if guarantee is not None and claims is not None:
        expected = expected_successes(claims, candidates, delta)

    own = {name: estimate(int(hits.sum()), count, candidates, alpha, delta=delta) for name, hits in right.items()}

    def row(name: str, of: str, one: Estimate) -> dict[str, Any]:
        hits = int(right[of][equal].sum())
        return {
            "epsilon": stored(epsilon),
            "attack": name,
            "best_attack": of if name in CHOSEN else None,
            "control": is_control(mechanism),
            "sees": seen[of],
            "released": of in released,
            "validated": is_validated(attacks[of], candidates),
            "trials": count,
            "candidates": candidates,
            "successes": one.successes,
            "success_rate": one.success_rate,
            "delta": delta,
            "loss": one.loss,
            "loss_at_delta_0": estimate(one.successes, count, candidates, one.alpha).loss,
            "point": one.point,
            "upper": one.upper,
            "ceiling": one.ceiling,
            "equal_trials": equals,
            "equal_successes": hits,
            "equal_loss": estimate(hits, equals, candidates, one.alpha, delta=delta).loss if equals else None,
            "claim": describe(guarantee),
            "covered": 0 if expected is None or claims is None else int(np.isfinite(claims).sum()),
            "expected": expected,
            "p_value": None if expected is None else p_value(one.successes, count, expected),
        }

    found = [row(name, name, one) for name, one in own.items()]
    for name, among in ((STRONGEST, released), (STRONGEST_INSIDE, list(guesses))):
        if among:
            best = max(among, key=lambda attack: own[attack].successes)
            found.append(row(name, best, strongest([own[attack] for attack in among])))
    return found


def judge(found: Sequence[Mapping[str, Any]], alpha: float) -> list[dict[str, Any]]:
    """The rows of a whole audit with their verdicts, what could have been refuted, and from how many trials on.

    All rows with a claim share alpha (`claims.divisor`), those of the strongest apart: their verdicts repeat those of
    the attacks that they are, and are no further tests.
    """
    tests = [row for row in found if row["expected"] is not None and row["attack"] not in CHOSEN]
    shared = divisor([smallest_p_value(row["trials"], row["expected"]) for row in tests], alpha)
    return [{**row, **_judged(row, alpha / shared, alpha / max(1, len(tests)))} for row in found]


def _judged(row: Mapping[str, Any], level: float, least: float) -> dict[str, Any]:
    """What is added to a row; level: of a test; least: what that could become if every claim were testable."""
    trials, expected = row["trials"], row["expected"]
    if expected is None:
        return {"verdict": NO_CLAIM, "refutable": None, "trials_needed": None}
    return {
        "verdict": verdict(row["p_value"], level, smallest_p_value(trials, expected)),
        "refutable": refutable(trials, row["covered"], row["candidates"], row["delta"], level=level),
        "trials_needed": trials_needed(expected / trials, least),
    }
