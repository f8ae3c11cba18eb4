"""Noisy votes: the law of the noise, the sensitivity of the table, and mistakes that the tests detect."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic import ValidationError

from epsilometer.auditing.corpora.vote_loss import pure_loss
from epsilometer.core.corpus_mechanism import PrivateCorpus
from epsilometer.core.exact_samplers import ExactDraws, system_words
from epsilometer.core.guarantees import Granularity, Neighbours
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.corpora.label_shares import LabelShares
from epsilometer.mechanisms.corpora.shared import public_cells
from epsilometer.mechanisms.corpora.shared.base import NoisyVotes
from epsilometer.mechanisms.corpora.shared.noisy_table import CellNoise
from epsilometer.mechanisms.corpora.shared.public_cells import nearest, on_grid
from epsilometer.mechanisms.corpora.vote_histogram import VoteHistogram
from epsilometer.runtime.scaling import Engine
from tests.support.corpora import LABELS, PUBLIC, PUBLIC_TOPICS, TEXTS, TOPICS, vectors, words_as_vectors
from tests.support.refusals import refused

KEY = b"0" * 32
NAMES = tuple(TOPICS)


@pytest.fixture(autouse=True)
def _no_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    words_as_vectors(monkeypatch)


def mechanism(kind: type[VoteHistogram] = VoteHistogram, **settings: object) -> VoteHistogram:
    return kind(**{"resource": PUBLIC, "labels": NAMES, "m": 4, **settings})


def test_votes_counted_by_two_processes_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(public_cells, "_CHUNK", 16)  # four slices
    public = public_cells.PublicTexts.of(PUBLIC, partial(vectors, None), 0)
    here, there = (mechanism().on(replace(public, engine=Engine(workers))) for workers in (1, 2))
    assert (here.votes(corpus(), 1.0, KEY) == there.votes(corpus(), 1.0, KEY)).all()


def corpus(people: int = 20, each: int = 3) -> PrivateCorpus:
    names = [f"person {i // each}" for i in range(people * each)]
    return PrivateCorpus(TEXTS[: people * each], names, LABELS[: people * each])


def replaced(base: PrivateCorpus, person: str, turn: int) -> PrivateCorpus:
    """The same corpus with other texts of a person: of one topic, and more of them each turn."""
    rows = [i for i, name in enumerate(base.people or []) if name != person]
    others = [TEXTS[(4 * i + turn) % len(TEXTS)] for i in range(1 + turn)]
    assert base.people is not None
    assert base.labels is not None
    return PrivateCorpus(
        [base.texts[i] for i in rows] + others,
        [base.people[i] for i in rows] + [person] * len(others),
        [base.labels[i] for i in rows] + [NAMES[(turn + 1) % 4]] * len(others),
    )


def excess(of: NoisyVotes, epsilon: float = 1.0) -> float:
    """The largest loss of 40 pairs of neighbouring corpora, less epsilon; infinite where the tables' shapes differ."""
    base, worst = corpus(), -math.inf
    table = of.votes(base, epsilon, KEY)
    for turn in range(40):
        other = of.votes(replaced(base, f"person {turn % 20}", turn), epsilon, KEY)
        if table.shape != other.shape:
            return math.inf
        moved = np.abs(table - other).sum() * float(of.cell_noise(epsilon).rate)
        worst = max(worst, float(moved) - epsilon)
    return worst


@pytest.mark.parametrize("most", [1, 2, 4])
def test_the_claim_holds_between_neighbouring_corpora(most: int) -> None:
    assert excess(mechanism(most=most)) <= 1e-9
    assert excess(LabelShares(labels=NAMES, most=most)) <= 1e-9


def test_the_claim_is_tight_and_is_the_loss_of_the_law() -> None:
    rate = float(mechanism(most=2).cell_noise(1.0).rate)
    votes = np.array([[2, 0], [0, 2]])
    assert pure_loss(votes, rate) == pytest.approx(1.0, abs=1e-9)
    rate = float(mechanism(most=2, neighbours="added or removed").cell_noise(1.0).rate)
    assert pure_loss(np.array([[2], [0]]), rate) == pytest.approx(1.0, abs=1e-9)


class HalfTheNoise(VoteHistogram):
    """b = c / epsilon under replacement."""

    def cell_noise(self, epsilon: float) -> CellNoise:
        return replace(super().cell_noise(epsilon), replaced=False)


class UnknownLabels(VoteHistogram):
    """Labels are learnt from private texts."""

    def votes(self, corpus: PrivateCorpus, epsilon: float, key: bytes) -> NDArray[np.int64]:
        seen = tuple(sorted({*(corpus.labels or []), *corpus.texts[-1:]}))
        wide = replace(corpus, labels=[*(corpus.labels or [])[:-1], corpus.texts[-1]])
        return VoteHistogram(resource=PUBLIC, labels=seen, m=4).votes(wide, epsilon, key)


class PrivateExemplars(VoteHistogram):
    """Exemplars are chosen from private texts."""

    def votes(self, corpus: PrivateCorpus, epsilon: float, key: bytes) -> NDArray[np.int64]:
        return VoteHistogram(resource=tuple(corpus.texts), labels=self.labels, m=4).votes(corpus, epsilon, key)


class OfTheBatch(VoteHistogram):
    """A text's vote depends on the texts that are embedded with it."""

    def votes(self, corpus: PrivateCorpus, epsilon: float, key: bytes) -> NDArray[np.int64]:
        texts, labels = self.voters(corpus, key)
        own = vectors(None, texts)
        centred = own - own[-1]
        chosen = self.public.vectors[self.public.exemplars(4)]
        table = np.zeros((4, 4), np.int64)
        np.add.at(table, ((centred @ chosen.T).argmax(1), labels), 1)
        return table


class Unbounded(VoteHistogram):
    """All texts of a person count."""

    def voters(self, corpus: PrivateCorpus, key: bytes) -> tuple[list[str], NDArray[np.int64]]:
        return super().voters(PrivateCorpus(corpus.texts, None, corpus.labels), key)


class OfTheNumberOfTexts(VoteHistogram):
    """m depends on the number of texts, which is private where people are protected."""

    def votes(self, corpus: PrivateCorpus, epsilon: float, key: bytes) -> NDArray[np.int64]:
        return VoteHistogram(resource=PUBLIC, labels=self.labels, m=len(corpus) // 10).votes(corpus, epsilon, key)


class ThresholdFirst(VoteHistogram):
    """Cells of fewer votes than the largest are emptied before the noise."""

    def votes(self, corpus: PrivateCorpus, epsilon: float, key: bytes) -> NDArray[np.int64]:
        table = super().votes(corpus, epsilon, key)
        return np.where(table >= table.max(), table, 0)


@pytest.mark.parametrize(
    "kind",
    [HalfTheNoise, UnknownLabels, PrivateExemplars, OfTheBatch, Unbounded, OfTheNumberOfTexts, ThresholdFirst],
)
def test_a_larger_sensitivity_is_caught(kind: type[VoteHistogram]) -> None:
    assert excess(mechanism(kind)) > 1e-3


def noise_of(draw: Callable[[], NDArray[np.int64]], cells: int = 16, times: int = 200) -> NDArray[np.int64]:
    return np.array([draw().ravel() for _ in range(times)]).reshape(times, cells)


def well_drawn(noise: NDArray[np.int64], rate: float) -> bool:
    """Whether cells [times, cells] have the variance of the noise, each alike, and do not move together.

    Each of 18 figures is beyond 6 deviations with a probability of less than 1e-6, as sums of 200 are nearly normal.
    """
    times, cells = noise.shape
    variance = 2 * math.exp(-rate) / (1 - math.exp(-rate)) ** 2
    spread = variance * math.sqrt(5 / times)  # the kurtosis of Laplace noise is 6
    each = np.abs((noise.astype(float) ** 2).mean(0) - variance) < 6 * spread
    together = abs(noise.sum(1).astype(float).var() / (cells * variance) - 1)
    repeats = (noise[1:] == noise[:-1]).all(1).mean()
    return bool(each.all() and together < 6 * math.sqrt(3 / times) and repeats < 0.5)


def only_where_votes_are(of: VoteHistogram, empty: PrivateCorpus) -> NDArray[np.int64]:
    table = of.votes(empty, 1.0, KEY)
    noisy = of.noisy_votes(empty, 1.0, Noise.operating_system(1))
    return np.where(table > 0, noisy - table, 0)


def test_noise_is_in_every_cell_and_fresh() -> None:
    of, few = mechanism(), PrivateCorpus(TEXTS[:1], None, LABELS[:1])
    table, rate = of.votes(few, 1.0, KEY), float(of.cell_noise(1.0).rate)
    assert (table == 0).sum() == 15
    assert well_drawn(noise_of(lambda: of.noisy_votes(few, 1.0, Noise.operating_system(1)) - table), rate)
    assert not well_drawn(noise_of(partial(only_where_votes_are, of, few)), rate)
    seeded = Noise.named(1, "again")
    assert not well_drawn(noise_of(lambda: of.noisy_votes(few, 1.0, seeded) - table), rate)
    alike = noise_of(lambda: np.full(16, (of.noisy_votes(few, 1.0, Noise.operating_system(1)) - table)[0, 0]))
    assert not well_drawn(alike, rate)


def integers_of(draw: Callable[[CellNoise, ExactDraws], object]) -> bool:
    """Whether the noise is integers, and a function of the given bits alone: the same bits give the same noise."""
    tape = system_words(1 << 16)

    def once() -> object:
        left = iter(tape)
        return draw(CellNoise(1.0, 1, True), ExactDraws(lambda n: np.fromiter(left, np.uint64, n)))

    one_draw, again = np.asarray(once()), np.asarray(once())
    return one_draw.dtype.kind == "i" and bool((one_draw == again).all())


def test_noise_is_drawn_by_integers_from_the_bits_of_the_publication() -> None:
    assert integers_of(lambda noise, draws: noise.draw(64, draws))
    generator = np.random.default_rng(0)
    assert not integers_of(lambda noise, _: generator.laplace(scale=1 / float(noise.rate), size=64))
    assert not integers_of(lambda noise, _: np.rint(generator.laplace(scale=2, size=64)).astype(int))


@pytest.mark.parametrize("epsilon", [1e-9, 0.1, 1.0, 1 / 3, 50.0, 1e9])
def test_the_rate_is_rounded_down(epsilon: float) -> None:
    rate = CellNoise(epsilon, 3, True).rate
    assert 0 < rate <= epsilon / 6
    assert float(rate) == pytest.approx(epsilon / 6, rel=1e-2 if epsilon < 1e-6 else 1e-9)


def test_the_noise_has_its_law() -> None:
    """100,000 draws; each frequency within 5 deviations, 11 figures."""
    count, noise = 100_000, CellNoise(1.0, 1, True)
    noisy, q = noise.draw(count, ExactDraws()), math.exp(-0.5)
    for z in range(-5, 6):
        p = (1 - q) / (1 + q) * q ** abs(z)
        assert abs((noisy == z).mean() - p) < 5 * math.sqrt(p * (1 - p) / count)
    assert noise.variance == pytest.approx(sum((1 - q) / (1 + q) * q ** abs(z) * z * z for z in range(-200, 201)))


def gaussian_delta(s: int, epsilon: float) -> float:
    """The exact delta of two cells that differ by 1 each, under discrete Gaussian noise, enumerated."""
    z = np.arange(-40 * s, 40 * s + 1)
    p = np.exp(-(z**2) / (2 * s**2))
    p /= p.sum()
    here, there = np.outer(p, p), np.outer(np.roll(p, 1), np.roll(p, 1))
    return float(np.maximum(here - math.exp(epsilon) * there, 0).sum())


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-5), (0.5, 1e-3)])
def test_gaussian_noise_keeps_epsilon_and_delta(epsilon: float, delta: float) -> None:
    of = mechanism(delta=delta)
    s = of.cell_noise(epsilon).deviation
    assert gaussian_delta(s, epsilon) <= delta
    assert gaussian_delta(s // 2, epsilon) > delta  # half of this deviation would violate the claim
    claim = of.guarantee(epsilon)
    assert (claim.epsilon, claim.delta) == (epsilon, delta)


def test_a_vote_does_not_depend_on_the_batch() -> None:
    own, chosen = on_grid(vectors(None, TEXTS)), on_grid(vectors(None, PUBLIC[:12]))
    together = nearest(own, chosen)
    assert together.tolist() == [nearest(row[None], chosen)[0] for row in own]
    exact = own @ chosen.T
    assert (exact == np.array([[math.fsum(a * b) for b in chosen] for a in own])).all()


def test_equal_exemplars_go_by_index() -> None:
    chosen = on_grid(vectors(None, [PUBLIC[0], PUBLIC[0], PUBLIC[1]]))
    assert nearest(on_grid(vectors(None, [PUBLIC[0]])), chosen).tolist() == [0]


def test_which_texts_count_depends_on_key_and_person_alone() -> None:
    of, base = mechanism(most=2), corpus()
    order = np.random.default_rng(0).permutation(len(base))
    shuffled = PrivateCorpus(*([side[i] for i in order] for side in (base.texts, base.people, base.labels)))
    assert (of.votes(base, 1.0, KEY) == of.votes(shuffled, 1.0, KEY)).all()
    chosen = {tuple(sorted(of.voters(base, bytes([i]) * 32)[0][:2])) for i in range(20)}
    assert len(chosen) > 1
    assert of.votes(base, 1.0, KEY).sum() == 2 * 20


def test_labels_that_are_not_public_cast_no_vote() -> None:
    base = PrivateCorpus(TEXTS[:4], None, ["music", "secret", None, "travel"])
    assert mechanism().votes(base, 1.0, KEY).sum() == 2


def test_claims() -> None:
    claim = mechanism().guarantee(1.0)
    assert (claim.granularity, claim.neighbours, claim.delta) == (Granularity.USER, Neighbours.REPLACED, 0)
    assert "the number of people" in (claim.public or "")
    other = mechanism(unit="document", neighbours="added or removed").guarantee(1.0)
    assert (other.granularity, other.neighbours) == (Granularity.DOCUMENT, Neighbours.ADDED_OR_REMOVED)
    assert "number" not in (other.public or "").replace("40 texts", "")
    assert other.describe().startswith("1 per document; corpora with one document added or removed")


def test_m_depends_on_the_number_of_people_only_where_it_is_public() -> None:
    many = tuple(f"{text} {i}" for i in range(40) for text in PUBLIC)
    assert [VoteHistogram(resource=many).number(n, 1.0) for n in (400, 401, 1501)] == [16, 64, 252]
    assert VoteHistogram(resource=many, labels=tuple(map(str, range(20)))).number(400, 1.0) == 40
    private = VoteHistogram(resource=many, neighbours="added or removed")
    assert {private.number(n, 1.0) for n in (1, 600, 100_000)} == {64}
    assert VoteHistogram(resource=PUBLIC).number(10**6, 1.0) == 10


@pytest.mark.parametrize("after", ["spread", "ridge", "plain"])
def test_what_is_released_is_labelled_by_the_votes(after: str) -> None:
    """At a large epsilon all labels are right."""
    release = mechanism(after=after).release(corpus(), 1000.0, Noise.named(1, "release"))
    truth = dict(zip(PUBLIC, PUBLIC_TOPICS, strict=True))
    assert release.labels
    assert [truth[text] for text in release.texts] == list(release.labels)
    assert (release.weights > 0).all()
    assert len(release.texts) == (len(PUBLIC) if after == "spread" else 4)


def test_without_labels_exemplars_are_weighted() -> None:
    release = VoteHistogram(resource=PUBLIC, m=4).release(corpus(), 1000.0, Noise.named(1, "release"))
    assert release.labels is None
    assert release.weights.tolist() == pytest.approx([5, 5, 5, 5], abs=3)
    assert release.weights.sum() == 20


def test_shares_are_of_people() -> None:
    """A person who writes half of all texts counts once."""
    base = PrivateCorpus(TEXTS[:40], [*map(str, range(20)), *["one"] * 20], ["music"] * 20 + ["food"] * 20)
    release = LabelShares(labels=("music", "food")).release(base, 1e6, Noise.named(1, "shares"))
    assert release.weights.tolist() == pytest.approx([20 / 21, 1 / 21])
    assert LabelShares(labels=("a", "b")).published(np.array([-3, -1]), 1.0).weights.tolist() == [0.5, 0.5]


@pytest.mark.parametrize(
    ("settings", "refusal"),
    [
        ({"resource": ()}, ("EPS-M103",)),
        ({"m": 41}, ("EPS-M104", "41", "40")),
    ],
)
def test_public_texts_that_do_not_do(settings: dict[str, object], refusal: tuple[str, ...]) -> None:
    with refused(*refusal):
        mechanism(**settings).release(corpus(), 1.0, Noise.named(1, "release"))


def test_settings_that_do_not_do() -> None:
    for settings, named in (
        ({"labels": ("a", "a")}, "labels must"),
        ({"labels": ("a", " ")}, "labels must"),
        ({"unit": "document", "most": 2}, "unit: document"),
    ):
        with pytest.raises(ValidationError, match=named):
            mechanism(**settings)
    with pytest.raises(ValidationError, match="two labels"):
        LabelShares(labels=("a",))
    with refused("EPS-M100"):
        mechanism().votes(PrivateCorpus(TEXTS), 1.0, KEY)
