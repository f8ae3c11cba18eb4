"""A gate: a decision, from fresh trials, whether the answers to questions about a subject keep their limits.

`auditing/gate_statistics.py` has the statistics. Questions about guesses (`Gives.MORE`) share one game, whose trials
come in batches until every limit is decided. Each other question is judged once. Its number of trials is fixed
beforehand, and the trials cost at most an equal part of the budget. All limits share alpha. `exit_code` gives the
shell's exit code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from epsilometer.auditing.calibration.search import fresh_batches, fresh_guesses
from epsilometer.auditing.estimation.successes import Estimate
from epsilometer.auditing.evidence.evidence import Confident, Hits
from epsilometer.auditing.evidence.limit import Limit
from epsilometer.auditing.evidence.status import Status
from epsilometer.auditing.gate_statistics import STANDARD as STANDARD_ERRORS
from epsilometer.auditing.gate_statistics import Errors, Judged, Verdict, decide, judge, limit_of_increase
from epsilometer.auditing.limits.accepted import Accepted, Count, chosen_settings
from epsilometer.auditing.question import OfGuesses, Question, ShownByLaw, by_figure, check
from epsilometer.auditing.results.scope import Scope
from epsilometer.auditing.subject import Subject
from epsilometer.auditing.trials.answers import Answers, Tally
from epsilometer.auditing.trials.unread import MECHANISM, say, say_language, unread
from epsilometer.core.attack import Queries
from epsilometer.core.errors import UserError
from epsilometer.core.guarantees import stored
from epsilometer.core.likelihood import has_law
from epsilometer.core.sizes import MOST_TRIALS
from epsilometer.doors.ask import turned_round
from epsilometer.game.play import queried
from epsilometer.models.spending import Dry
from epsilometer.questions.tail import LEARNING
from epsilometer.questions.which_text import WhichText, outcomes_of_texts

MAX_MISSING = 0.01  # the largest share of a service's answers that may be missing


@dataclass(frozen=True)
class Rules:
    """The rules of a decision.

    limits: pairs of a question and the largest value allowed for each of its figures (for similarity, the smallest).
    increase: the smallest increase over the baseline to notice, in nats. budget: the largest number of rewrites.
    max_missing: the largest share of a service's answers that may be withheld, truncated or empty before the gate ends
    with an error. If even one answer is missing in this way, no limit passes. errors: the error probabilities of the
    verdict. Raises UserError for values outside their range.
    """

    limits: Sequence[tuple[Question, float]] = ()
    increase: float = 0.3
    budget: int = 20_000
    max_missing: float = MAX_MISSING
    errors: Errors = STANDARD_ERRORS

    def __post_init__(self) -> None:
        if not self.increase > 0:
            raise UserError(f"max_increase, in nats, must be > 0, got {self.increase}", "EPS-Q010")
        if not 0 <= self.max_missing <= 1:
            raise UserError(f"max_missing, a share, must be in [0, 1], got {self.max_missing}", "EPS-Q011")
        if not 1 <= self.budget <= MOST_TRIALS:
            raise UserError(
                f"budget, the most rewrites, must be at least 1 and at most {MOST_TRIALS:,}, got {self.budget:,}",
                "EPS-Q012",
            )


def gate(of: Subject, rules: Rules, accepted: Mapping[str, Estimate] | None = None) -> Verdict:
    """Judge a subject on fresh trials, until every limit is decided or the budget is spent.

    accepted: the estimates of earlier trials, by attack. Raises UserError if nothing is limited, if the subject lacks
    what a question needs, and if no number of trials within the budget could show that a limit is kept. The accepted
    attacks must be the attacks that run, else UserError is raised: a leak that only a missing attack finds would pass.
    UserError is also raised if too many answers of a service are missing, unless a limit is already shown to be
    exceeded.
    """
    of = replace(of, tally=Tally())
    if not (rules.limits or accepted is not None):
        raise UserError(
            "nothing is limited; give a limit on a question (--limit which_text=1), or a --baseline", "EPS-Q013"
        )
    if accepted is not None:
        _check_attacks(accepted, of.attacks)
    for question, _ in rules.limits:
        check(question, of)
    limits = [(question, question.limit(of, allowed)) for question, allowed in rules.limits]
    played = _Played(of, [(question, limit) for question, limit in limits if isinstance(question, OfGuesses)])
    if accepted is not None:
        played = played.with_baseline(accepted, rules.increase)
    once = [(question, limit) for question, limit in limits if not isinstance(question, OfGuesses)]
    say(unread(of.mechanism, of.pool.texts))
    say_language(of.pool.texts, {**of.attacks, MECHANISM: of.mechanism})
    try:
        return _judged(of, rules, played, once)
    except Dry as dry:
        everybody = np.arange(len(of.pool.texts))
        asked_for = queried(of.attacks, of.mechanism, of.pool.texts, everybody).total() if played.limits else 0
        raise dry.in_rounds(rules.budget + asked_for) from None


def exit_code(verdict: Verdict) -> int:
    """Return 0 if the gate passed, 1 if a limit is exceeded, otherwise 3."""
    return 0 if verdict.status.passes else 1 if verdict.status is Status.BEYOND else 3


def _judged(of: Subject, rules: Rules, played: _Played, once: Sequence[tuple[Question, Limit]]) -> Verdict:
    """Judge the questions `once`, each on its fixed number of trials, then the guesses with the rest of the budget."""
    beside = sum(len(question.tests(of)) for question, _ in once)
    tests = beside + sum(limit is not None for limit in played.limits.values())
    share, judged = rules.budget // (len(once) + bool(played.limits)), list[Judged]()
    for question, limit in once:
        judged += judged_once(of, question, limit, budget=share, tests=tests, errors=rules.errors)
    spent = of.tally.total.rewrites
    if not played.limits:
        return _answered(Verdict.of(judged, spent), of, rules, query_access=None)
    verdict = played.decide(rules, rules.budget - spent, beside=beside)
    asks = any(isinstance(attack, Queries) for attack in of.attacks.values())
    return _answered(Verdict.of([*verdict.attacks, *judged], verdict.trials + spent), of, rules, query_access=asks)


def judged_once(
    of: Subject, question: Question, limit: Limit, *, budget: int, tests: int, errors: Errors
) -> list[Judged]:
    """Judge the figures of a question on a number of trials fixed beforehand, within a budget of rewrites.

    tests: the number of tested figures of all limits, which share alpha. If the stated law proves that the limit is
    kept, no attack runs.
    """
    before = of.tally.total.rewrites
    if isinstance(question, ShownByLaw):
        shown, why = question.by_law(of, limit, budget, errors=errors)
        if shown is not None:
            return [replace(judge([shown.evidence], limit, tests=tests, errors=errors), row=shown.row)]
        limit = limit if why is None else replace(limit, source=f"{limit.source}; {why}")
    count = question.amount(of, limit, budget - (of.tally.total.rewrites - before), tests, errors=errors)
    judged = []
    for group in by_figure(question.observe(of, count)):
        of_figure = judge([each.evidence for each in group], limit, tests=tests, errors=errors)
        shown = next(each for each in group if each.evidence is of_figure.evidence)
        if of_figure.status.passes and any(turned_round(each) for each in group):
            of_figure = replace(of_figure, status=Status.OPEN, turned=True)
        judged.append(replace(of_figure, row=shown.row, of_texts=shown.of_texts))
    return judged


def _answered(verdict: Verdict, of: Subject, rules: Rules, *, query_access: bool | None) -> Verdict:
    """Return the verdict with counts of answers and scope. If answers are missing, figures that pass become open."""
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
    """Raise UserError if the share of missing answers among the rewrites exceeds `most`."""
    if answers.missing > most * rewrites:
        raise UserError(
            f"{answers.lacking}: more than {most:.3g} of the answers are missing, and a missing answer looks private; "
            "correct the service's filter or the length of its answers, or allow more (--max-missing)",
            "EPS-Q014",
        )


@dataclass(frozen=True)
class _Played:
    """Limits on the guesses of one game, whose trials come in batches.

    questions: the questions, each with its limit. baseline: for each attack of which_text, the limit derived from the
    attack's accepted loss; None if that loss has no finite upper bound. The mapping is empty without a baseline.
    """

    of: Subject
    questions: Sequence[tuple[Question, Limit]]
    baseline: Mapping[str, Limit | None] = field(default_factory=dict)

    def with_baseline(self, accepted: Mapping[str, Estimate], increase: float) -> _Played:
        """Return the same questions, and a limit on each attack's loss, derived from its accepted loss."""
        k = self.of.design.k
        limits = {
            name: limit_of_increase(estimate, increase, k) if np.isfinite(estimate.upper) else None
            for name, estimate in accepted.items()
        }
        return replace(self, baseline=limits)

    @property
    def counted(self) -> list[Any]:
        """The questions in the order in which they count guesses; a baseline adds which_text."""
        questions: list[Any] = [question for question, _ in self.questions]
        if self.baseline and not any(isinstance(question, WhichText) for question in questions):
            questions.insert(0, WhichText())
        return questions

    @property
    def limits(self) -> dict[str, Limit | None]:
        """The lowest limit of each figure by name; None for an attack without a limit, whose status is open."""
        own: dict[type, Limit] = {type(question): limit for question, limit in self.questions}
        limits: dict[str, Limit | None] = {}
        for question in self.counted:
            for name in question.tests(self.of):
                both = [own.get(type(question)), self.baseline.get(name)]
                limits[name] = min((x for x in both if x is not None), key=lambda limit: limit.allowed, default=None)
        return limits

    def decide(self, rules: Rules, budget: int, *, beside: int) -> Verdict:
        """Return the verdict within this budget of rewrites. beside: the number of limits judged elsewhere."""
        of, questions = self.of, self.counted
        everyone, learning = range(len(of.attacks)), 0
        learnt: list[Sequence[Any]] = [[None] * len(of.attacks)] * len(questions)
        if any(question.learns for question in questions):
            if not (learning := min(LEARNING, budget // 2)):
                raise UserError(
                    f"question tail needs trials to choose thresholds and more to judge; {budget} rewrites are left; "
                    "give a larger budget (--budget)",
                    "EPS-Q015",
                )
            separate = _guesses(of, "gate thresholds")(of.epsilon, 0, learning, everyone)
            learnt = [question.learn(of, separate) for question in questions]
        guesses, of_texts = _guesses(of, "gate"), {name: list[tuple[str, bool]]() for name in of.attacks}

        def measure(first: int, count: int) -> list[Hits | Confident]:
            _check_missing(of.tally.total, rules.budget, rules.max_missing)  # missing so far, out of the budget
            every = guesses(of.epsilon, first, count, everyone)
            for name, each in zip(of.attacks, every, strict=True):
                of_texts[name] += outcomes_of_texts(of, each)
            return [
                data
                for question, thresholds in zip(questions, learnt, strict=True)
                for data in question.count(thresholds, every)
            ]

        verdict = decide(measure, self.limits, budget - learning, of.design.k, errors=rules.errors, beside=beside)
        attack_of = {
            name: attack for question in questions for name, attack in zip(question.tests(of), of.attacks, strict=True)
        }
        judged = [replace(each, of_texts=of_texts[attack_of[each.attack]]) for each in verdict.attacks]
        return Verdict(verdict.trials + learning, judged)


def _guesses(of: Subject, stream: str) -> Any:
    return fresh_guesses(of.pool, of.mechanism, of.attacks, of.design, stream=stream, tally=of.tally)


def measure(of: Subject, trials: int = 2000, max_missing: float = MAX_MISSING) -> Accepted:
    """Count each attack's right guesses in fresh trials, as a baseline to accept.

    Raises UserError if more than a share `max_missing` of a service's answers are missing.
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
    """Raise UserError unless the accepted attacks are the attacks that run."""
    unjudged = {
        "accepted but not run": [name for name in accepted if name not in attacks],
        "run but not accepted": [name for name in attacks if name not in accepted],
    }
    if any(unjudged.values()):
        said = "; ".join(f"{how}: {', '.join(names)}" for how, names in unjudged.items() if names)
        raise UserError(
            f"the baseline has other attacks ({said}); name the same ones, or accept a new baseline", "EPS-Q016"
        )
