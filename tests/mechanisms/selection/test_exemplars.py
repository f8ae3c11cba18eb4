"""Public exemplars: laws compared with a naive implementation, claims checked on all pairs, and refusals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from pydantic import ValidationError

import epsilometer
from epsilometer.auditing.claims.verdicts import refuse_public
from epsilometer.auditing.claims.worst_case import check_claim
from epsilometer.auditing.conformance.mechanism import check_mechanism
from epsilometer.auditing.subject import subject
from epsilometer.auditing.text_audit import on_public
from epsilometer.core.randomness import Noise
from epsilometer.corpora.synthetic import generate
from epsilometer.mechanisms.selection.exemplars import Exemplars
from epsilometer.mechanisms.selection.shared import exemplar_number, public_exemplars
from epsilometer.mechanisms.selection.shared.exemplar_laws import InSets, groups, sets
from epsilometer.mechanisms.selection.shared.public_exemplars import ExemplarSet as Chosen
from epsilometer.mechanisms.selection.shared.public_exemplars import choose, embed
from epsilometer.models.encoder import Encoder
from tests.support.refusals import refused
from tests.support.sparing import first

PUBLIC = tuple(generate("queries", 60, 1)["text"])
PRIVATE = [text for text in generate("queries", 40, 2)["text"] if text not in PUBLIC]
LAWS: dict[str, dict[str, Any]] = {
    "randomized_response": {},
    "exponential": {"law": "exponential"},
    "subset_selection": {"law": "subset_selection", "size": 3},
    "two levels": {"levels": 2},
}


class Remembering:
    """The encoder of that name, which embeds each text once in all these tests: embeddings do not feel their batch."""

    def __init__(self, name: str) -> None:
        self._encoder = Encoder(name)
        self.dimensions = self._encoder.dimensions
        self._vectors: dict[str, np.ndarray] = {}

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        if new := [text for text in dict.fromkeys(texts) if text not in self._vectors]:
            self._vectors.update(zip(new, self._encoder.encode(new), strict=True))
        return np.array([self._vectors[text] for text in texts], np.float32).reshape(len(texts), self.dimensions)


remembering = cache(Remembering)


@pytest.fixture(autouse=True)
def _embed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (public_exemplars, exemplar_number):
        monkeypatch.setattr(module, "Encoder", remembering)


@cache
def mechanism(law: str = "randomized_response", m: int = 8) -> Exemplars:
    return Exemplars(resource=PUBLIC, m=m, **LAWS[law])


def probabilities(built: Exemplars, texts: list[str], epsilon: float) -> np.ndarray:
    laws = built.laws(texts)
    (log_law,) = laws.log_probabilities(laws.rows.values, [epsilon])
    return np.exp(log_law)


@pytest.mark.parametrize("law", LAWS)
def test_the_law_is_the_one_that_is_written_down(law: str) -> None:
    """One text after the other, by the definitions of the module."""
    built, epsilon = mechanism(law), 1.7
    texts, exemplars = PRIVATE[:10], built.chosen.vectors
    for row, vector in zip(probabilities(built, texts, epsilon), built.chosen.encode(texts), strict=True):
        apart = [math.dist(vector, exemplar) for exemplar in exemplars]
        nearest = apart.index(min(apart))
        weights = [math.exp(epsilon) if i == nearest else 1.0 for i in range(8)]
        if law == "exponential":
            weights = [math.exp(-epsilon * distance / 2) for distance in apart]
        elif law == "subset_selection":
            weights = [math.exp(epsilon * (nearest in held)) for held in combinations(range(8), 3)]
        elif law == "two levels":
            weights = two_levels(apart, groups(exemplars).tolist(), epsilon)
        np.testing.assert_allclose(row, np.array(weights) / sum(weights), rtol=1e-6)


def two_levels(apart: list[float], group: list[int], epsilon: float) -> list[float]:
    numbers, own, half = sorted(set(group)), group[apart.index(min(apart))], math.exp(epsilon / 2)
    law = []
    for i in range(len(apart)):
        members = [j for j in range(len(apart)) if group[j] == group[i]]
        nearest = min(members, key=lambda j: apart[j])
        first = (half if group[i] == own else 1.0) / (half + len(numbers) - 1)
        law.append(first * (half if i == nearest else 1.0) / (half + len(members) - 1))
    return law


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("epsilon", [0.1, 2.0, 30.0])
def test_no_pair_of_texts_loses_more_than_is_claimed(law: str, epsilon: float) -> None:
    """All pairs of texts, all outputs."""
    built = mechanism(law)
    texts = [*PRIVATE, *built.chosen.texts]
    log_law = np.log(probabilities(built, texts, epsilon))
    pairs = np.array([(i, j) for i in range(len(texts)) for j in range(len(texts)) if i != j])
    loss = (log_law[pairs[:, 0]] - log_law[pairs[:, 1]]).max(axis=1)
    claimed = epsilon * built.distance(texts, pairs, epsilon)
    assert (loss <= claimed + 1e-9).all()
    largest = 2.0 if law == "exponential" else 1.0  # the diameter of the unit sphere
    assert (claimed <= epsilon * largest + 1e-9).all()
    if law != "exponential":
        assert loss.max() == pytest.approx(epsilon)
    assert check_claim(built, epsilon).verdict == "not refuted"
    assert check_claim(built, epsilon).method == "exact"


def test_a_law_beyond_its_claim_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were exemplars in differently many sets, normalisers would differ, and the claim be false."""
    built = Exemplars(resource=PUBLIC, m=8, **LAWS["subset_selection"])
    uneven = InSets(built._law.shown[: len(built._law.shown) // 2])
    monkeypatch.setitem(vars(built), "_law", uneven)
    assert check_claim(built, 1.0).verdict == "violated"


@pytest.mark.parametrize(("m", "size"), [(8, 3), (64, 2), (64, 8), (63, 7), (24, 12), (2, 1), (97, 30)])
def test_sets_of_exemplars_hold_each_equally_often(m: int, size: int) -> None:
    shown = sets(m, size)
    assert (shown.sum(axis=1) == size).all()
    assert len(np.unique(shown, axis=0)) == len(shown)
    assert len(set(shown.sum(axis=0).tolist())) == 1
    together = shown.T.astype(int) @ shown
    assert together[~np.eye(m, dtype=bool)].min() > 0 or size == 1  # two exemplars can be released together
    if math.comb(m, size) <= 4096:
        assert len(shown) == math.comb(m, size)


def test_few_sets_estimate_as_well_as_all_of_them() -> None:
    """Pairs occur together nearly as often as by all 8-subsets of 64, which is what decides the loss."""
    shown = sets(64, 8)
    together = (shown.T.astype(int) @ shown)[~np.eye(64, dtype=bool)] / len(shown)
    expected = 8 * 7 / (64 * 63)
    assert np.abs(together / expected - 1).mean() < 0.12
    assert together.mean() == pytest.approx(expected)


@pytest.mark.slow
def test_the_number_is_chosen_on_held_out_public_texts() -> None:
    """At the epsilon that goes with it the held-out texts lose what is to be lost."""
    public = [*generate("queries", 150, 1)["text"], *generate("reviews", 150, 1)["text"]]
    built = Exemplars(resource=tuple(public), m="auto", target=0.5)
    search = built.chosen.search
    assert len(built.chosen.texts) == search["m"] == max(search["tried"], key=lambda row: row["cosine"])["m"]
    assert 40 < search["held_out"] < 80
    private = [*generate("queries", 40, 2)["text"], *generate("reviews", 40, 2)["text"]]
    texts = [text for text in private if text not in public]
    table = epsilometer.exact_loss(texts, built, [search["epsilon"]], design=epsilometer.Design(temperature=0))
    assert table["average"][0] == pytest.approx(0.5, abs=0.1)
    more = Exemplars(resource=tuple(public), m="auto", target=2.0).chosen.search
    assert more["epsilon"] > search["epsilon"]
    assert more["cosine"] > search["cosine"]


def test_too_few_public_texts_to_choose_a_number() -> None:
    with refused("EPS-M060", "8"):
        _ = Exemplars(resource=PUBLIC[:20], m="auto").chosen


@pytest.mark.parametrize(
    ("settings", "place", "kind", "named"),
    [
        ({"law": "subset_selection"}, (), "value_error", "law: subset_selection"),
        ({"size": 2}, (), "value_error", "law: subset_selection"),
        ({"law": "subset_selection", "size": 8, "m": 8}, (), "value_error", "8 of 8"),
        ({"law": "exponential", "levels": 2}, (), "value_error", "law: exponential"),
        ({"levels": 3}, ("levels",), "literal_error", "1 or 2"),
        ({"m": "many"}, ("m",), "int_parsing", ""),
        ({"m": 0}, ("m",), "greater_than", "0"),
        ({"m": 1}, (), "value_error", "2, got 1"),
        ({"target": 0}, ("target",), "greater_than_equal", "0.01"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(
    settings: dict[str, Any], place: tuple[str, ...], kind: str, named: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        Exemplars(resource=PUBLIC, **settings)
    first = caught.value.errors()[0]
    assert (first["loc"][:1], first["type"]) == (place, kind)
    assert named in first["msg"]


@pytest.mark.parametrize(
    ("epsilon", "code"), [(0, "EPS-C033"), (1e300, "EPS-C034"), (-1, "EPS-C033"), (math.nan, "EPS-C033")]
)
def test_an_epsilon_out_of_range_is_refused(epsilon: float, code: str) -> None:
    with refused(code, "epsilons[0]", f"{epsilon:g}"):
        epsilometer.audit(PRIVATE, mechanism(), [epsilon], ["lexical"], trials=20)


def test_the_claim_says_what_it_takes_for_public(tmp_path: Path) -> None:
    claim = mechanism().guarantee(2.0)
    assert claim is not None
    assert claim.describe() == "2 per document; any two texts; public: 60 texts"
    (tmp_path / "snips.txt").write_text("\n".join(PUBLIC))
    of_file = Exemplars(resource=tmp_path / "snips.txt", m=4)
    assert of_file.source == "snips.txt"
    of_file.chosen.save(tmp_path / "kept")
    assert Exemplars(resource=tmp_path / "kept").source == "snips.txt"


def test_texts_in_another_language_are_counted() -> None:
    german = ["Die Bundesregierung verabschiedete gestern das Gesetz", "Der Hund schläft unter dem alten Baum"]
    russian = ["Вчера я купил новую книгу", "Сегодня в городе идёт сильный снег"]
    built = Exemplars(resource=tuple(generate("queries", 300, 1)["text"]), m=32)
    assert built.unread([*german, *russian]).far >= 2
    there = built.unread(PRIVATE)
    assert there.far < len(PRIVATE) / 10
    assert there.compared == len(PRIVATE)


def test_the_share_of_texts_that_no_exemplar_is_near_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    russian = ["Вчера я купил новую книгу", "Сегодня в городе идёт сильный снег", "Мой брат живёт в другом городе"]
    built = Exemplars(resource=tuple(generate("queries", 300, 1)["text"]), m=32)
    far = built.unread([*PRIVATE, *russian]).far
    assert far >= 1
    epsilometer.audit([*PRIVATE, *russian], built, [1.0], ["lexical"], trials=20)
    said = capsys.readouterr().err
    assert f"{far} of {len(PRIVATE) + 3} texts ({far / (len(PRIVATE) + 3):.1%}) resemble no public text" in said


def test_of_a_file_with_splits_one_is_public(tmp_path: Path) -> None:
    """As a data set's prepared texts, of which another split is audited; that split would be refused."""
    splits = ["test"] * len(PUBLIC) + ["train"] * len(PRIVATE)
    path = tmp_path / "prepared.parquet"
    pl.DataFrame({"text": [*PUBLIC, *PRIVATE], "split": splits}).write_parquet(path)
    built = Exemplars(resource=path, split="test", m=8)
    assert built.chosen.texts == mechanism().chosen.texts
    assert sorted(built.public_texts) == sorted(PUBLIC)
    with refused("EPS-M056", "dev"):
        _ = Exemplars(resource=path, split="dev", m=8).chosen
    with refused("EPS-M053", "split"):
        _ = Exemplars(resource=PUBLIC, split="test", m=8).chosen


def test_draws_follow_the_law() -> None:
    """Chi-square of 7 degrees of freedom below 50: a false alarm once in 10^8."""
    built, count = mechanism("exponential"), 20_000
    rewrites = built.rewrite([PRIVATE[0]] * count, 3.0, Noise.named(count, "exemplars"))
    expected = count * probabilities(built, PRIVATE[:1], 3.0)[0]
    assert rewrites.units is not None
    seen = np.bincount(rewrites.units.values, minlength=8)
    assert ((seen - expected) ** 2 / expected).sum() < 50
    assert [built.chosen.texts[i] for i in rewrites.units.values[:50]] == list(rewrites.texts[:50])


@pytest.mark.parametrize("law", first(1, LAWS))
def test_it_conforms(law: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of them with an encoder that remembers nothing."""
    if law == "exponential":
        monkeypatch.setattr(public_exemplars, "Encoder", Encoder)
        mechanism.cache_clear()
    assert [check for check in check_mechanism(mechanism(law), 2.0, PRIVATE[:4]) if check.problem] == []


@pytest.mark.parametrize("law", LAWS)
def test_publications_follow_the_law(law: str) -> None:
    """Chi-square of m - 1 degrees of freedom, of exemplars shown: below 60 but once in 10^9 for seven of them."""
    built, count = mechanism(law), 4000
    (units,) = [built.rewrite([PRIVATE[0]] * count, 2.0, Noise.operating_system(count)).units]
    assert units is not None
    law_row = probabilities(built, PRIVATE[:1], 2.0)[0]
    seen = np.bincount(units.values, minlength=len(law_row))
    shown = built._law.shown.astype(float)
    expected, sizes = count * law_row @ shown, seen @ shown
    assert ((sizes - expected) ** 2 / expected).sum() < 60


@pytest.mark.parametrize("law", first(2, LAWS))
def test_exact_loss_and_calibration_work(law: str) -> None:
    """By single pairs, so that other pairs than the search's would not do: of the worst."""
    search = epsilometer.Search(measure="worst", low=0.1, high=50)
    row = epsilometer.calibrate(PRIVATE, mechanism(law), target=0.3, search=search).to_dicts()[0]
    assert row["epsilon"] is not None
    table = epsilometer.exact_loss(PRIVATE, mechanism(law), [row["epsilon"]])
    assert 0.1 < table["average"][0] < 0.35
    assert set(table["verdict"]) == {"not refuted"}


def test_an_audit_stays_below_the_claim_and_near_the_exact_loss() -> None:
    """The lower bound exceeds the claim with probability at most .005."""
    table = epsilometer.audit(
        PRIVATE, mechanism(), [3.0], ["likelihood"], trials=4000, design=epsilometer.Design(temperature=0)
    )
    (row,) = [row for row in table.iter_rows(named=True) if row["attack"] == "likelihood"]
    assert 0.5 < row["loss"] < 3
    assert row["verdict"] == "not refuted"


def test_audited_texts_are_no_public_ones() -> None:
    with refused("EPS-A054", "3", "43"):
        epsilometer.audit([*PRIVATE, *PUBLIC[:3]], mechanism(), [1.0], ["lexical"], trials=20)


@pytest.mark.parametrize(
    ("public", "private", "equal"),
    [
        ("Is it far?", "is it  far", True),
        ("Caf\u00e9 au lait", "cafe\u0301 AU LAIT!", True),
        ("Is it far?", "Is it fair?", False),
        ("!!!", "???", False),
        ("!!!", "!!!", True),
    ],
)
def test_case_layout_and_punctuation_make_no_other_text(public: str, private: str, equal: bool) -> None:
    made_of = Exemplars(resource=(*PUBLIC, public), m=4)
    with refused("EPS-A054", "1", "2") if equal else nullcontext():
        refuse_public(made_of, [PRIVATE[0], private])


def test_exemplars_are_public_texts_that_differ_and_do_not_depend_on_what_is_rewritten() -> None:
    chosen = choose(PUBLIC, 10)
    assert len(set(chosen.texts)) == 10
    assert set(chosen.texts) <= set(PUBLIC)
    assert choose(PUBLIC, 10).texts == chosen.texts


def test_they_cover_the_public_texts_better_than_the_first_ones_do() -> None:
    chosen = choose(PUBLIC, 10)
    vectors = chosen.encode(PUBLIC)
    near, first = ((vectors @ part.T).max(1).mean() for part in (chosen.vectors, vectors[:10]))
    assert near > first + 0.02


def test_a_folder_keeps_them(tmp_path: Path) -> None:
    chosen = choose(PUBLIC, 6, seed=3)
    chosen.save(tmp_path)
    stored = Exemplars(resource=tmp_path)
    assert stored.chosen.texts == chosen.texts
    assert list(stored.public_texts) == list(PUBLIC)
    np.testing.assert_array_equal(stored.chosen.vectors, chosen.vectors)
    with refused("EPS-M058", "5", "5", "6"):
        _ = Exemplars(resource=tmp_path, m=5).chosen
    choose(PUBLIC, 1).save(tmp_path / "one")
    with refused("EPS-M057"):
        _ = Exemplars(resource=tmp_path / "one").chosen
    (tmp_path / "vectors.npy").write_bytes(b"damaged")
    with refused("EPS-C077"):
        Chosen.load(tmp_path)


def test_a_file_of_public_texts(tmp_path: Path) -> None:
    (tmp_path / "public.txt").write_text("\n".join(PUBLIC))
    assert Exemplars(resource=tmp_path / "public.txt", m=4).chosen.texts == choose(PUBLIC, 4).texts
    with refused("EPS-M065", "60", "100"):
        _ = Exemplars(resource=tmp_path / "public.txt", m=100).chosen


def test_equal_and_empty_public_texts_count_once_and_not_at_all() -> None:
    with refused("EPS-M065", "2", "3"):
        choose(["a", "a", "  ", "", "b"], 3)
    assert choose(["a", "a", "  ", "", "b"], 2).texts == ["a", "b"]


def test_a_long_text_is_embedded_in_pieces() -> None:
    """What stands behind the encoder's window counts too."""
    encoder, begin = mechanism().chosen._encoder, "book a table for two " * 60
    texts = [begin, begin + "play some loud rock music in the kitchen " * 60]
    plain, pieces = encoder.encode(texts).astype(float), embed(encoder, texts)
    assert plain[0] @ plain[1] > 0.999
    assert pieces[0] @ pieces[1] < 0.9
    assert np.linalg.norm(pieces, axis=1) == pytest.approx(1)


def test_public_texts_in_one_call(tmp_path: Path) -> None:
    (tmp_path / "public.txt").write_text("\n".join(PUBLIC))
    settings = on_public("exemplars", {"m": 4}, tmp_path / "public.txt")
    table = epsilometer.exact_loss(PRIVATE, "exemplars", [2.0], settings)
    assert set(table["verdict"]) == {"not refuted"}
    search = epsilometer.Search(measure="worst", low=0.1, high=50)
    (row,) = epsilometer.calibrate(PRIVATE, "exemplars", target=0.3, search=search, settings=settings).to_dicts()
    assert row["epsilon"] is not None
    for measured in (
        lambda texts: epsilometer.exact_loss(texts, "exemplars", [2.0], settings),
        lambda texts: epsilometer.calibrate(texts, "exemplars", target=0.3, search=search, settings=settings),
        lambda texts: subject(texts, "exemplars", 2.0, settings=settings),
    ):
        with refused("EPS-A054", "2", "42"):
            measured([*PRIVATE, *PUBLIC[:2]])
    with refused("EPS-A164"):
        on_public("tem", {}, tmp_path / "public.txt")
    with refused("EPS-A165"):
        on_public("exemplars", {}, tmp_path / "absent.txt")
