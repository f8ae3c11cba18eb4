from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

from epsilometer.attacks.identification.embedding import EmbeddingAttack
from epsilometer.attacks.identification.length import LengthAttack
from epsilometer.attacks.identification.lexical import LexicalAttack
from epsilometer.attacks.identification.likelihood import LikelihoodAttack
from epsilometer.auditing.estimation.successes import estimate
from epsilometer.core.attack import Context, Embedded, choose, guess_and_score
from epsilometer.core.mechanism import Rewrites
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.controls.identity import Identity
from epsilometer.mechanisms.controls.randomized_response import RandomizedResponse
from epsilometer.models.encoder import Encoder
from epsilometer.text.words import words

TEXTS = ["show flights to boston", "play some jazz", "what is the weather like in paris tomorrow", "set an alarm"]
CANDIDATES = np.array([[0, 1], [2, 3], [3, 0], [1, 2]])
SOURCE = np.array([0, 1, 0, 1])


def context(**more: object) -> Context:
    return Context(TEXTS, None, 1.0, Noise.named(4, "attack"), **more)  # type: ignore[arg-type]


def sources() -> list[str]:
    return [TEXTS[CANDIDATES[i, s]] for i, s in enumerate(SOURCE)]


@pytest.mark.parametrize("attack", [LexicalAttack(), LengthAttack(), EmbeddingAttack()])
def test_unchanged_texts_are_named(attack: LexicalAttack) -> None:
    guess = attack.guess(Rewrites(sources()), CANDIDATES, context())
    apart = [i for i, (a, b) in enumerate(CANDIDATES) if len(TEXTS[a].split()) != len(TEXTS[b].split())]
    np.testing.assert_array_equal(guess[apart], SOURCE[apart])


def test_the_embedding_attack_reads_meaning_not_words() -> None:
    rewrites = ["a plane trip to massachusetts", "wake me up at seven", "wake me up", "rain or sunshine in france"]
    guess = EmbeddingAttack().guess(Rewrites(rewrites), CANDIDATES, context())
    assert guess.tolist() == [0, 1, 0, 1]


def test_known_embeddings_are_not_computed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    attack = EmbeddingAttack()
    vectors = np.eye(4, dtype=np.float32)
    monkeypatch.setattr("epsilometer.attacks.identification.embedding.Encoder", None)  # any use would fail
    guess = attack.guess(Rewrites(sources()), CANDIDATES, context(embedded=Embedded(attack.model, "float32", vectors)))
    np.testing.assert_array_equal(guess, SOURCE)


def test_the_vectors_of_rewrites_are_kept_and_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    attack, rewrites = EmbeddingAttack(), ["a plane trip", "rain in france", "a plane trip", TEXTS[3]]
    first = attack.guess(Rewrites(rewrites), CANDIDATES, context())
    assert list(attack.encoded) == sorted({"a plane trip", "rain in france"}, key=len)
    for text, vector in attack.encoded.items():
        np.testing.assert_array_equal(vector, Encoder(attack.model).encode([text])[0])
    monkeypatch.setattr(Encoder, "encode", None)  # any use would fail
    np.testing.assert_array_equal(attack.guess(Rewrites(rewrites), CANDIDATES, context()), first)


def test_the_vectors_of_many_rewrites_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("epsilometer.attacks.identification.embedding._KEPT", 2)
    attack = EmbeddingAttack()
    attack.guess(Rewrites(["one", "two", "three", "four"]), CANDIDATES, context())
    assert not attack.encoded


def test_only_candidates_are_encoded_and_once_for_all_epsilons(monkeypatch: pytest.MonkeyPatch) -> None:
    attack, encode, encoded = EmbeddingAttack(), Encoder.encode, list[str]()

    def counted(self: Encoder, texts: list[str]) -> np.ndarray:
        encoded.extend(texts)
        return encode(self, texts)

    monkeypatch.setattr(Encoder, "encode", counted)
    trials = CANDIDATES[[0, 3]]  # the last text is not a candidate
    rewrites = [Rewrites([TEXTS[trial[0]] for trial in trials]), Rewrites([TEXTS[trial[1]] for trial in trials])]
    streams = [replace(context(), epsilon=epsilon, noise=Noise.named(2, epsilon)) for epsilon in (1.0, 2.0)]
    guesses = [guess.slots for guess in guess_and_score(attack, rewrites, trials, streams)]
    assert encoded == TEXTS[:3]
    np.testing.assert_array_equal(guesses, [[0, 0], [1, 1]])


def test_texts_are_counted_once_for_all_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    attack, other = LexicalAttack(), replace(context(), texts=[*reversed(TEXTS)])
    first = attack.guess(Rewrites(sources()), CANDIDATES, context())
    with monkeypatch.context() as patched:
        patched.setattr(CountVectorizer, "fit_transform", None)  # any use would fail
        np.testing.assert_array_equal(attack.guess(Rewrites(sources()), CANDIDATES, context()), first)
        with pytest.raises(TypeError):  # words of other texts are counted again
            attack.guess(Rewrites(sources()), CANDIDATES, other)
    np.testing.assert_array_equal(attack.guess(Rewrites(sources()), 3 - CANDIDATES, other), first)


def test_n_grams_are_those_of_whole_texts() -> None:
    """Each different word is counted once: the bits of sklearn's vectors, where words have spaces between them."""
    texts = ["the cat the cat", "Café's  rebate", "ΑΣ İI ß", "a\u3000b\x85c\u2028d", "x\ty\nz\x1cw", "да", "", " "]
    vectorizer = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4), sublinear_tf=True, dtype=np.float32)
    features, seen = vectorizer.fit_transform([*TEXTS, *texts]), vectorizer.transform(texts)
    candidates = np.array([[trial, trial + len(TEXTS)] for trial in range(len(texts))])
    on = replace(context(), texts=[*TEXTS, *texts])
    (scores,) = LexicalAttack().score_grid([Rewrites(texts)], candidates, [on])
    expected = [seen.multiply(features[column]).sum(axis=1).A1 for column in candidates.T]
    np.testing.assert_array_equal(scores, np.transpose(expected))


def test_ties_are_broken_by_the_stream_and_evenly() -> None:
    """2,000 fair coins: outside 5 standard deviations with probability 6e-7; fixed seed."""
    scores = np.zeros((2000, 2))
    guess = choose(scores, Noise.named(2000, "ties"))
    assert abs(guess.mean() - 0.5) < 5 * 0.5 / np.sqrt(2000)
    np.testing.assert_array_equal(guess, choose(scores, Noise.named(2000, "ties")))
    assert choose(np.array([[-np.inf, -3.0], [-np.inf, -np.inf]]), Noise.named(2, "t"))[0] == 1


@pytest.mark.parametrize("slots", [2, 5])
def test_a_guess_is_that_of_drawing_for_every_trial(slots: int) -> None:
    """Streams are read for ties alone, and what they decide is what they decided when all of them were read."""
    scores = np.round(np.random.default_rng(0).random((3000, slots)), 1)
    scores[::7] = -np.inf
    scores[1::7, 0] = np.inf
    noise = Noise.named(3000, "ties")
    best = scores.max(axis=1, keepdims=True)
    draw = np.where(scores == best, noise.uniforms(slots), -1.0)
    np.testing.assert_array_equal(choose(scores, noise), draw.argmax(axis=1))


def test_randomised_response_is_as_likely_as_its_law_says(tmp_path: Path) -> None:
    pl.DataFrame({"text": TEXTS}).write_parquet(tmp_path / "t.parquet")
    mechanism = RandomizedResponse(resource=tmp_path / "t.parquet")
    by_epsilon = [mechanism.rewrite(sources(), epsilon, Noise.named(4, "rewrite", epsilon)) for epsilon in (0.5, 3.0)]
    rows, units = mechanism.laws(TEXTS), [rewrites.units.values for rewrites in by_epsilon if rewrites.units]
    likelihoods = mechanism.log_likelihoods(TEXTS, CANDIDATES, by_epsilon, [0.5, 3.0])
    laws = rows.log_probabilities(np.arange(4), [0.5, 3.0])
    for likelihood, log_p, outputs in zip(likelihoods, laws, units, strict=True):
        expected = log_p[CANDIDATES, outputs[:, None]]
        np.testing.assert_allclose(likelihood - likelihood[:, :1], expected - expected[:, :1], atol=1e-12)


def test_the_likelihood_attack_is_bayes(tmp_path: Path) -> None:
    pl.DataFrame({"text": TEXTS}).write_parquet(tmp_path / "t.parquet")
    mechanism = RandomizedResponse(resource=tmp_path / "t.parquet")
    noise = Noise.named(4, "rewrite")
    rewrites = mechanism.rewrite(sources(), 3.0, noise)
    guess = LikelihoodAttack().guess(rewrites, CANDIDATES, Context(TEXTS, mechanism, 3.0, Noise.named(4, "a")))
    assert all(text in [TEXTS[c] for c in row] for text, row in zip(rewrites.texts, CANDIDATES, strict=True))
    assert [TEXTS[row[slot]] for slot, row in zip(guess, CANDIDATES, strict=True)] == list(rewrites.texts)


def test_the_likelihood_attack_applies_where_there_is_a_law() -> None:
    assert not LikelihoodAttack().applies(Identity())
    assert not LikelihoodAttack().applies(None)
    assert LikelihoodAttack().applies(RandomizedResponse(resource=Path("any")))


def lengths_case() -> tuple[list[str], np.ndarray, np.ndarray]:
    """Texts of 5 to 200 words with some layout; 2,000 pairs and their targets."""
    rng = np.random.default_rng(3)
    pool = ["a", "flight", "to", "boston,", "please!", "well-known", "don't", "2.5", "tomorrow"]
    texts = [" ".join(rng.choice(pool, rng.integers(5, 200))) for _ in range(400)]
    pairs = np.array([rng.choice(400, 2, replace=False) for _ in range(2000)])
    return texts, pairs, rng.integers(0, 2, 2000)


@pytest.mark.parametrize(
    ("rewrite", "least"),
    [
        (lambda text: " ".join("***" for _ in text.split()), 3.9),  # keeps white space, but no word
        (lambda text: text, 5.0),  # keeps everything; words alone would leave ties
        (lambda text: " ".join("w" for _ in words(text)), 3.9),  # keeps the number of words, but no layout
        (lambda text: "".join("x" if c.isalnum() else c for c in text), 5.0),  # keeps the layout and all characters
    ],
)
def test_the_length_attack_finds_the_length_that_is_kept(rewrite: Callable[[str], str], least: float) -> None:
    """Losses in nats of 2,000 trials at alpha 0.01, fixed seed; words alone show 0 where none is left."""
    texts, pairs, target = lengths_case()
    rewrites = Rewrites([rewrite(texts[pair[t]]) for pair, t in zip(pairs, target, strict=True)])
    guess = LengthAttack().guess(rewrites, pairs, Context(texts, None, 1.0, Noise.named(2000, "length")))
    assert estimate(int((guess == target).sum()), 2000, 2, 0.01).loss > least


def test_the_length_attack_finds_nothing_in_equal_texts() -> None:
    """Successes are binomial at 1/2; 5 standard errors from it have a probability of 6e-7."""
    texts, pairs, target = lengths_case()
    guess = LengthAttack().guess(Rewrites(["x"] * 2000), pairs, Context(texts, None, 1.0, Noise.named(2000, "length")))
    assert abs((guess == target).mean() - 0.5) < 5 * 0.5 / 2000**0.5


@pytest.mark.parametrize("attack", [LexicalAttack(), LengthAttack(), EmbeddingAttack(), LikelihoodAttack()])
def test_guesses_do_not_depend_on_how_many_trials_are_scored_at_a_time(
    attack: LexicalAttack, monkeypatch: pytest.MonkeyPatch
) -> None:
    candidates = np.argsort(np.random.default_rng(0).random((40, 4)), axis=1)
    mechanism = RandomizedResponse(resource=tuple(TEXTS))
    rewrites = mechanism.rewrite([TEXTS[i] for i in candidates[:, 0]], 2.0, Noise.named(40, "r"))
    of = Context(TEXTS, mechanism, 2.0, Noise.named(40, "attack"))
    (whole,) = guess_and_score(attack, [rewrites], candidates, [of])
    monkeypatch.setattr("epsilometer.core.attack._CELLS", 28)  # seven trials
    (parts,) = guess_and_score(attack, [rewrites], candidates, [of])
    np.testing.assert_array_equal(parts.slots, whole.slots)
    np.testing.assert_allclose(parts.scores, whole.scores, atol=2e-6)
    assert (whole.slots == 0).mean() > 0.5
