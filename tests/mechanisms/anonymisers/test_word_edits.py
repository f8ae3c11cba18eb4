"""Edits of words change only whole tokens, and no other character."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from epsilometer.mechanisms.anonymisers.shared.word_edits import edited, in_case_of, is_word, occurrences, spans
from epsilometer.models.tagging import sentences, words_and_marks

ANY = st.text(st.one_of(st.sampled_from("aAbisISéß'’ -.,!?\n\t42_🙂а"), st.characters()), max_size=40)
WORDS = st.sampled_from(["was", "don't", "Ärger", "naïve", "о", "b2b", "l’été"])


def test_spans_are_the_words_and_marks_of_the_tagger() -> None:
    of = spans("He'd said: 'this isn’t 3.50 £'!")
    assert list(of.tokens) == ["He'd", "said", ":", "'", "this", "isn’t", "3", ".", "50", "£", "'", "!"]
    assert of.words == (0, 1, 4, 5)
    assert [of.text[a:b] for a, b in zip(of.starts, of.ends, strict=True)] == list(of.tokens)
    assert len(of) == 12


def test_a_word_is_replaced_as_a_whole_token_wherever_it_stands() -> None:
    """ "is" in "this" stays, and so does "it" in "it's" (a released rewrite has "adverticomeselement")."""
    of = spans("This is it: IS it's Isis?  is\n")
    assert occurrences(of, "Is") == (1, 4, 8)
    new = {i: in_case_of("was", of.tokens[i]) for i in occurrences(of, "is")}
    assert edited(of, new) == "This was it: WAS it's Isis?  was\n"
    assert occurrences(of, "absent") == ()


def test_homoglyphs_are_other_words() -> None:
    """A Cyrillic "о" in a word makes it another one, and is kept where it stands."""
    of = spans("good gооd")
    assert occurrences(of, "good") == (0,)
    assert edited(of, {0: "fine"}) == "fine gооd"


@given(ANY)
def test_no_edit_changes_no_byte(text: str) -> None:
    of = spans(text)
    assert edited(of, {}) == text
    assert "".join(of.parts) == text
    assert list(of.tokens) == words_and_marks(text)


@given(ANY, st.data())
def test_only_replaced_tokens_change(text: str, data: st.DataObject) -> None:
    of = spans(text)
    new = data.draw(st.dictionaries(st.sampled_from(of.words), WORDS)) if of.words else {}
    after = spans(edited(of, new))
    assert after.parts[::2] == of.parts[::2]
    assert list(after.tokens) == [new.get(i, token) for i, token in enumerate(of.tokens)]


@given(ANY)
def test_sentences_are_those_of_the_tagger(text: str) -> None:
    of = spans(text)
    assert [[of.tokens[i] for i in part] for part in of.sentences] == [words_and_marks(s) for s in sentences(text)]


@given(ANY)
def test_every_word_stands_where_it_is_found(text: str) -> None:
    of = spans(text)
    assert sorted(i for word in of.places for i in occurrences(of, word)) == list(of.words)
    for i in of.words:
        assert i in occurrences(of, of.tokens[i])


def test_a_replacement_has_the_case_of_what_it_replaces() -> None:
    cases = [
        ("was", "is", "was"),
        ("was", "Is", "Was"),
        ("was", "IS", "WAS"),
        ("the", "A", "The"),
        ("don't", "IT'S", "DON'T"),
    ]
    assert [in_case_of(word, model) for word, model, _ in cases] == [wanted for *_, wanted in cases]
    assert in_case_of("phone", "iPhone") == "phone"


def test_what_would_stand_as_one_word() -> None:
    assert all(map(is_word, ["was", "don't", "b2b", "naïve"]))
    assert not any(map(is_word, ["", "42", "co-op", "new york", "'tis", "…", "🙂", " was"]))
