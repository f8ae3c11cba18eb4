"""The tagger: its published examples, the same numbers as the plain recipe, and the public rules around it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from epsilometer.models import tagging
from epsilometer.models.locate import locate
from epsilometer.models.tagging import Tagged, Tagger, Triple, as_triple, phrase, sentences, words_and_marks
from tests.support.refusals import refused

# The examples of the heads' README: word, tag, role.
EXAMPLES = """
The/DET tired/ADJ gardener/NOUN/SUBJ watered/VERB/VERB the/DET young/ADJ trees/NOUN/OBJ before/ADP sunrise/NOUN ./PUNCT
The/DET sky/NOUN/SUBJ is/AUX/VERB blue/ADJ/OBJ ,/PUNCT but/CCONJ our/PRON neighbours/NOUN '/PART dog/NOUN doesn't/AUX \
like/VERB the/DET rain/NOUN ./PUNCT
My/PRON doctor/NOUN/SUBJ prescribed/VERB/VERB a/DET stronger/ADJ antibiotic/NOUN last/ADJ week/NOUN/OBJ
"""
MIXED = [
    "Judith rang me on +44 808 157 0533 to check all was well!",
    "show me flights from boston to denver",
    "",
    "🙂 ???",
    "What's the code for Budapest?",
    "A " + "very " * 300 + "long sentence has a window.",
]


@pytest.fixture(scope="module")
def tagger() -> Tagger:
    return Tagger()


def shown(tagged: Tagged) -> str:
    roles = dict(zip(tagged.roles or (), ("/SUBJ", "/VERB", "/OBJ"), strict=False))
    pairs = zip(tagged.words, tagged.upos, strict=True)
    return " ".join(f"{word}/{tag}{roles.get(i, '')}" for i, (word, tag) in enumerate(pairs))


def test_the_published_examples(tagger: Tagger) -> None:
    lines = EXAMPLES.strip().splitlines()
    result = tagger.tag([[part.split("/")[0] for part in line.split()] for line in lines])
    assert [shown(tagged) for tagged in result] == lines


def test_the_same_labels_as_the_plain_recipe(tagger: Tagger, shared: Path) -> None:
    """The heads' own script, by transformers and one feature vector a word."""
    folder = shared / "models" / "minilm-heads"
    if not (folder / "predict.py").is_file():
        pytest.skip("needs the heads' own script")
    spec = importlib.util.spec_from_file_location("predict", folder / "predict.py")
    assert spec is not None
    assert spec.loader is not None
    predict = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(predict)
    plain = predict.Heads(str(locate("all-MiniLM-L6-v2")), folder)
    split = [words_and_marks(text) for text in (*MIXED, "The tired gardener watered the young trees.") if text]
    for words, tags, features in zip(split, tagger.tag(split), plain.features(split), strict=True):
        assert tags.upos == plain.upos(features)
        roles = ["NONE"] * len(words)
        for place, role in zip(tags.roles or (), ("SUBJ", "VERB", "OBJ"), strict=False):
            roles[place] = role
        assert roles == plain.roles(features)


def test_a_sentence_does_not_depend_on_its_batch(tagger: Tagger) -> None:
    split = [words_and_marks(text) for text in MIXED]
    numbers = tagger._projections(split, np.cumsum([len(words) for words in split]), tagger._first)
    alone = [tagger._projections([words], np.array([len(words)]), tagger._first) for words in split]
    for together, single in zip(numbers, zip(*alone, strict=True), strict=True):
        np.testing.assert_array_equal(together, np.concatenate(single))
    assert tagger.tag(split) == [tagger.tag([words])[0] for words in split]


def test_tags_without_triples_are_the_same(tagger: Tagger) -> None:
    lines = [line.split() for line in EXAMPLES.strip().splitlines()]
    split = [[part.split("/")[0] for part in line] for line in lines] + [words_and_marks(text) for text in MIXED]
    assert tagger.upos(split) == [tuple(tagged.upos) for tagged in tagger.tag(split)]
    assert [tagger.upos([words, words])[1] for words in split] == tagger.upos(split)
    assert tagger.upos([]) == []


def test_triples_of_texts(tagger: Tagger) -> None:
    texts = [
        "The meal was great! It is worth the price.",
        "",
        "Birds sing.",
        "My doctor prescribed a stronger antibiotic.",
    ]
    assert tagger.triples(texts) == [
        [Triple("the meal", "was", "great"), Triple("it", "is", "worth")],
        [],
        [],
        [Triple("my doctor", "prescribed", "a stronger antibiotic")],
    ]


def test_sentences_end_at_marks_before_white_space_and_at_lines() -> None:
    assert sentences('He paid 3.50 dollars. "Why?" she asked!!\nOK  \n\n') == [
        "He paid 3.50 dollars.",
        '"Why?',
        "she asked!!",
        "OK",
    ]
    assert sentences(" ") == []


def tagged(line: str, *roles: int) -> Tagged:
    """From word/TAG ..."""
    words, upos = zip(*(part.split("/") for part in line.split()), strict=True)
    return Tagged(list(words), list(upos), (roles[0], roles[1], roles[2]))


def test_phrases_follow_the_tags() -> None:
    line = (
        "will/AUX our/PRON Ada/PROPN Lovelace/PROPN not/PART have/AUX been/AUX quickly/ADV building/VERB "
        "the/DET two/NUM big/ADJ engine/NOUN rooms/NOUN"
    )
    assert as_triple(tagged(line, 2, 8, 13)) == Triple(
        "our ada lovelace", "not have been quickly building", "the two big engine rooms"
    )
    assert phrase(tagged(line, 12, 8, 13), 2) == range(13, 14)  # never a word of another role
    copula = tagged("the/DET boiler/NOUN is/AUX not/PART a/DET good/ADJ one/NOUN", 1, 2, 6)
    assert as_triple(copula) == Triple("the boiler", "is not", "a good one")
    gave = tagged("I/PRON gave/VERB her/PRON the/DET book/NOUN", 0, 1, 4)
    assert as_triple(gave) == Triple("i", "gave", "the book")


def test_a_folder_without_heads(tmp_path: Path) -> None:
    with refused("EPS-N076"):
        Tagger(tmp_path)


def test_a_tagger_that_is_not_installed() -> None:
    with refused("EPS-N077"):
        tagging.tagger("no_such_pipeline")


def test_triples_of_a_spacy_pipeline(tmp_path: Path) -> None:
    spacy = pytest.importorskip("spacy")
    pipeline = spacy.blank("en")
    # A pipeline whose parse is known: every sentence is "determiner noun verb determiner noun".
    ruler = {"DET": {"the"}, "NOUN": {"dog", "bone"}, "VERB": {"eats"}}
    tagging_rule = pipeline.add_pipe("attribute_ruler")
    for tag, members in ruler.items():
        dependency = {"DET": "det", "VERB": "ROOT"}
        for word in members:
            dep = dependency.get(tag, "nsubj" if word == "dog" else "dobj")
            tagging_rule.add([[{"LOWER": word}]], {"POS": tag, "DEP": dep})
    pipeline.to_disk(tmp_path / "pipeline")
    document = pipeline("The dog eats the bone")
    heads = [1, 2, 2, 4, 2]
    parsed = spacy.tokens.Doc(
        pipeline.vocab,
        words=[token.text for token in document],
        pos=[token.pos_ for token in document],
        deps=[token.dep_ for token in document],
        heads=heads,
    )
    assert as_triple(tagging._parsed(parsed)) == Triple("the dog", "eats", "the bone")
    # Without a parser, every word is its own head, so there are no subjects.
    assert tagging.tagger(str(tmp_path / "pipeline")).triples(["The dog eats the bone. It did."]) == [[]]
