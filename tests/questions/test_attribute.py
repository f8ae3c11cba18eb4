"""A limit on inference of an attribute: who passes, who exceeds it, and what a law proves."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from epsilometer.auditing.evidence.status import Status
from epsilometer.auditing.gate_statistics import Errors
from epsilometer.auditing.question import question
from epsilometer.auditing.subject import subject
from epsilometer.core.mechanism import Rewrites
from epsilometer.core.ragged import Ragged
from epsilometer.doors.gate import Rules, gate
from epsilometer.mechanisms.controls.randomized_response import RandomizedResponse
from epsilometer.questions.attribute import Attribute
from epsilometer.report.gate import Decision, lines, result
from tests.support.refusals import refused

WORDS = {"f": ("gown", "purse", "scarf"), "m": ("beard", "razor", "tie")}
NEUTRAL = ("town", "day", "book", "train", "lunch")


def texts(count: int = 600, authors: int | None = None) -> pl.DataFrame:
    draw = np.random.default_rng(0)
    rows = []
    for i in range(count):
        gender = "fm"[i % 2]
        said = f"text {i} of a {draw.choice(NEUTRAL)} and a {draw.choice(WORDS[gender])}"
        rows.append({"text": said, "gender": gender, "author": f"{gender}{i // 2 % (authors or count)}"})
    return pl.DataFrame(rows)


def gender(**settings) -> Attribute:
    return Attribute(attribute="gender", kinds=["linear"], **settings)


def judged(rewrite, table: pl.DataFrame, allowed: float, question: Attribute | None = None):
    return gate(subject(table, rewrite, attacks=["length"]), Rules([(question or gender(), allowed)], budget=2000))


def only(share: float):
    """Keeps all words with this probability, else none."""
    return lambda text, rng: text if rng.random() < share else "nothing"


def test_who_hides_it_passes_and_who_shows_it_is_accused() -> None:
    """Attackers who guess are right on half of 300 texts, and within .5 nats by all but one in 10^4."""
    hidden = judged(only(0.0), texts(), 0.8)
    assert (hidden.status, hidden.trials) == (Status.NOT_EXCEEDED, 600)
    assert [row.attack for row in hidden.attacks] == [
        f"gender: {name} (linear)" for name in ("static", "relabelled", "augmented", "folded", "adaptive")
    ]
    shown = judged(only(1.0), texts(), 0.8)
    assert shown.status == Status.BEYOND
    assert all(row.successes == row.trials >= 250 for row in shown.attacks if "adaptive" in row.attack)
    assert judged(only(0.4), texts(), 0.8).status == Status.OPEN, "right on .7 where .69 are allowed"


def test_who_learned_from_rewrites_finds_what_the_static_one_misses() -> None:
    """Words of one gender become those of the other: an attacker who never saw a rewrite is always wrong."""
    swapped = dict(zip((*WORDS["f"], *WORDS["m"]), (*WORDS["m"], *WORDS["f"]), strict=True))
    verdict = judged(
        lambda text, rng: " ".join(swapped.get(word, word) for word in text.split()),
        texts(),
        0.8,
    )
    status = {row.attack: row.status for row in verdict.attacks}
    assert status["gender: static (linear)"] == Status.OPEN, "it is always wrong, which tells genders apart"
    assert status["gender: adaptive (linear)"] == status["gender: relabelled (linear)"] == Status.BEYOND


def test_of_an_author_one_text_is_tested() -> None:
    """300 authors with 4 texts: half of them teach."""
    verdict = judged(only(0.0), texts(1200, authors=150), 0.9, gender(group="author"))
    assert verdict.attacks[0].trials <= 150
    assert verdict.trials == 600 + 150


def test_a_text_without_an_author_is_tested_for_itself() -> None:
    """600 texts, of all but 20 of which no author is named: half of them teach, the others are tested on."""
    table = texts().with_columns(author=pl.when(pl.int_range(pl.len()) >= 580).then("author"))
    verdict = judged(only(0.0), table, 0.8, gender(group="author"))
    assert (verdict.status, verdict.trials) == (Status.NOT_EXCEEDED, 600)


def test_a_law_shows_it_kept_by_whoever_infers() -> None:
    """Randomised response at 1 nat on 40 texts: no two lose more, so no attacker is run; at 9 nats they are."""
    table = texts(40)
    limits = [(gender(), 1.1)]
    of = subject(table, "randomized_response", 1.0, ["length"])
    verdict = gate(of, Rules(limits, budget=3000))
    (row,) = verdict.attacks
    assert (verdict.status, verdict.trials, row.row["unrefuted"]) == (Status.WITHIN, 1000, 1000)
    assert (row.attack, row.trials) == ("gender: by its stated law", 200)
    assert row.point < 1
    _, seen, errors = lines(Decision.of(of, Errors(), verdict))
    assert seen.startswith(
        "gender: by its stated law, which 1,000 rewrites did not refute, any attacker is right in at most "
    )
    assert errors.startswith("a mechanism within its limits is called beyond with probability 0.001 at most; ")
    assert "2 attributes (their exclusive or)" in errors
    (data,) = result(Decision.of(of, Errors(), verdict)).attacks
    assert data.source.endswith(", kept by its stated law, which 1,000 rewrites did not refute")
    assert gate(of, Rules(limits, budget=200)).trials == 100, "half of the budget at most"
    with refused("EPS-Q025"):
        gate(of, Rules(limits, budget=90))  # too few trials to test a law
    with refused("EPS-Q025"):
        gate(subject(table, "randomized_response", 9.0, ["length"]), Rules(limits, budget=100))


class Verbatim(RandomizedResponse):
    """States the law of randomised response, and releases its source."""

    units = True

    def rewrite(self, texts, epsilon, noise):
        return Rewrites(list(texts), Ragged.single(self._numbers(texts)) if self.units else None)


class WithoutUnits(Verbatim):
    """The same, and nothing that could be compared with the law."""

    units = False


@pytest.mark.parametrize(("mechanism", "said"), [(Verbatim, "refute"), (WithoutUnits, "cannot be compared with")])
def test_a_law_that_rewrites_do_not_bear_out_is_no_pass(mechanism, said: str, capsys) -> None:
    """Attackers infer the gender of each of 200 texts, whatever the law says of 1 nat."""
    table = texts(400)
    of = subject(table, mechanism(resource=tuple(table["text"])), 1.0, ["length"])
    verdict = gate(of, Rules([(gender(), 1.1)], budget=2000))
    assert (verdict.status, verdict.trials) == (Status.BEYOND, 1000 + 400)
    assert len(verdict.attacks) == 5
    assert (
        f"the largest loss of the attribute allowed; 1,000 rewrites {said} the stated law)"
        in lines(Decision.of(of, Errors(), verdict))[1]
    )
    assert f"1,000 rewrites {said} the stated law at epsilon 1" in capsys.readouterr().err


def test_bad_input() -> None:
    table = texts(60)
    with refused("EPS-Q025", "0.1", "4,560"):
        judged(only(0), table, 0.1)
    with refused("EPS-Q024", "50"):
        judged(only(0), table, 50)
    with refused("EPS-Q023", "0", "0"):
        judged(only(0), table, 0)
    with refused("EPS-Q027", "one", "1"):
        judged(only(0), table.with_columns(one=pl.lit("a")), 1, Attribute(attribute="one"))
    with refused("EPS-C015"):
        question("attribute", {"attribute": "gender", "kinds": ["deep"]})
    assert Errors().alpha == 0.001
