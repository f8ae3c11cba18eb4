"""Units: coins are fair and independent of the texts, and estimated losses of black boxes are right, also in gates."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from epsilometer.attacks.identification.lexical import LexicalAttack
from epsilometer.auditing.claims.verdicts import NO_CLAIM, NOT_REFUTED, NOT_TESTABLE, VIOLATED
from epsilometer.auditing.estimation.abstention import halves
from epsilometer.auditing.estimation.successes import estimate
from epsilometer.auditing.evidence.bounds import bounds
from epsilometer.auditing.evidence.evidence import Means
from epsilometer.auditing.evidence.status import Status
from epsilometer.auditing.external import CommandMechanism
from epsilometer.auditing.gate_statistics import Errors
from epsilometer.auditing.subject import Subject, subject
from epsilometer.core.guarantees import Granularity, Guarantee, Neighbours
from epsilometer.core.mechanism import FunctionMechanism, Rewrites
from epsilometer.core.ragged import Ragged
from epsilometer.core.randomness import Noise
from epsilometer.doors.ask import ask
from epsilometer.doors.gate import Rules, gate
from epsilometer.models.chat import Chat
from epsilometer.questions.which_unit import Coins, WhichUnit, audit_units
from tests.support.broken.noise_reused import OTHER
from tests.support.endpoint import Server
from tests.support.refusals import refused

ANSWERS = [" ".join(row) for row in np.random.default_rng(0).choice(["yes", "no"], (50, 16))]
REQUESTS = ["show me flights to boston", "play some jazz", "set an alarm for seven", "is it cold in paris"]


def respond(text: str, epsilon: float, rng: np.random.Generator) -> str:
    """Randomised response a word: what stands there, or the other one."""
    keep = 1 / (1 + math.exp(-epsilon))
    return " ".join(word if rng.random() < keep else OTHER[word] for word in text.split())


class Responds(FunctionMechanism):
    """The same, with a claim for each word."""

    def __init__(self) -> None:
        super().__init__(respond)

    def guarantee(self, epsilon: float) -> Guarantee:
        return Guarantee(epsilon, Granularity.WORD, Neighbours.SAME_LENGTH)

    def distance(self, texts: list[str], pairs: np.ndarray, epsilon: float) -> np.ndarray:
        return np.array([float(texts[a] != texts[b]) for a, b in pairs])


class Doubles(Responds):
    """Spends twice the epsilon that it claims."""

    def rewrite(self, texts: list[str], epsilon: float, noise: Noise) -> Rewrites:
        return super().rewrite(texts, 2 * epsilon, noise)


def test_1600_guesses_prove_most_of_epsilon() -> None:
    """100 rewrites of 16 words; the loss lies above epsilon with probability .005, fixed seed."""
    table = audit_units(ANSWERS, respond, [1.0, 3.0], ["lexical"])
    assert table["coins"].to_list() == [1600, 1600]
    for epsilon, loss in table.select("epsilon", "loss").iter_rows():
        assert 0.8 * epsilon < loss <= epsilon
    assert table["verdict"].to_list() == [NO_CLAIM, NO_CLAIM]


def test_claims_for_a_word_are_judged() -> None:
    """A true claim is called violated with probability .01 at most."""
    sound = audit_units(ANSWERS, Responds(), [1.0], ["lexical"])
    assert sound.select("claimed", "verdict").row(0) == (1.0, NOT_REFUTED)
    assert audit_units(ANSWERS, Doubles(), [1.0], ["lexical"])["verdict"].item() == VIOLATED


class CoversSome(Doubles):
    """The same, whose claim says nothing about some pairs of words."""

    delta = 0.0

    def guarantee(self, epsilon: float) -> Guarantee:
        return Guarantee(epsilon, Granularity.WORD, Neighbours.SAME_LENGTH, self.delta)

    def distance(self, texts: list[str], pairs: np.ndarray, epsilon: float) -> np.ndarray:
        return np.where(np.arange(len(pairs)) % 4 == 0, math.inf, super().distance(texts, pairs, epsilon))


class CoversSomeWithDelta(CoversSome):
    delta = 1e-6


@pytest.mark.parametrize("mechanism", [CoversSome(), CoversSomeWithDelta()], ids=["pure", "delta"])
def test_a_claim_is_judged_where_it_says_something(mechanism: CoversSome) -> None:
    """Of 1,600 coins 400 are not covered. It spends twice what it claims: missed far less than once in 10^6."""
    (row,) = audit_units(ANSWERS, mechanism, [1.0], ["lexical"]).iter_rows(named=True)
    assert (row["covered"], row["claimed"], row["verdict"]) == (1200, 1.0, VIOLATED)


class ClaimsNothing(CoversSome):
    delta = 0.999


def test_no_claim_lowers_the_loss() -> None:
    """A delta that allows any leak refutes nothing; what a word loses is the same."""
    (pure,) = audit_units(ANSWERS, CoversSome(), [1.0], ["lexical"]).iter_rows(named=True)
    (row,) = audit_units(ANSWERS, ClaimsNothing(), [1.0], ["lexical"]).iter_rows(named=True)
    assert (row["delta"], row["verdict"]) == (0.999, NOT_TESTABLE)
    assert row["loss"] == pure["loss"] > 1
    assert row["ceiling"] == pure["ceiling"]


class CoversNone(CoversSome):
    def distance(self, texts: list[str], pairs: np.ndarray, epsilon: float) -> np.ndarray:
        return np.full(len(pairs), math.inf)


def test_a_claim_about_no_pair_is_not_testable() -> None:
    (row,) = audit_units(ANSWERS, CoversNone(), [1.0], ["lexical"]).iter_rows(named=True)
    assert (row["covered"], row["claimed"], row["verdict"]) == (0, None, NOT_TESTABLE)


def test_the_guesses_that_prove_the_loss_are_counted() -> None:
    """Half of the answers are hidden: their coins are not guessed, and the loss follows from those that are."""

    def hides(text: str, epsilon: float, rng: np.random.Generator) -> str:
        return " ".join(word if rng.random() < 0.5 else "-" for word in text.split())

    (row,) = audit_units(ANSWERS, hides, [1.0], ["lexical"]).iter_rows(named=True)
    assert row["guesses"] < row["coins"]
    assert row["right"] == row["guesses"]
    levels = len(halves(row["coins"]))
    assert row["loss"] <= estimate(row["right"], row["guesses"], 2, 0.01).loss
    assert row["loss"] >= estimate(row["right"], row["guesses"], 2, 0.01 / levels).loss


def test_coins_are_fair_and_partners_differ() -> None:
    """Outside of 5 standard deviations with probability 6e-7."""
    coins = Coins.flip(REQUESTS, 3000, seed=1)
    count = len(coins.fell)
    assert count == coins.lengths.sum()
    assert abs(coins.fell.mean() - 0.5) < 2.5 / math.sqrt(count)
    assert (coins.pairs[:, 0] != coins.pairs[:, 1]).all()
    assert len(np.unique(coins.pairs[:, 1])) == len(coins.vocabulary)
    chosen = [word for text in coins.texts for word in text.split()]
    assert chosen == [coins.vocabulary[pair[side]] for pair, side in zip(coins.pairs, coins.fell, strict=True)]


def test_a_word_is_compared_with_what_came_out_in_its_place() -> None:
    coins = Coins.flip(["a b c"], 2, seed=0)
    units = Ragged.of([[4, 5, 6], [7, 8, 9]])
    words = coins.shown(Rewrites(["x y z", "u *** w"], units))
    assert words.texts == ["x", "y", "z", "u", "***", "w"]
    assert words.units is not None
    assert words.units.values.tolist() == [4, 5, 6, 7, 8, 9]
    changed = coins.shown(Rewrites(["x y z", "another one"], Ragged.of([[4, 5, 6], [7]])))
    assert changed.texts == ["x", "y", "z"] + ["another one"] * 3
    assert changed.units is None


def test_a_character_is_a_word_where_there_are_no_spaces() -> None:
    """The rewriter may write them without spaces again."""
    coins = Coins.flip(["我爱你"], 2, seed=0)
    assert coins.lengths.tolist() == [3, 3]
    assert coins.shown(Rewrites(["他恨她。", "他 恨 她"], None)).texts == ["他", "恨", "她"] * 2


@pytest.mark.parametrize("attack", ["lexical", "length"])
def test_what_says_nothing_proves_nothing(attack: str) -> None:
    """False alarm .005 each."""
    table = audit_units(REQUESTS, lambda text, epsilon, rng: "nothing", [1.0], [attack], trials=300)
    assert table["loss"].to_list() == [0]


def test_a_rewriter_behind_an_endpoint_is_audited(server: Server, tmp_path: Path) -> None:
    """The endpoint answers with the words in another order, some of them lost: every coin that it kept is clear."""
    server.reply = lambda message: " ".join(sorted(message.split())[1:])
    chat = Chat("m", tmp_path / "answers.sqlite")

    def rewrite(text: str, epsilon: float, rng: np.random.Generator) -> str:
        message = [{"role": "user", "content": text}]
        return chat.complete([message], 60, seeds=[int(rng.integers(1 << 31))])[0].text

    table = audit_units(REQUESTS, rewrite, [1.0], ["lexical"], trials=15)
    assert len(server.requests) == 15
    assert table["loss"].item() > 1


def test_a_program_is_audited() -> None:
    table = audit_units(REQUESTS, CommandMechanism("cat"), None, ["lexical", "length"], trials=40)
    assert table["attack"].to_list() == ["lexical", "length", "strongest"]
    assert table.filter(attack="lexical")["right"].item() == table["coins"][0]
    assert table.filter(attack="strongest")["best_attack"].item() == "lexical"


class Inside(LexicalAttack):
    def sees(self, mechanism: object) -> str:
        return "latents"


def test_bad_input_is_named() -> None:
    with refused("EPS-Q045", "1"):
        audit_units(["yes yes"], respond, [1.0])
    with refused("EPS-A178", "1", "0"):
        audit_units(ANSWERS, respond, [1.0], trials=0)
    with refused("EPS-Q046"):
        audit_units(ANSWERS, respond, [1.0], [Inside()])


MIXED = [" ".join(row[:2] if i % 2 else row) for i, row in enumerate(text.split() for text in ANSWERS)]
SPOKEN = np.random.default_rng(0).permuted(np.tile([f"w{i}" for i in range(20)], (50, 1)), axis=1)
HALVES = [" ".join(row[: 2 if i % 2 else 16]) for i, row in enumerate(SPOKEN.tolist())]  # 25 short texts, 25 long ones


def shows_short(text: str, rng: np.random.Generator) -> str:
    """Passes texts of two words, and hides those of sixteen."""
    return text if len(text.split()) == 2 else " ".join("-" for _ in text.split())


def asked_of(rewrite: object, texts: list[str] = ANSWERS, epsilon: float | None = None) -> Subject:
    return subject(texts, rewrite, epsilon, ["lexical"])


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_the_bounds_hold_epsilon(epsilon: float) -> None:
    """Randomised response a word, in texts of 2 and of 16 words. Each bound is wrong with probability .005."""
    (row,) = ask(WhichUnit(), asked_of(respond, MIXED, epsilon), trials=1000).iter_rows(named=True)
    assert row["low"] <= epsilon <= row["high"]
    assert row["low"] > 0.7 * epsilon
    assert (row["trials"], row["covers"], row["measure"]) == (1000, "these attacks", "unit")


def test_a_text_counts_once_however_long_it_is() -> None:
    """Half of the texts are short and shown: of a text's words .75 are right on average, and .55 of all words.

    The bounds are wrong with probability .005 each.
    """
    (observed,) = WhichUnit().observe(asked_of(shows_short, HALVES), 2000)
    data = observed.evidence.data
    assert isinstance(data, Means)
    short = [share for share in data.shares if share == 1]
    assert 900 < len(short) < 1100, "5 standard deviations are 112"
    low, high = bounds(data, observed.evidence.scale, 0.005, 0.005)
    assert low <= math.log(3) <= high
    assert low > math.log(0.6 / 0.4)
    assert observed.values.tolist() == list(data.shares)
    assert observed.row["right"] / observed.row["words"] < 0.6


@pytest.mark.parametrize("allowed", [0.1, 1.0, 3.0])
def test_a_gate_on_a_word_accuses_the_identity_and_no_constant(allowed: float) -> None:
    """A constant is called beyond with probability .001; it passes here, as it does nearly always."""
    shown = gate(asked_of(lambda text, rng: text), Rules([(WhichUnit(), allowed)]))
    assert shown.status is Status.BEYOND
    hidden = gate(asked_of(lambda text, rng: "nothing"), Rules([(WhichUnit(), allowed)]))
    assert hidden.status is Status.NOT_EXCEEDED
    assert hidden.trials >= WhichUnit.usual


def test_a_gate_on_a_word_decides_on_both_sides_of_epsilon() -> None:
    """Randomised response at 1 nat: wrong with probability .001 and .05; fixed seed."""
    statuses = {
        allowed: gate(asked_of(respond, ANSWERS, 1.0), Rules([(WhichUnit(), allowed)])).status for allowed in (0.4, 1.6)
    }
    assert statuses == {0.4: Status.BEYOND, 1.6: Status.NOT_EXCEEDED}


def test_limits_on_a_word_that_nothing_could_show_are_refused() -> None:
    of = asked_of(respond, ANSWERS, 1.0)
    with refused("EPS-Q042", "0", "0"):
        WhichUnit().limit(of, 0)
    with refused("EPS-Q043", "50"):
        gate(of, Rules([(WhichUnit(), 50)]))
    with refused("EPS-Q044", "46", "20"):
        gate(of, Rules([(WhichUnit(), 0.2)], budget=20))
    limit = WhichUnit().limit(of, 1.0)
    assert WhichUnit().amount(of, limit, 110, 1, errors=Errors()) <= 110
    assert WhichUnit().tests(of) == ["unit: lexical"]
    with refused("EPS-Q046"):
        WhichUnit().tests(subject(ANSWERS, respond, 1.0, [Inside()]))
