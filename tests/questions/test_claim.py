"""Guesses or the law can refute a claim. It is confirmed only if its worst case was enumerated and not refuted."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from epsilometer.auditing.claims.verdicts import VIOLATED
from epsilometer.auditing.claims.worst_case import Extent
from epsilometer.auditing.evidence.bounds import bounds
from epsilometer.auditing.evidence.evidence import Computed
from epsilometer.auditing.evidence.status import Status
from epsilometer.auditing.subject import Subject, subject
from epsilometer.auditing.text_audit import audit
from epsilometer.auditing.trials.design import Design
from epsilometer.core.attack import Context
from epsilometer.core.guarantees import Granularity, Guarantee, Neighbours
from epsilometer.core.mechanism import FunctionMechanism, Mechanism, Rewrites
from epsilometer.core.randomness import Noise
from epsilometer.doors.ask import ask
from epsilometer.doors.gate import Rules, gate
from epsilometer.mechanisms.controls.randomized_response import RandomizedResponse
from epsilometer.questions.claim import Claim
from tests.support.broken.noise_reused import OTHER
from tests.support.broken.rare_words_pass import RareWordsPass
from tests.support.refusals import refused

TEXTS = [f"{who} wants {what} today" for who in ("anna", "boris", "clara") for what in ("tea", "milk", "rum")]
YES_NO = ["yes yes yes", "now now now"]  # texts of equal length
LAW = "claim: by its stated law"


class Sound(RandomizedResponse):
    """Claims 1 epsilon for a text, and keeps it."""


class Twice(RandomizedResponse):
    """Its law is within the claim, and it spends twice that."""

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        return super().rewrite(texts, 2 * epsilon, noise)


class Overclaims(RandomizedResponse):
    """Claims half of what its law loses."""

    def guarantee(self, epsilon: float) -> Guarantee | None:
        return Guarantee(0.5 * epsilon, Granularity.DOCUMENT, Neighbours.ANY)


class Claims(FunctionMechanism):
    """A function that claims epsilon for a text, without a law."""

    def guarantee(self, epsilon: float) -> Guarantee | None:
        return Guarantee(epsilon, Granularity.DOCUMENT, Neighbours.ANY)


def respond(text: str, epsilon: float, rng: np.random.Generator) -> str:
    keep = 1 / (1 + math.exp(-epsilon))
    return " ".join(word if rng.random() < keep else OTHER[word] for word in text.split())


class PerWord(FunctionMechanism):
    """Randomised response a word, at a multiple of the epsilon that it claims for a word."""

    def __init__(self, spends: float) -> None:
        super().__init__(lambda text, epsilon, rng: respond(text, spends * epsilon, rng))

    def guarantee(self, epsilon: float) -> Guarantee:
        return Guarantee(epsilon, Granularity.WORD, Neighbours.SAME_LENGTH)

    def distance(self, texts: list[str], pairs: np.ndarray, epsilon: float) -> np.ndarray:
        split = [text.split() for text in texts]
        return np.array([float(sum(a != b for a, b in zip(split[i], split[j], strict=True))) for i, j in pairs])


def resourced(mechanism: type[RandomizedResponse], texts: list[str] = TEXTS, attack: str = "lexical") -> Subject:
    return subject(texts, mechanism(resource=tuple(texts)), 1.0, [attack])


def function(rewrite: object, epsilon: float = 1.0) -> Subject:
    return subject(TEXTS, Claims(rewrite), epsilon, ["lexical"])


def judged(of: Subject, budget: int = 4000) -> dict[str, Status]:
    verdict = gate(of, Rules([(Claim(), 0)], budget=budget))
    assert verdict.trials <= budget
    return {row.attack: row.status for row in verdict.attacks}


def test_a_claim_within_whose_law_all_pairs_are_holds() -> None:
    """The law is refuted with probability .001 though it is followed."""
    assert judged(resourced(Sound)) == {LAW: Status.WITHIN}
    rows = {row["figure"]: row for row in ask(Claim(), resourced(Sound)).iter_rows(named=True)}
    assert (rows[LAW]["low"], rows[LAW]["high"], rows[LAW]["covers"]) == (0, 0, "everyone")
    assert rows[LAW]["trials"] == math.comb(len(TEXTS), 2)
    assert (rows["claim: lexical"]["low"], rows["claim: lexical"]["high"]) == (0, math.inf)


def test_a_law_beyond_its_claim_is_a_violation_whatever_attacks_see() -> None:
    assert judged(resourced(Overclaims, attack="length"))[LAW] is Status.BEYOND


def test_a_mechanism_that_spends_more_than_its_law_says_is_beyond() -> None:
    """Found by guesses with all but certainty: 2 nats where 1 is claimed, in 1,500 trials."""
    statuses = judged(resourced(Twice, YES_NO))
    assert statuses["claim: lexical"] is Status.BEYOND
    assert statuses[LAW] is Status.OPEN, "a refuted law shows nothing kept"


def test_a_refuted_law_keeps_no_claim_though_the_attack_guesses_at_random() -> None:
    """`length` cannot tell the two texts apart; the comparison with the law can."""
    assert judged(resourced(Twice, YES_NO, "length")) == {"claim: length": Status.OPEN, LAW: Status.OPEN}


class Whispers(RandomizedResponse):
    """Follows its law word by word, and writes in capitals where the source is the first text."""

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        drew = super().rewrite(texts, epsilon, noise)
        said = [new.upper() if text == YES_NO[0] else new for text, new in zip(texts, drew.texts, strict=True)]
        return Rewrites(said, drew.units)


class ReadsCase:
    """An attack that names the first text where it sees capitals."""

    def guess(self, rewrites: Rewrites, candidates: np.ndarray, context: Context) -> np.ndarray:
        capitals = np.array([text.isupper() for text in rewrites.texts])
        first = np.array([[context.texts[i] == YES_NO[0] for i in row] for row in candidates])
        return (first == capitals[:, None]).argmax(axis=1).astype(np.int16)


def test_an_attack_that_refutes_the_claim_counts_though_the_law_is_not_refuted() -> None:
    """Nothing but case gives the source away, which no comparison with the law reads."""
    of = subject(YES_NO, Whispers(resource=tuple(YES_NO)), 1.0, [ReadsCase()])
    assert judged(of) == {"claim: ReadsCase": Status.BEYOND, LAW: Status.OPEN}
    weak = subject(YES_NO, Whispers(resource=tuple(YES_NO)), 1.0, ["length"])
    assert judged(weak) == {LAW: Status.WITHIN}, "by its stated law, as far as these attacks see"


def test_a_claim_of_which_not_all_pairs_were_compared_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("epsilometer.questions.claim._EXTENT", Extent(500, entries=10, bounded=False))
    assert judged(resourced(Sound)) == {"claim: lexical": Status.OPEN, LAW: Status.OPEN}


def test_rewrites_that_carry_no_units_keep_no_claim() -> None:
    texts = [*TEXTS, "anna wants 4711 today"]
    assert set(judged(resourced(RareWordsPass, texts)).values()) == {Status.OPEN}


@pytest.mark.parametrize(
    ("rewrite", "status"),
    [
        (lambda text, epsilon, rng: text, Status.BEYOND),
        (lambda text, epsilon, rng: "nothing", Status.OPEN),
        (lambda text, epsilon, rng: text if rng.random() < 0.2 else "nothing", Status.OPEN),
    ],
    ids=["identity", "constant", "within"],
)
def test_without_a_law_a_claim_is_refuted_or_open(rewrite: object, status: Status) -> None:
    """A true claim is called beyond with probability .001. A fifth of the texts shown is .4 nats."""
    assert judged(function(rewrite)) == {"claim: lexical": status}


@pytest.mark.parametrize(("spends", "status"), [(1.0, Status.OPEN), (3.0, Status.BEYOND)])
def test_a_claim_for_a_word_counts_the_words_that_differ(spends: float, status: Status) -> None:
    """Two texts that differ in two words: 2 epsilon at .5 nats. False alarm .001."""
    of = subject(["yes yes", "no no", "yes no", "no yes"], PerWord(spends), 0.5, ["lexical"])
    assert judged(of) == {"claim: lexical": status}
    (test,) = Claim().observe(of, 1000)
    assert 1000 * math.e**0.5 / (1 + math.e**0.5) < test.row["expected"] < 1000 * math.e / (1 + math.e)
    assert test.row["covered"] == 1000


def test_the_p_value_is_the_error_of_a_violation() -> None:
    """Identity in 30 trials where 2 nats are claimed: (e^2 / (1 + e^2))^30 = .022."""
    (test,) = Claim().observe(function(lambda text, epsilon, rng: text, 2.0), 30)
    data = test.evidence.data
    assert isinstance(data, Computed)
    assert data.error == test.row["p_value"] == pytest.approx((math.e**2 / (1 + math.e**2)) ** 30)
    assert bounds(data, test.evidence.scale, 1.01 * data.error, 0.05) == (1, math.inf)
    assert bounds(data, test.evidence.scale, 0.99 * data.error, 0.05) == (0, math.inf)
    assert (test.row["right"], test.row["least_p_value"]) == (30, data.error)


def test_an_audit_and_the_question_refute_the_same() -> None:
    for mechanism, refuted in ((Twice, True), (Sound, False)):
        of = resourced(mechanism, YES_NO)
        table = audit(YES_NO, of.mechanism, [1.0], ["lexical"], trials=1500, design=Design(temperature=0))
        assert (table["verdict"].item() == VIOLATED) == refuted
        (test, *_) = Claim().observe(of, 2000)
        assert (test.evidence.data.error < 1e-6) == refuted


def test_limits_on_a_claim_that_mean_nothing_are_refused() -> None:
    with refused("EPS-Q028", "0", "0.5"):
        Claim().limit(resourced(Sound), 0.5)
    nothing: Mechanism = FunctionMechanism(lambda text, rng: text)
    with refused("EPS-A153"):
        gate(subject(TEXTS, nothing, attacks=["lexical"]), Rules([(Claim(), 0)]))
    assert Claim().tests(resourced(Sound)) == ["claim: lexical", LAW]
    assert Claim().tests(function(lambda text, epsilon, rng: text)) == ["claim: lexical"]
