"""A gate for one mechanism on texts: fresh trials until they decide whether it keeps its limits.

`gate_statistics.py` has the statistics; this module has the limits, from a number of nats and from a baseline.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epsilometer.auditing.calibration.search import fresh_batches, fresh_guesses
from epsilometer.auditing.estimation.successes import Estimate
from epsilometer.auditing.estimation.tail import Scored, threshold, thresholds
from epsilometer.auditing.evidence.evidence import Confident, Hits, Sure
from epsilometer.auditing.evidence.limit import TAIL, Limit, Scale
from epsilometer.auditing.evidence.status import Status
from epsilometer.auditing.gate_statistics import STANDARD as STANDARD_ERRORS
from epsilometer.auditing.gate_statistics import Errors, Judged, Verdict, decide, limit_of_increase
from epsilometer.auditing.identifiers.surviving import Identified
from epsilometer.auditing.limits.accepted import Accepted, Count, chosen_settings
from epsilometer.auditing.limits.identifiers import Kinds
from epsilometer.auditing.limits.subject import Counted, Subject
from epsilometer.auditing.results.scope import Scope
from epsilometer.auditing.text_audit import (
    Attacks,
    Named,
    Pool,
    applicable,
    as_mechanism,
    chosen_attacks,
    label,
)
from epsilometer.auditing.trials.answers import Answers, Tally
from epsilometer.auditing.trials.design import STANDARD as STANDARD_DESIGN
from epsilometer.auditing.trials.design import Design, as_installed
from epsilometer.auditing.trials.unread import MECHANISM, say, say_language, unread
from epsilometer.core.attack import Queries
from epsilometer.core.errors import UserError
from epsilometer.core.guarantees import check_epsilons, stored
from epsilometer.core.likelihood import has_law
from epsilometer.core.mechanism import budgets, check_guarantees
from epsilometer.core.sizes import MOST_TRIALS
from epsilometer.game.play import queried
from epsilometer.models.spending import Dry

_LEARNING = 1000  # trials on which a threshold is learnt, at most half of the budget
MAX_MISSING = 0.01  # the largest share of answers that may be missing
_TAIL = ", tail"  # after an attack's name, where its confident guesses are judged


@dataclass(frozen=True)
class Rules:
    """The most that a mechanism may leak, in nats, and the most rewrites to spend on the decision.

    max_loss: by any attack; None for no such limit. max_delta_at_4: delta at 4 nats by any attack's confident guesses;
    None for no such limit. max_increase: the increase over the baseline that must not go unnoticed. max_identifiers:
    the share of identifiers of a kind that may survive; None for no such limit. count_partly: whether those that
    survive in part count. identifiers: the kinds, None for all. budget: most rewrites. max_missing: the share of a
    service's answers that may be withheld, truncated or empty; a gate with any of these passes nothing. Raises
    UserError for values outside their range.
    """

    max_loss: float | None = None
    max_delta_at_4: float | None = None
    max_increase: float = 0.3
    max_identifiers: float | None = None
    identifiers: Sequence[str] | None = None
    budget: int = 20_000
    count_partly: bool = False
    max_missing: float = MAX_MISSING
    errors: Errors = STANDARD_ERRORS

    def __post_init__(self) -> None:
        for name, value in (("max_loss", self.max_loss), ("max_increase", self.max_increase)):
            if value is not None and not value > 0:
                raise UserError(f"{name}, in nats, must be > 0, got {value}")
        if self.max_delta_at_4 is not None and not 0 < self.max_delta_at_4 < 1:
            raise UserError(f"max_delta_at_4, a probability, must be in (0, 1), got {self.max_delta_at_4}")
        if self.max_identifiers is not None and not 0 < self.max_identifiers < 1:
            raise UserError(
                f"max_identifiers, a share, must be in (0, 1), got {self.max_identifiers}: that none ever survives, or "
                "that more than all do, no number of texts could show; 0.01 takes some 300 texts a kind at the least"
            )
        if self.identifiers is not None and self.max_identifiers is None:
            raise UserError("identifiers are kinds, which max_identifiers limits; give both")
        if self.count_partly and self.max_identifiers is None:
            raise UserError("count_partly widens max_identifiers; give both")
        if not 0 <= self.max_missing <= 1:
            raise UserError(f"max_missing, a share, must be in [0, 1], got {self.max_missing}")
        if not 1 <= self.budget <= MOST_TRIALS:
            raise UserError(
                f"budget, the most rewrites, must be at least 1 and at most {MOST_TRIALS:,}, got {self.budget:,}"
            )


def subject(
    texts: Sequence[str] | pl.DataFrame,
    mechanism: Named,
    epsilon: float | None = None,
    attacks: Attacks | None = None,
    settings: Mapping[str, Any] | None = None,
    design: Design | None = None,
) -> Subject:
    """Return the subject of `gate` and `measure`; mechanism, attacks, settings, design: as in `epsilometer.audit`.

    texts: a list, or a table that may record their identifiers, as in `surviving_identifiers`. design: None for the
    standard one, at the temperature of these attacks.
    Raises UserError where a named attack does not apply to the mechanism, since it would judge nothing.
    """
    identified = Identified.of(texts)
    if epsilon is not None:
        check_epsilons([epsilon])
    built = as_mechanism(mechanism, settings, identified.texts)
    (at,) = budgets(built, None if epsilon is None else [epsilon], "epsilon")
    check_guarantees(built, [at])
    chosen = chosen_attacks(attacks)
    applied = applicable(chosen, built)
    if attacks is not None and (idle := [name for name in chosen if name not in applied]):
        raise UserError(f"{', '.join(idle)} cannot attack {label(mechanism)}, so nothing would be judged; leave it out")
    design = Design(temperature=temperature_of(attacks)) if design is None else design
    pool, installed = Pool(identified.texts), as_installed(design)
    return Subject(
        label(mechanism), built, float(at), pool=pool, attacks=applied, design=installed, identified=identified
    )


def temperature_of(attacks: Attacks | None) -> float:
    """Return the temperature of a gate by these attacks: 0, which needs no embeddings, unless one of them embeds."""
    embeds = attacks is None or any(
        getattr(each, "extra", None) == "models" for each in chosen_attacks(attacks).values()
    )
    return STANDARD_DESIGN.temperature if embeds else 0.0


def gate(
    of: Subject, rules: Rules, accepted: Mapping[str, Estimate] | None = None, counted: Sequence[Counted] = ()
) -> Verdict:
    """Judge a mechanism on fresh trials, until they decide or the budget is spent.

    accepted: the estimates of earlier trials, by attack. counted: the other limits. Identifiers and these are judged
    first, each with an equal part of the budget at most, as are the attacks. Raises UserError where nothing is limited,
    where no number of texts within the budget, or in the file, could show a limit kept, and where the accepted attacks
    are not those that run, since a leak that only the missing attack sees would pass. It also raises UserError where
    more of a service's answers are missing than allowed; a leak that is shown stands whatever is missing.
    """
    of = replace(of, tally=Tally())
    on_loss, on_tail = accepted is not None or rules.max_loss is not None, rules.max_delta_at_4 is not None
    if rules.max_identifiers is not None:
        kinds = Kinds(of, rules.max_identifiers, rules.identifiers, rules.budget, partly=rules.count_partly)
        counted = [kinds, *counted]
    if not (on_loss or on_tail or counted):
        raise UserError(
            "nothing is limited; give a largest loss (--max-loss), a largest delta at 4 nats (--max-delta-at-4), a "
            "largest share of identifiers (--max-identifiers), a largest loss of an attribute (--max-attribute-loss) "
            "or by linking (--max-linking-loss), or what was accepted (--baseline)"
        )
    if accepted is not None:
        _check_attacks(accepted, of.attacks)
    limits: dict[str, Limit | None] = {}
    if on_loss:
        limits |= {name: _limit(name, of.design.k, rules, accepted) for name in of.attacks}
    if rules.max_delta_at_4 is not None:
        tail = Limit(rules.max_delta_at_4, TAIL, "the largest delta at 4 nats allowed")
        limits |= {f"{name}{_TAIL}": tail for name in of.attacks}
    say(unread(of.mechanism, of.pool.texts))
    say_language(of.pool.texts, {**of.attacks, MECHANISM: of.mechanism})
    try:
        return _judged(of, rules, limits, counted)
    except Dry as dry:
        everybody = np.arange(len(of.pool.texts))
        asked_for = queried(of.attacks, of.mechanism, of.pool.texts, everybody).total() if limits else 0
        raise dry.in_rounds(rules.budget + asked_for) from None


def _judged(of: Subject, rules: Rules, limits: Mapping[str, Limit | None], counted: Sequence[Counted]) -> Verdict:
    """Return the verdict on the limits counted once, then on the attacks with the rest of the budget."""
    beside = sum(each.tests for each in counted)
    tests = beside + sum(limit is not None for limit in limits.values())
    share, once, spent = rules.budget // (len(counted) + bool(limits)), list[Judged](), 0
    for each in counted:
        judged, rewrites = each.judge(of, share, tests=tests, errors=rules.errors)
        once, spent = [*once, *judged], spent + rewrites
    if not limits:
        return _answered(Verdict.of(once, spent), of, rules, query_access=None)
    attacked = _attacked(of, rules, limits, rules.budget - spent, beside=beside)
    asks = any(isinstance(attack, Queries) for attack in of.attacks.values())
    return _answered(Verdict.of([*attacked.attacks, *once], attacked.trials + spent), of, rules, query_access=asks)


def _answered(verdict: Verdict, of: Subject, rules: Rules, *, query_access: bool | None) -> Verdict:
    """Return the verdict with its counts of answers and its scope; a pass with missing answers becomes open."""
    answers = of.tally.total
    if verdict.status is not Status.BEYOND:
        _check_missing(answers, answers.rewrites, rules.max_missing)
    if answers.missing:
        judged = [
            replace(each, status=Status.OPEN, unanswered=True) if each.status.passes else each
            for each in verdict.attacks
        ]
        verdict = Verdict.of(judged, verdict.trials)
    scope = Scope(of.tally.memory(of.epsilon), query_access, black_box=not has_law(of.mechanism))
    return replace(verdict, answers=answers, scope=scope)


def _check_missing(answers: Answers, rewrites: int, most: float) -> None:
    """Raise UserError where more than a share of the rewrites are missing answers. most: that share."""
    if answers.missing > most * rewrites:
        raise UserError(
            f"{answers.lacking}: more than {most:.3g} of the answers are missing, and a missing answer looks private; "
            "correct the service's filter or the length of its answers, or allow more (--max-missing)"
        )


def _attacked(of: Subject, rules: Rules, limits: Mapping[str, Limit | None], budget: int, *, beside: int) -> Verdict:
    """Return the verdict on the attacks, within this budget of rewrites. beside: number of limits judged elsewhere."""
    on_loss, on_tail = any(name in of.attacks for name in limits), rules.max_delta_at_4 is not None
    learning = min(_LEARNING, budget // 2) if on_tail else 0
    learnt = _learnt(of, learning)
    guesses = fresh_guesses(of.pool, of.mechanism, of.attacks, of.design, stream="gate", tally=of.tally)
    of_texts: dict[str, list[tuple[str, bool]]] = {name: [] for name in of.attacks}

    def measure(first: int, count: int) -> list[Hits | Confident]:
        _check_missing(of.tally.total, rules.budget, rules.max_missing)  # no further rewrites can change that
        every = guesses(of.epsilon, first, count, range(len(of.attacks)))
        for name, each in zip(of.attacks, every, strict=True):
            texts = (of.pool.texts[i] for i in each.source.tolist())
            of_texts[name] += zip(texts, each.right.tolist(), strict=True)
        scored = [Scored(each.right, each.guesses.scores) for each in every]
        counts: list[Hits | Confident] = []
        if on_loss:
            counts += [Hits(int(np.count_nonzero(of_attack.right)), count) for of_attack in scored]
        if on_tail:
            counts += [each.count(of_attack) for each, of_attack in zip(learnt, scored, strict=True)]
        return counts

    verdict = decide(measure, limits, budget - learning, of.design.k, errors=rules.errors, beside=beside)
    judged = [replace(each, of_texts=of_texts[each.attack.removesuffix(_TAIL)]) for each in verdict.attacks]
    return Verdict(verdict.trials + learning, judged)


@dataclass(frozen=True)
class _Learnt:
    """Thresholds of an attack's score: the one from which its guesses prove most of the tail, and a grid."""

    best: float
    grid: NDArray[np.floating]

    def count(self, scored: Scored) -> Confident:
        """Return the counts of guesses beyond the best threshold, and in each interval of the grid."""
        intervals = scored.between(self.grid).T.tolist()
        between = [Sure(hits, misses) for hits, misses in intervals]
        return Confident(Sure(*scored.beyond(self.best)), between, len(scored.right))


def _learnt(of: Subject, trials: int) -> list[_Learnt]:
    """Return the thresholds of each attack, learnt in separate trials; none for 0 trials."""
    if not trials:
        return []
    guesses = fresh_guesses(of.pool, of.mechanism, of.attacks, of.design, stream="gate thresholds", tally=of.tally)
    every = guesses(of.epsilon, 0, trials, range(len(of.attacks)))
    scored = [Scored(each.right, each.guesses.scores) for each in every]
    return [_Learnt(threshold(each, of.design.k, of.design.alpha)[0], thresholds(each)) for each in scored]


def measure(of: Subject, trials: int = 2000, max_missing: float = MAX_MISSING) -> Accepted:
    """Count each attack's successes in fresh trials, as a baseline to accept.

    Raises UserError where more than this share of a service's answers are missing.
    """
    tally = Tally()
    say(unread(of.mechanism, of.pool.texts))
    say_language(of.pool.texts, {**of.attacks, MECHANISM: of.mechanism})
    batches = fresh_batches(of.pool, of.mechanism, of.attacks, of.design, stream="accepted", tally=tally)
    counted = batches(of.epsilon, 0, trials, range(len(of.attacks)))
    _check_missing(tally.total, trials, max_missing)
    tally.say()
    return Accepted(
        mechanism=of.name,
        epsilon=stored(of.epsilon),
        texts=of.digest,
        candidates=of.design.k,
        temperature=of.design.temperature,
        alpha=of.design.alpha,
        seed=of.design.seed,
        attacks={
            name: Count(trials=trials, successes=batch.successes, settings=chosen_settings(of.attacks[name]))
            for name, batch in zip(of.attacks, counted, strict=True)
        },
    )


def _check_attacks(accepted: Mapping[str, Estimate], attacks: Mapping[str, Any]) -> None:
    """Refuse a baseline of other attacks."""
    unjudged = {
        "accepted but not run": [name for name in accepted if name not in attacks],
        "run but not accepted": [name for name in attacks if name not in accepted],
    }
    if any(unjudged.values()):
        said = "; ".join(f"{how}: {', '.join(names)}" for how, names in unjudged.items() if names)
        raise UserError(f"the baseline has other attacks ({said}); name the same ones, or accept what is measured now")


def _limit(name: str, candidates: int, rules: Rules, accepted: Mapping[str, Estimate] | None) -> Limit | None:
    """Return the lowest limit of an attack; None if its baseline has no upper bound and nothing else limits it."""
    scale = Scale.loss(candidates)
    limits = [] if rules.max_loss is None else [Limit(rules.max_loss, scale, "the largest loss allowed")]
    if accepted is not None and np.isfinite(accepted[name].upper):
        limits.append(limit_of_increase(accepted[name], rules.max_increase, candidates))
    return min(limits, key=lambda limit: limit.allowed, default=None)
