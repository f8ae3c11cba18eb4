"""IDT on generated reviews: releases satisfy its rules, outcomes are reported, and batches do not matter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from epsilometer.core.guarantees import NO_BUDGET
from epsilometer.core.mechanism import Rewrites, Unread, has_budget
from epsilometer.core.outcomes import CUT, FOUND, MISSED, NOTHING, PART, UTILITY_LOST, WITHHELD
from epsilometer.core.randomness import Noise
from epsilometer.corpora.synthetic import generate
from epsilometer.mechanisms.anonymisers import idt
from epsilometer.mechanisms.anonymisers.idt import IDT
from epsilometer.mechanisms.anonymisers.shared.attribution import Attribution, attributions
from epsilometer.mechanisms.anonymisers.shared.auxiliaries import Auxiliaries, Plan, make
from epsilometer.mechanisms.anonymisers.shared.guards import Antonyms, Similarity, names
from epsilometer.mechanisms.anonymisers.shared.preparing import influential
from epsilometer.mechanisms.anonymisers.shared.word_edits import in_case_of, spans
from epsilometer.mechanisms.anonymisers.textfooler import TextFooler
from epsilometer.models.classifier import FineTuning
from epsilometer.models.classifiers.linear import Linear
from epsilometer.models.locate import ENCODER, locate
from epsilometer.models.tagging import Tagger
from epsilometer.text.vectors import WordVectors
from epsilometer.text.words import words as words_of
from tests.support.refusals import refused

LABELS = ("gender", "age_group", "rating")
UNCHANGED = (NOTHING, MISSED, UTILITY_LOST)


@pytest.fixture(scope="module")
def reviews() -> pl.DataFrame:
    table = generate("reviews", 600, 3)
    return table.with_columns(pl.col("rating").cast(pl.String), pl.int_range(len(table)).cast(pl.String).alias("id"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, reviews: pl.DataFrame) -> Path:
    """Linear auxiliaries; vectors of the reviews' own words, so that neighbours are words that classifiers know."""
    place = tmp_path_factory.mktemp("auxiliaries")
    every = WordVectors.from_transformer(locate(ENCODER)).whole_words()
    used = {word for text in reviews["text"] for word in words_of(text)}
    used_words = [i for i, word in enumerate(every.words) if word in used]
    vectors = WordVectors([every.words[i] for i in used_words], every.vectors[used_words])
    relations = pl.DataFrame({"a": ["good", "great"], "b": ["bad", "good"], "relation": ["antonym", "antonym"]})
    plan = Plan("reviews", LABELS[:2], LABELS[2:], ["linear"], FineTuning("none"))
    make(place, reviews.head(400), plan, vectors, relations=relations)
    return place


@pytest.fixture(scope="module")
def texts(reviews: pl.DataFrame) -> list[str]:
    return reviews["text"].to_list()[400:]


class Upos(Protocol):
    """Whatever tags sentences."""

    def upos(self, split: Sequence[Sequence[str]]) -> list[tuple[str, ...]]: ...


class ByShape:
    """A tagger without a network: names have a capital within a sentence, other words are told by their length."""

    def upos(self, split: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
        return [
            tuple("PROPN" if i and word[:1].isupper() else "XY"[len(word) % 2] for i, word in enumerate(words))
            for words in split
        ]


@pytest.fixture
def tagger(monkeypatch: pytest.MonkeyPatch) -> ByShape:
    monkeypatch.setattr(idt, "Tagger", lambda device="cpu": ByShape())
    return ByShape()


def rewrites(mechanism: IDT, texts: Sequence[str], epsilon: float = NO_BUDGET, seed: int = 0) -> Rewrites:
    return mechanism.rewrite(texts, epsilon, Noise.named(len(texts), "test", seed))


def predicted(folder: Path, label: str, texts: Sequence[str]) -> NDArray[np.int64]:
    return Auxiliaries(folder).classifiers[label]["linear"].probabilities(texts).argmax(axis=1)


def tags(tagger: Upos, text: str) -> list[tuple[str, ...]]:
    cut = spans(text)
    return tagger.upos([[cut.tokens[i] for i in places] for places in cut.sentences])


def check(folder: Path, tagger: Upos, before: Sequence[str], output: Rewrites, hidden: Sequence[str]) -> None:
    """What holds of every released text, and what its status says."""
    assert output.outcomes is not None
    wrong = np.all(
        [predicted(folder, label, before) != predicted(folder, label, output.texts) for label in hidden], axis=0
    )
    task = predicted(folder, "rating", before) == predicted(folder, "rating", output.texts)
    for i, (old, new) in enumerate(zip(before, output.texts, strict=True)):
        original, other = spans(old), spans(new)
        assert other.parts[::2] == original.parts[::2]
        changed = [k for k, token in enumerate(original.tokens) if other.tokens[k] != token]
        assert all(
            k in original.words and in_case_of(other.tokens[k], original.tokens[k]) == other.tokens[k] for k in changed
        )
        assert tags(tagger, new) == tags(tagger, old)
        status = output.outcomes.status[i]
        assert output.outcomes.changed[i] == len(changed)
        assert output.outcomes.words[i] == len(original.words)
        assert (status in UNCHANGED) == (not changed)
        assert (status == FOUND) <= bool(wrong[i] and task[i])
        assert (status == PART) <= bool(task[i])


WAYS = [*product((False, True), repeat=3)]


def mangled(text: str, quoted: bool, loud: bool, curly: bool) -> str:
    """As people write: in quotes, in capitals, with the other apostrophe."""
    text = text.replace("'", "’") if curly else text
    text = text.upper() if loud else text
    return f'She said: "{text}" — isn\'t this   it?\n' if quoted else text


def test_what_every_released_text_keeps(folder: Path, texts: list[str]) -> None:
    """By the embedded tagger, of texts as people write them."""
    before = [mangled(text, *how) for text, how in zip(texts, WAYS[::7], strict=False)]
    real = Tagger()
    few = IDT(resource=folder, attributes=("gender",), k=5, q=2)
    check(folder, real, before, rewrites(few, before), ["gender"])


@pytest.mark.slow
def test_what_every_released_text_keeps_as_published(folder: Path, texts: list[str]) -> None:
    before, real = [mangled(text, *how) for text, how in zip(texts[:4], WAYS, strict=False)], Tagger()
    published = IDT(resource=folder, as_published=True, k=5, q=1)
    check(folder, real, before, rewrites(published, before), ["gender", "age_group"])


def test_guards_hold_of_every_released_text(folder: Path, texts: list[str], tagger: ByShape) -> None:
    mechanism = IDT(resource=folder, attributes=("gender",), names="kept", antonyms="refused", similarity=0.7, k=10)
    before = texts[:12]
    output = rewrites(mechanism, before)
    check(folder, tagger, before, output, ["gender"])
    assert output.outcomes is not None
    assert FOUND in output.outcomes.status
    changed = [(a, b) for a, b in zip(before, output.texts, strict=True) if a != b]
    assert min(Similarity(0.7).cosines(changed)) >= 0.7
    relations = Auxiliaries(folder).relations
    assert relations is not None
    opposites = Antonyms.of(relations)
    for old, new in changed:
        (guarded,) = names([spans(old)], tagger.upos)
        pairs = list(zip(spans(old).tokens, spans(new).tokens, strict=True))
        assert not [a for a, b in pairs if a != b and a.lower() in guarded]
        assert not [a for a, b in pairs if opposites.refused(a, [b])]


def test_several_attributes_err_at_once(folder: Path, texts: list[str], tagger: ByShape) -> None:
    output = rewrites(IDT(resource=folder, k=10), texts[:20])
    assert output.outcomes is not None
    assert FOUND in output.outcomes.status
    check(folder, tagger, texts[:20], output, ["gender", "age_group"])


class Verbs:
    """A tagger without a network, to which words are nouns and verbs by their length, and others by their letter."""

    def upos(self, split: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
        return [
            tuple("ADJ" if word[:1] in "aeiou" else ("NOUN", "VERB")[len(word) % 2] for word in words)
            for words in split
        ]


@pytest.mark.parametrize("as_published", [False, True])
def test_nouns_and_verbs_replace_each_other_under_swap_alone(
    folder: Path, texts: list[str], monkeypatch: pytest.MonkeyPatch, as_published: bool
) -> None:
    monkeypatch.setattr(idt, "Tagger", Verbs)

    def tags_of(swap: bool) -> list[tuple[list[tuple[str, ...]], list[tuple[str, ...]]]]:
        mechanism = IDT(resource=folder, attributes=("gender",), swap=swap, as_published=as_published, k=5, q=3)
        released = rewrites(mechanism, texts[:20]).texts
        return [(tags(Verbs(), old), tags(Verbs(), new)) for old, new in zip(texts, released, strict=False)]

    assert all(old == new for old, new in tags_of(swap=False))
    swapped = tags_of(swap=True)
    assert any(old != new for old, new in swapped)
    assert all(_one_open_class(old) == _one_open_class(new) for old, new in swapped)


def _one_open_class(tagged: list[tuple[str, ...]]) -> list[tuple[bool, ...]]:
    return [tuple(tag == "ADJ" for tag in sentence) for sentence in tagged]


@pytest.mark.usefixtures("tagger")
@pytest.mark.parametrize("as_published", [False, True])
def test_words_that_the_task_needs_stay_unless_they_are_ignored(
    folder: Path, texts: list[str], as_published: bool
) -> None:
    """The paper's IDT_u ignores them. Its search by default keeps them, and ours looks at them by default."""
    rating = Auxiliaries(folder).classifiers["rating"]["linear"]
    needed = [
        {word for word, score in scores.items() if score > 0}
        for scores in attributions(rating, texts[:30], Attribution()).scores
    ]

    def changed_and_needed(ignore_utility: bool | None) -> int:
        mechanism = IDT(
            resource=folder, attributes=("gender",), ignore_utility=ignore_utility, as_published=as_published, k=5, q=3
        )
        released = rewrites(mechanism, texts[:30]).texts
        pairs = (zip(spans(a).tokens, spans(b).tokens, strict=True) for a, b in zip(texts, released, strict=False))
        return sum(a != b and a.lower() in words for words, some in zip(needed, pairs, strict=True) for a, b in some)

    assert changed_and_needed(ignore_utility=False) == 0
    assert changed_and_needed(ignore_utility=True) > 0
    assert (changed_and_needed(ignore_utility=None) > 0) is not as_published


def test_which_words_may_change() -> None:
    gender, age, rating = {"a": 2.0, "b": 1.0, "c": -1.0}, {"c": 3.0, "d": 0.0}, {"a": 0.5, "b": 0.0}
    assert influential([gender], [rating]) == ["b"]
    assert influential([gender], []) == ["a", "b"]
    assert influential([gender, age], [rating]) == ["c", "b"]


@pytest.mark.usefixtures("tagger")
@pytest.mark.parametrize("published", [False, True])
def test_the_same_bytes_whatever_runs_beside(
    folder: Path, texts: list[str], monkeypatch: pytest.MonkeyPatch, published: bool
) -> None:
    mechanism = IDT(resource=folder, attributes=("gender",), as_published=published, k=5, q=2)
    few = [*texts[:6], texts[0], texts[2]]  # two texts occur twice, each time with a separate stream
    noise = Noise.named(len(few), "same")
    together = mechanism.rewrite(few, NO_BUDGET, noise)
    monkeypatch.setattr(idt, "_GROUP", 2)
    parts = [mechanism.rewrite(few[i : i + 3], NO_BUDGET, noise[i : i + 3]) for i in range(0, len(few), 3)]
    assert together.texts == [text for part in parts for text in part.texts]
    assert together.outcomes is not None
    columns = [part.outcomes.table() for part in parts if part.outcomes is not None]
    assert together.outcomes.table().equals(pl.concat(columns))


def test_a_sentence_is_read_once_and_to_forget_it_changes_nothing(
    folder: Path, texts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[tuple[str, ...]] = []

    class Counting(ByShape):
        def upos(self, split: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
            read.extend(map(tuple, split))
            return super().upos(split)

    monkeypatch.setattr(idt, "Tagger", Counting)
    settings: dict[str, Any] = {"resource": folder, "attributes": ("gender",), "as_published": True, "k": 5, "q": 2}
    few = [*texts[:5], texts[0] + " And more."]  # its first sentences are those of another text
    released = rewrites(IDT(**settings), few).texts
    assert len(read) == len({*read})
    monkeypatch.setattr(idt, "_READ", 1)
    assert rewrites(IDT(**settings), few).texts == released
    assert len(read) > 2 * len({*read})


@pytest.mark.usefixtures("tagger")
@pytest.mark.parametrize("attribution", ["integrated_gradients", "occlusion"])
def test_questions_are_those_that_the_classifiers_count(
    folder: Path, texts: list[str], monkeypatch: pytest.MonkeyPatch, attribution: str
) -> None:
    questions: set[tuple[int, str]] = set()
    plain = Linear.probabilities

    def counted(self: Linear, texts: Sequence[str]) -> NDArray[np.float64]:
        questions.update((id(self), text) for text in texts)
        return plain(self, texts)

    monkeypatch.setattr(Linear, "probabilities", counted)
    output = rewrites(IDT(resource=folder, attribution=attribution, k=3), [texts[1]])
    assert output.outcomes is not None
    assert output.outcomes.asked.tolist() == [len(questions)]
    assert output.outcomes.asked_victim.tolist() == [0]


@pytest.mark.usefixtures("tagger")
def test_what_is_released_where_nothing_is_found(folder: Path, texts: list[str]) -> None:
    hard = IDT(resource=folder, attributes=("gender",), margin=50.0, k=3, q=2)
    by = {how: rewrites(replace(hard, unsaved=how), texts[:5]) for how in ("best", "original", "withhold")}
    status = {how: output.outcomes.status for how, output in by.items() if output.outcomes is not None}
    assert {*status["best"]} <= {PART, MISSED, NOTHING}
    assert PART in status["best"]
    assert {*status["original"]} <= {MISSED, NOTHING}
    assert by["original"].texts == texts[:5]
    changeable = [outcome != NOTHING for outcome in status["original"]]
    assert [outcome == WITHHELD for outcome in status["withhold"]] == changeable
    assert [not text for text in by["withhold"].texts] == changeable


@pytest.mark.usefixtures("tagger")
def test_an_edit_that_costs_the_task_is_no_success(folder: Path, texts: list[str]) -> None:
    """A task that is the attribute under another name: whatever hides it changes the task's answer."""
    same = folder.parent / "same"
    same.mkdir(exist_ok=True)
    for path in folder.rglob("*"):
        target = same / path.relative_to(folder)
        if path.is_file():
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(path.read_bytes())
    for path in (folder / "gender-linear").iterdir():
        (same / "rating-linear" / path.name).write_bytes(path.read_bytes())
    mechanism = IDT(resource=same, attributes=("gender",), k=5, unsaved="original")
    output = rewrites(mechanism, texts[:8])
    assert output.texts == texts[:8]
    assert output.outcomes is not None
    assert {*output.outcomes.status} <= {UTILITY_LOST, MISSED, NOTHING}
    assert UTILITY_LOST in output.outcomes.status


@pytest.mark.usefixtures("tagger")
def test_hide_brings_the_auxiliary_near_the_shares(folder: Path, texts: list[str]) -> None:
    mechanism = IDT(resource=folder, attributes=("gender",), aim="hide", margin=0.3, k=10)
    output = rewrites(mechanism, texts[:15])
    auxiliary = Auxiliaries(folder)
    shares = np.log(auxiliary.shares["gender"])
    far = np.abs(np.log(auxiliary.classifiers["gender"]["linear"].probabilities(output.texts)) - shares).max(axis=1)
    assert output.outcomes is not None
    assert FOUND in output.outcomes.status
    assert far[[status == FOUND for status in output.outcomes.status]].max() <= 0.3
    with refused("EPS-M006", "0"):
        rewrites(IDT(resource=folder, aim="hide", margin=0), texts[:1])


def test_randomised_response_has_a_budget_and_the_stated_law(folder: Path) -> None:
    mechanism = IDT(resource=folder, attributes=("age_group",), aim="random")
    assert has_budget(mechanism)
    assert mechanism.guarantee(1.0) is None
    assert not has_budget(IDT(resource=folder))
    own = np.full(30_000, 1)
    shown = np.bincount(np.array(mechanism._shown(own, 1.0, Noise.named(len(own), "shown"))), minlength=3) / len(own)
    p = np.array([1, np.e, 1]) / (np.e + 2)
    assert (np.abs(shown - p) < 4.9 * np.sqrt(p * (1 - p) / len(own))).all()  # fails with probability 3e-6
    exactly = mechanism._shown(np.zeros(2000, np.int64), 50.0, Noise.operating_system(2000))
    assert set(exactly) == {0}  # another class has probability 2 e^-50


@pytest.mark.usefixtures("tagger")
def test_random_shows_the_drawn_class_and_edits_its_own_too(folder: Path, texts: list[str]) -> None:
    mechanism = IDT(resource=folder, attributes=("gender",), aim="random", k=10, unsaved="original")
    few = texts[:20]
    noise = Noise.named(len(few), "random")
    own = predicted(folder, "gender", few)
    output = mechanism.rewrite(few, 0.5, noise)
    shown = np.array(mechanism._shown(own, 0.5, noise))
    assert output.outcomes is not None
    hidden = np.array([status == FOUND for status in output.outcomes.status])
    assert (predicted(folder, "gender", output.texts) == shown)[hidden].all()
    assert (output.outcomes.changed > 0)[hidden].all()
    assert (hidden & (shown == own)).any()
    assert (hidden & (shown != own)).any()


ODD = {
    "empty": "",
    "one word": "Lovely",
    "marks": "?! ... — «»",
    "emoji": "🙂🙂 👍🏽",
    "mixed scripts": "Очень good обслуживание, 很好 great 店",
    "homoglyphs": "The shоp was gооd and my husbаnd was happy",  # Cyrillic letters
    "numbers": "42 3.50 1,000",
    "lines": "\r\n\tMy wife\x00 loved it\u2028.\n\n",
}


@pytest.mark.parametrize("kind", ODD)
def test_odd_texts_come_out_whole(folder: Path, tagger: ByShape, kind: str) -> None:
    for published in (False, True):
        mechanism = IDT(resource=folder, attributes=("gender",), k=3, q=2, as_published=published)
        output = rewrites(mechanism, [ODD[kind]])
        check(folder, tagger, [ODD[kind]], output, ["gender"])
        if kind in ("empty", "marks", "emoji", "numbers"):
            assert output.outcomes is not None
            assert output.outcomes.status == [NOTHING]


def test_a_text_of_10_000_characters(folder: Path, texts: list[str], tagger: ByShape) -> None:
    long = " ".join(texts)[:10_000]
    mechanism = IDT(resource=folder, attributes=("gender",), k=1, q=1)
    check(folder, tagger, [long], rewrites(mechanism, [long]), ["gender"])


@pytest.mark.usefixtures("tagger")
def test_a_text_beyond_a_window_says_so_unless_the_aim_is_reached(
    folder: Path, texts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long text is judged by its beginning; that its rest is unread takes no success from it."""

    def statuses(long: bool) -> list[str]:
        cuts = np.array([long] * 20)
        monkeypatch.setattr(Linear, "cuts", lambda _, texts: cuts[: len(texts)], raising=False)
        output = rewrites(IDT(resource=folder, k=3, q=2, unsaved="original"), [*texts[:19], "?!"])
        assert output.outcomes is not None
        return list(output.outcomes.status)

    read_whole, cut = statuses(long=False), statuses(long=True)
    assert {FOUND, MISSED, NOTHING} <= {*read_whole}
    stay = (FOUND, UTILITY_LOST)
    assert cut == [status if status in stay else CUT for status in read_whole]


def test_texts_beyond_a_window_are_counted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Linear, "cuts", lambda _, texts: np.array([len(text) > 9 for text in texts]), raising=False)
    for candidates in ("vectors", "masked_lm"):
        unread = IDT(resource=folder, candidates=candidates).unread(["The shop", "The large shop"])
        assert (unread.cut, unread.texts) == (1, 2)


@pytest.mark.parametrize(
    ("wrong", "refusal"),
    [
        ({"aim": "random"}, ("EPS-M005", "2")),
        ({"attributes": ("hair",)}, ("EPS-M021", "hair")),
        ({"tasks": ("hair",)}, ("EPS-M021", "hair")),
        ({"kinds": ("transformer",)}, ("EPS-M021", "transformer")),
        ({"enough": 2}, ("EPS-M007", "enough", "2", "1")),
    ],
)
def test_settings_that_do_not_fit(
    folder: Path, texts: list[str], wrong: dict[str, Any], refusal: tuple[str, ...]
) -> None:
    with refused(*refusal):
        rewrites(IDT(resource=folder, **wrong), texts[:1])


def test_antonyms_need_relations(folder: Path, texts: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Auxiliaries, "relations", None)
    with refused("EPS-M008"):
        rewrites(IDT(resource=folder, antonyms="refused"), texts[:1])


def test_words_without_a_vector_are_counted(folder: Path) -> None:
    unread = IDT(resource=folder).unread(["The zzzunknown shop", "zzzunknown"])
    assert (unread.unknown, unread.words) == (2, 4)
    assert IDT(resource=folder, candidates="masked_lm").unread(["The zzzunknown shop"]) == Unread()


def labelled_by(folder: Path, texts: Sequence[str], wrong: bool, **settings: Any) -> tuple[IDT, NDArray[np.int64]]:
    """IDT told a gender of every text, which is what its auxiliary says or, if `wrong`, the other one."""
    says = predicted(folder, "gender", texts)
    classes = Auxiliaries(folder).about["classes"]["gender"]
    truths = {text: {"gender": classes[1 - own if wrong else own]} for text, own in zip(texts, says, strict=True)}
    return IDT(resource=folder, attributes=("gender",), **settings).with_truths(truths), says


@pytest.mark.parametrize("as_published", [False, True])
def test_a_text_that_its_auxiliary_misreads_is_released_as_it_is(
    folder: Path, texts: list[str], tagger: Upos, as_published: bool
) -> None:
    """Untold it is edited towards the truth; a text that is read rightly is rewritten as if nothing were told."""
    some = texts[:12]
    misread, _ = labelled_by(folder, some, wrong=True, as_published=as_published)
    output = rewrites(misread, some)
    assert output.outcomes is not None
    assert (output.texts, {*output.outcomes.status}) == (some, {NOTHING})
    untold = rewrites(IDT(resource=folder, attributes=("gender",), as_published=as_published), some)
    assert untold.texts != some
    rightly, _ = labelled_by(folder, some, wrong=False, as_published=as_published)
    assert rewrites(rightly, some).texts == untold.texts


@pytest.mark.parametrize("kind", [IDT, TextFooler])
@pytest.mark.parametrize(
    ("of_text", "refusal"),
    [
        ({"gender": "X"}, ("EPS-M027", "'X'", "gender")),
        ({"gender": 1}, ("EPS-M027", "1", "gender")),
        ({"rating": "X"}, ("EPS-M027", "'X'", "rating")),
        ({"gendr": "F"}, ("EPS-C022", "gendr", "gender")),
        ({"gendr": "F", "rating": "good"}, ("EPS-C022", "gendr")),
        ("F", ("EPS-M026", "'F'")),
    ],
)
def test_truths_that_the_auxiliaries_do_not_know_are_refused(
    folder: Path, kind: type[IDT | TextFooler], of_text: Any, refusal: tuple[str, ...]
) -> None:
    classes = Auxiliaries(folder).about["classes"]
    rightly = {label: names[0] for label, names in classes.items()}
    beyond = {"another": {**rightly, "elsewhere": "X"}}  # because stages give all labels of a data set
    mechanism: Any = TextFooler(resource=folder, attribute="gender") if kind is TextFooler else IDT(resource=folder)
    with refused(*refusal):
        mechanism.with_truths({"a text": of_text, "another": rightly})
    assert mechanism.with_truths(beyond).truths == beyond
