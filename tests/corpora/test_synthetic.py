"""The embedded corpora have the properties that the default audit needs.

Everything here is deterministic (fixed seed, pinned releases), so no test can raise a false alarm.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np
import polars as pl
import pytest

from epsilometer.corpora import synthetic
from epsilometer.corpora.grammars.rules import compiled, grammar
from tests.support.refusals import refused

WORD = re.compile(r"[a-z0-9]+(?:['’][a-z]+)*")
COUNT = 3_200


@pytest.fixture(scope="module")
def queries() -> pl.DataFrame:
    return synthetic.generate("queries", COUNT, seed=0)


@pytest.fixture(scope="module")
def reviews() -> pl.DataFrame:
    return synthetic.generate("reviews", COUNT, seed=0)


@pytest.fixture(params=["queries", "reviews"])
def corpus(request: pytest.FixtureRequest) -> pl.DataFrame:
    return request.getfixturevalue(request.param)


def lengths(frame: pl.DataFrame) -> list[int]:
    return [len(WORD.findall(text.lower())) for text in frame["text"]]


def vocabulary(frame: pl.DataFrame) -> set[str]:
    """The word types of the texts without their identifiers."""
    words: set[str] = set()
    for text, identifiers in frame.select("text", "identifiers").iter_rows():
        for identifier in identifiers:
            text = text.replace(identifier, " ")
        words.update(WORD.findall(text.lower()))
    return words


def test_columns(queries: pl.DataFrame, reviews: pl.DataFrame) -> None:
    record = dict.fromkeys(("identifiers", "identifier_kinds"), pl.List(pl.String))
    shared = {"text": pl.String, "split": pl.String, **record}
    attributes = {"rating": pl.Int64, "gender": pl.String, "age_group": pl.String, "country": pl.String}
    assert dict(queries.schema) == shared | {"intent": pl.String}
    assert dict(reviews.schema) == shared | attributes


def test_texts_are_distinct_even_without_case(corpus: pl.DataFrame) -> None:
    assert corpus["text"].str.to_lowercase().n_unique() == COUNT


def test_queries_have_many_intents_and_the_promised_length(queries: pl.DataFrame) -> None:
    counts = Counter(queries["intent"])
    assert len(counts) >= 12
    assert min(counts.values()) >= 100
    words = lengths(queries)
    assert min(words) >= 4
    assert max(words) <= 16
    assert 8 <= sum(words) / len(words) <= 10


def test_reviews_have_the_promised_length_and_shares(reviews: pl.DataFrame) -> None:
    words = lengths(reviews)
    assert min(words) >= 10
    assert max(words) <= 25
    assert 16 <= sum(words) / len(words) <= 18
    shares = dict(reviews["rating"].value_counts(normalize=True).iter_rows())
    assert set(shares) == {1, 2, 3, 4, 5}
    assert min(shares.values()) >= 0.08
    assert shares[5] == max(shares.values())
    assert dict(reviews["gender"].value_counts().iter_rows()) == {"F": COUNT // 2, "M": COUNT // 2}


def test_splits_have_their_sizes_and_alike_labels(corpus: pl.DataFrame) -> None:
    shares = {"train": 0.75, "validation": 0.10, "test": 0.15}
    assert dict(corpus["split"].value_counts().iter_rows()) == {name: COUNT * share for name, share in shares.items()}
    for label in set(corpus.columns) - {"text", "split", "identifiers", "identifier_kinds"}:
        whole = dict(corpus[label].value_counts(normalize=True).iter_rows())
        for split in shares:
            part = dict(corpus.filter(split=split)[label].value_counts(normalize=True).iter_rows())
            assert all(abs(part[value] - share) < 0.04 for value, share in whole.items()), (label, split)


def test_words_are_varied(queries: pl.DataFrame, reviews: pl.DataFrame) -> None:
    assert len(vocabulary(queries)) > 1_700
    assert len(vocabulary(reviews)) > 2_400


@pytest.mark.parametrize("name", ["queries", "reviews", "judgements"])
def test_the_seed_alone_decides(name: str) -> None:
    first, again, other = (synthetic.generate(name, 60, seed) for seed in (3, 3, 4))
    assert first.equals(again)
    assert not set(first["text"]) & set(other["text"])


@pytest.mark.parametrize(
    ("name", "digest"),
    [("queries", "a689a062fec0a0f2"), ("reviews", "461649920820828c"), ("judgements", "f47cd74e1a465ea9")],
)
def test_texts_are_those_on_record(name: str, digest: str) -> None:
    """A change of the grammar, or of what numpy or Faker draw, changes every default result: make it knowingly."""
    text = "\n".join(synthetic.generate(name, 100, seed=0)["text"])
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == digest


@pytest.fixture(scope="module")
def judgements() -> pl.DataFrame:
    return synthetic.generate("judgements", 1_000, seed=0)


def test_judgements_are_balanced_in_training_and_unbalanced_in_testing(judgements: pl.DataFrame) -> None:
    counts = judgements.group_by("split", "acceptable").len().sort("split", "acceptable").rows()
    assert counts == [("test", 0, 45), ("test", 1, 105), ("train", 0, 375), ("train", 1, 375)] + [
        ("validation", value, 50) for value in (0, 1)
    ]
    assert {min(lengths(judgements)), max(lengths(judgements))} <= set(range(4, 17))
    assert judgements["text"].str.to_lowercase().n_unique() == len(judgements)


def test_a_sentence_and_its_twin_are_told_apart_by_grammar_alone() -> None:
    """What is in brackets is all that differs, and something is: each template, with every word in turn."""
    words = synthetic._words()
    for template in synthetic._templates():
        for turn in range(max(map(len, words.values()))):
            filling = {slot: values[turn % len(values)] for slot, values in words.items()}
            right, wrong = (synthetic._judged(template, filling, i) for i in (0, 1))
            assert right != wrong, template
            assert not {*"[]{}|"} & {*right, *wrong}, template


def test_no_tested_sentence_has_its_twin_among_the_trained(judgements: pl.DataFrame) -> None:
    """Twins differ in a few words, so that the nearest training text of a tested one would give its label away."""
    pairs = list(synthetic._twins(1_000, np.random.default_rng(0)))
    assert len({text for pair in pairs for text in pair}) == 2_000
    frame = synthetic.generate("judgements", 400, seed=5)
    trained = {" ".join(sorted(set(WORD.findall(text.lower())))) for text in frame.filter(split="train")["text"]}
    tested = [" ".join(sorted(set(WORD.findall(text.lower())))) for text in frame.filter(split="test")["text"]]
    assert not trained & {*tested}


def test_identifiers_stand_in_their_text(corpus: pl.DataFrame) -> None:
    with_some = corpus.filter(pl.col("identifiers").list.len() > 0)
    assert len(with_some) >= 40
    for text, identifiers in with_some.select("text", "identifiers").iter_rows():
        assert all(identifier in text for identifier in identifiers)


def test_a_tenth_of_the_reviews_hold_identifiers_of_every_kind(reviews: pl.DataFrame) -> None:
    assert 0.08 <= reviews.filter(pl.col("identifiers").list.len() > 0).height / COUNT <= 0.12
    assert (reviews["identifiers"].list.len() == reviews["identifier_kinds"].list.len()).all()
    assert reviews["identifier_kinds"].explode().drop_nulls().n_unique() == 4
    identifiers = reviews["identifiers"].explode().drop_nulls()
    for pattern in (r"^\S+@\S+\.\S+$", r"^[A-N]{2}-\d{6}$", r"^\+?[\d(). x-]{8,}$", r"^\p{Lu}[\p{L}' -]+$"):
        assert identifiers.str.contains(pattern).sum() >= 20, pattern


def test_reviews_without_listed_identifiers_hold_none(reviews: pl.DataFrame) -> None:
    rest = reviews.filter(pl.col("identifiers").list.len() == 0)["text"]
    assert not rest.str.contains(r"@|\d{5}").any()


def test_texts_are_tidy(corpus: pl.DataFrame) -> None:
    """No trace of the notation, no doubled word or space, no "a" before a vowel, no sentence that starts small."""
    for text in corpus["text"]:
        assert not re.search(r"[{}\[\]|~]|  | [.,!]|^ | $", text), text
        assert not re.search(r"\b([a-z]+) \1\b", text, re.IGNORECASE), text
        assert not re.search(r"\ba (?!one|uni|us[aei]|euro)[aeiou]", text, re.IGNORECASE), text
    if "rating" in corpus.columns:
        assert not corpus["text"].str.contains(r"^[a-z]|[.!] [a-z]|\bi\b").any()
    else:
        assert (corpus["text"] == corpus["text"].str.to_lowercase()).all()


def accuracy(frame: pl.DataFrame, label: str) -> tuple[float, float]:
    """Accuracy and mean recall on the test split of a bag-of-words logistic regression fitted on the train split."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import accuracy_score, balanced_accuracy_score
    from sklearn.pipeline import make_pipeline

    train, test = (frame.filter(split=split) for split in ("train", "test"))
    model = make_pipeline(TfidfVectorizer(min_df=2), LogisticRegression(max_iter=1_000))
    model.fit(train["text"].to_list(), train[label].to_list())
    truth, guess = test[label].to_list(), model.predict(test["text"].to_list())
    return accuracy_score(truth, guess), balanced_accuracy_score(truth, guess)


def test_gender_shows_about_as_clearly_as_in_real_reviews(reviews: pl.DataFrame) -> None:
    assert 0.65 <= accuracy(reviews, "gender")[0] <= 0.85


@pytest.mark.parametrize("label", ["age_group", "country"])
def test_age_and_country_show_but_never_surely(reviews: pl.DataFrame, label: str) -> None:
    plain, macro = accuracy(reviews, label)
    test = reviews.filter(split="test")[label]
    assert plain > max(Counter(test).values()) / len(test) + 0.15
    assert 0.55 <= plain <= 0.85
    assert 0.45 <= macro <= 0.90


def test_rating_and_sentiment_show(reviews: pl.DataFrame) -> None:
    assert 0.45 <= accuracy(reviews, "rating")[1] <= 0.90
    polar = reviews.filter(pl.col("rating") != 3).with_columns(sentiment=pl.col("rating") > 3)
    assert 0.80 <= accuracy(polar, "sentiment")[0] <= 0.93


def test_intents_can_be_learnt(queries: pl.DataFrame) -> None:
    assert accuracy(queries, "intent")[0] >= 0.90


def scopes() -> Iterator[tuple[str, list[Mapping[str, str]]]]:
    """Every place where a rule may be looked up: the intents and the trades, each with what it shares."""
    queries, reviews = grammar("queries"), grammar("reviews")
    for name, rules in queries["intents"].items():
        yield name, [rules, queries["common"]]
    for shared, trades in (("shop", "shops"), ("service", "services")):
        for name, rules in reviews[trades].items():
            yield name, [rules, reviews[shared], reviews["common"]]


def test_every_slot_of_the_grammar_has_a_rule() -> None:
    for name, rules in scopes():
        rules_and_kinds = {rule for scope in rules for rule in scope} | set(synthetic._IDENTIFIERS)
        if "items" in rules_and_kinds:
            rules_and_kinds |= set(synthetic._item_forms("a kettle"))
        for rule in (rule for scope in rules for rule in scope):
            text = next(scope[rule] for scope in rules if rule in scope)
            assert set(re.findall(r"{([^}]+)}", text)) <= rules_and_kinds, (name, rule)


def test_every_intent_has_many_templates() -> None:
    for name, rules in grammar("queries")["intents"].items():
        assert sum(len(rules[kind].strip().splitlines()) for kind in ("do", "say")) >= 15, name


def test_trades_and_tastes_are_known() -> None:
    reviews = grammar("reviews")
    trades = [line.partition(" ~")[0].strip() for line in reviews["trades"].strip().splitlines()]
    assert sorted(trades) == sorted([*reviews["shops"], *reviews["services"]])
    tastes = set(synthetic._TASTE.values())
    for _, rules in scopes():
        for text in (text for scope in rules for text in scope.values()):
            assert set(" ".join(re.findall(r" ~([^/\n]*)", text)).split()) <= tastes


@pytest.mark.parametrize(("item", "subject", "verb"), [("an iron", "it", "was"), ("a pair of boots", "they", "were")])
def test_a_thing_is_named_once_and_then_a_pronoun(item: str, subject: str, verb: str) -> None:
    rules = compiled({"items": item, "text": "I bought {an item}. {it} {was} fine"})
    draft = synthetic._Draft(np.random.default_rng(0), (rules,))
    assert draft.write("text") == f"I bought {item}. {subject} {verb} fine"
    fresh = synthetic._Draft(np.random.default_rng(0), (compiled({"items": item, "text": "{it} {was} fine"}),))
    assert fresh.write("text") == f"the {item.split()[-1]} {verb} fine"


@pytest.mark.parametrize(
    ("name", "count", "seed", "refusal"),
    [
        ("query", 10, 0, ("EPS-C022", "queries", "query")),
        ("reviews", 0, 0, ("EPS-D053", "reviews", "20000")),
        ("queries", synthetic.LARGEST + 1, 0, ("EPS-D053", "queries", "20001")),
        ("queries", 10, -1, ("EPS-D054", "seed")),
    ],
)
def test_what_cannot_be_made_is_refused(name: str, count: int, seed: int, refusal: tuple[str, ...]) -> None:
    with refused(*refusal):
        synthetic.generate(name, count, seed)


@pytest.mark.parametrize("name", ["queries", "reviews", "judgements"])
def test_one_text_will_do(name: str) -> None:
    assert synthetic.generate(name, 1, seed=0).height == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["queries", "reviews", "judgements"])
def test_the_largest_corpus_can_be_made(name: str) -> None:
    frame = synthetic.generate(name, synthetic.LARGEST, seed=1)
    assert frame["text"].n_unique() == synthetic.LARGEST
    if name != "judgements":  # these sentences have no identifiers
        test_identifiers_stand_in_their_text(frame)
