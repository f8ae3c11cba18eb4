"""The words of a text: a coin chooses each word, and the adversary guesses all coins from the rewrite.

Each word of a text gets a partner, another word of the texts. A fair coin chooses which of the two is in the text, and
the resulting text is rewritten once. So one rewrite of n words gives n guesses. The guesses prove a loss for one word
(`estimation.coins`), which can be compared with a claim for words.

The two words are the candidates of an attack. If the rewrite has as many words as the text, the attack sees the output
in the word's place, else the whole rewrite. Every attack gives a valid bound, for any mechanism. If an attack ignores
information, such as the context of a word, its bound is smaller but still valid. Attacks on latents and on a provider's
view cannot compare single words, and are left out.

A trial of the question `WhichUnit` is a rewritten text. Its value is the share of the text's coins that an attack
guessed right. Texts are drawn independently, each with its own coins, so the values are independent numbers in [0, 1].
Let p be their mean: the probability of guessing a uniformly drawn word of a uniformly drawn text. The figure is the
loss of guessing between two words at that rate, ln(p / (1 - p)) (TeDA eq. 10 with k = 2). Suppose that no word loses
more than c nats, given the other words. Then each coin is guessed right with probability at most e^c / (1 + e^c), which
bounds p, too. So a lower bound on the figure is a lower bound on the largest loss of a word. The upper bound covers
only the attacks that ran, and only the average over words. `audit_units` counts coins instead of texts, and only the
most confident guesses, so it proves more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any, ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epsilometer.auditing.claims import verdicts
from epsilometer.auditing.claims.judging import judged, worst_cases
from epsilometer.auditing.claims.stated import stated
from epsilometer.auditing.estimation.abstention import halves, levels
from epsilometer.auditing.estimation.coins import p_value, unit_loss
from epsilometer.auditing.evidence.evidence import By, Covers, Evidence, Means
from epsilometer.auditing.evidence.limit import Limit, Scale
from epsilometer.auditing.gate_statistics import Errors, fewest_sets
from epsilometer.auditing.question import Gives, Need, Observed, Table, TableRequest
from epsilometer.auditing.results.diagnostics import STRONGEST
from epsilometer.auditing.schemas import UNIT_LOSSES
from epsilometer.auditing.subject import Subject
from epsilometer.auditing.text_audit import (
    Attacks,
    Named,
    applicable,
    as_mechanism,
    chosen_attacks,
    distinct,
    say_what_is_left_out,
)
from epsilometer.auditing.trials.answers import Tally
from epsilometer.auditing.trials.design import STANDARD, Design, check_design, check_trials
from epsilometer.auditing.trials.rewriting import Job, rewrite_all
from epsilometer.core.attack import SLOT, Attack, Guesses
from epsilometer.core.attack import sees as seen_by
from epsilometer.core.component import component
from epsilometer.core.errors import UserError
from epsilometer.core.guarantees import check_epsilons, stored
from epsilometer.core.mechanism import TEXT, UNITS, Mechanism, Rewrites, budgets, check_guarantees
from epsilometer.core.ragged import Ragged
from epsilometer.core.randomness import Noise
from epsilometer.game.play import Knowledge, play, with_queries
from epsilometer.runtime.progress import note
from epsilometer.text.words import words, write

_COMPARED = {TEXT, UNITS}  # the views in which an attack can compare single words
_SHOWN = (
    *("epsilon", "attack", "sees", "rewrites", "coins", "guesses", "right"),
    *("loss", "ceiling", "covered", "claimed", "overall", "claim"),
)
_AMPLE = 2  # texts to rewrite, as a multiple of the fewest that show the limit is kept, since the share of hits varies


@component
class WhichUnit:
    """No settings: the attacks are those of the audit that can compare single words."""

    needs: ClassVar[frozenset[Need]] = frozenset()
    gives: ClassVar[frozenset[Gives]] = frozenset({Gives.LOW, Gives.HIGH, Gives.OUTCOMES})
    columns: ClassVar[Sequence[str]] = ()
    usual: ClassVar[int] = 100

    def limit(self, of: Subject, allowed: float) -> Limit:
        """Return a limit on the loss, in nats, of guessing between two words."""
        if not allowed > 0:
            raise UserError(f"the limit of which_unit, in nats, must be > 0, got {allowed}", "EPS-Q042")
        return Limit(allowed, _SCALE, "the largest loss of a word allowed")

    def tests(self, of: Subject) -> Sequence[str]:
        """Return a name for each attack that can compare single words."""
        return [_name(attack) for attack in _able(of.attacks, of.mechanism, _COMPARED)]

    def amount(self, of: Subject, limit: Limit, budget: int, tests: int, *, errors: Errors) -> int:
        """Return twice the fewest texts that show the limit kept if attacks are at chance; from `usual` to `budget`."""
        if limit.rate > 1 - 1e-6:
            raise UserError(
                f"no rate of right guesses can exceed a loss of {limit.allowed:g} nats; give a lower limit", "EPS-Q043"
            )
        lengths = [len(split) for text in of.pool.texts if (split := words(text))]
        spread = float(np.sqrt(np.mean(0.25 / np.array(lengths)))) if lengths else 0.5
        fewest = fewest_sets(limit.rate, tests, expected=0.5, spread=spread, errors=errors)
        if fewest is None or fewest > budget:
            needed = "more than a million" if fewest is None else f"{fewest:,}"
            raise UserError(
                f"a limit of {limit.allowed:g} nats on a word takes {needed} rewrites to test, and {budget:,} are "
                "left; give a larger budget (--budget), or a higher limit",
                "EPS-Q044",
            )
        return min(max(self.usual, _AMPLE * fewest), budget)

    def observe(self, of: Subject, count: int) -> Sequence[Observed]:
        """Return the evidence of each attack on the words of this number of texts."""
        coins = Coins.flip(of.pool.texts, count, of.design.seed)
        played = _guessed(coins, of.mechanism, of.attacks, [of.epsilon], seed=of.design.seed, tally=of.tally)
        (guesses,) = played.values()
        _say_idle(of.attacks, guesses)
        observed = []
        for name, guess in guesses.items():
            right = guess.slots == coins.fell
            shares = np.add.reduceat(right, coins.starts, dtype=np.int64) / coins.lengths
            evidence = Evidence(_name(name), By.ATTACK, _SCALE, Means(shares.tolist()), covers=Covers.THESE)
            observed.append(Observed(evidence, shares, row={"words": len(right), "right": int(right.sum())}))
        return observed

    def table(self, request: TableRequest) -> Table:
        """Return the table of `audit_units`, a row per epsilon and attack."""
        return request.measured(audit_units, self.usual, UNIT_LOSSES, _SHOWN)


_SCALE = Scale("unit", options=2)


def _name(attack: str) -> str:
    return f"unit: {attack}"


@dataclass(frozen=True)
class Coins:
    """The words of some texts, each word chosen by a coin.

    vocabulary: the distinct words. pairs: int [coins, 2], indices of a word and its partner. fell: int16 [coins], 0 if
    the word is in the text, 1 if its partner is. lengths: [texts], the number of words of each text.
    """

    vocabulary: Sequence[str]
    pairs: NDArray[np.int64]
    fell: NDArray[np.int16]
    lengths: NDArray[np.int64]

    @classmethod
    def flip(cls, texts: Sequence[str], count: int, seed: int) -> Coins:
        """Return coins for the words of `count` uniformly drawn texts, with a uniform partner for each word.

        Raises UserError if the texts have fewer than two distinct words, or if count < 1.
        """
        check_trials(count)
        spoken = [split for text in texts if (split := words(text))]
        vocabulary = sorted({word for split in spoken for word in split})
        if len(vocabulary) < 2:
            raise UserError(
                f"an audit over units needs texts of at least two distinct words, got {len(vocabulary)}; give more",
                "EPS-Q045",
            )
        number = {word: i for i, word in enumerate(vocabulary)}
        chosen = (Noise.named(count, seed, "units", "text").uniforms()[:, 0] * len(spoken)).astype(np.int64)
        rows = Ragged.of([[number[word] for word in spoken[i]] for i in chosen])
        step, coin = Noise.named(count, seed, "units", "coins").ragged(rows.lengths, 2).T
        partner = (rows.values + 1 + (step * (len(vocabulary) - 1)).astype(np.int64)) % len(vocabulary)
        pairs = np.stack([rows.values, partner], axis=1)
        return cls(vocabulary, pairs, (coin < 0.5).astype(SLOT), rows.lengths)

    @property
    def starts(self) -> NDArray[np.int64]:
        """The index of the first word of each text among all words."""
        return np.cumsum(self.lengths) - self.lengths

    @property
    def texts(self) -> list[str]:
        """The texts that the mechanism rewrites."""
        chosen = self.pairs[np.arange(len(self.fell)), self.fell].tolist()
        places = zip(self.starts.tolist(), np.cumsum(self.lengths).tolist(), strict=True)
        return [write(self.vocabulary[i] for i in chosen[a:b]) for a, b in places]

    def shown(self, rewrites: Rewrites) -> Rewrites:
        """Return the output for each coin: the word in the coin's place, or the whole rewrite if word counts differ."""
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
    """Measure the privacy loss of a mechanism for one word, from guesses of all words of each rewritten text.

    texts, mechanism, epsilons, attacks, settings: as in `epsilometer.audit`. trials: the number of texts rewritten at
    each epsilon. design: only alpha and seed are used. Returns a row per epsilon and attack (schema `UNIT_LOSSES`). At
    each epsilon, a row `strongest` gives the best of the m attacks that see the released view, each at level alpha / m.
    `overall` is as in `epsilometer.audit`. Raises UserError for values outside their range.
    """
    check_design(design)
    texts = distinct(texts)
    if epsilons is not None:
        check_epsilons(epsilons)
    chosen, made_by = chosen_attacks(attacks), as_mechanism(mechanism, settings, texts)
    say_what_is_left_out(chosen, made_by, explicit=attacks is not None)
    _able(chosen, made_by, _COMPARED)  # raises before any text is rewritten
    at = [float(epsilon) for epsilon in budgets(made_by, epsilons)]
    check_guarantees(made_by, at)
    worst = worst_cases(made_by, at)
    coins, tally = Coins.flip(texts, trials, design.seed), Tally()
    played = _guessed(coins, made_by, chosen, at, seed=design.seed, tally=tally)
    tally.say()
    rows = []
    for epsilon, guesses in played.items():
        seen = {name: seen_by(chosen[name], made_by) for name in guesses}
        rows += _rows(coins, made_by, epsilon, guesses, seen=seen, alpha=design.alpha)
    _say_idle(applicable(chosen, made_by), {row["attack"] for row in rows})
    return judged(pl.DataFrame(_judged(rows, design.alpha), schema=dict(UNIT_LOSSES)), worst)


def _guessed(
    coins: Coins,
    mechanism: Mechanism,
    attacks: Mapping[str, Attack],
    epsilons: Sequence[float],
    *,
    seed: int,
    tally: Tally,
) -> dict[float, dict[str, Guesses]]:
    """Return the guesses of all coins by the attacks that can compare single words, by epsilon and attack."""
    able = _able(attacks, mechanism, _COMPARED)
    streams = [Noise.named(len(coins.lengths), seed, "units", "rewrite", epsilon) for epsilon in epsilons]
    job = Job(coins.texts, np.arange(len(coins.lengths)), epsilons, streams, tally=tally)
    with with_queries(able, mechanism, coins.vocabulary, coins.pairs, epsilons=epsilons):
        rewrites = rewrite_all(mechanism, job, paced=True)
    guesses: dict[float, dict[str, Guesses]] = {}
    for epsilon, output in zip(epsilons, map(coins.shown, rewrites), strict=True):
        guesses |= play(
            Knowledge(coins.vocabulary, coins.pairs, mechanism),
            {epsilon: output},
            _able(attacks, mechanism, {TEXT} if output.units is None else _COMPARED),
            lambda attack, at: Noise.named(len(coins.fell), seed, "units", "attack", attack, at),
        )
    return guesses


def _say_idle(attacks: Iterable[str], compared: Collection[str]) -> None:
    if left := [name for name in attacks if name not in compared]:
        note(f"skipped: {', '.join(left)}, which cannot compare single words of this mechanism")


def _able(attacks: Mapping[str, Attack], mechanism: Mechanism, views: Set[str]) -> dict[str, Attack]:
    """Return the attacks that see one of these views, in which they can compare a word with its output."""
    applied = applicable(attacks, mechanism)
    able = {name: attack for name, attack in applied.items() if seen_by(attack, mechanism) in views}
    if not able:
        raise UserError(
            f"{', '.join(applied)} cannot compare single words of this mechanism; add lexical or embedding", "EPS-Q046"
        )
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
    """Return the rows at one epsilon, with p-values under the claim: of the guesses, and if all had been right."""
    said, count = stated(mechanism, epsilon), len(coins.fell)
    every = np.ones(count, bool)
    right = {name: guess.slots == coins.fell for name, guess in guesses.items()}
    scores = {name: np.zeros(count) if g.scores is None else g.scores for name, g in guesses.items()}
    claims = verdicts.pair_claims(mechanism, epsilon, coins.vocabulary, coins.pairs)
    covered = np.isfinite(claims)  # the test is conditional on the other coins, which may have any values
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
    """Return the p-value of the right guesses under a claim that allows each coin a loss `allowed`; 1 without coins.

    All arrays: [coins]. The r most confident guesses are tested for several r, and the p-value is corrected for the
    number of tests. If delta is 0, the number of right guesses is stochastically at most a sum of independent Bernoulli
    variables, one per coin.
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
    """Return the rows with verdicts. The tests share alpha (`verdicts.divisor`); `strongest` repeats one test."""
    tests = [row["least_p_value"] for row in rows if row["p_value"] is not None and row["attack"] != STRONGEST]
    level = alpha / verdicts.divisor(tests, alpha)
    judged = []
    for row in rows:
        least = row.pop("least_p_value")
        verdict = verdicts.NO_CLAIM if least is None else verdicts.verdict(row["p_value"], level, least)
        judged.append({**row, "verdict": verdict})
    return judged
