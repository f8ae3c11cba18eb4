"""The pair of texts with a mechanism's largest loss: searched by trials, then proved on fresh ones.

An audit's losses are averages over its trials, so a text that a mechanism hardly protects, such as one with a rare
word, disappears among the others. Here pairs compete (`halving`), and the bound is about the survivor.
Pairs come from three groups, each searched by itself:

- `all`: two of the audited texts;
- `equal length`: two that have equally many words, so that their number does not tell them apart;
- `one word`: a text, and the same text with one of its words exchanged for a word of another (a canary). Both have
  equally many words, and the loss between them is about one word.

If the law of the released view is known, the losses of the pairs are computed as well (`exact_loss`): a row
`exact`, whose `loss` is that of the best guess, rounded down, and whose verdict compares the pure loss with a claim
without delta, and delta at the claimed loss with another (`PairLosses.room`). It assumes the law that the mechanism
states; the row `sampled` assumes nothing.

The result is a lower bound on the loss of the mechanism's worst pair: another pair may lose more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epsilometer.auditing.claims import verdicts
from epsilometer.auditing.claims.judging import judged, worst_cases
from epsilometer.auditing.claims.stated import stated
from epsilometer.auditing.estimation.abstention import worst_output
from epsilometer.auditing.estimation.halving import affordable, search
from epsilometer.auditing.estimation.successes import estimate
from epsilometer.auditing.exact_loss.bracket import guess_losses
from epsilometer.auditing.exact_loss.losses import Request
from epsilometer.auditing.exact_loss.measuring import pair_losses, pairwise
from epsilometer.auditing.schemas import WORST_PAIRS
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
from epsilometer.core.errors import UserError
from epsilometer.core.guarantees import check_epsilons, stored
from epsilometer.core.likelihood import shows_more
from epsilometer.core.mechanism import Mechanism, budgets, check_guarantees, law_of, releases
from epsilometer.core.randomness import Noise
from epsilometer.game.play import Knowledge, play, queried, with_queries
from epsilometer.models.spending import Dry
from epsilometer.text.words import words, write

ANY, EQUAL, ONE_WORD = "all", "equal length", "one word"
SAMPLED, EXACT = "sampled", f"exact, {verdicts.BY_LAW}"


@dataclass(frozen=True)
class PairGroup:
    """Pairs of texts, some of them audited texts and some of them made from audited texts.

    of: the group; texts: the audited ones, then canaries; numbers: [n, 2], into these. x, other: [n], numbers of the
    audited texts that a pair is made of; place, other_place: [n], the word of x that is exchanged, and the word of the
    other that takes its place; -1 in pairs of whole texts.
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
    """Return up to `count` distinct pairs of the texts, drawn uniformly; of equally many words where `of` says so."""
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
    """Return up to `count` pairs of a text and itself with one word exchanged; words are normalised.

    Every distinct word is lent once, in random order, to a random place of a random text: rare words as often as
    others.
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
    """Search the pair of texts at which a mechanism loses most, and prove its loss on fresh trials.

    texts, mechanism, epsilons, attacks, settings: as in `epsilometer.audit`; attacks that see more than the released
    view are left out. trials: at each epsilon and for each group of pairs, half of them for the search. Of the design,
    alpha and seed matter. Returns a row per epsilon, group and method, schema `WORST_PAIRS`: the attack, `loss` (nats,
    confidence 1 - alpha / 2), the pure loss that the most confident guesses prove, the claim for this pair, its
    verdict, and the `overall` one on the claim, as in `epsilometer.audit`. Raises UserError for values outside their
    range.
    """
    check_design(design)
    texts = distinct(texts)
    if epsilons is not None:
        check_epsilons(epsilons)
    if len(texts) < 2:
        raise UserError(f"a pair needs two distinct texts, got {len(texts)}")
    check_trials(trials)
    if trials < 4:
        raise UserError(f"trials must be >= 4, two for the search and two for the bound, got {trials}")
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
            worst = worst_cases(made_by, at)  # independent of these texts
        able = seeing(applicable(chosen, made_by), made_by, "released")
        if pairwise(made_by) and law_of(made_by) in releases(made_by) and not shows_more(made_by):
            rows += _computed(group, made_by, at)
        try:
            rows += [_proved(group, made_by, each, able, trials=trials, design=design, tally=tally) for each in at]
        except Dry as dry:
            # The same texts of another group get the same answers, which are stored.
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
    """Trials of pairs at one epsilon: in each a fair coin chooses which of the two texts is rewritten."""

    pairs: PairGroup
    mechanism: Mechanism
    epsilon: float
    attacks: Mapping[str, Attack]
    seed: int
    tally: Tally
    surest: dict[str, NDArray[np.float64]] = field(default_factory=dict)

    def pull(self, arms: NDArray[np.int64], first: int, count: int) -> NDArray[np.bool_]:
        """Return hits as `halving.Pull` does; `surest` stores the attacks' scores of the last trials."""
        places = np.repeat(arms, count)
        # One stream per pair and trial, whichever others are tried with it.
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
            self.surest[label] = np.zeros(len(places)) if guesses.scores is None else guesses.scores
        return np.stack(right, axis=2)


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
    tried = _Trials(pairs, mechanism, epsilon, attacks, seed=design.seed, tally=tally)
    best = search(tried.pull, len(pairs.x), trials)
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
        "worst_output": worst_output(best.right, tried.surest[attack], 2, design.alpha),
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
    """Return the rows of a group whose losses are computed, each about one pair.

    It is the pair of the largest loss; among equals, the one with the worst output. If a claim is violated,
    it is the pair that exceeds the claim most.
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
    """Return a row with its verdict, at the level of a test where it needs one."""
    shown = {name: value for name, value in row.items() if name != "least_p_value"}
    if "verdict" in row:
        return shown
    tested = row["claimed"] is not None
    return shown | {
        "verdict": verdicts.verdict(row["p_value"], level, row["least_p_value"]) if tested else verdicts.NO_CLAIM
    }
