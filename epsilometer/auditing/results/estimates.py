"""The rows of an audit: each attack's guesses, the loss that they prove, and the claim. Losses are in nats.

`loss` is the loss of guessing. Its delta is always 0, since a large claimed delta would lower the loss. The verdict on
a claim uses the claim's delta. `loss_at_delta` (TeDA eq. 11) uses it, too; compare that with the claim's epsilon.

The loss, the verdict and all comparisons are based on hits. If the mechanism's law is known, `posterior_loss` and the
next two columns give an interval that relies on this law and is narrower than that of the hits; these columns are null
if hits or outputs refute the law (`posteriors`). `estimates` makes the rows for `epsilometer.audit`, the stages and the
re-audit (schema `ESTIMATES`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsilometer.auditing.claims.stated import Stated
from epsilometer.auditing.claims.verdicts import (
    NO_CLAIM,
    divisor,
    expected_successes,
    p_value,
    refutable,
    smallest_p_value,
    trials_needed,
    verdict,
)
from epsilometer.auditing.curves import rates
from epsilometer.auditing.estimation.abstention import worst_output
from epsilometer.auditing.estimation.posteriors import averaged, departure
from epsilometer.auditing.estimation.roc import rate
from epsilometer.auditing.estimation.successes import Estimate, Prior, estimate, strongest
from epsilometer.auditing.estimation.tail import Scored, ends
from epsilometer.auditing.results.diagnostics import CHOSEN, STRONGEST, STRONGEST_INSIDE
from epsilometer.auditing.trials.design import STANDARD
from epsilometer.auditing.trials.sampling import Trials, matched
from epsilometer.core.attack import Guesses
from epsilometer.core.guarantees import stored

_CELL = ("dataset", "mechanism", "epsilon")  # rows with equal values in these columns share one test of outputs
_OF_ESTIMATE = ("successes", "success_rate", "loss", "point", "upper", "ceiling")
_POSTERIOR = ("posterior_loss", "posterior_point", "posterior_upper")


@dataclass(frozen=True)
class Attacked:
    """A mechanism's rewrites at one epsilon, attacked in n trials.

    of: names of the data set and the mechanism, which identify the rows together with epsilon.
    stated:    the mechanism's statements at this epsilon.
    words:     [texts], the number of words of each audited text.
    claims:    [n], the loss claimed for each trial in nats (`verdicts.trial_claims`); None if the mechanism is unknown.
    guesses:   by attack, its guesses in the n trials.
    sees:      by attack, the view that it reads.
    validated: by attack, True if the attack was validated for this number of candidates.
    fpr:       as in `Design`.
    """

    of: Mapping[str, str]
    epsilon: float
    stated: Stated
    trials: Trials
    words: NDArray[np.integer]
    claims: NDArray[np.float64] | None
    guesses: Mapping[str, Guesses]
    sees: Mapping[str, str]
    validated: Mapping[str, bool]
    fpr: float = STANDARD.fpr


def estimates(audit: Iterable[Attacked], alpha: float, prior: Prior | None = None) -> list[dict[str, Any]]:
    """Return the rows of a whole audit, with verdicts. alpha: the error of each interval, and of all verdicts at once.

    For each mechanism and epsilon there is a row for each attack, and up to two rows for the strongest attack. The row
    `strongest` is about the attack with most successes among the m attacks that see only the released view, at level
    alpha / m. If no attack sees only that view, this row is missing. The row `strongest_inside` is chosen in the same
    way among all attacks. In both rows, `best_attack` names the chosen attack, and `worst_output` is the largest of the
    m attacks' values, at the same level. `delta_at_4_low` is about the attack that proved most in the first half of the
    trials, and `delta_at_4_high` covers all m attacks. prior: the probabilities of the slots, as in `Design`; with a
    prior `worst_output` and the tail are null.
    """
    return judge([row for attacked in audit for row in rows(attacked, alpha, prior)], alpha, prior)


def rows(attacked: Attacked, alpha: float, prior: Prior | None = None) -> list[dict[str, Any]]:
    """Return the rows of a mechanism at one epsilon, without verdicts, which need all rows of an audit (`judge`)."""
    stated, trials = attacked.stated, attacked.trials
    count, candidates = trials.candidates.shape
    right = {name: guess.slots == trials.target for name, guess in attacked.guesses.items()}
    equal = matched(trials.candidates, attacked.words)
    equals = int(np.count_nonzero(equal))
    released = [name for name in right if attacked.sees[name] in stated.releases]
    covered, expected = _expected(attacked, prior)

    def proved(hits: int, of: int, level: float, delta: float = 0.0) -> Estimate:
        return estimate(hits, of, candidates, level, delta=delta, prior=prior)

    own = {name: proved(int(np.count_nonzero(hits)), count, alpha) for name, hits in right.items()}

    @cache  # the rows of the strongest attack may be equal, or equal to an attack's row
    def seen(of: str, among: tuple[str, ...], level: float) -> dict[str, Any]:
        return {
            "worst_output": _worst_output(attacked, among, alpha) if prior is None else None,
            **_tail(attacked, among, None if prior is not None else alpha),
            **_rates(attacked, of, level),
            **_by_law(attacked.guesses[of].posteriors, own[of], level, departed(of)),
            "equal_successes": int(np.count_nonzero(right[of] & equal)),
        }

    @cache
    def departed(of: str) -> float | None:
        posteriors = attacked.guesses[of].posteriors
        return None if posteriors is None else departure(own[of].successes, posteriors)

    def row(name: str, among: Sequence[str], figures: Estimate) -> dict[str, Any]:
        of = max(among, key=lambda attack: own[attack].successes)
        columns = seen(of, tuple(among), figures.alpha)
        return {
            **attacked.of,
            "epsilon": stored(attacked.epsilon),
            "attack": name,
            "best_attack": of if name in CHOSEN else None,
            "sees": attacked.sees[of],
            "released": of in released,
            "validated": attacked.validated[of],
            **columns,
            **{name: getattr(stated, name) for name in ("control", "fit_p", "delta", "claim")},
            "trials": count,
            "candidates": candidates,
            **{name: getattr(figures, name) for name in _OF_ESTIMATE},
            "loss_at_delta": proved(figures.successes, count, figures.alpha, stated.delta).loss,
            "equal_trials": equals,
            "equal_loss": proved(columns["equal_successes"], equals, figures.alpha).loss if equals else None,
            "covered": covered,
            "expected": expected,
            "p_value": None if expected is None else _tested(attacked, of, expected, prior),
        }

    table = [row(name, [name], figures) for name, figures in own.items()]
    for name, among in ((STRONGEST, released), (STRONGEST_INSIDE, list(right))):
        if among:
            table.append(row(name, among, strongest([own[attack] for attack in among])))
    return table


def _expected(attacked: Attacked, prior: Prior | None) -> tuple[int, float | None]:
    """Return the number of trials that the claim covers, and the largest expected number of successes under the claim.

    The expected number is None without a claim.
    """
    stated, claims = attacked.stated, attacked.claims
    if not stated.claimed or claims is None:
        return 0, None
    candidates = attacked.trials.candidates.shape[1]
    return int(np.count_nonzero(np.isfinite(claims))), expected_successes(claims, candidates, stated.delta, prior)


def _worst_output(attacked: Attacked, among: Sequence[str], alpha: float) -> float | None:
    """Return the largest pure loss that confident guesses of any of these attacks prove; None if none has scores."""
    trials, losses = attacked.trials, []
    for guesses in (attacked.guesses[name] for name in among):
        if guesses.scores is not None:
            right, level = guesses.slots == trials.target, alpha / len(among)
            losses.append(worst_output(right, guesses.scores, trials.candidates.shape[1], level))
    return max(losses, default=None)


def _tested(attacked: Attacked, of: str, expected: float, prior: Prior | None) -> float:
    """Return the p-value of a claim by an attack's guesses; for a curve, by the rates of confident guesses."""
    right = attacked.guesses[of].slots == attacked.trials.target
    if attacked.stated.curve is None or prior is not None:
        return p_value(int(np.count_nonzero(right)), len(right), expected)
    scored = Scored(right, attacked.guesses[of].scores)
    return rates.p_value(scored, attacked.stated.curve, attacked.trials.candidates.shape[1])


def _tail(attacked: Attacked, among: Sequence[str], alpha: float | None) -> dict[str, float | None]:
    """Return the bounds of `tail.ends` for these attacks; None if nothing is testable, or if alpha is None."""
    trials, guesses = attacked.trials, [attacked.guesses[name] for name in among]
    scored = [Scored(guess.slots == trials.target, guess.scores) for guess in guesses]
    both = None if alpha is None else ends(scored, trials.candidates.shape[1], alpha)
    return dict(zip(("delta_at_4_low", "delta_at_4_high"), both or (None, None), strict=True))


def _rates(attacked: Attacked, attack: str, alpha: float) -> dict[str, float | None]:
    at_fpr = rate(attacked.guesses[attack], attacked.trials.target, attacked.fpr, alpha)
    shown = (None, None, None) if at_fpr is None else (at_fpr.tpr, at_fpr.low, at_fpr.high)
    return {"fpr": attacked.fpr, **dict(zip(("tpr", "tpr_low", "tpr_high"), shown, strict=True))}


def judge(table: Sequence[Mapping[str, Any]], alpha: float, prior: Prior | None = None) -> list[dict[str, Any]]:
    """Return the rows of a whole audit with verdicts, the largest refutable claims, and the trials that a test needs.

    All rows with a claim share alpha (`verdicts.divisor`), except the rows of the strongest attacks, which repeat the
    verdicts of other rows. Likewise, the tests of laws share alpha, in equal parts.
    """
    own = [row for row in table if row["attack"] not in CHOSEN]
    tests = [row for row in own if row["expected"] is not None]
    shared = divisor([smallest_p_value(row["trials"], row["expected"]) for row in tests], alpha)
    fits = {tuple(row.get(name) for name in _CELL) for row in own if row["fit_p"] is not None}
    laws = sum(row["departure_p"] is not None for row in own) + len(fits)
    return [
        {
            **row,
            **_judged(row, alpha / shared, alpha / max(1, len(tests)), prior),
            **_departed(row, alpha / max(1, laws)),
        }
        for row in table
    ]


def _by_law(
    posteriors: NDArray[np.float64] | None, figures: Estimate, level: float, p: float | None
) -> dict[str, float | None]:
    """Return the columns of an attack's posteriors, all None without a law. p: the p-value of hits under the law."""
    if posteriors is None or not p:  # p = 0: some output is impossible under the law
        return {**dict.fromkeys(_POSTERIOR), "departure_p": p}
    average = averaged(figures.successes, posteriors, figures.candidates, level)
    return {**dict(zip(_POSTERIOR, (average.loss, average.point, average.upper), strict=True)), "departure_p": p}


def _departed(row: Mapping[str, Any], level: float) -> dict[str, Any]:
    """Return the column `departs`: True if hits or outputs refute the law. level: the error of a test.

    If so, also return null for the columns that rely on the law.
    """
    p_values = [p for p in (row["departure_p"], row["fit_p"]) if p is not None]
    if not p_values:
        return {"departs": None}
    departs = min(p_values) <= level
    return {"departs": departs} | (dict.fromkeys(_POSTERIOR) if departs else {})


def _judged(row: Mapping[str, Any], level: float, least: float, prior: Prior | None) -> dict[str, Any]:
    """Return the columns of a row's verdict.

    level: the level of each test. least: the level that each test would have if all claims were testable.
    """
    trials, expected = row["trials"], row["expected"]
    if expected is None:
        return {"verdict": NO_CLAIM, "refutable": None, "trials_needed": None}
    return {
        "verdict": verdict(row["p_value"], level, smallest_p_value(trials, expected)),
        "refutable": refutable(trials, row["covered"], row["candidates"], row["delta"], level=level, prior=prior),
        "trials_needed": trials_needed(expected / trials, least),
    }
