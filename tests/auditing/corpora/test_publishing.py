"""Published files contain nothing of private texts except the noisy table. Also refusals, and the curator's figures."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from epsilometer.accounting.ledger import Ledger
from epsilometer.auditing.corpora.checks import check, for_the_curator, head, learnt
from epsilometer.auditing.corpora.publishing import Publication, statement_of
from epsilometer.core.corpus_mechanism import PrivateCorpus, Release
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.corpora.label_shares import LabelShares
from epsilometer.mechanisms.corpora.local_votes import LocalVotes
from epsilometer.mechanisms.corpora.vote_histogram import VoteHistogram
from tests.support.corpora import LABELS, PUBLIC, TEXTS, TOPICS, words_as_vectors
from tests.support.refusals import refused

NAMES = tuple(TOPICS)
TABLE = np.random.default_rng(0).integers(-3, 9, (4, 4))


class OfOneTable(VoteHistogram):
    """Whose noise happens to give the same table for every corpus."""

    def noisy_votes(self, corpus: PrivateCorpus, epsilon: float, noise: Noise) -> NDArray[np.int64]:
        super().noisy_votes(corpus, epsilon, noise)
        return TABLE


@pytest.fixture(autouse=True)
def _no_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    words_as_vectors(monkeypatch)


def corpus(count: int = 60) -> PrivateCorpus:
    return PrivateCorpus(TEXTS[:count], [f"person {i}" for i in range(count)], LABELS[:count])


def with_another(base: PrivateCorpus, *, added: bool) -> PrivateCorpus:
    """A neighbour: five texts of somebody else, first, in place of the first person's or beside them."""
    first = 0 if added else 1
    assert base.people is not None
    assert base.labels is not None
    texts = [f"mine rain of somebody {i}" for i in range(5)]
    return PrivateCorpus(
        [*texts, *base.texts[first:]],
        ["somebody"] * 5 + [*base.people[first:]],
        ["secret", *LABELS[:4], *base.labels[first:]],
    )


@pytest.mark.parametrize("neighbours", ["replaced", "added or removed"])
@pytest.mark.parametrize("kind", ["csv", "parquet", "jsonl"])
def test_files_of_neighbouring_corpora_with_one_noisy_table_are_equal(
    tmp_path: Path, neighbours: str, kind: str
) -> None:
    """Even where the other person is in an earlier release of the ledger."""
    written = []
    mechanism = OfOneTable(resource=PUBLIC, labels=NAMES, m=4, neighbours=neighbours)
    for number, private in enumerate((corpus(), with_another(corpus(), added=neighbours != "replaced"))):
        place = tmp_path / str(number)
        Ledger(place / "ledger").enter(mechanism.guarantee(2.0), {"somebody": 3}, again=False)
        publication = Publication("votes", mechanism, 4.0, place / "ledger", again=True)
        publication.publish(private, place / f"out.{kind}")
        files = [file for file in sorted(place.iterdir()) if file.is_file()]
        assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
        written.append({file.name: file.read_bytes() for file in files})
    assert written[0] == written[1]
    assert [*written[0]] == [f"out.{kind}", f"out.{kind}.statement.json"]


def test_a_statement(tmp_path: Path) -> None:
    mechanism = LabelShares(labels=NAMES, most=2)
    out = tmp_path / "out.csv"
    Publication("label_shares", mechanism, 4.0, tmp_path / "ledger").publish(corpus(), out)
    said = json.loads(statement_of(out).read_text())
    assert said["claim"]["epsilon"] == 4
    assert (said["claim"]["unit"], said["claim"]["neighbours"]) == ("user", "replaced")
    assert said["texts counted per person"] == 2
    assert said["public"]["people"] == 60
    assert said["spent"]["at most, with all releases of the ledger"]["epsilon"] == 4
    mechanism = LabelShares(labels=NAMES, neighbours="added or removed")
    Publication("label_shares", mechanism, 4.0, tmp_path / "ledger", again=True).publish(corpus(), out)
    said = json.loads(statement_of(out).read_text())
    assert "people" not in said["public"]
    assert said["spent"]["at most, with all releases of the ledger"]["epsilon"] == 12  # 4 is doubled by replacement


def test_nothing_is_recorded_of_a_refused_corpus(tmp_path: Path) -> None:
    with refused("EPS-A202", "30"):
        Publication("label_shares", LabelShares(labels=NAMES), 4.0, tmp_path / "l").publish(
            corpus(29), tmp_path / "o.csv"
        )
    assert not [*tmp_path.iterdir()]


def with_people(people: list[str], labels: tuple[str, ...] = LABELS) -> PrivateCorpus:
    return PrivateCorpus(TEXTS, people, labels)


REFUSED = {
    ("EPS-A202", "29", "30"): corpus(29),
    ("EPS-A203", "20", "60"): with_people(["one"] * 20 + [str(i) for i in range(40)]),
    ("EPS-A206", "4"): with_people([*NAMES, *(str(i) for i in range(56))]),
    ("EPS-A208", "3 of 3"): with_people([str(i) for i in range(60)], ("music", "food", "weather", *["other"] * 57)),
    ("EPS-A207", "--labels"): with_people([str(i) for i in range(60)], ("other",) * 60),
}


@pytest.mark.parametrize("refusal", REFUSED, ids=lambda refusal: refusal[0])
def test_corpora_that_are_refused(refusal: tuple[str, ...]) -> None:
    with refused(*refusal):
        check(LabelShares(labels=NAMES, most=30), REFUSED[refusal], 100.0)


def test_private_texts_among_the_public_ones_are_refused() -> None:
    mechanism = VoteHistogram(resource=(*PUBLIC, TEXTS[3]), labels=NAMES, m=4)
    with refused("EPS-A204", "1"):
        check(mechanism, corpus(), 10.0)


def test_an_epsilon_at_which_noise_drowns_every_vote_is_refused_with_the_number_that_would_do() -> None:
    mechanism = VoteHistogram(resource=PUBLIC, labels=NAMES, m=4)
    needed = mechanism.needed(0.1)
    assert needed == pytest.approx(4 * np.sqrt(4 * 2 * 20**2), rel=0.01)  # b = 2 / .1
    with refused("EPS-A205", "60", str(needed)):
        check(mechanism, corpus(), 0.1)


def test_a_control_is_not_published() -> None:
    with refused("EPS-A201"):
        check(LocalVotes(resource=PUBLIC, labels=NAMES, m=4), corpus(), 1.0)


def test_more_exemplars_than_public_texts_are_refused_before_any_text_is_embedded() -> None:
    with refused("EPS-M104", "41"):
        check(VoteHistogram(resource=PUBLIC, labels=NAMES, m=41), corpus(), 1.0)


def test_figures_for_the_curator() -> None:
    mechanism = VoteHistogram(resource=PUBLIC, labels=NAMES, m=4)
    figures = for_the_curator(mechanism, corpus(), mechanism.release(corpus(), 1000.0, Noise.named(1, "release")))
    assert figures.people == 60
    assert figures.f1 == 1
    assert (figures.far, figures.near, figures.sample) == (0, pytest.approx(1, abs=0.6), 60)
    assert len(figures.describe()) == 3
    assert for_the_curator(LabelShares(labels=NAMES), corpus(), figures_release()).describe() == ["60 people"]


def figures_release():  # type: ignore[no-untyped-def]
    return LabelShares(labels=NAMES).published(np.array([1, 2, 3, 4]), 1.0)


def test_a_label_that_the_release_lost_counts_as_never_right() -> None:
    """Two of three labels are learnt and right; the third is predicted as the second. F1: (1 + 2 / 3 + 0) / 3."""
    vectors = np.eye(3)[[0, 0, 1, 1]]
    fitted = head(vectors, Release(["", "", "", ""], np.ones(4), ["a", "a", "b", "b"]))
    own = np.array([[1.0, 0, 0], [0, 1, 0], [0, 0.9, 0.1], [1, 0, 0]])
    assert learnt(fitted, own, ["a", "b", "c", None]) == pytest.approx((1 + 2 / 3) / 3)


def test_a_release_with_one_label_predicts_it_everywhere() -> None:
    """One of two labels: F1 is (2 / 3 + 0) / 2, as for a constant guess; without labels nothing is learnt."""
    vectors = np.eye(3)
    fitted = head(vectors, Release(["", "", ""], np.ones(3), ["a", "a", "a"]))
    assert learnt(fitted, vectors[:2], ["a", "b"]) == pytest.approx((2 / 3) / 2)
    assert head(vectors, Release(["", "", ""], np.ones(3), None)) is None
