"""The rows of an audit: which view each attack sees, losses, verdicts, and claims that could have been refuted."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import epsilometer
from epsilometer.attacks.identification.internal import InternalAttack
from epsilometer.attacks.identification.judge import JudgeAttack
from epsilometer.attacks.identification.likelihood import LikelihoodAttack
from epsilometer.auditing.claims.stated import Stated, stated, write
from epsilometer.auditing.claims.stated import read as read_stated
from epsilometer.auditing.claims.verdicts import NO_CLAIM, NOT_REFUTED, NOT_TESTABLE, VIOLATED
from epsilometer.auditing.estimation.successes import estimate, success_bound
from epsilometer.auditing.results.estimates import Attacked, estimates, judge, rows
from epsilometer.auditing.schemas import ESTIMATES
from epsilometer.auditing.trials.design import Design
from epsilometer.auditing.trials.sampling import Trials, sample, variety
from epsilometer.auditing.trials.unread import unread
from epsilometer.core.attack import LATENTS, TEXT, UNITS, Context, Guesses, choose, guess_and_score, is_validated, sees
from epsilometer.core.guarantees import Granularity, Guarantee, Neighbours
from epsilometer.core.mechanism import Latents, Rewrites, Unread
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.controls.identity import Identity
from tests.support.refusals import refused


class Claiming:
    """Claims epsilon, with a delta, for whole texts."""

    def __init__(self, delta: float = 0.0) -> None:
        self.delta = delta

    def rewrite(self, texts: list[str], epsilon: float, noise: Noise) -> Rewrites:
        return Rewrites(list(texts))

    def guarantee(self, epsilon: float) -> Guarantee:
        return Guarantee(epsilon, Granularity.DOCUMENT, Neighbours.ANY, self.delta)


class Hidden:
    """Shows nothing of a text but its latent, which is not released."""

    def encode(self, texts: list[str]) -> np.ndarray:
        return np.array([[len(text), 10] for text in texts], np.float32)

    def rewrite(self, texts: list[str], epsilon: float, noise: Noise) -> Rewrites:
        latents = self.encode(texts)
        return Rewrites(["nothing"] * len(texts), latents=Latents(latents, latents))

    def guarantee(self, epsilon: float) -> None:
        return None


class Reads:
    """Guesses from whatever it is given beside the text, though it says that it sees the text alone."""

    def guess(self, rewrites: Rewrites, candidates: np.ndarray, context: Context) -> np.ndarray:
        assert rewrites.latents is None
        assert rewrites.units is None
        return choose(np.zeros(candidates.shape), context.noise)


class Equal:
    """Names the candidate that the rewrite equals."""

    def guess(self, rewrites: Rewrites, candidates: np.ndarray, context: Context) -> np.ndarray:
        texts = np.array(context.texts)
        return choose((texts[candidates] == np.array(rewrites.texts)[:, None]).astype(float), context.noise)


TEXTS = ["a" * (i + 1) for i in range(20)]


def test_the_strongest_is_over_what_is_released() -> None:
    """Latents that nobody gives out name the source every time; the text says nothing (false alarm 0.005)."""
    table = epsilometer.audit(TEXTS, Hidden(), [1.0], ["length", InternalAttack()], 300, design=Design(temperature=0))
    by_attack = {row["attack"]: row for row in table.to_dicts()}
    assert list(by_attack) == ["length", "InternalAttack", "strongest", "strongest_inside"]
    assert [by_attack[name]["sees"] for name in by_attack] == [TEXT, LATENTS, TEXT, LATENTS]
    assert [by_attack[name]["released"] for name in by_attack] == [True, False, True, False]
    assert (by_attack["strongest"]["best_attack"], by_attack["strongest"]["loss"]) == ("length", 0)
    inside = by_attack["strongest_inside"]
    assert (inside["best_attack"], inside["loss"]) == ("InternalAttack", estimate(300, 300, alpha=0.005).loss)


def test_the_tail_stands_beside_the_loss() -> None:
    """Half of the texts shown, and among 3,000 trials nothing else names a source surely (false alarm .005).

    Where all is hidden there is no evidence; 400 trials could not show any.
    """

    def half(text: str, rng: np.random.Generator) -> str:
        return text if rng.random() < 0.5 else "nothing"

    def tails(rewrite: Callable[..., str], trials: int) -> list[float | None]:
        table = epsilometer.audit(TEXTS, rewrite, None, ["lexical", "length"], trials, design=Design(temperature=0))
        assert table["attack"].to_list() == ["lexical", "length", "strongest"]
        return table["delta_at_4_low"].to_list()

    lexical, _, strongest = tails(half, 3000)
    assert 0.15 < lexical <= 0.5
    assert strongest in (lexical, _), "the attack is chosen on the first half, and nothing is paid for that"
    assert tails(lambda text, rng: "nothing", 3000) == [0, 0, 0]
    assert tails(half, 400) == [None, None, None]


def test_where_no_attack_sees_what_is_released_none_is_the_strongest() -> None:
    table = epsilometer.audit(TEXTS, Hidden(), [1.0], [InternalAttack()], 50, design=Design(temperature=0))
    assert table["attack"].to_list() == ["InternalAttack"]


def test_an_attack_gets_what_it_says_that_it_sees() -> None:
    rewrites = Hidden().rewrite(TEXTS[:2], 1.0, Noise.named(2, 0))
    context = Context(TEXTS, Hidden(), 1.0, Noise.named(2, 0, "attack"))
    guess_and_score(Reads(), [rewrites], np.array([[0, 1], [1, 0]]), [context])  # type: ignore[list-item]


def test_what_an_attack_sees_must_be_known() -> None:
    class Clairvoyant(Reads):
        def sees(self, mechanism: object) -> str:
            return "everything"

    with refused("EPS-C004", "everything"):
        sees(Clairvoyant(), None)


def test_the_law_of_a_word_mechanism_describes_the_released_text() -> None:
    from epsilometer.core.mechanism import releases
    from epsilometer.mechanisms.latents.adept import ADePT
    from epsilometer.mechanisms.selection.privrewrite import PrivRewrite
    from epsilometer.mechanisms.words.exponential import Exponential
    from epsilometer.mechanisms.words.tem import TEM

    attack = LikelihoodAttack()
    mechanisms = {
        "tem": TEM(resource="vectors.npz"),
        "adept": ADePT(resource="model"),
        "full": PrivRewrite(resource="model"),
        "em": Exponential(resource="vectors.npz"),
    }
    seen = {name: sees(attack, mechanism) for name, mechanism in mechanisms.items()}
    assert seen == {"tem": UNITS, "adept": LATENTS, "full": "provider", "em": UNITS}
    released = {name for name, mechanism in mechanisms.items() if seen[name] in releases(mechanism)}
    assert released == {"tem", "em"}


def attacked(
    guess: np.ndarray, trials: Trials, words: np.ndarray, mechanism: Any = None, claims: np.ndarray | None = None
) -> Attacked:
    """One attack, `a`, which sees the text alone, on a mechanism at epsilon 1."""
    said = stated(mechanism, 1.0)
    return Attacked({}, 1.0, said, trials, words, claims, {"a": Guesses(guess)}, {"a": TEXT}, {"a": True})


def row_of(hits: int, claims: np.ndarray | None, mechanism: Any, words: np.ndarray | None = None) -> dict[str, Any]:
    """The row of an attack that is right in the first `hits` of 1,000 trials among 2 texts."""
    count = 1000
    trials = Trials(np.tile(np.array([[0, 1]], np.int32), (count, 1)), np.zeros(count, np.int16))
    guess = (np.arange(count) >= hits).astype(np.int16)
    words = np.array([3, 3]) if words is None else words
    table = rows(attacked(guess, trials, words, mechanism, claims=claims), 0.01)
    assert [row["attack"] for row in table] == ["a", "strongest", "strongest_inside"]
    return table[0]


def test_no_claim_lowers_the_loss() -> None:
    """A tight (1, 0.1) mechanism: its loss is 1.14 whatever it claims, at its delta 1 (TeDA eqs. 10 and 11)."""
    hits = round(1000 * success_bound(1.0, 2, 0.1))
    row = row_of(hits, np.full(1000, 1.0), Claiming(0.1))
    assert row["delta"] == 0.1
    assert row["point"] == pytest.approx(math.log((math.e + 0.1) / 0.9), abs=0.01)
    assert row["loss_at_delta"] == estimate(hits, 1000, delta=0.1).loss < 1
    assert row["loss"] == estimate(hits, 1000).loss > row["loss_at_delta"]
    silent = row_of(hits, None, None)
    for column in ("loss", "point", "upper", "ceiling", "equal_loss"):
        assert row[column] == silent[column]


def test_delta_reaches_the_audit() -> None:
    table = epsilometer.audit(TEXTS, Claiming(0.1), [1.0], [Equal()], 200, design=Design(temperature=0))
    assert table["delta"].item() == 0.1
    assert table["loss_at_delta"].item() == estimate(200, 200, delta=0.1).loss < table["loss"].item()


def test_the_loss_beyond_length() -> None:
    """Length tells half of the trials apart; the others are guessed at random (false alarm 0.005)."""
    texts = ["one two", "three four", "five", "six"]
    candidates = np.array([[0, 1], [0, 2]] * 500, np.int32)
    trials = Trials(candidates, np.zeros(1000, np.int16))
    words = np.array([len(text.split()) for text in texts])
    coin = np.random.default_rng(1).integers(0, 2, 1000)
    guess = np.where(words[candidates[:, 0]] == words[candidates[:, 1]], coin, 0).astype(np.int16)
    row = rows(attacked(guess, trials, words), 0.01)[0]
    assert row["equal_trials"] == 500
    assert row["loss"] > 0.9
    assert row["equal_loss"] == 0
    assert row["equal_successes"] == (coin[::2] == 0).sum()


def test_the_loss_beyond_length_is_the_loss_where_candidates_are_matched() -> None:
    row = row_of(800, None, None)
    assert (row["equal_trials"], row["equal_loss"]) == (1000, row["loss"])
    row = row_of(800, None, None, np.array([3, 4]))
    assert (row["equal_trials"], row["equal_loss"]) == (0, None)


def verdicts(hits_by_claim: Mapping[float, int], others: int = 0) -> dict[float, str]:
    """The verdicts on claims, in nats, by their successes of 1,000, beside other claims of 20 nats."""
    table = [row_of(hits, np.full(1000, claim), Claiming()) for claim, hits in hits_by_claim.items()]
    table += [row_of(1000, np.full(1000, 20.0), Claiming())] * others
    return dict(zip(hits_by_claim, (row["verdict"] for row in judge(table, 0.01)), strict=False))


def test_a_claim_that_could_not_be_refuted_is_not_testable() -> None:
    """T of T refutes up to 4.63 nats at T = 1,000 under 168 tests, and up to 4.91 where only 16 are testable."""
    assert verdicts({4.8: 1000, 3.0: 900, 6.0: 1000}) == {4.8: VIOLATED, 3.0: NOT_REFUTED, 6.0: NOT_TESTABLE}
    assert verdicts(dict.fromkeys(np.linspace(1, 4.8, 16), 1000), others=152)[4.8] == VIOLATED
    (row,) = judge([row_of(500, np.full(1000, 6.0), Claiming())], 0.01)
    assert row["refutable"] == pytest.approx(-math.log(math.expm1(-math.log(0.01) / 1000)))
    assert row["trials_needed"] == math.ceil(math.log(0.01) / math.log(success_bound(6.0, 2)))
    assert judge([row_of(500, None, None)], 0.01)[0]["verdict"] == NO_CLAIM


def test_a_claim_becomes_testable_at_the_trials_that_are_named() -> None:
    def judged(trials: int) -> dict[str, Any]:
        pairs = Trials(np.tile(np.array([[0, 1]], np.int32), (trials, 1)), np.zeros(trials, np.int16))
        of = attacked(np.zeros(trials, np.int16), pairs, np.ones(2), Claiming(), claims=np.full(trials, 6.0))
        return estimates([of], 0.01)[0]

    needed = judged(1000)["trials_needed"]
    assert judged(needed - 1)["verdict"] == NOT_TESTABLE
    assert judged(needed)["verdict"] == VIOLATED
    assert judged(needed)["refutable"] >= 6 > judged(needed - 1)["refutable"]


def test_a_claim_that_covers_no_pair_refutes_nothing() -> None:
    (row,) = judge([row_of(1000, np.full(1000, math.inf), Claiming())], 0.01)
    assert (row["verdict"], row["covered"], row["refutable"], row["trials_needed"]) == (NOT_TESTABLE, 0, 0, None)


def test_claim_and_verdict_stand_in_each_row() -> None:
    table = epsilometer.audit(TEXTS, Claiming(), [1.0, 9.0], [Equal()], 1000, design=Design(temperature=0))
    columns = {name: kind for name, kind in ESTIMATES.items() if name not in ("dataset", "mechanism")}
    assert dict(table.schema).items() >= columns.items()
    assert table["claim"].str.slice(0, 14).to_list() == ["1 per document", "9 per document"]
    assert table["verdict"].to_list() == [VIOLATED, NOT_TESTABLE]


def test_many_candidates_lose_no_guess() -> None:
    """k = 300: an int8 slot would have lost the targets from 128 on."""
    texts = [f"word{i} of {i}" for i in range(400)]
    table = epsilometer.audit(texts, Identity(), None, [Equal()], 500, design=Design(candidates=300, temperature=0))
    assert table["successes"].item() == 500
    trials = sample(np.zeros((400, 1), np.float32), 500, 300, 0, 0)
    assert trials.target.max() > 250
    scores = np.zeros((1, 300))
    scores[0, 290] = 1
    assert choose(scores, Noise.named(1, 0)).tolist() == [290]
    with refused("EPS-A187", "32,767"):
        sample(np.zeros((40_000, 1), np.float32), 5, 33_000, 0, 0)


def test_the_embedded_judge_says_up_to_which_k_it_was_validated() -> None:
    assert [is_validated(JudgeAttack(), k) for k in (2, 4, 5)] == [True, True, False]
    assert is_validated(JudgeAttack(model="another"), 16)
    assert is_validated(Reads(), 16)

    class Small(Reads):
        largest_set = 2

    table = epsilometer.audit(TEXTS, Identity(), None, [Small()], 50, design=Design(candidates=3, temperature=0))
    assert not table["validated"].item()


def test_controls_are_marked() -> None:
    assert epsilometer.audit(TEXTS, Identity(), None, [Equal()], 50, design=Design(temperature=0))["control"].item()
    assert not epsilometer.audit(TEXTS, Claiming(), [1.0], [Equal()], 50, design=Design(temperature=0))[
        "control"
    ].item()


def test_rows_fit_the_schema() -> None:
    table = judge([row_of(800, np.full(1000, 2.0), Claiming())], 0.01)
    columns = {name: kind for name, kind in ESTIMATES.items() if name not in ("dataset", "mechanism")}
    assert set(table[0]) == set(columns)
    pl.DataFrame(table, schema=columns)


def test_few_texts_that_serve_as_distractors_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    """One text is unlike all others, which are alike: it is nearly every trial's distractor."""
    candidates = np.array([[0, 9], [1, 9], [2, 9], [3, 8], [9, 4], [5, 9], [6, 7], [7, 9], [8, 9], [0, 3]])
    assert variety(candidates) == {"distinct": 5, "five_commonest": 1.0}
    assert variety(np.array([[0, i % 10] for i in range(40)])) == {"distinct": 10, "five_commonest": 0.5}
    table = epsilometer.audit(TEXTS, Identity(), None, [Equal()], 400, design=Design(temperature=0))
    assert table["distinct"].item() == 20
    assert 0.25 < table["five_commonest"].item() < 0.45
    assert "distractors" not in capsys.readouterr().err


def test_what_a_mechanism_states_survives_its_file(tmp_path: Path) -> None:
    class Words(Claiming):
        control = True
        releases = frozenset({TEXT, UNITS})

        def guarantee(self, epsilon: float) -> Guarantee:
            return Guarantee(epsilon, Granularity.WORD, Neighbours.SAME_LENGTH, self.delta)

        def unread(self, texts: list[str]) -> Unread:
            return Unread(cut=1, texts=len(texts))

    said = {epsilon: stated(Words(0.1), epsilon, unread(Words(0.1), TEXTS)) for epsilon in (0.5, 2.0)}
    assert said[2.0] == Stated(
        "2 per word, delta 0.1; texts of equal length", True, 0.1, 2.0, True, (TEXT, UNITS), None, 0.05
    )
    write(said, tmp_path / "stated.json")
    assert read_stated(tmp_path / "stated.json") == said
    (tmp_path / "stated.json").write_text("[")
    with refused("EPS-C002"):
        read_stated(tmp_path / "stated.json")
    assert stated(None, 1.0) == Stated("no claim", False, 0.0, None, False, (TEXT,))
