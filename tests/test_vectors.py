"""Word vectors and vocabularies: formats, errors, exact geometry, texts to numbers and back."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from epsilometer.errors import UserError
from epsilometer.language.vectors import WordVectors
from epsilometer.language.vocabulary import Vocabulary
from epsilometer.language.words import words, write
from epsilometer.ragged import Ragged

WORDS = ["the", "flight", "to", "boston", "7"]
VECTORS = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)


def lines(*rows: str) -> str:
    return "".join(row + "\n" for row in rows)


ROWS = [word + "".join(f" {value:.9g}" for value in vector) for word, vector in zip(WORDS, VECTORS, strict=True)]


def test_the_three_formats_give_the_same(tmp_path: Path) -> None:
    WordVectors(WORDS, VECTORS).save(tmp_path / "vectors.npz")
    (tmp_path / "word2vec.txt").write_text(lines("5 3", *ROWS))
    (tmp_path / "glove.txt").write_text(lines(*ROWS))
    for file in ("vectors.npz", "word2vec.txt", "glove.txt"):
        read = WordVectors.load(tmp_path / file)
        assert read.words == WORDS
        np.testing.assert_array_equal(read.vectors, VECTORS)


def test_glove_words_may_hold_spaces_and_no_break_spaces(tmp_path: Path) -> None:
    (tmp_path / "glove.txt").write_text(lines(*ROWS, ". . . 1 2 3", "a\u00a0b 1 2 4"))
    assert WordVectors.load(tmp_path / "glove.txt").words == [*WORDS, ". . .", "a\u00a0b"]


def test_saving_is_deterministic_and_leaves_nothing_else(tmp_path: Path) -> None:
    for name in ("a.npz", "b.npz"):
        WordVectors(WORDS, VECTORS).save(tmp_path / "new" / name)
    assert (tmp_path / "new/a.npz").read_bytes() == (tmp_path / "new/b.npz").read_bytes()
    assert len(list((tmp_path / "new").iterdir())) == 2


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("", "holds no word vectors"),
        (lines(*ROWS, "short 1 2"), "line 6.*4|line 6.*3 fields"),
        (lines(*ROWS[:2], "", *ROWS[2:]), "line 3"),
        (lines(*ROWS, "word 1 2 x3"), "line 6.*x3"),
        (lines("6 3", *ROWS), "announces 6 words, the file holds 5"),
        (lines("5 4", *ROWS), "line 2"),
        (lines(*ROWS, ROWS[0]), "'the' occurs 2 times"),
        (lines(*ROWS, "void 1 nan 2"), "'void'.*not finite"),
        (lines(ROWS[0]), "at least two words"),
    ],
)
def test_damaged_text_is_refused_with_its_place(tmp_path: Path, content: str, complaint: str) -> None:
    (tmp_path / "vectors.txt").write_text(content)
    with pytest.raises(UserError, match=complaint):
        WordVectors.load(tmp_path / "vectors.txt")


def test_damaged_archives_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "vectors.npz"
    with pytest.raises(UserError, match="there is no file"):
        WordVectors.load(path)
    np.savez(path, words=np.array(WORDS))
    with pytest.raises(UserError, match="words, vectors"):
        WordVectors.load(path)
    np.savez(path, words=np.array(WORDS, object), vectors=VECTORS)
    with pytest.raises(UserError, match="cannot be read"):
        WordVectors.load(path)
    np.savez(path, words=np.array(WORDS[:4]), vectors=VECTORS)
    with pytest.raises(UserError, match="one row a word"):
        WordVectors.load(path)
    WordVectors(WORDS, VECTORS).save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:100] + b"\xff" * 20 + whole[120:])
    with pytest.raises(UserError, match="cannot be read"):
        WordVectors.load(path)
    path.write_bytes(b"\xff\xfe\x00binary\nstuff\x80 1 2\n")
    with pytest.raises(UserError, match="line 1"):
        WordVectors.load(path)


def checkpoint(folder: Path, tokens: list[str], rows: int, name: str) -> Path:
    matrix = np.arange(rows * 2, dtype=np.float32).reshape(rows, 2)
    save_file({name: matrix, "pooler.dense.bias": np.zeros(2, np.float32)}, folder / "model.safetensors")
    (folder / "vocab.txt").write_text(lines(*tokens))
    return folder


TOKENS = ["[PAD]", "[unused1]", "the", "##ing", "7", "!", "é", "α", "1st", "U", "i", "don't"]


@pytest.mark.parametrize("name", ["embeddings.word_embeddings.weight", "bert.embeddings.word_embeddings.weight"])
def test_whole_words_of_a_transformer(tmp_path: Path, name: str) -> None:
    vectors = WordVectors.from_transformer(checkpoint(tmp_path, TOKENS, 12, name))
    assert vectors.words == ["the", "7", "1st", "i", "don't"]
    np.testing.assert_array_equal(vectors.vectors[:, 0], [4, 8, 16, 20, 22])

    (tmp_path / "vocab.txt").unlink()
    with pytest.raises(UserError, match=r"vocab.txt"):
        WordVectors.from_transformer(tmp_path)
    vocabulary = {token: i for i, token in enumerate(TOKENS)}
    (tmp_path / "tokenizer.json").write_text(json.dumps({"model": {"vocab": vocabulary}}))
    assert WordVectors.from_transformer(tmp_path).words == vectors.words


def test_a_folder_that_is_no_bert_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="word_embeddings"):
        WordVectors.from_transformer(checkpoint(tmp_path, TOKENS, 12, "wte.weight"))
    with pytest.raises(UserError, match="more tokens than the 9 rows"):
        WordVectors.from_transformer(checkpoint(tmp_path, TOKENS, 9, "embeddings.word_embeddings.weight"))
    (tmp_path / "model.safetensors").write_bytes(b"no")
    with pytest.raises(UserError, match="cannot be read"):
        WordVectors.from_transformer(tmp_path)


def test_whole_words_and_unit_length() -> None:
    vectors = WordVectors(["Boston", ",", "the", "new york", "flight"], VECTORS)
    kept = vectors.whole_words()
    assert kept.words == ["the", "flight"]
    np.testing.assert_array_equal(kept.vectors, VECTORS[[2, 4]])
    unit = vectors.normalised()
    np.testing.assert_allclose(np.linalg.norm(unit.vectors, axis=1), 1, rtol=1e-6)
    np.testing.assert_allclose((unit.vectors * VECTORS).sum(1), np.linalg.norm(VECTORS, axis=1), rtol=1e-6)
    with pytest.raises(UserError, match="'to' is zero"):
        WordVectors(WORDS, VECTORS * (np.array(WORDS) != "to")[:, None]).normalised()


def hard_vectors(count: int = 300, dimensions: int = 40) -> WordVectors:
    """Clusters far from the origin, with pairs a hair apart and pairs equal: the worst for products of floats."""
    rng = np.random.default_rng(1)
    vectors = 30 + rng.normal(size=(10, dimensions))[rng.integers(0, 10, count)] + rng.normal(size=(count, 1)) * 1e-2
    vectors[1] = vectors[0]
    vectors[3] = vectors[2] * (1 + 2e-7)
    return WordVectors([f"w{i}" for i in range(count)], vectors)


def test_distances_are_exact_and_independent_of_the_batch() -> None:
    vectors = hard_vectors()
    naive = np.array([[np.sqrt(((a - b) ** 2).sum()) for b in vectors.exact] for a in vectors.exact])
    everything = vectors.distances(np.arange(300))
    np.testing.assert_allclose(everything, naive, rtol=0, atol=1e-11)
    assert (np.diag(everything) == 0).all()
    assert everything[0, 1] == 0
    assert everything[2, 3] > 0
    rows = np.array([200, 2, 2, 7])
    np.testing.assert_array_equal(vectors.distances(rows), everything[rows])
    left, right = np.divmod(np.arange(300 * 300), 300)
    np.testing.assert_allclose(vectors.between(left, right), naive.ravel(), rtol=0, atol=1e-11)


def test_nearest_is_exact_where_single_precision_is_in_doubt() -> None:
    """float32 scores alone name another word for some of these points: the power of the test."""
    vectors = hard_vectors()
    rng = np.random.default_rng(2)
    points = vectors.exact[rng.integers(0, 300, 500)] + rng.normal(size=(500, 40)) * rng.choice(
        [1e-4, 1e-2, 1], (500, 1)
    )
    naive = [int(np.argmin([((p - v) ** 2).sum() for v in vectors.exact])) for p in points]
    assert vectors.nearest(points).tolist() == naive
    assert [int(vectors.nearest(points[i : i + 1])[0]) for i in range(500)] == naive
    single = (vectors.squares / 2).astype(np.float32) - points.astype(np.float32) @ vectors.vectors.T
    assert (single.argmin(1) != naive).sum() > 10
    assert vectors.nearest(vectors.exact[[0, 1]]).tolist() == [0, 0]


def test_encoding_and_decoding() -> None:
    vocabulary = Vocabulary(["unknown", "what", "'s", "flight", "u.s", "7"])
    texts = ["What FLIGHT, 7?", "", "...", "zebra what", "What FLIGHT, 7?"]
    units = vocabulary.encode(texts)
    assert [units.row(i).tolist() for i in range(5)] == [[1, 3, 5], [], [], [0, 1], [1, 3, 5]]
    assert vocabulary.decode(units) == ["what flight 7", "", "", "unknown what", "what flight 7"]
    assert Vocabulary(WORDS).encode(["zebra boston"]).values.tolist() == [0, 3]
    assert len(vocabulary.encode([])) == 0
    assert vocabulary.decode(vocabulary.encode([])) == []


def test_decoding_writes_as_words_do() -> None:
    vocabulary, rng = Vocabulary(WORDS), np.random.default_rng(3)
    lengths = rng.integers(0, 6, 1000)
    units = Ragged.from_lengths(rng.integers(0, 5, lengths.sum()).astype(np.int32), lengths)
    texts = vocabulary.decode(units)
    assert texts == [write(WORDS[u] for u in units.row(i)) for i in range(1000)]
    assert [len(words(text)) for text in texts] == lengths.tolist()
