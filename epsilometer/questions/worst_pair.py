"""The pair of texts with a mechanism's largest loss: found by trials; fresh trials then prove its loss.

An audit's losses are averages over its trials. So they hide a text that a mechanism hardly protects, such as a text
with a rare word. Here pairs of texts compete for trials (`halving`), and the bound is about the one pair that remains.
Pairs come from three groups, which are searched separately:

- `all`: two of the audited texts;
- `equal length`: two audited texts with the same number of words, so that their length does not tell them apart;
- `one word`: a text, and a canary: the same text with one word exchanged for another word of the audited texts. Both
  have the same number of words, and the loss between them is about one word.

If the law of the released view is known, the losses of the pairs are also computed (`exact_loss`), in a row `exact`.
The `loss` of this row is the loss of the best guess, rounded down. The verdict compares the pure loss with the claimed
loss. For a claim with a delta, the verdict compares the pair's delta at the claimed loss with the claimed delta
(`PairLosses.room`). The row `exact` assumes that the mechanism follows its stated law; the row `sampled` does not.

The result is a lower bound on the loss of the mechanism's worst pair: another pair may lose more.

The figure of the question `WorstPair` is the largest loss, in nats, of guessing between any two of the texts. Trials of
the one pair that remains give only a lower bound: the loss at their rate of right guesses (TeDA eq. 10 with k = 2). The
stated law gives a lower bound. If all pairs of the texts were compared, the law also gives an upper bound for every
adversary. The law is used only if it describes all that the released text shows, and if rewrites do not refute it
(`limits/stated_law.py`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import combinations
from operator import or_
from typing import Any, ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epsilometer.auditing.claims import verdicts
from epsilometer.auditing.claims.judging import judged, worst_cases
from epsilometer.auditing.claims.stated import stated
from epsilometer.auditing.estimation.abstention import worst_output
from epsilometer.auditing.estimation.halving import Survivor, affordable, search
from epsilometer.auditing.estimation.successes import estimate
from epsilometer.auditing.evidence.evidence import AtLeast, By, Computed, Covers, Evidence
from epsilometer.auditing.evidence.limit import Limit, Scale
from epsilometer.auditing.exact_loss.bracket import guess_losses
from epsilometer.auditing.exact_loss.losses import Request
from epsilometer.auditing.exact_loss.measuring import pair_losses, pairwise
from epsilometer.auditing.gate_statistics import BY_LAW, Errors
from epsilometer.auditing.limits.stated_law import law_p_value
from epsilometer.auditing.question import Gives, Need, Observed, Table, TableRequest
from epsilometer.auditing.schemas import WORST_PAIRS
from epsilometer.auditing.subject import Subject
from epsilometer.auditing.text_audit import (
    Attacks,
    Named,
    applicable,
    as_mechanism,
    chosen_attacks,
    distinct,
    say_what_is_left_out,
    seeing,
)
from epsilometer.auditing.trials.answers import Tally
from epsilometer.auditing.trials.design import STANDARD, Design, check_design, check_trials
from epsilometer.auditing.trials.rewriting import Job, rewrite_all
from epsilometer.core.attack import SLOT, Attack
from epsilometer.core.component import component
from epsilometer.core.errors import UserError
from epsilometer.core.guarantees import at_budget, check_epsilons, stored
from epsilometer.core.likelihood import shows_more
from epsilometer.core.mechanism import Mechanism, budgets, check_guarantees, law_of, releases
from epsilometer.core.randomness import Noise
from epsilometer.game.play import Knowledge, play, queried, with_queries
from epsilometer.models.spending import Dry
from epsilometer.runtime.progress import note
from epsilometer.text.words import words, write

ANY, EQUAL, ONE_WORD = "all", "equal length", "one word"
SAMPLED, EXACT = "sampled", f"exact, {verdicts.BY_LAW}"


_SCALE = Scale("worst_pair", options=2)
_FIGURE = "worst pair"
_SHOWN = (
    *("epsilon", "pairs", "x", "other", "place", "other_place", "method", "attack", "trials", "successes"),
    *("loss", "ceiling", "worst_output", "claimed", "overall", "claim"),
)
_ALL = 2000  # most pairs to compare under the law; if there are more pairs, this number is drawn
_MOST, _FEWEST = 1000, 50  # most and fewest rewrites to compare with the stated law


@component
class WorstPair:
    """No settings: the attacks are those of the audit that see the released view."""

    needs: ClassVar[frozenset[Need]] = frozenset()
    gives: ClassVar[frozenset[Gives]] = frozenset({Gives.LOW, Gives.HIGH})  # HIGH only by the stated law
    columns: ClassVar[Sequence[str]] = ()
    usual: ClassVar[int] = 4000

    def limit(self, of: Subject, allowed: float) -> Limit:
        """Return a limit on the loss, in nats, of every pair of the texts."""
        if not allowed > 0:
            raise UserError(f"the limit of worst_pair, in nats, must be > 0, got {allowed}", "EPS-Q047")
        if len(of.pool.texts) < 2:
            raise UserError(f"a pair needs two distinct texts, got {len(of.pool.texts)}; give more texts", "EPS-Q048")
        return Limit(allowed, _SCALE, "the largest loss of a pair allowed")

    def tests(self, of: Subject) -> Sequence[str]:
        """Return the name of the figure by attacks, and of the figure by law if the law can be computed."""
        return [_FIGURE, *([_FIGURE + BY_LAW] if _lawful(of.mechanism) else [])]

    def amount(self, of: Subject, limit: Limit, budget: int, tests: int, *, errors: Errors) -> int:
        """Return a number of trials, half of which show that the limit is exceeded if an attack is always right."""
        if limit.rate > 1 - 1e-6:
            raise UserError(
                f"no rate of right guesses can exceed a loss of {limit.allowed:g} nats; give a lower limit", "EPS-Q049"
            )
        fewest = 2 * (math.floor(math.log(errors.alpha / tests) / math.log(limit.rate)) + 1)
        if fewest > budget:
            raise UserError(
                f"a limit of {limit.allowed:g} nats on a pair takes {fewest:,} rewrites to test, and {budget:,} are "
                "left; give a larger budget (--budget), or a lower limit",
                "EPS-Q050",
            )
        return min(max(self.usual, 2 * fewest), budget)

    def by_law(self, of: Subject, limit: Limit, budget: int, *, errors: Errors) -> tuple[Observed | None, str | None]:
        """Return the stated law's evidence if it proves that every adversary keeps the limit (`ShownByLaw`)."""
        if not _lawful(of.mechanism) or min(_MOST, budget // 2) < _FEWEST:
            return None, None
        law = _of_law(of)
        if law.high > limit.allowed:
            return None, None
        tested, why = _refuted(of, law, min(_MOST, budget // 2), errors.alpha)
        return (None, why) if why else (_shown_by(law, tested), None)

    def observe(self, of: Subject, count: int) -> Sequence[Observed]:
        """Return the evidence of the pair that a search finds, and of the law, within `count` rewrites."""
        observed, left = [], count
        if _lawful(of.mechanism) and (tested := min(_MOST, count // 4)) >= _FEWEST:
            law, left = _of_law(of), count - tested
            _, why = _refuted(of, law, tested, of.design.alpha)
            observed = [] if why else [_shown_by(law, tested)]
        pairs = whole(ANY, of.pool.texts, affordable(left), of.design.seed)
        able = seeing(of.attacks, of.mechanism, "released")
        best, _ = _searched(pairs, of.mechanism, of.epsilon, able, trials=left, seed=of.design.seed, tally=of.tally)
        data = AtLeast(int(best.right.sum()), len(best.right))
        row = {"attack": list(able)[best.attack], "compared": len(pairs.x), **pairs.parts(best.arm)}
        return [Observed(Evidence(_FIGURE, By.ATTACK, _SCALE, data, covers=Covers.THESE), row=row), *observed]

    def table(self, request: TableRequest) -> Table:
        """Return the table of `audit_worst`: the worst pair of each epsilon, group of pairs and method."""
        return request.measured(audit_worst, self.usual, WORST_PAIRS, _SHOWN)


def _lawful(mechanism: Mechanism) -> bool:
    """Return True if the law of the released view is known, so that the losses of pairs are computed."""
    return pairwise(mechanism) and law_of(mechanism) in releases(mechanism) and not shows_more(mechanism)


def _of_law(of: Subject) -> Computed:
    """Bound the largest guess loss by the law. The upper bound is finite only if every pair was compared."""
    texts = of.pool.texts
    numbers = _law_pairs(texts, of.design.seed)
    claims = [np.full(len(numbers), np.inf)]  # no claim: only the figure is needed
    (losses,) = pair_losses(Request(of.mechanism, texts, numbers, [of.epsilon], claims=claims))
    guess = guess_losses(losses.log_error)
    every = len(numbers) == math.comb(len(texts), 2)
    return Computed(float(guess.low.max()), float(guess.high.max()) if every else math.inf, 0.0, len(numbers))


def _law_pairs(texts: Sequence[str], seed: int) -> NDArray[np.int64]:
    """Return the pairs to compare under the law [n, 2]: all of them, or a sample of _ALL."""
    if math.comb(len(texts), 2) <= _ALL:
        return np.array(list(combinations(range(len(texts)), 2)), np.int64)
    return whole(ANY, texts, _ALL, seed).numbers


def _refuted(of: Subject, law: Computed, rewrites: int, alpha: float) -> tuple[int, str | None]:
    """Compare rewrites with the law; return the number of rewrites, and the reason to ignore the law, or None."""
    pairs = _law_pairs(of.pool.texts, of.design.seed)
    chosen = Noise.named(rewrites, of.design.seed, "worst", "law").uniforms()[:, 0]
    p = law_p_value(of, of.pool.texts, pairs[(chosen * len(pairs)).astype(np.int64)], law.high)
    if p is not None and p > alpha:
        return rewrites, None
    why = f"{rewrites:,} rewrites {'cannot be compared with' if p is None else 'refute'} the stated law"
    note(f"{why}{at_budget(of.epsilon)}, so its bounds are ignored")
    return rewrites, why


def _shown_by(law: Computed, rewrites: int) -> Observed:
    covers = Covers.EVERYONE if math.isfinite(law.high) else Covers.THESE
    return Observed(Evidence(_FIGURE + BY_LAW, By.LAW, _SCALE, law, covers=covers), row={"unrefuted": rewrites})


@dataclass(frozen=True)
class PairGroup:
    """Pairs of texts. Each text is an audited text, or made from an audited text.

    of: the name of the group. texts: the audited texts, then texts made from them. numbers: [n, 2], the pairs as
    indices into `texts`. x, other: [n], indices of the two audited texts that a pair is made from. place: [n], the
    index of the word of x that is exchanged. other_place: [n], the index of the word of `other` that replaces it. Both
    are -1 in pairs of whole texts.
    """

    of: str
    texts: Sequence[str]
    numbers: NDArray[np.int64]
    x: NDArray[np.int64]
    other: NDArray[np.int64]
    place: NDArray[np.int64]
    other_place: NDArray[np.int64]

    def parts(self, arm: int) -> dict[str, int | None]:
        """Return the parts of a pair, as columns; places are None for a pair of whole texts."""
        parts = {name: int(getattr(self, name)[arm]) for name in ("x", "other", "place", "other_place")}
        return {name: None if number < 0 else number for name, number in parts.items()}


def whole(of: str, texts: Sequence[str], count: int, seed: int) -> PairGroup:
    """Return up to `count` distinct random pairs of the texts. If `of` is EQUAL, both texts have equally many words."""
    lengths = np.array([len(words(text)) if of == EQUAL else 0 for text in texts])
    order = np.argsort(lengths, kind="stable")
    begin, end = (np.searchsorted(lengths[order], lengths[order], side) for side in ("left", "right"))
    places = np.flatnonzero(end - begin > 1)  # texts that have a partner
    uniforms = Noise.named(8 * count if len(places) else 0, seed, "worst", of).uniforms(2)
    first = places[(uniforms[:, 0] * len(places)).astype(np.int64)]
    size = (end - begin)[first]
    step = 1 + (uniforms[:, 1] * (size - 1)).astype(np.int64)
    second = begin[first] + (first - begin[first] + step) % size
    pairs = np.sort(order[np.stack([first, second], axis=1)], axis=1)
    _, at = np.unique(pairs, axis=0, return_index=True)
    pairs = pairs[np.sort(at)[:count]]
    nowhere = np.full(len(pairs), -1)
    return PairGroup(of, texts, pairs, x=pairs[:, 0], other=pairs[:, 1], place=nowhere, other_place=nowhere)


def exchanged(texts: Sequence[str], count: int, seed: int) -> PairGroup:
    """Return up to `count` pairs of a text and the same text with one word exchanged. Words are normalised.

    Every distinct word is used at most once, in random order, at a random place of a random text. So rare words are
    used as often as frequent words.
    """
    spoken = [words(text) for text in texts]
    not_empty = [i for i, split in enumerate(spoken) if split]
    first = {word: (i, at) for i in reversed(not_empty) for at, word in reversed([*enumerate(spoken[i])])}
    index = {text: i for i, text in enumerate(texts)}
    uniforms = Noise.named(len(first), seed, "worst", ONE_WORD).uniforms(3)
    numbers, parts = [], []
    for word, u in sorted(zip(sorted(first), uniforms, strict=True), key=lambda pair: pair[1][0])[:count]:
        x = not_empty[int(u[1] * len(not_empty))]
        place = int(u[2] * len(spoken[x]))
        if spoken[x][place] == word:
            continue
        canary = [*spoken[x][:place], word, *spoken[x][place + 1 :]]
        numbers.append([index.setdefault(text, len(index)) for text in (write(spoken[x]), write(canary))])
        parts.append((x, first[word][0], place, first[word][1]))
    columns = np.array(parts, np.int64).reshape(-1, 4).T
    pairs = np.array(numbers, np.int64).reshape(-1, 2)
    return PairGroup(
        ONE_WORD, list(index), pairs, x=columns[0], other=columns[1], place=columns[2], other_place=columns[3]
    )


def audit_worst(
    texts: Sequence[str],
    mechanism: Named,
    epsilons: Sequence[float] | None = None,
    attacks: Attacks | None = None,
    trials: int = 4000,
    settings: Mapping[str, Any] | None = None,
    design: Design = STANDARD,
) -> pl.DataFrame:
    """Search for the pair of texts at which a mechanism loses most, and prove its loss on fresh trials.

    texts, mechanism, epsilons, attacks, settings: as in `epsilometer.audit`. Attacks that see more than the released
    view are left out. trials: the number of trials for each epsilon and group of pairs; half of them are for the
    search. design: only alpha and seed are used. Returns a row per epsilon, group and method, schema `WORST_PAIRS`: the
    attack, `loss` (nats, confidence 1 - alpha / 2), the pure loss that the most confident guesses prove, the claimed
    loss of this pair, its verdict, and the `overall` verdict as in `epsilometer.audit`. Raises UserError for values
    outside their range.
    """
    check_design(design)
    texts = distinct(texts)
    if epsilons is not None:
        check_epsilons(epsilons)
    if len(texts) < 2:
        raise UserError(f"a pair needs two distinct texts, got {len(texts)}; give more texts", "EPS-Q051")
    check_trials(trials)
    if trials < 4:
        raise UserError(f"trials must be >= 4, two for the search and two for the bound, got {trials}", "EPS-Q052")
    arms = affordable(trials)
    of_texts = [whole(of, texts, arms, design.seed) for of in (ANY, EQUAL)]
    groups = [group for group in (*of_texts, exchanged(texts, arms, design.seed)) if len(group.x)]
    chosen, tally = chosen_attacks(attacks), Tally()
    rows = []
    for group in groups:
        made_by = as_mechanism(mechanism, settings, group.texts)
        if group is groups[0]:
            say_what_is_left_out(chosen, made_by, explicit=attacks is not None)
        at = [float(epsilon) for epsilon in budgets(made_by, epsilons)]
        if group is groups[0]:
            check_guarantees(made_by, at)
            worst = worst_cases(made_by, at)  # does not depend on the group's texts
        able = seeing(applicable(chosen, made_by), made_by, "released")
        if _lawful(made_by):
            rows += _computed(group, made_by, at)
        try:
            rows += [_proved(group, made_by, each, able, trials=trials, design=design, tally=tally) for each in at]
        except Dry as dry:
            # A text in several groups is sent once, since answers are stored.
            asked_for = reduce(or_, (queried(able, made_by, each.texts, each.numbers) for each in groups))
            raise dry.in_rounds(len(at) * (len(groups) * trials + asked_for.total())) from None
    tally.say()
    tests = [row["least_p_value"] for row in rows if "least_p_value" in row]
    level = design.alpha / verdicts.divisor(tests, design.alpha)
    table = pl.DataFrame([_with_verdict(row, level) for row in rows], schema=dict(WORST_PAIRS))
    pairs_judged = judged(table, worst, computed=pl.col("method") == EXACT)
    return pairs_judged.select(list(WORST_PAIRS)).sort("epsilon", maintain_order=True)


@dataclass(frozen=True)
class _Trials:
    """Trials of pairs at one epsilon. In each trial a fair coin chooses which of the two texts is rewritten."""

    pairs: PairGroup
    mechanism: Mechanism
    epsilon: float
    attacks: Mapping[str, Attack]
    seed: int
    tally: Tally
    scores: dict[str, NDArray[np.float64]] = field(default_factory=dict)

    def pull(self, arms: NDArray[np.int64], first: int, count: int) -> NDArray[np.bool_]:
        """Return hits as `halving.Pull` does, and store the attacks' scores of these trials in `scores`."""
        places = np.repeat(arms, count)
        # One stream per pair and trial, so draws do not depend on the other pairs of the call.
        numbers = places * (1 << 32) + np.tile(np.arange(first, first + count), len(arms))
        name = (self.seed, "worst", self.pairs.of, self.epsilon)
        target = (Noise.named(numbers, *name, "target").uniforms()[:, 0] < 0.5).astype(SLOT)
        candidates = self.pairs.numbers[places]
        source = candidates[np.arange(len(places)), target]
        job = Job(self.pairs.texts, source, [self.epsilon], [Noise.named(numbers, *name, "rewrite")], tally=self.tally)
        with with_queries(self.attacks, self.mechanism, self.pairs.texts, candidates, epsilons=[self.epsilon]):
            (rewrites,) = rewrite_all(self.mechanism, job)
        played = play(
            Knowledge(self.pairs.texts, candidates, self.mechanism),
            {self.epsilon: rewrites},
            self.attacks,
            lambda attack, _: Noise.named(numbers, *name, "attack", attack),
        )
        right = []
        for label, guesses in played[self.epsilon].items():
            right.append((guesses.slots == target).reshape(len(arms), count))
            self.scores[label] = np.zeros(len(places)) if guesses.scores is None else guesses.scores
        return np.stack(right, axis=2)


def _searched(
    pairs: PairGroup,
    mechanism: Mechanism,
    epsilon: float,
    attacks: Mapping[str, Attack],
    *,
    trials: int,
    seed: int,
    tally: Tally,
) -> tuple[Survivor, Mapping[str, NDArray[np.float64]]]:
    """Search for the worst pair; return it with its fresh trials, and the attacks' scores in these trials."""
    tried = _Trials(pairs, mechanism, epsilon, attacks, seed=seed, tally=tally)
    return search(tried.pull, len(pairs.x), trials), tried.scores


def _proved(
    pairs: PairGroup,
    mechanism: Mechanism,
    epsilon: float,
    attacks: Mapping[str, Attack],
    *,
    trials: int,
    design: Design,
    tally: Tally,
) -> dict[str, Any]:
    best, scores = _searched(pairs, mechanism, epsilon, attacks, trials=trials, seed=design.seed, tally=tally)
    attack, said = list(attacks)[best.attack], stated(mechanism, epsilon)
    count, hits = len(best.right), int(best.right.sum())
    proved = estimate(hits, count, alpha=design.alpha)
    row = {
        "epsilon": stored(epsilon),
        "pairs": pairs.of,
        "compared": len(pairs.x),
        "method": SAMPLED,
        "attack": attack,
        "trials": count,
        "successes": hits,
        "loss": proved.loss,
        "point": proved.point,
        "ceiling": proved.ceiling,
        "worst_output": worst_output(best.right, scores[attack], 2, design.alpha),
        "delta": said.delta,
        "claim": said.claim,
        **pairs.parts(best.arm),
    }
    if not said.claimed:
        return row | {"claimed": None}
    claimed = verdicts.guess_claims(mechanism, epsilon, pairs.texts, pairs.numbers[[best.arm]])
    expected = verdicts.expected_successes(np.repeat(claimed, count), 2, said.delta)
    return row | {
        "claimed": float(claimed[0]),
        "p_value": verdicts.p_value(hits, count, expected),
        "least_p_value": verdicts.smallest_p_value(count, expected),
    }


def _computed(pairs: PairGroup, mechanism: Mechanism, epsilons: Sequence[float]) -> list[dict[str, Any]]:
    """Return a row per epsilon about one pair of the group, by computed losses.

    If the claim is violated, the row is about the pair that exceeds the claim most. Otherwise the row is about the pair
    with the largest loss. Among pairs of equal loss, the pair with the largest pure loss is taken.
    """
    allowed = [verdicts.pair_claims(mechanism, epsilon, pairs.texts, pairs.numbers) for epsilon in epsilons]
    computed = pair_losses(Request(mechanism, pairs.texts, pairs.numbers, epsilons, claims=allowed))
    rows = []
    for epsilon, losses, claimed in zip(epsilons, computed, allowed, strict=True):
        said, guess = stated(mechanism, epsilon), guess_losses(losses.log_error)
        pure = np.zeros(len(pairs.x)) if losses.pure is None else losses.pure
        room = losses.room(claimed, said.delta)
        exceeded = np.zeros(len(pairs.x)) if room is None else np.maximum(-room, 0.0)
        arm = int(np.lexsort((pure, guess.low, exceeded))[-1])
        checked = room is not None and np.isfinite(claimed).any()
        tested = verdicts.NOT_REFUTED if checked else verdicts.NOT_CHECKED
        rows.append(
            {
                "epsilon": stored(epsilon),
                "pairs": pairs.of,
                "compared": len(pairs.x),
                "method": EXACT,
                "loss": float(guess.low[arm]),
                "point": float(guess.high[arm]),
                "worst_output": None if losses.pure is None else float(pure[arm]),
                "delta": said.delta,
                "claim": said.claim,
                "claimed": float(claimed[arm]) if said.claimed else None,
                "verdict": verdicts.VIOLATED if exceeded[arm] else tested if said.claimed else verdicts.NO_CLAIM,
                **pairs.parts(arm),
            }
        )
    return rows


def _with_verdict(row: Mapping[str, Any], level: float) -> dict[str, Any]:
    """Return a row with its verdict. level: the error probability of a test."""
    shown = {name: value for name, value in row.items() if name != "least_p_value"}
    if "verdict" in row:
        return shown
    tested = row["claimed"] is not None
    return shown | {
        "verdict": verdicts.verdict(row["p_value"], level, row["least_p_value"]) if tested else verdicts.NO_CLAIM
    }
