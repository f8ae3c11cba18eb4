"""The pair with the largest loss of a black box is found among texts and by editing words, with a valid bound."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from epsilometer.auditing.claims.verdicts import NO_CLAIM, NOT_REFUTED, VIOLATED
from epsilometer.auditing.claims.worst_case import check_claim
from epsilometer.auditing.evidence.status import Status
from epsilometer.auditing.exact_loss.from_texts import exact_loss
from epsilometer.auditing.gate_statistics import Errors
from epsilometer.auditing.subject import Subject, subject
from epsilometer.auditing.trials.design import Design
from epsilometer.core.guarantees import Granularity, Guarantee, Neighbours
from epsilometer.core.mechanism import TEXT, Rewrites
from epsilometer.core.ragged import Ragged
from epsilometer.core.randomness import Noise
from epsilometer.doors.ask import ask
from epsilometer.doors.gate import Rules, gate
from epsilometer.mechanisms.controls.randomized_response import RandomizedResponse
from epsilometer.questions.worst_pair import (
    ANY,
    EQUAL,
    EXACT,
    ONE_WORD,
    WorstPair,
    audit_worst,
    exchanged,
    whole,
)
from epsilometer.text.words import words
from tests.support.broken.rare_words_pass import RareWordsPass
from tests.support.refusals import refused
from tests.support.spelled import Spelled

TEXTS = [f"please send {a} the {b} now" for a in ("anna", "boris", "clara", "dora") for b in ("mail", "book", "bill")]


def forgets(text: str, epsilon: float, rng: np.random.Generator) -> str:
    """Masks every word but one that is rare, which passes."""
    return " ".join(word if word == "clara" else "x" for word in text.split())


def test_a_rare_word_that_passes_is_found() -> None:
    """Of pairs of texts half differ in it, and one canary in ten: the others lose nothing.

    Where the word is not seen the attack guesses at random, so its success rate shows less than confident guesses.
    """
    table = audit_worst(TEXTS, forgets, [1.0], ["lexical"], trials=1000)
    assert table["pairs"].to_list() == [ANY, EQUAL, ONE_WORD]
    assert (table["loss"] > 0.8).all()
    assert (table["worst_output"] > 3).all()
    x, other = table.filter(pairs=ANY).select("x", "other").row(0)
    assert ("clara" in TEXTS[x]) != ("clara" in TEXTS[other])
    x, other, place, lent = table.filter(pairs=ONE_WORD).select("x", "other", "place", "other_place").row(0)
    exchange = {TEXTS[x].split()[place], TEXTS[other].split()[lent]}
    assert "clara" in exchange
    assert len(exchange) == 2
    assert table["verdict"].to_list() == [NO_CLAIM] * 3


def test_what_says_nothing_has_no_worst_pair() -> None:
    """False alarm .005 a row; fixed seed."""
    table = audit_worst(TEXTS, lambda text, epsilon, rng: "", [1.0], ["lexical", "length"], trials=600)
    assert table["loss"].to_list() == [0, 0, 0]
    assert table["worst_output"].to_list() == [0, 0, 0]


class Overclaims(RandomizedResponse):
    """Its law says nothing of what it releases, so that pairs are judged by guesses alone."""

    releases = frozenset({TEXT})

    def guarantee(self, epsilon: float) -> Guarantee | None:
        return Guarantee(0.99 * epsilon, Granularity.DOCUMENT, Neighbours.ANY)


@pytest.mark.parametrize("built", [Overclaims, RandomizedResponse])
def test_a_law_that_breaks_its_claim_is_said_whatever_pairs_show(
    built: type[RandomizedResponse], capsys: pytest.CaptureFixture[str]
) -> None:
    table = audit_worst(["yes", "no"], built(resource=("yes", "no")), [1.0], ["lexical"], trials=100)
    assert ("the claim is violated" in capsys.readouterr().err) == (built is Overclaims)
    assert VIOLATED not in table["verdict"].to_list()
    assert set(table["overall"]) == {VIOLATED if built is Overclaims else NOT_REFUTED}
    if built is Overclaims:
        assert set(table["overall_by"]) == {"exact check by its stated law"}


def test_randomised_response_loses_epsilon_at_every_pair() -> None:
    """The bound lies above epsilon with probability .005; texts of a canary are inputs of the mechanism as well."""
    table = audit_worst(["yes", "no"], "randomized_response", [1.0], ["likelihood"], trials=4000)
    for method, loss, verdict in table.filter(pairs=ANY).select("method", "loss", "verdict").iter_rows():
        assert (0.7 if method == "sampled" else 0.97) < loss <= 1
        assert verdict == NOT_REFUTED
    assert table.filter(pairs=ANY, method=EXACT)["worst_output"].item() == pytest.approx(1, abs=1e-9)


def test_a_claim_that_fails_at_some_texts_only_is_refuted() -> None:
    """A text with a digit passes, whatever its law says; an audit over all pairs would hardly see it."""
    texts = [*TEXTS, "please send 4711 the book now"]
    table = audit_worst(texts, RareWordsPass(resource=tuple(texts)), [1.0], ["lexical"], trials=2000)
    assert table.filter(pairs=ANY, method=EXACT)["verdict"].item() == NOT_REFUTED
    row = table.filter(pairs=ANY, method="sampled").row(0, named=True)
    assert row["verdict"] == VIOLATED
    assert set(table.select("overall", "overall_by").rows()) == {(VIOLATED, "audit")}
    assert 12 in (row["x"], row["other"])
    assert row["loss"] > row["claimed"] == 1


def test_pairs_are_distinct_and_differ_as_said() -> None:
    pairs = whole(ANY, TEXTS, 20, seed=0)
    assert len(np.unique(np.sort(pairs.numbers, axis=1), axis=0)) == len(pairs.x) == 20
    assert (pairs.numbers[:, 0] != pairs.numbers[:, 1]).all()
    assert len(whole(ANY, TEXTS[:4], 100, seed=0).x) == math.comb(4, 2)
    canaries = exchanged(TEXTS, 100, seed=0)
    lent = set()
    for (a, b), place in zip(canaries.numbers, canaries.place, strict=True):
        left, other = words(canaries.texts[a]), words(canaries.texts[b])
        assert [i for i in range(len(left)) if left[i] != other[i]] == [place]
        lent.add(other[place])
    assert len(lent) == len(canaries.x) >= 8


def test_bad_input_is_named() -> None:
    with refused("EPS-Q051", "1"):
        audit_worst(["a"], forgets, [1.0])
    with refused("EPS-Q052", "4"):
        audit_worst(TEXTS, forgets, [1.0], trials=3)


def test_where_the_law_is_known_the_worst_pair_is_computed(tmp_path: Path) -> None:
    """CusText as published gives a word's group away: infinitely much is lost where two words of two groups meet."""
    vectors = np.random.default_rng(0).normal(size=(40, 8)).astype(np.float32)
    spoken = [f"w{i:02}" for i in range(40)]
    (tmp_path / "v.txt").write_text(
        "\n".join(f"{w} {' '.join(map(str, v))}" for w, v in zip(spoken, vectors, strict=True))
    )
    texts = [" ".join(np.random.default_rng(i).choice(spoken, 4)) for i in range(30)]
    for as_published, expected in ((True, VIOLATED), (False, NOT_REFUTED)):
        settings = {"resource": str(tmp_path / "v.txt"), "as_published": as_published, "size": 10}
        table = audit_worst(texts, "custext", [1.0], ["length"], trials=400, settings=settings)
        exact = table.filter(method=EXACT, pairs=ONE_WORD).row(0, named=True)
        assert exact["verdict"] == expected
        assert exact["worst_output"] > exact["claimed"] or not as_published


class Hinting(Spelled):
    """The word a alone can give c, with probability `rare`; the claim is 1 nat a word, with this delta."""

    def __init__(self, rare: float, delta: float) -> None:
        rows = [[0.5, 0.5 - rare, rare], [0.5, 0.5, 0.0], [0.5, 0.5, 0.0]]
        with np.errstate(divide="ignore"):
            super().__init__(np.log(rows), claimed=1.0)
        self.delta = delta

    def guarantee(self, epsilon: float) -> Guarantee:
        return Guarantee(epsilon, Granularity.WORD, Neighbours.SAME_LENGTH, delta=self.delta)


@pytest.mark.parametrize("rare", [1e-10, 1e-5])
@pytest.mark.parametrize("share", [0.0, 0.5, 2.0])
def test_an_output_that_one_word_alone_gives_breaks_a_claim_however_rare(rare: float, share: float) -> None:
    """A claim of a delta covers it if that is as large; the same verdict comes from the exact loss and, pure, `claims`.

    Its pairs hardly lose more than others to the best guess, and must be chosen for their claim.
    """
    mechanism, broken = Hinting(rare, share * rare), share < 1
    table = audit_worst(["a b", "b b", "b c", "c c"], mechanism, [1.0], ["lexical"], trials=40)
    row = table.filter(pairs=ANY, method=EXACT).row(0, named=True)
    assert row["verdict"] == (VIOLATED if broken else NOT_REFUTED)
    assert row["worst_output"] == math.inf
    whole = exact_loss(["a b", "b b", "b c", "c c"], mechanism, [1.0], design=Design(temperature=0))
    assert set(whole["verdict"]) == {row["verdict"]}
    if not share:
        assert check_claim(mechanism, 1.0).verdict == VIOLATED


LAW = "worst pair: by its stated law"


def asked_of(mechanism: object, texts: list[str] = TEXTS, epsilon: float | None = None) -> Subject:
    return subject(texts, mechanism, epsilon, ["lexical"])


def judged(of: Subject, allowed: float, budget: int = 8000) -> dict[str, Status]:
    verdict = gate(of, Rules([(WorstPair(), allowed)], budget=budget))
    assert verdict.trials <= budget
    return {row.attack: row.status for row in verdict.attacks}


def test_the_bounds_of_the_worst_pair_hold_its_loss() -> None:
    """Randomised response on 4 texts: every pair loses ln((e + 1) / 2), which the law computes.

    The attack's bound is wrong with probability .005.
    """
    of = subject(["a b", "c d", "e f", "g h"], "randomized_response", 1.0, ["likelihood"])
    rows = {row["figure"]: row for row in ask(WorstPair(), of, [1.0, 3.0]).iter_rows(named=True) if row["epsilon"] == 1}
    law, by_attack = rows[LAW], rows["worst pair"]
    exact = math.log((math.e + 1) / 2)
    assert law["low"] == pytest.approx(exact, abs=1e-9)
    assert law["high"] == pytest.approx(exact, abs=1e-9)
    assert law["trials"] == math.comb(4, 2)
    assert law["covers"] == "everyone"
    assert 0.5 * exact < by_attack["low"] <= exact
    assert by_attack["high"] == math.inf


def test_a_gate_on_the_worst_pair_is_passed_by_law_alone() -> None:
    """Randomised response at 1 nat loses 1 nat between two texts. Attacks never show a limit kept; its law does."""
    of = subject(["yes", "no"], "randomized_response", 1.0, ["lexical"])
    assert judged(of, 1.1) == {LAW: Status.WITHIN}
    beyond = judged(of, 0.5)
    assert beyond[LAW] is Status.BEYOND
    assert judged(asked_of(forgets, TEXTS, 1.0), 0.5) == {"worst pair": Status.BEYOND}
    assert judged(asked_of(lambda text, rng: text), 3.0) == {"worst pair": Status.BEYOND}
    for allowed in (0.1, 1.0, 6.0):
        assert judged(asked_of(lambda text, rng: ""), allowed) == {"worst pair": Status.OPEN}, "beyond with .001"


def test_a_law_of_some_pairs_is_no_upper_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("epsilometer.questions.worst_pair._ALL", 2)
    of = subject(["a", "b", "c"], "randomized_response", 1.0, ["lexical"])
    assert judged(of, 2.0) == {LAW: Status.OPEN, "worst pair": Status.OPEN}
    law = next(each for each in WorstPair().observe(of, 4000) if each.name == LAW)
    assert law.evidence.covers == "these attacks"
    assert law.evidence.data.high == math.inf
    assert 0 < law.evidence.data.low <= 1


class Verbatim(RandomizedResponse):
    """States the law of randomised response, and releases its source."""

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        return Rewrites(list(texts), Ragged.single(self._numbers(texts)))


class WithoutUnits(Verbatim):
    """The same, and nothing that could be compared with the law."""

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        return Rewrites(list(texts))


@pytest.mark.parametrize("mechanism", [Verbatim, WithoutUnits])
def test_a_law_that_rewrites_do_not_bear_out_bounds_nothing(mechanism: type[Verbatim]) -> None:
    of = asked_of(mechanism(resource=tuple(TEXTS)), TEXTS, 1.0)
    assert judged(of, 1.1) == {"worst pair": Status.BEYOND}
    assert [each.name for each in WorstPair().observe(of, 1000)] == ["worst pair"]


def test_limits_on_the_worst_pair_that_nothing_could_show_are_refused() -> None:
    of = asked_of(forgets, TEXTS, 1.0)
    with refused("EPS-Q047", "0", "0"):
        WorstPair().limit(of, 0)
    with refused("EPS-Q048", "1"):
        WorstPair().limit(asked_of(forgets, ["a"], 1.0), 1.0)
    with refused("EPS-Q049", "50"):
        gate(of, Rules([(WorstPair(), 50)]))
    with refused("EPS-Q050", "5,582", "1,000"):
        gate(of, Rules([(WorstPair(), 6.0)], budget=1000))
    assert WorstPair().tests(of) == ["worst pair"]
    assert WorstPair().amount(of, WorstPair().limit(of, 1.0), 900, 1, errors=Errors()) == 900
