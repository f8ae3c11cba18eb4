"""Parts of a data set: no text, pair or group of rows is in two of them."""

from __future__ import annotations

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from epsilometer.corpora.parts import GROUP, check_apart, groups, hashed, held_out, places, resplit
from epsilometer.text.words import words
from tests.support.refusals import refused

TEXTS = st.lists(st.sampled_from(["Yes.", "yes", " YES!", "no", "No no", "no-no", "perhaps", "?", "…"]), min_size=1)


@st.composite
def tables(draw: st.DrawFn) -> pl.DataFrame:
    """Rows with few texts, authors and pairs, some without."""
    texts = draw(TEXTS)
    rows = {"author": "abc", "pair": "wxyz"}
    return pl.DataFrame(
        {
            "text": texts,
            **{
                name: draw(st.lists(st.none() | st.sampled_from(values), min_size=len(texts), max_size=len(texts)))
                for name, values in rows.items()
            },
        },
        schema={"text": pl.String, "author": pl.String, "pair": pl.String},
    )


def together(table: pl.DataFrame, columns: list[str]) -> np.ndarray:
    """Whether two rows belong together, by the closure of `equal in something`: a slow, plain reckoning."""
    kinds: list[list[object]] = [[" ".join(words(text)) for text in table["text"]]]
    kinds += [[None if None in row else row for row in table.select(columns).rows()]] if columns else []
    joined = np.eye(len(table), dtype=bool)
    for values in kinds:
        joined |= np.array([[a is not None and a == b for b in values] for a in values])
    for _ in range(len(table)):
        joined = (joined.astype(int) @ joined) > 0
    return joined


@given(tables(), st.lists(st.sampled_from(["author", "pair"]), unique=True))
def test_groups_are_what_texts_and_columns_hold_together(table: pl.DataFrame, columns: list[str]) -> None:
    of = groups(table, columns)
    np.testing.assert_array_equal(of[:, None] == of, together(table, columns))
    assert list(dict.fromkeys(of.tolist())) == list(range(of.max() + 1))  # numbered in the order of first occurrence


@given(tables(), st.integers(0, 5), st.floats(0, 1), st.floats(0, 1))
def test_no_text_and_no_author_is_in_two_parts(table: pl.DataFrame, seed: int, share: float, test: float) -> None:
    """Of four parts as the pipeline makes them: splits by group, and a share of the training texts for auxiliaries."""
    of = groups(table, ["author"])
    held = places(of, "resplit", seed)
    part = np.where(held < test / 2, "test", np.where(held < 0.5, "validation", "train")).astype(object)
    train = part == "train"
    part[train & (places(of, "auxiliaries", seed) < share)] = "auxiliaries"
    for author in table["author"].drop_nulls().unique():
        assert len({*part[(table["author"] == author).fill_null(False).to_numpy()]}) == 1
    plain = np.array([" ".join(words(text)) for text in table["text"]])
    for text in plain:
        assert len({*part[plain == text]}) == 1
    check_apart(pl.DataFrame({"split": part.tolist()}, schema={"split": pl.String}), of, "here")


def test_several_columns_name_a_pair_together() -> None:
    """Lines of two plays with the same number are no pair; a row without a number is joined by its text alone."""
    rows = [
        ("To be", "hamlet", 1),
        ("I am", "hamlet", 1),
        ("Ho!", "lear", 1),
        ("ho", "lear", None),
        ("hi", "lear", None),
    ]
    table = pl.DataFrame(rows, ["text", "play", "pair"], orient="row")
    assert groups(table, ["play", "pair"]).tolist() == [0, 0, 1, 1, 2]
    assert groups(table, ["play"]).tolist() == [0, 0, 1, 1, 1]


def test_shares_are_met_and_nested() -> None:
    """1,000 groups of 1 to 5 rows: no share is off by more than the largest group."""
    of = np.repeat(np.arange(1000), np.random.default_rng(0).integers(1, 6, 1000))
    place = places(of, "auxiliaries", 0)
    for share in (0.1, 0.25, 0.5):
        assert abs((place < share).sum() - share * len(of)) <= 5
    split = resplit(of, {"validation": 0.1, "test": 0.2}, 0)
    counts = dict(split.value_counts().iter_rows())
    assert abs(counts["test"] - 0.2 * len(of)) <= 5
    assert abs(counts["validation"] - 0.1 * len(of)) <= 5
    assert split.to_list() == resplit(of, {"validation": 0.1, "test": 0.2}, 0).to_list()
    assert split.to_list() != resplit(of, {"validation": 0.1, "test": 0.2}, 1).to_list()


@given(
    st.lists(st.tuples(st.integers(0, 30), st.sampled_from("abc"), st.sampled_from(["x", "y", None])), min_size=1),
    st.integers(0, 5),
)
def test_of_no_class_more_than_a_fifth_is_held_out_in_whole_groups(
    rows: list[tuple[int, str, str | None]], seed: int
) -> None:
    of, *labels = (list(column) for column in zip(*rows, strict=True))
    held = held_out(np.array(of), labels, seed)
    for group in {*of}:
        assert len({*held[np.array(of) == group]}) == 1
    for values in labels:
        for value in {*values}:
            rows_of = np.array([each == value for each in values])
            assert 5 * (held & rows_of).sum() <= rows_of.sum()


def test_a_tenth_of_each_class_is_held_out() -> None:
    labels = np.repeat(["common", "rare", "rarest"], [1_000, 20, 4])
    held = held_out(np.arange(len(labels)), [labels.tolist()], 0)
    assert [int(held[labels == name].sum()) for name in ("common", "rare", "rarest")] == [100, 2, 0]
    by_author = held_out(np.arange(1_000) // 4, [["a", "b"] * 500, ["x", "y", "y", "y"] * 250], 0)
    assert by_author.sum() == 100
    assert not (by_author == held_out(np.arange(1_000) // 4, [["a", "b"] * 500, ["x", "y", "y", "y"] * 250], 1)).all()


def test_a_group_in_two_parts_is_refused_without_naming_it() -> None:
    table = pl.DataFrame({"text": ["Secret words!", "secret words", "others"], "split": ["train", "test", "test"]})
    with refused("EPS-D036", "1", "group", "test", "train") as error:
        check_apart(table, groups(table), "datasets.songs")
    assert "ecret" not in str(error.value)


def test_too_few_groups_and_unknown_columns_are_refused() -> None:
    with refused("EPS-D035", "test", "1"):
        resplit(np.zeros(10, np.int64), {"validation": 0.6, "test": 0.2}, 0)
    with refused("EPS-C022", "authors", "author"):
        groups(pl.DataFrame({"text": ["a"], "author": ["b"]}), ["authors"])


@given(tables())
def test_a_hash_is_of_the_words_alone_and_whole_groups_have_one(table: pl.DataFrame) -> None:
    """So that no text's place depends on what else is audited, nor are an author's texts on two sides."""
    alone = [hashed(table[[i]])[0] for i in range(len(table))]
    np.testing.assert_array_equal(hashed(table), alone)
    key = [" ".join(words(text)) for text in table["text"]]
    assert len(set(alone)) == len(set(key))
    of = groups(table, ["author"])
    grouped = hashed(table.with_columns(pl.Series(GROUP, of)))
    assert {*grouped} <= {*alone}
    assert len({*zip(of.tolist(), grouped.tolist(), strict=True)}) == of.max() + 1


def test_hashes_are_uniform() -> None:
    """2,000 texts: the share below p differs from p by more than .05 with probability below 1e-4 (Hoeffding)."""
    place = hashed(pl.DataFrame({"text": [f"the request number {i}" for i in range(2000)]}))
    for share in (0.1, 0.5, 0.9):
        assert abs((place < share).mean() - share) < 0.05
