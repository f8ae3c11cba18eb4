"""A test of the mechanism's claim: the guesses of attacks, and the stated law, are compared with the claimed loss.

The figure is 1 if the claim is violated and 0 if it holds, so the only limit is 0.

Attacks guess in trials like those of `which_text`. The claim bounds the loss between the candidates of each trial by
epsilon times their distance, at the claim's granularity (`claims/verdicts.trial_claims`). Pairs of candidates that the
claim does not cover have no bound. The p-value is the largest probability, under the claim, of at least as many right
guesses as were observed (`verdicts.p_value`; for a curve, `rates.p_value`). The p-value is also the error probability
of a reported violation. Guesses never show that a claim holds.

From the stated law, the worst case over the mechanism's inputs is computed (`claims/worst_case.py`). A loss larger than
claimed is a violation. If all pairs of inputs were enumerated, and no pair violates the claim, the claim is true for
every adversary, provided that the mechanism follows its law. So the law shows that a claim holds only under two
conditions: rewrites do not refute that law (`limits/stated_law.py`), and the guesses of the attacks do not refute the
claim. A violation by law needs no rewrite: the mechanism's law contradicts its claim.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from epsilometer.auditing.claims.stated import stated
from epsilometer.auditing.claims.verdicts import (
    NOT_REFUTED,
    VIOLATED,
    expected_successes,
    p_value,
    refuse_public,
    smallest_p_value,
    trial_claims,
)
from epsilometer.auditing.claims.worst_case import Extent, check_claim, is_sampled
from epsilometer.auditing.curves import rates
from epsilometer.auditing.estimation.tail import Scored
from epsilometer.auditing.evidence.evidence import By, Computed, Covers, Evidence
from epsilometer.auditing.evidence.limit import Limit, Scale
from epsilometer.auditing.gate_statistics import BY_LAW, Errors
from epsilometer.auditing.limits.stated_law import law_p_value
from epsilometer.auditing.question import Gives, Need, Observed
from epsilometer.auditing.subject import Subject
from epsilometer.auditing.text_audit import embed
from epsilometer.auditing.trials.rewriting import Job, rewrite_all
from epsilometer.auditing.trials.sampling import sample
from epsilometer.core.component import component
from epsilometer.core.errors import UserError
from epsilometer.core.guarantees import at_budget
from epsilometer.core.likelihood import computed
from epsilometer.core.mechanism import HasInputs, HasLaws, Mechanism
from epsilometer.core.randomness import Noise
from epsilometer.game.play import Knowledge, play, with_queries
from epsilometer.runtime.progress import note

_SCALE = Scale("claim")
_FIGURE = "claim"
_EXTENT = Extent(500, entries=2e8, bounded=False)  # as in an audit; takes at most tenths of a second
_EXACT = "exact"  # method of a finding for which all inputs were compared
_MOST, _FEWEST = 1000, 50  # most and fewest rewrites to compare with the stated law


@component
class Claim:
    """No settings: the attacks are those of the audit."""

    needs: ClassVar[frozenset[Need]] = frozenset({Need.CLAIM})
    gives: ClassVar[frozenset[Gives]] = frozenset({Gives.LOW, Gives.HIGH})
    columns: ClassVar[Sequence[str]] = ()
    usual: ClassVar[int] = 2000

    def limit(self, of: Subject, allowed: float) -> Limit:
        """Return the limit 0: no violation is allowed."""
        if allowed != 0:
            raise UserError(
                f"the limit of claim must be 0, got {allowed:g}: a claim holds (0), or is violated (1)", "EPS-Q028"
            )
        return Limit(0.0, _SCALE, f"the claim: {stated(of.mechanism, of.epsilon).claim}")

    def tests(self, of: Subject) -> Sequence[str]:
        """Return a name for each attack, and one for the law if the worst case can be computed."""
        return [*map(_name, of.attacks), *([_FIGURE + BY_LAW] if _lawful(of.mechanism, of.epsilon) else [])]

    def amount(self, of: Subject, limit: Limit, budget: int, tests: int, *, errors: Errors) -> int:
        """Return the usual number of trials, at most the budget of rewrites."""
        return min(self.usual, budget)

    def by_law(self, of: Subject, limit: Limit, budget: int, *, errors: Errors) -> tuple[Observed | None, str | None]:
        """Return the law's evidence if it proves the claim and no test refutes law or claim (`ShownByLaw`)."""
        law = _of_law(of)
        count = min(self.usual, budget // 2)
        if law is None or law.high > 0 or count < 4 * _FEWEST:
            return None, None
        p = _law_p_value(of, tested := min(_MOST, count // 4))
        why = _refuted(of, p, _tested(of, count - tested, "claim by law"), errors.alpha)
        return (None, f"{count:,} rewrites {why} the stated law") if why else (_shown_by(law, count), None)

    def observe(self, of: Subject, count: int) -> Sequence[Observed]:
        """Return the evidence of each attack, and of the law, within this number of rewrites."""
        law, left, p = _of_law(of), count, None
        if law is not None and not law.high and (tested := min(_MOST, count // 4)) >= _FEWEST:
            left, p = count - tested, _law_p_value(of, tested)
        tests = _tested(of, left, "claim")
        observed = [test.observed for test in tests]
        if law is not None:
            if not law.high and _refuted(of, p, tests, of.design.alpha):
                law = Computed(0.0, math.inf, 0.0, law.n)
            observed.append(_shown_by(law, count - left))
        return observed


def _name(attack: str) -> str:
    return f"{_FIGURE}: {attack}"


@dataclass(frozen=True)
class _Test:
    """A test of the claim by one attack.

    right: [trials], True for a right guess. texts: the rewritten text of each trial. expected: the largest mean number
    of right guesses that the claim allows. covered: the number of trials that the claim covers. p: the p-value.
    """

    attack: str
    right: NDArray[np.bool_]
    texts: Sequence[str]
    expected: float
    covered: int
    p: float

    @property
    def observed(self) -> Observed:
        """The evidence of a violation. It is wrong with a probability of at most the p-value."""
        count, hits = len(self.right), int(np.count_nonzero(self.right))
        row = {"right": hits, "expected": self.expected, "covered": self.covered, "p_value": self.p}
        row["least_p_value"] = smallest_p_value(count, self.expected)
        data = Computed(1.0, math.inf, self.p, count)
        evidence = Evidence(_name(self.attack), By.ATTACK, _SCALE, data, covers=Covers.THESE)
        of_texts = list(zip(self.texts, self.right.tolist(), strict=True))
        return Observed(evidence, self.right.astype(np.float64), of_texts, row)


def _tested(of: Subject, count: int, stream: str) -> list[_Test]:
    """Play `count` fresh trials; return a test of the claim by each attack's guesses."""
    texts, mechanism, name = of.pool.texts, of.mechanism, (of.design.seed, stream, of.epsilon)
    refuse_public(mechanism, texts)
    embedded = of.pool.embedded or (embed(texts) if of.design.temperature else None)
    vectors = np.zeros((len(texts), 1), np.float32) if embedded is None else embedded.vectors
    seed = "/".join(map(str, name))
    trials = sample(vectors, count, of.design.k, of.design.temperature, seed=seed, groups=of.pool.groups)
    job = Job(texts, trials.source, [of.epsilon], [Noise.named(count, *name, "rewrite")], tally=of.tally)
    with with_queries(of.attacks, mechanism, texts, trials.candidates, epsilons=[of.epsilon]):
        rewrites = rewrite_all(mechanism, job)
    likelihoods = computed(mechanism, texts, trials.candidates, rewrites, epsilons=[of.epsilon])
    played = play(
        Knowledge(texts, trials.candidates, mechanism, embedded=embedded, likelihoods=likelihoods),
        {of.epsilon: rewrites[0]},
        of.attacks,
        lambda attack, _: Noise.named(count, *name, "attack", attack),
    )
    said, claims = stated(mechanism, of.epsilon), trial_claims(mechanism, of.epsilon, texts, trials.candidates)
    expected, covered = expected_successes(claims, of.design.k, said.delta), int(np.isfinite(claims).sum())
    rewritten, tests = [texts[i] for i in trials.source.tolist()], []
    for attack, guess in played[of.epsilon].items():
        right = guess.slots == trials.target
        if said.curve is None:
            p = p_value(int(np.count_nonzero(right)), count, expected)
        else:
            p = rates.p_value(Scored(right, guess.scores), said.curve, of.design.k)
        tests.append(_Test(attack, right, rewritten, expected=expected, covered=covered, p=p))
    return tests


def _lawful(mechanism: Mechanism, epsilon: float) -> bool:
    """Return True if the claim's worst case can be computed from the stated laws, without sampling."""
    return isinstance(mechanism, HasInputs) and isinstance(mechanism, HasLaws) and not is_sampled(mechanism, epsilon)


def _of_law(of: Subject) -> Computed | None:
    """Return the bounds of the figure by law. An upper bound of 0 needs a comparison of all pairs of inputs."""
    if not _lawful(of.mechanism, of.epsilon):
        return None
    finding = check_claim(of.mechanism, of.epsilon, extent=_EXTENT)
    pairs = math.comb(finding.inputs, 2)
    if finding.verdict == VIOLATED:
        return Computed(1.0, 1.0, 0.0, pairs)
    holds = finding.verdict == NOT_REFUTED and finding.method == _EXACT
    return Computed(0.0, 0.0 if holds else math.inf, 0.0, pairs)


def _law_p_value(of: Subject, count: int) -> float | None:
    """Return the p-value of `count` rewrites under the stated law; None if rewrites cannot be compared with the law."""
    texts, seed = of.pool.texts, f"{of.design.seed}/claim/law"
    pairs = sample(np.zeros((len(texts), 1), np.float32), count, 2, 0.0, seed=seed).candidates
    delta = stated(of.mechanism, of.epsilon).delta
    most = math.inf if delta else float(trial_claims(of.mechanism, of.epsilon, texts, pairs).max())
    return law_p_value(of, texts, pairs, most)


def _refuted(of: Subject, p: float | None, tests: Sequence[_Test], alpha: float) -> str | None:
    """Return the reason to ignore the stated law, or None. p: the p-value of the rewrites under the law."""
    if p is not None and min([p, *(test.p for test in tests)]) * (1 + len(tests)) > alpha:
        return None
    why = "cannot be compared with" if p is None else "refute"
    note(f"rewrites {why} the stated law{at_budget(of.epsilon)}, so it does not show that the claim holds")
    return why


def _shown_by(law: Computed, rewrites: int) -> Observed:
    covers = Covers.EVERYONE if math.isfinite(law.high) else Covers.THESE
    row = {"unrefuted": rewrites} if law.high == 0 else {}
    return Observed(Evidence(_FIGURE + BY_LAW, By.LAW, _SCALE, law, covers=covers), row=row)
