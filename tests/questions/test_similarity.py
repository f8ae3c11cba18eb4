"""The mean of a metric has bounds in the metric's unit, and its limit is the smallest mean allowed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from epsilometer.auditing.evidence.status import Status
from epsilometer.auditing.question import question
from epsilometer.auditing.subject import Subject, subject
from epsilometer.doors.ask import ask
from epsilometer.doors.gate import Rules, gate
from epsilometer.metrics.jaccard import Jaccard
from epsilometer.questions.similarity import Similarity
from tests.support.refusals import refused

TEXTS = [f"{who} wants {what} today" for who in ("anna", "boris", "clara") for what in ("tea", "milk", "rum")]


def asked_of(rewrite: object, texts: list[str] = TEXTS) -> Subject:
    return subject(texts, rewrite, attacks=["lexical"])


IDENTITY = asked_of(lambda text, rng: text)
CONSTANT = asked_of(lambda text, rng: "nothing")
HALF = asked_of(lambda text, rng: text if rng.random() < 0.5 else "nothing")


def first(of: Subject, count: int = 1000, **settings: object) -> dict[str, float]:
    (row,) = ask(Similarity(**settings), of, trials=count).iter_rows(named=True)
    return row


@pytest.mark.parametrize(("of", "mean"), [(IDENTITY, 1.0), (CONSTANT, 0.0), (HALF, 0.5)])
def test_the_bounds_hold_the_mean(of: Subject, mean: float) -> None:
    """Each is wrong with probability .005; fixed seed."""
    row = first(of)
    assert row["low"] <= mean <= row["high"]
    assert row["high"] - row["low"] < 0.1
    assert row["point"] == pytest.approx(mean, abs=0.05)
    assert (row["trials"], row["covers"], row["figure"]) == (1000, "everyone", "similarity: jaccard")


@pytest.mark.parametrize(
    ("of", "statuses"),
    [
        (IDENTITY, [Status.WITHIN] * 3),
        (CONSTANT, [Status.BEYOND] * 3),
        (HALF, [Status.WITHIN, Status.OPEN, Status.BEYOND]),
    ],
    ids=["identity", "constant", "half"],
)
def test_a_gate_asks_for_a_smallest_mean(of: Subject, statuses: list[Status]) -> None:
    """A mean above the limit is called beyond with probability .001, one below it passes with .05; fixed seed."""
    verdicts = [gate(of, Rules([(Similarity(), allowed)])) for allowed in (0.2, 0.5, 0.8)]
    assert [verdict.status for verdict in verdicts] == statuses
    assert {verdict.trials for verdict in verdicts} == {Similarity.usual}


def test_a_value_is_the_metric_of_a_text_and_its_own_rewrite() -> None:
    """Each text keeps its last word alone: 1 of its 4 words."""
    of = asked_of(lambda text, rng: text.split()[-1])
    (observed,) = Similarity().observe(of, 50)
    assert observed.values.tolist() == [0.25] * 50
    assert first(of)["point"] == 0.25


def test_texts_are_drawn_evenly_and_alike_for_equal_seeds() -> None:
    """Each of 9 texts comes about 333 times in 3,000 draws: outside of 5 standard deviations with probability 6e-6."""
    rewritten: list[str] = []

    def rewrite(text: str, rng: np.random.Generator) -> str:
        rewritten.append(text)
        return text

    values = []
    for seed in (0, 0, 1):
        rewritten.clear()
        (observed,) = Similarity().observe(
            asked_of(lambda text, rng: f"anna {'wants' * (rng.random() < 0.5)}").seeded(seed), 300
        )
        values.append(observed.values.tolist())
    assert values[0] == values[1] != values[2]
    Similarity().observe(asked_of(rewrite), 3000)
    counts = [rewritten.count(text) for text in TEXTS]
    assert sum(counts) == 3000
    assert all(abs(count - 333) < 87 for count in counts)


class Stands:
    """A metric of given values in turn."""

    def __init__(self, values: Sequence[float]) -> None:
        self.values = values

    def measure(self, originals: Sequence[str], rewrites: Sequence[str]) -> np.ndarray:
        return np.resize(np.array(self.values, np.float64), len(originals))


def stand_in(monkeypatch: pytest.MonkeyPatch, values: Sequence[float]) -> None:
    monkeypatch.setattr("epsilometer.questions.similarity.metric", lambda name, settings: Stands(values))


NUMBERED = asked_of(lambda text, rng: f"{text} {rng.integers(1 << 40)}")  # all pairs differ


def test_a_cosine_is_given_back_as_a_cosine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cosines of -1, 0, 1 and 1 have the mean .25, which is a share of .625. Wrong with probability .005 a bound."""
    stand_in(monkeypatch, [-1.0, 0.0, 1.0, 1 + 1e-9])
    row = first(NUMBERED, 900, metric="cosine")
    assert row["point"] == pytest.approx(0.25)
    assert 0.1 < row["low"] < 0.25 < row["high"] < 0.4
    statuses = [gate(NUMBERED, Rules([(Similarity(metric="cosine"), x)])).status for x in (-0.5, 0.9)]
    assert statuses == [Status.WITHIN, Status.BEYOND]


def test_a_pair_without_a_value_counts_as_the_lowest(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, [float("nan"), 1.0])
    (observed,) = Similarity().observe(NUMBERED, 100)
    assert sorted({*observed.values.tolist()}) == [0, 1]
    assert observed.row["without_value"] == 50


def test_a_metric_out_of_range_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, [0.5, 1.5])
    with refused("EPS-Q037", "0.5", "1.5", "0", "1"):
        Similarity().observe(NUMBERED, 10)
    stand_in(monkeypatch, [-0.5])
    with refused("EPS-Q037", "-0.5"):
        Similarity().observe(NUMBERED, 10)


def test_a_metric_of_a_users_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    body = f"class Mine({Jaccard.__name__}):\n    pass\n"
    file.write_text(f"from {Jaccard.__module__} import Jaccard\n{body}")
    of = question("similarity", {"metric": str(file)})
    (observed,) = of.observe(IDENTITY, 20)
    assert (observed.name, observed.values.mean()) == ("similarity: mine", 1)


@pytest.mark.parametrize(
    ("metric", "allowed", "refusal"),
    [
        ("changed", 0.5, ("EPS-Q038", "changed")),
        ("perplexity", 0.5, ("EPS-Q038", "perplexity")),
        ("jaccard", 0.0, ("EPS-Q035", "jaccard", "(0, 1)", "0.0")),
        ("jaccard", 1.0, ("EPS-Q035", "jaccard", "(0, 1)", "1.0")),
        ("cosine", -1.0, ("EPS-Q035", "cosine", "(-1, 1)", "-1.0")),
        ("jacard", 0.5, ("EPS-C022", "jaccard", "jacard")),
    ],
)
def test_limits_on_similarity_that_nothing_could_show_are_refused(
    metric: str, allowed: float, refusal: tuple[str, ...]
) -> None:
    with refused(*refusal):
        Similarity(metric=metric).limit(IDENTITY, allowed)


def test_a_mean_near_an_end_takes_more_texts() -> None:
    with refused("EPS-Q036", "3,670", "300"):
        gate(IDENTITY, Rules([(Similarity(), 0.999)], budget=300))
    assert gate(IDENTITY, Rules([(Similarity(), 0.99)])).status is Status.WITHIN
    assert gate(CONSTANT, Rules([(Similarity(), 0.01)])).status is Status.BEYOND
