"""The audit over units: a coin chooses every word of a text, and the adversary guesses all coins of a rewrite.

Each word of a text gets a partner, another word of the texts; a fair coin chooses which of the two takes its place,
and the resulting text is rewritten once. So n words give n guesses where a trial between whole texts gives one, and
they prove a loss for one word (`one_run.coins`), to compare with a claim for words.

A guess is that of an attack which sees the output in the word's place, if the rewrite has as many words as
the text, else the whole rewrite, with the two words as candidates. Any attack works, for any mechanism: information
that it ignores, such as the context of a word, makes the bound lower and never wrong. Attacks on latents and on a
provider's view have nothing to compare a single word with, and are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epsilometer.auditing.claims import verdicts
from epsilometer.auditing.claims.judging import judged, worst_cases
from epsilometer.auditing.claims.stated import stated
from epsilometer.auditing.estimation.abstention import halves, levels
from epsilometer.auditing.one_run.coins import p_value, unit_loss
from epsilometer.auditing.results.diagnostics import STRONGEST
from epsilometer.auditing.schemas import UNIT_LOSSES
from epsilometer.auditing.text_audit import (
    Attacks,
    Named,
    applicable,
    as_mechanism,
    chosen_attacks,
    distinct,
    say_what_is_left_out,
)
from epsilometer.auditing.trials.design import STANDARD, Design, check_design, check_trials
from epsilometer.auditing.trials.rewriting import Job, rewrite_all
from epsilometer.core.attack import SLOT, Attack, Guesses
from epsilometer.core.attack import sees as seen_by
from epsilometer.core.errors import UserError
from epsilometer.core.guarantees import check_epsilons, stored
from epsilometer.core.mechanism import TEXT, UNITS, Mechanism, Rewrites, budgets, check_guarantees
from epsilometer.core.ragged import Ragged
from epsilometer.core.randomness import Noise
from epsilometer.game.play import Knowledge, play, with_queries
from epsilometer.runtime.progress import note
from epsilometer.text.words import words, write


@dataclass(frozen=True)
class Coins:
    """The words of some texts, each chosen by a coin.

    vocabulary: the distinct words; pairs: int [coins, 2], their numbers; fell: int16 [coins], which of the two is
    in the text; lengths: [texts], the number of words of each text.
    """

    vocabulary: Sequence[str]
    pairs: NDArray[np.int64]
    fell: NDArray[np.int16]
    lengths: NDArray[np.int64]

    @classmethod
    def flip(cls, texts: Sequence[str], count: int, seed: int) -> Coins:
        """Return coins for the words of `count` uniformly drawn texts, with a uniform partner for each word.

        Raises UserError where the texts have fewer than two distinct words, or for count < 1.
        """
        check_trials(count)
        spoken = [split for text in texts if (split := words(text))]
        vocabulary = sorted({word for split in spoken for word in split})
        if len(vocabulary) < 2:
            raise UserError(f"an audit over units needs texts of at least two distinct words, got {len(vocabulary)}")
        number = {word: i for i, word in enumerate(vocabulary)}
        chosen = (Noise.named(count, seed, "units", "text").uniforms()[:, 0] * len(spoken)).astype(np.int64)
        rows = Ragged.of([[number[word] for word in spoken[i]] for i in chosen])
        step, coin = Noise.named(count, seed, "units", "coins").ragged(rows.lengths, 2).T
        partner = (rows.values + 1 + (step * (len(vocabulary) - 1)).astype(np.int64)) % len(vocabulary)
        pairs = np.stack([rows.values, partner], axis=1)
        return cls(vocabulary, pairs, (coin < 0.5).astype(SLOT), rows.lengths)

    @property
    def texts(self) -> list[str]:
        """Return the texts that the mechanism rewrites."""
        chosen = self.pairs[np.arange(len(self.fell)), self.fell].tolist()
        ends = np.cumsum(self.lengths).tolist()
        starts = [0, *ends[:-1]]
        return [write(self.vocabulary[i] for i in chosen[a:b]) for a, b in zip(starts, ends, strict=True)]

    def shown(self, rewrites: Rewrites) -> Rewrites:
        """Return the output in the place of each coin: a word, and its unit, if the rewrite has as many words."""
        parts = [
            next((shown for shown in (text.split(), words(text)) if len(shown) == length), repeat(text, length))
            for text, length in zip(rewrites.texts, self.lengths.tolist(), strict=True)
        ]
        units = rewrites.units
        if units is not None and (units.lengths == self.lengths).all():
            units = Ragged(units.values, np.arange(len(self.fell) + 1))
        else:
            units = None
        return Rewrites(list(chain.from_iterable(parts)), units)


def audit_units(
    texts: Sequence[str],
    mechanism: Named,
    epsilons: Sequence[float] | None = None,
    attacks: Attacks | None = None,
    trials: int = 100,
    settings: Mapping[str, Any] | None = None,
    design: Design = STANDARD,
) -> pl.DataFrame:
    """Measure the privacy loss of a mechanism for one word: the words of each rewritten text are guessed all at once.

    texts, mechanism, epsilons, attacks, settings: as in `epsilometer.audit`. trials: number of texts rewritten at each
    epsilon. Of the design, alpha and seed matter. Returns a row per epsilon and attack, schema `UNIT_LOSSES`, and one
    for the `strongest`, at alpha / m for m attacks that see the released view; `overall` as in `epsilometer.audit`.
    Raises UserError for values outside their range.
    """
    check_design(design)
    texts = distinct(texts)
    if epsilons is not None:
        check_epsilons(epsilons)
    chosen, made_by = chosen_attacks(attacks), as_mechanism(mechanism, settings, texts)
    say_what_is_left_out(chosen, made_by, explicit=attacks is not None)
    able = _able(chosen, made_by, {TEXT, UNITS})  # raises before any text is rewritten
    at = [float(epsilon) for epsilon in budgets(made_by, epsilons)]
    check_guarantees(made_by, at)
    worst = worst_cases(made_by, at)
    coins = Coins.flip(texts, trials, design.seed)
    streams = [Noise.named(trials, design.seed, "units", "rewrite", epsilon) for epsilon in at]
    job = Job(coins.texts, np.arange(trials), at, streams)
    with with_queries(able, made_by, coins.vocabulary, coins.pairs, epsilons=at):
        rewrites = rewrite_all(made_by, job, paced=True)
    job.tally.say()
    rows = []
    for epsilon, output in zip(at, map(coins.shown, rewrites), strict=True):
        able = _able(chosen, made_by, {TEXT} if output.units is None else {TEXT, UNITS})
        guesses = play(
            Knowledge(coins.vocabulary, coins.pairs, made_by),
            {epsilon: output},
            able,
            lambda attack, at: Noise.named(len(coins.fell), design.seed, "units", "attack", attack, at),
        )[epsilon]
        seen = {name: seen_by(chosen[name], made_by) for name in guesses}
        rows += _rows(coins, made_by, epsilon, guesses, seen=seen, alpha=design.alpha)
    if left := [name for name in applicable(chosen, made_by) if name not in {row["attack"] for row in rows}]:
        note(f"not run: {', '.join(left)}, which compare no single words of this mechanism")
    return judged(pl.DataFrame(_judged(rows, design.alpha), schema=dict(UNIT_LOSSES)), worst)


def _able(attacks: Mapping[str, Attack], mechanism: Mechanism, views: Set[str]) -> dict[str, Attack]:
    """Return the attacks that read only these views, so that they can compare a word with its output."""
    applied = applicable(attacks, mechanism)
    able = {name: attack for name, attack in applied.items() if seen_by(attack, mechanism) in views}
    if not able:
        raise UserError(f"{', '.join(applied)} see no single words of this mechanism; lexical and embedding always do")
    return able


def _rows(
    coins: Coins,
    mechanism: Mechanism,
    epsilon: float,
    guesses: Mapping[str, Guesses],
    *,
    seen: Mapping[str, str],
    alpha: float,
) -> list[dict[str, Any]]:
    """Return the rows at one epsilon, with their p-values under the claim, as observed and for all guesses right."""
    said, count = stated(mechanism, epsilon), len(coins.fell)
    every = np.ones(count, bool)
    right = {name: guess.slots == coins.fell for name, guess in guesses.items()}
    scores = {name: np.zeros(count) if g.scores is None else g.scores for name, g in guesses.items()}
    claims = verdicts.pair_claims(mechanism, epsilon, coins.vocabulary, coins.pairs)
    covered = np.isfinite(claims)  # conditional on the other coins: the result for these coins holds whatever they are
    allowed = claims[covered]

    def likely(hits: NDArray[np.bool_], surer: NDArray[np.floating]) -> float:
        return _p_value(hits[covered], surer[covered], allowed, said.delta)

    def row(name: str, among: Sequence[str]) -> dict[str, Any]:
        level = alpha / len(among)
        proved = {name: unit_loss(right[name], scores[name], level) for name in among}
        best = max(among, key=lambda name: proved[name].loss)
        return {
            "epsilon": stored(epsilon),
            "attack": name,
            "sees": seen[best],
            "released": seen[best] in said.releases,
            "rewrites": len(coins.lengths),
            "coins": count,
            "guesses": proved[best].guesses,
            "right": proved[best].right,
            "rate": proved[best].right / proved[best].guesses,
            "loss": proved[best].loss,
            "ceiling": unit_loss(every, np.zeros(count), level).loss,
            "delta": said.delta,
            "claim": said.claim,
            "covered": int(covered.sum()),
            "claimed": float(allowed.max()) if len(allowed) else None,
            "p_value": likely(right[best], scores[best]) if said.claimed else None,
            "least_p_value": likely(every, scores[best]) if said.claimed else None,
            "best_attack": best if name == STRONGEST else None,
        }

    table = [row(name, [name]) for name in right]
    released = [name for name in right if seen[name] in said.releases]
    return [*table, row(STRONGEST, released)] if len(right) > 1 and released else table


def _p_value(
    right: NDArray[np.bool_], scores: NDArray[np.floating], allowed: NDArray[np.float64], delta: float
) -> float:
    """Return the largest probability of as many right guesses, at the best level, for coins with losses `allowed`.

    All arrays: [coins], 1 without coins. Without delta the number of right guesses is at most a sum of independent
    Bernoulli variables, one per coin.
    """
    if not len(right):
        return 1.0
    order = np.argsort(-scores, kind="stable")
    right, allowed = right[order], allowed[order]
    sizes = halves(len(right)) if delta else levels(scores[order])
    if delta:
        largest = float(allowed.max())
        p_values = [p_value(int(right[:r].sum()), r, len(right), largest, delta=delta) for r in sizes]
    else:
        expected = [verdicts.expected_successes(allowed[:r], 2, 0.0) for r in sizes]
        p_values = [verdicts.p_value(int(right[:r].sum()), r, e) for r, e in zip(sizes, expected, strict=True)]
    return min(1.0, len(sizes) * min(p_values))


def _judged(rows: Sequence[dict[str, Any]], alpha: float) -> list[dict[str, Any]]:
    """Return the rows with verdicts, which share alpha (`verdicts.divisor`); the strongest repeats another test."""
    tests = [row["least_p_value"] for row in rows if row["p_value"] is not None and row["attack"] != STRONGEST]
    level = alpha / verdicts.divisor(tests, alpha)
    judged = []
    for row in rows:
        least = row.pop("least_p_value")
        verdict = verdicts.NO_CLAIM if least is None else verdicts.verdict(row["p_value"], level, least)
        judged.append({**row, "verdict": verdict})
    return judged
