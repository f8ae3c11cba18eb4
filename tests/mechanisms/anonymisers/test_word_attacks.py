"""TextFooler, TextBugger and BAE: their candidates, their limits, and cases that can be followed by hand."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from epsilometer.auditing.conformance.mechanism import check_mechanism
from epsilometer.auditing.publication import Publisher, publish_lines, publish_table
from epsilometer.core.guarantees import NO_BUDGET
from epsilometer.core.mechanism import FunctionMechanism, Rewrites
from epsilometer.core.outcomes import FOUND, MISSED, NOTHING, PART
from epsilometer.core.randomness import Noise
from epsilometer.corpora import files
from epsilometer.mechanisms.anonymisers.bae import BAE
from epsilometer.mechanisms.anonymisers.shared.draft import Draft
from epsilometer.mechanisms.anonymisers.shared.in_step import Search, in_step
from epsilometer.mechanisms.anonymisers.shared.limits import Inspector
from epsilometer.mechanisms.anonymisers.shared.word_edits import spans
from epsilometer.mechanisms.anonymisers.shared.word_search import WordSearch
from epsilometer.mechanisms.anonymisers.textbugger import HOMOGLYPHS, TextBugger, bugs
from epsilometer.mechanisms.anonymisers.textfooler import TextFooler
from epsilometer.models.embedded import masked_lm
from epsilometer.models.fill_mask import FillMask, Place
from tests.support.hand_made import auxiliaries
from tests.support.sparing import first


def angle(degrees: float) -> list[float]:
    return [float(np.cos(np.radians(degrees))), float(np.sin(np.radians(degrees)))]


# Words count as near to dress within 60 degrees, which is a cosine of .5.
VECTORS = {"dress": 0, "gown": 10, "skirt": 30, "suit": 59, "trousers": 61, "tie": 80, "wedding": 200, "party": 190}
WEIGHTS = {
    "dress": 2.0,
    "wedding": 1.0,
    "lovely": 1.0,
    "the": 9.0,
    "gown": 1.0,
    "skirt": 0.5,
    "suit": -9.0,
    "party": -19.0,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    vectors = {word: angle(degrees) for word, degrees in VECTORS.items()}
    return auxiliaries(tmp_path_factory.mktemp("auxiliaries"), WEIGHTS, vectors)


def rewrites(search: WordSearch, texts: Sequence[str]) -> Rewrites:
    return search.rewrite(texts, np.nan, Noise.named(len(texts), "test"))


def candidates(mechanism: WordSearch, text: str, position: int, edits: dict[int, str] | None = None) -> list[str]:
    draft = Draft(0, spans(text), np.random.default_rng(0), edits or {})

    def search() -> Search[list[str]]:
        return (yield from mechanism.candidates(draft, position))

    return in_step([search()])[0]


def tagged(monkeypatch: pytest.MonkeyPatch, tags: dict[str, str]) -> None:
    """Nouns, but for these words."""
    monkeypatch.setattr(
        Inspector, "tags", lambda self, sentences: [tuple(tags.get(w, "NOUN") for w in words) for words in sentences]
    )


def test_textfoolers_candidates_are_near_words_from_a_cosine_of_a_half(folder: Path) -> None:
    search = TextFooler(resource=folder)
    assert candidates(search, "a Dress", 1) == ["Gown", "Skirt", "Suit"]  # trousers are at a cosine of .485
    assert candidates(search, "the unknown", 1) == []


def test_textfoolers_order_threshold_and_stop(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dress weighs most but for "the", a stop-word. Of its near words skirt helps most as long as suit has another tag;
    that fools nothing, so the next word, wedding, becomes party, and lovely is not reached.
    """
    tagged(monkeypatch, {"suit": "ADJ"})
    search = TextFooler(resource=folder, similarity="free")
    done = rewrites(search, ["dress for the lovely wedding", "dress, dress", "lovely"])
    assert list(done.texts) == ["skirt for the lovely party", "skirt, skirt", "lovely"]
    assert done.outcomes is not None
    assert list(done.outcomes.status) == [FOUND, PART, MISSED]
    assert done.outcomes.changed.tolist() == [2, 2, 0]


def test_of_equally_important_words_the_first_is_changed_first(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tagged(monkeypatch, {})
    search = TextFooler(resource=folder, similarity="free")
    assert rewrites(search, ["dress lovely dress"]).texts[0] == "suit lovely dress"


def test_nouns_and_verbs_stand_for_each_other(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tagged(monkeypatch, {"suit": "VERB"})
    search = TextFooler(resource=folder, similarity="free")
    assert rewrites(search, ["dress"]).texts[0] == "suit"
    tagged(monkeypatch, {"suit": "ADV"})
    assert rewrites(search, ["dress"]).texts[0] == "skirt"


def test_the_least_similarity_is_the_published_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """.840845 in angular similarity is half a radian: 28.6 degrees. Short texts pass as published, and no others."""
    tagged(monkeypatch, {})
    turned = {"suit": 29.0, "skirt": 28.0}

    def vectors(self: Inspector, texts: Sequence[str]) -> list[Any]:
        degrees = [sum(turned.get(word.strip(",."), 0.0) for word in text.split()) for text in texts]
        return [np.array(angle(d), np.float32) for d in degrees]

    monkeypatch.setattr(Inspector, "vectors", vectors)
    long = "dress " + "of " * 14 + "it"
    assert rewrites(TextFooler(resource=folder), ["dress", long]).texts[0] == "skirt"
    assert rewrites(TextFooler(resource=folder), [long]).texts[0].startswith("skirt ")
    published = rewrites(TextFooler(resource=folder, as_published=True), ["dress", long])
    assert published.texts[0] == "suit"
    assert published.texts[1].startswith("skirt ")


def test_as_published_similarity_is_to_the_text_before_the_swap(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two swaps of 20 degrees each pass one by one, and not together."""
    tagged(monkeypatch, {"suit": "ADJ", "party": "ADJ"})
    monkeypatch.setattr(
        Inspector,
        "vectors",
        lambda self, texts: [np.array(angle(20.0 * text.count("skirt")), np.float32) for text in texts],
    )
    text = "dress dress " + "of " * 14 + "it"
    assert rewrites(TextFooler(resource=folder), [text]).texts[0].count("skirt") == 1
    assert rewrites(TextFooler(resource=folder, as_published=True), [text]).texts[0].count("skirt") == 2


def test_bugs_leave_the_first_and_the_last_letter() -> None:
    every = [list(bugs("purchase", np.random.default_rng(seed))) for seed in range(50)]
    spaces, deleted, swapped = ({row[k] for row in every} for k in range(3))
    assert {word.index(" ") for word in spaces} == set(range(1, 7))
    assert deleted == {"prchase", "puchase", "purhase", "purcase", "purchse", "purchae"}
    assert swapped == {"pruchase", "pucrhase", "purhcase", "purcahse", "purchsae"}
    glyphs = every[0][3:]
    assert len(glyphs) == len("purchase")
    assert all(sum(a != b for a, b in zip(glyph, "purchase", strict=True)) == 1 for glyph in glyphs)
    assert all(word[0] == "p" and word[-1] == "e" for word in spaces | deleted | swapped)


def test_short_words_have_the_bugs_that_they_allow() -> None:
    assert list(bugs("ab", np.random.default_rng(0))) == _glyphs("ab")
    space, deleted, *rest = bugs("cat", np.random.default_rng(0))
    assert (space, deleted, rest) == ("c at", "ct", _glyphs("cat"))
    assert list(bugs("£", np.random.default_rng(0))) == []


def _glyphs(word: str) -> list[str]:
    return [word[:i] + chr(HOMOGLYPHS[ord(letter)]) + word[i + 1 :] for i, letter in enumerate(word)]


def test_textbugger_draws_from_the_texts_stream(folder: Path) -> None:
    """Rows of one text have bugs of their own; a word with a space in it is one changed word."""
    search = TextBugger(resource=folder, similarity="free")
    done = rewrites(search, ["lovely"] * 30)
    assert {*done.texts} <= {*bugs_of("lovely")}
    assert any(" " in text for text in done.texts) or len({*done.texts}) > 1
    assert list(rewrites(search, ["lovely"] * 30).texts) == list(done.texts)
    assert done.outcomes is not None
    assert {*done.outcomes.changed.tolist()} == {1}


def bugs_of(word: str) -> set[str]:
    return {bug for seed in range(200) for bug in bugs(word, np.random.default_rng(seed))}


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.csv.gz", "a.jsonl", "a.jsonl.zst", "a.parquet", "a.txt"])
def test_homoglyphs_survive_every_file_format(name: str, tmp_path: Path) -> None:
    """Rewritten for publication as `epsilometer rewrite` does, and read as a corpus."""
    mechanism = FunctionMechanism(lambda text, rng: text.translate(HOMOGLYPHS))
    texts = ["abcdefghijklm", "nopqrstuvwxyz", "0123456789-'"]
    source, out = tmp_path / name, tmp_path / f"out-{name}"
    publisher = Publisher(mechanism, NO_BUDGET, seed=0)
    if name == "a.txt":
        source.write_text("\n".join(texts) + "\n")
        publish_lines(publisher, source, out, rows=None, encoding="utf-8")
    else:
        files.write(pl.DataFrame({"text": texts}), source, files.suffix(source))
        publish_table(publisher, source, out, ["text"], rows=None, layout=files.PLAIN)
    assert files.read(out)["text"].to_list() == [text.translate(HOMOGLYPHS) for text in texts]


def test_homoglyphs_are_other_letters() -> None:
    assert len(HOMOGLYPHS) == 38
    assert all(chr(a) != chr(b) for a, b in HOMOGLYPHS.items())
    normal = [unicodedata.normalize("NFKC", chr(b)).lower() == chr(a) for a, b in HOMOGLYPHS.items()]
    assert sum(normal) < 10  # normalisation undoes few of the edits


def test_baes_candidates_are_expected_words_where_the_text_now_stands(folder: Path) -> None:
    text, edited = "She bought a lovely dress for the party", "She bought a splendid dress for the party"
    search, model = BAE(resource=folder), FillMask(masked_lm())
    place = Place(0, edited.index("dress"), edited.index(" for"))
    outputs, _ = model.likeliest([edited], [place], 80)
    words = [model.outputs[o] for o in outputs[0] if model.outputs[o].isalpha()]
    assert candidates(search, text, 4, {3: "splendid"}) == [w for w in words[:50] if w != "dress"]
    published = candidates(BAE(resource=folder, as_published=True), text, 4)
    whole = {name for name, is_whole in zip(model.outputs, model.whole, strict=True) if is_whole}
    assert {*candidates(search, text, 4)} <= whole
    assert len(published) >= 49


@pytest.mark.parametrize("mechanism", first(1, [BAE, TextFooler, TextBugger]))
def test_on_real_networks_a_text_is_rewritten_alone_and_questions_are_the_victims(
    mechanism: type[WordSearch], folder: Path
) -> None:
    texts = ["She bought a lovely dress.", "A wedding, lovely!", "42 ...", "She bought a lovely dress."]
    search = mechanism(resource=folder, asks="victim", victims=victims(folder))
    together = rewrites(search, texts)
    assert together.outcomes is not None
    assert {*together.outcomes.status} <= {FOUND, PART, MISSED, NOTHING}
    assert together.outcomes.status[2] == NOTHING
    assert not together.outcomes.asked.any()
    noise, victim = Noise.named(len(texts), "test"), search.classifier
    for i in (0, 1):
        counting = Counting(victim)
        vars(search)["classifier"] = counting
        alone = search.rewrite([texts[i]], np.nan, noise[i : i + 1])
        assert alone.texts[0] == together.texts[i]
        assert len(counting.questions) == len({*counting.questions}) == together.outcomes.asked_victim[i]


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", [TextFooler, TextBugger])
def test_they_keep_the_rules_of_mechanisms(mechanism: type[WordSearch], folder: Path) -> None:
    checks = check_mechanism(mechanism(resource=folder), None, ["a lovely dress", "yes"])
    assert [check.rule for check in checks if check.problem] == []


class Counting:
    """A classifier that remembers what it was asked."""

    def __init__(self, classifier: Any) -> None:
        self._classifier, self.questions = classifier, list[str]()
        self.classes, self.kind = classifier.classes, classifier.kind

    def probabilities(self, texts: Sequence[str]) -> Any:
        self.questions += texts
        return self._classifier.probabilities(texts)


def victims(folder: Path) -> Path:
    """The auxiliaries' classifier once more, as the victim gender-linear-0."""
    to = folder / "victims" / "gender-linear-0"
    if not to.exists():
        import shutil

        shutil.copytree(folder / "gender-linear", to)
    return to.parent
