"""One call on rewrites from elsewhere: with rewritten training texts, with clean ones, and without any."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

import epsilometer
from epsilometer.auditing.attributes import one_call
from epsilometer.auditing.attributes.attackers import ADAPTIVE, AUGMENTED, CLEAN, DETECTOR, RELABELLED, STATIC
from epsilometer.auditing.attributes.measuring import Attacking
from epsilometer.auditing.attributes.recorded import pairs, recorded_anonymity
from epsilometer.auditing.attributes.released import Released, check_apart, halves
from epsilometer.core.randomness import Noise
from epsilometer.models.classifier import LINEAR
from tests.support.marked import rewritten, swapped, texts
from tests.support.refusals import refused

TEST, OTHER = rewritten(texts(200, 0), swapped), rewritten(texts(300, 5_000), swapped)
DESIGN = epsilometer.AnonymityDesign(kinds=[LINEAR])


def training(with_rewrites: bool) -> pl.DataFrame:
    columns = {"text": OTHER.originals, **OTHER.labels} | ({"rewrite": OTHER.rewrites} if with_rewrites else {})
    return pl.DataFrame(columns)


def measured(table: pl.DataFrame | None, **labels: str) -> dict[str, dict[str, object]]:
    labels_of = {"attribute": "gender", "keep": "rating", **labels}
    rows = epsilometer.anonymity(TEST.originals, TEST.rewrites, TEST.labels, table, **labels_of, design=DESIGN)
    return {row["attacker"]: row for row in rows.iter_rows(named=True)}


def test_rewrites_of_the_training_texts_teach_the_attackers() -> None:
    by_attacker = measured(training(with_rewrites=True))
    assert (
        by_attacker[STATIC]["accuracy"],
        by_attacker[ADAPTIVE]["accuracy"],
        by_attacker[RELABELLED]["accuracy"],
    ) == (0, 1, 1)
    assert (by_attacker[STATIC]["rs_all"], by_attacker[STATIC]["coverage"], by_attacker[CLEAN]["accuracy"]) == (1, 1, 1)
    assert (
        by_attacker[STATIC]["trained_on"],
        by_attacker[ADAPTIVE]["trained_on"],
        by_attacker[DETECTOR]["trained_on"],
    ) == (
        300,
        300,
        600,
    )
    assert by_attacker[ADAPTIVE]["texts"] == 200


def rewritten_in_part(rows: int, **columns: list[str]) -> pl.DataFrame:
    """The training texts, of which the first so many have a rewrite."""
    table = training(with_rewrites=True).with_columns(pl.Series(name, values) for name, values in columns.items())
    return table.with_columns(rewrite=pl.when(pl.int_range(pl.len()) < rows).then("rewrite"))


def test_training_texts_without_a_rewrite_teach_who_learns_from_clean_texts(capsys: pytest.CaptureFixture[str]) -> None:
    by_attacker = measured(rewritten_in_part(12))
    trained_on = {name: by_attacker[name]["trained_on"] for name in (CLEAN, STATIC, ADAPTIVE, AUGMENTED, DETECTOR)}
    assert trained_on == {CLEAN: 300, STATIC: 300, ADAPTIVE: 12, AUGMENTED: 312, DETECTOR: 24}
    assert (by_attacker[CLEAN]["accuracy"], by_attacker[ADAPTIVE]["texts"]) == (1, 200)
    assert "12 of the 300 labelled texts have a rewrite: attackers learn from these 12" in capsys.readouterr().err


@pytest.mark.parametrize(
    "table",
    [
        rewritten_in_part(1),
        rewritten_in_part(9),
        rewritten_in_part(12, gender=["m"] * 12 + [*OTHER.labels["gender"]][12:]),
    ],
    ids=["one", "few", "of one class"],
)
def test_too_few_rewritten_training_texts_leave_the_halves(
    table: pl.DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    by_attacker = measured(table)
    said = capsys.readouterr().err
    rows = len(table) - table["rewrite"].null_count()
    assert f"{rows} of the 300 labelled texts have a rewrite, too few to learn from" in said
    assert "attackers learn from 100 of the rewrites, and are tested on the other 100" in said
    assert (by_attacker[CLEAN]["trained_on"], by_attacker[ADAPTIVE]["trained_on"]) == (300, 100)


@pytest.mark.parametrize("table", [None, training(with_rewrites=False)])
def test_else_a_half_of_the_rewrites_does(table: pl.DataFrame | None, capsys: pytest.CaptureFixture[str]) -> None:
    by_attacker = measured(table)
    assert "attackers learn from 100 of the rewrites, and are tested on the other 100" in capsys.readouterr().err
    assert by_attacker[STATIC]["trained_on"] == (100 if table is None else 300)
    assert (by_attacker[ADAPTIVE]["trained_on"], by_attacker[ADAPTIVE]["texts"]) == (100, 100)
    assert (by_attacker[STATIC]["accuracy"], by_attacker[ADAPTIVE]["accuracy"]) == (0, 1)


def test_a_text_of_two_authors_keeps_them_in_one_half() -> None:
    """The two authors are in different halves with probability 1/2, were they drawn apart: in none of 20 with 10^-6."""
    part = texts(40, 0, groups=10)
    originals = [*part.originals]
    originals[3], originals[4] = "Thanks a lot.", "thanks  a lot"
    both = Released(originals, originals, part.labels, groups=part.groups)
    assert both.groups is not None
    for seed in range(20):
        half, other = halves(both, Noise.named(1, seed))
        assert sorted([*half, *other]) == [*range(40)]
        check_apart(both.take(half), both.take(other))
        assert ({3, 4} <= {*half}) or ({3, 4} <= {*other})
        assert 12 <= len(half) <= 28


def test_halves_without_a_common_text_are_drawn_by_author() -> None:
    part = texts(40, 0, groups=10)
    half, other = halves(part, Noise.named(1, 0))
    assert part.groups is not None
    assert {part.groups[i] for i in half}.isdisjoint(part.groups[i] for i in other)
    assert len({part.groups[i] for i in half}) == 5


def test_a_text_without_an_author_stands_for_itself() -> None:
    """150 texts of nobody in particular are 150 observations, and may stand in both parts."""
    design = replace(DESIGN, group="author")
    authors: list[str | None] = [None] * 150 + [f"author {i // 5}" for i in range(50)]
    labels = {**TEST.labels, "author": authors}
    whole = epsilometer.anonymity(TEST.originals, TEST.rewrites, labels, attribute="gender", design=design)
    by_attacker = {row["attacker"]: row for row in whole.iter_rows(named=True)}
    assert 80 <= by_attacker[ADAPTIVE]["texts"] <= 120
    assert by_attacker[STATIC]["groups"] > 65
    table = training(with_rewrites=True).with_columns(pl.lit(None, pl.String).alias("author"))
    rows = epsilometer.anonymity(TEST.originals, TEST.rewrites, labels, table, attribute="gender", design=design)
    assert {row["groups"] for row in rows.iter_rows(named=True) if row["attacker"] == STATIC} == {160}


def test_what_does_not_fit_together_is_refused() -> None:
    with refused("EPS-S021"):
        measured(None, keep="gender")
    with refused("EPS-C022", "ratings", "rating"):
        measured(None, keep="ratings")
    with refused("EPS-C025", "text", "gender", "rating"):
        measured(training(with_rewrites=True).select("text", "gender"))
    same = pl.DataFrame({"text": TEST.originals[:5], **{name: column[:5] for name, column in TEST.labels.items()}})
    with refused("EPS-S042", "5"):
        measured(same)
    with refused("EPS-S023", "200", "199"):
        epsilometer.anonymity(TEST.originals, TEST.rewrites[1:], TEST.labels, attribute="gender", keep="rating")


def test_training_texts_that_differ_from_test_texts_in_case_and_marks_alone_are_refused() -> None:
    shouted = (
        training(with_rewrites=True).head(4).with_columns(text=pl.Series(f"{t.upper()}!" for t in TEST.originals[:4]))
    )
    with refused("EPS-S042", "4"):
        measured(shouted)
    apart = [check_apart(replace(TEST, originals=[mark]), replace(OTHER, originals=["?"])) for mark in ("!", "")]
    assert apart == [None, None], "marks without a word are different texts"


@pytest.mark.parametrize("table", [None, training(with_rewrites=True)])
def test_no_texts_are_refused(table: pl.DataFrame | None) -> None:
    with refused("EPS-S024"):
        epsilometer.anonymity([], [], {"gender": []}, table, attribute="gender", design=DESIGN)


@pytest.mark.parametrize("table", [training(with_rewrites=False), rewritten_in_part(12)], ids=["halves", "taught"])
def test_a_class_that_test_texts_lack_is_not_blamed_on_rewrites(table: pl.DataFrame) -> None:
    labels = {"gender": ["m"] * len(TEST)}
    with refused("EPS-S041", "f"):
        epsilometer.anonymity(TEST.originals, TEST.rewrites, labels, table, attribute="gender", design=DESIGN)


@pytest.mark.parametrize(
    ("gender", "refusal"),
    [
        ("", ("EPS-S040", "gender", "3", "197", "200")),
        ("m", ("EPS-S041", "gender", "'f'")),
    ],
)
def test_classes_that_texts_lack_are_named_before_anything_is_trained(
    gender: str, refusal: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(one_call, "train_classifier", lambda *_: pytest.fail("trained"))
    labels = {**TEST.labels, "gender": [gender] * len(TEST)}
    with refused(*refusal):
        epsilometer.anonymity(TEST.originals, TEST.rewrites, labels, training(with_rewrites=True), attribute="gender")


def test_a_class_without_rewrites_to_learn_from_is_named_before_anything_is_trained(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Attackers learn from a half of the rewrites, which lacks the text of class a; who learns nothing may go on."""
    table = training(with_rewrites=False)
    table = table.with_columns(gender=pl.Series(["a"] * 9 + table["gender"].to_list()[9:]))
    labels = {"gender": ["a", *TEST.labels["gender"][1:]]}

    def attackers(*names: str) -> list[str]:
        design = replace(DESIGN, attacking=Attacking(names, seed=1))
        rows = epsilometer.anonymity(TEST.originals, TEST.rewrites, labels, table, attribute="gender", design=design)
        return rows["attacker"].to_list()

    assert STATIC in attackers(STATIC)
    monkeypatch.setattr(one_call, "train_classifier", lambda *_: pytest.fail("trained"))
    with refused("EPS-S007", "f", "m", "a"):
        attackers(STATIC, ADAPTIVE)


def test_recorded_rewrites_are_looked_up_by_their_originals(tmp_path: Path) -> None:
    path = tmp_path / "rewrites.jsonl"
    both = [[*TEST.originals, *OTHER.originals], [*TEST.rewrites, *OTHER.rewrites]]
    pl.DataFrame({"original": [f"{text} " for text in both[0]], "rewrite": both[1]}).write_ndjson(path)
    test = pl.DataFrame({"text": TEST.originals, **TEST.labels})
    labels_of = {"attribute": "gender", "keep": "rating"}
    looked_up = recorded_anonymity(test, pairs(path), training(with_rewrites=False), **labels_of, design=DESIGN)
    direct = epsilometer.anonymity(
        TEST.originals, TEST.rewrites, TEST.labels, training(with_rewrites=True), **labels_of, design=DESIGN
    )
    assert looked_up["epsilon"].is_null().all()
    assert looked_up.drop("epsilon").equals(direct)
    with refused("EPS-S038", "1", "2", "3", "200"):
        recorded_anonymity(test, pairs(path)[3:], None, **labels_of, design=DESIGN)
    path.write_text(path.read_text() + path.read_text().splitlines()[0])
    with refused("EPS-S037", "501"):
        pairs(path)
