"""Word vectors and vocabularies: formats, errors, exact geometry, and texts to numbers and back."""

from __future__ import annotations

import gzip
import json
import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from epsilometer.core.ragged import Ragged
from epsilometer.mechanisms.words.shared.vocabulary import Vocabulary
from epsilometer.text import vector_files
from epsilometer.text.vectors import WordVectors
from epsilometer.text.words import words, write
from tests.support.refusals import refused

if TYPE_CHECKING:
    from transformers import PreTrainedModel

WORDS = ["the", "flight", "to", "boston", "7"]
VECTORS = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)


def lines(*rows: str) -> str:
    return "".join(row + "\n" for row in rows)


ROWS = [word + "".join(f" {value:.9g}" for value in vector) for word, vector in zip(WORDS, VECTORS, strict=True)]


def test_npz_and_the_text_formats_give_the_same(tmp_path: Path) -> None:
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
    ("content", "refusal"),
    [
        ("", ("EPS-D061",)),
        (lines(*ROWS, "short 1 2"), ("EPS-D059", "line 6", "3")),
        (lines(*ROWS, "long 1 2 3 4"), ("EPS-D059", "line 6", "3", "5")),
        (lines("5 2", *ROWS), ("EPS-D059", "line 2", "4")),
        (lines("5 0", *WORDS), ("EPS-D059", "line 2")),
        ("5 3", ("EPS-D060", "5", "0")),
        (lines(*ROWS, "huge 1e39 1 2"), ("EPS-D072", "huge")),
        (lines(*ROWS[:2], "", *ROWS[2:]), ("EPS-D059", "line 3")),
        (lines(*ROWS, "word 1 2 x3"), ("EPS-D059", "line 6", "x3")),
        (lines("6 3", *ROWS), ("EPS-D060", "6", "5")),
        (lines("5 4", *ROWS), ("EPS-D059", "line 2", "4")),
        (lines(*ROWS, ROWS[0]), ("EPS-D071", "'the'", "2")),
        (lines(*ROWS, "void 1 nan 2"), ("EPS-D072", "void")),
        (lines(ROWS[0]), ("EPS-D070", "2")),
    ],
)
def test_damaged_text_is_refused_with_its_place(tmp_path: Path, content: str, refusal: tuple[str, ...]) -> None:
    (tmp_path / "vectors.txt").write_text(content)
    with refused(*refusal, whole=False):
        WordVectors.load(tmp_path / "vectors.txt")


def test_an_archive_that_becomes_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EPSILOMETER_UNPACKED_BYTES", "1000000")
    np.savez_compressed(tmp_path / "vectors.npz", words=np.array(["a"]), vectors=np.zeros((1, 1 << 20), np.float32))
    with refused("EPS-C047", "1000000"):
        WordVectors.load(tmp_path / "vectors.npz")


def test_damaged_archives_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "vectors.npz"
    with refused("EPS-D073"):
        WordVectors.load(path)
    np.savez(path, words=np.array(WORDS))
    with refused("EPS-D077"):
        WordVectors.load(path)
    np.savez(path, words=np.array(WORDS, object), vectors=VECTORS)
    with refused("EPS-D078"):
        WordVectors.load(path)
    np.savez(path, words=np.array(WORDS[:4]), vectors=VECTORS)
    with refused("EPS-D069"):
        WordVectors.load(path)
    WordVectors(WORDS, VECTORS).save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:100] + b"\xff" * 20 + whole[120:])
    with refused("EPS-D078"):
        WordVectors.load(path)
    path.write_bytes(whole[: len(whole) // 2])
    with refused("EPS-D078"):
        WordVectors.load(path)
    np.savez(path, words=np.array([word.encode() for word in WORDS]), vectors=VECTORS)
    with refused("EPS-D074"):
        WordVectors.load(path)
    np.savez(path, words=np.array(WORDS), vectors=np.array([["x"]] * 5))
    with refused("EPS-D068"):
        WordVectors.load(path)


def test_arrays_that_do_not_fit_are_refused() -> None:
    with refused("EPS-D069", "5"):
        WordVectors(WORDS, VECTORS[:, 0])
    with refused("EPS-D068"):
        WordVectors(WORDS, [[1, 2], [1], [1, 2], [1, 2], [1, 2]])  # type: ignore[arg-type]
    for value in (np.nan, np.inf, -np.inf):
        broken = VECTORS.copy()
        broken[3, 1] = value
        with refused("EPS-D072", "boston", "4", "1"):
            WordVectors(WORDS, broken)


def binary(words: list[str], vectors: np.ndarray, end: bytes = b"") -> list[bytes]:
    """word2vec's binary format: its first line and its records."""
    records = [w.encode() + b" " + v.astype("<f4").tobytes() + end for w, v in zip(words, vectors, strict=True)]
    return [b"%d %d\n" % vectors.shape, *records]


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_word2vec_binary(tmp_path: Path, end: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values whose bytes are spaces and line feeds too, with records across the borders of what is read at once."""
    monkeypatch.setattr(vector_files, "_CHUNK", 1000)
    rng = np.random.default_rng(4)
    bits = rng.choice(np.frombuffer(b"\n 01\x80\x3f", np.uint8), (3000, 4 * 7))
    names = [f"w{i}" * rng.integers(1, 9) for i in range(2998)] + ["naïve", "日本"]
    vectors = bits.view("<f4").astype(np.float32)
    (tmp_path / "file").write_bytes(b"".join(binary(names, vectors, end)))
    read = WordVectors.load(tmp_path / "file")
    assert read.words == names
    np.testing.assert_array_equal(read.vectors, vectors)


RECORDS = binary(WORDS, VECTORS)


@pytest.mark.parametrize(
    ("content", "refusal"),
    [
        (b"".join(RECORDS[:-1]), ("EPS-D062", "5 words", "3 dimensions", "word 5:")),
        (b"".join(RECORDS)[:-1], ("EPS-D062", "word 5:")),
        (b"".join(RECORDS[:3]) + b"bos", ("EPS-D062", "word 3:")),
        (b"".join([b"999999999999 3\n", *RECORDS[1:]]), ("EPS-D062", "999999999999 words", "word 6:")),
        (b"".join([b"5 999999999999\n", *RECORDS[1:]]), ("EPS-D062", "999999999999 dimensions", "word 1:")),
        (b"".join([b"4 3\n", *RECORDS[1:]]), ("EPS-D064", "4 words", "word 4;")),
        (b"".join([b"5 2\n", *RECORDS[1:]]), ("EPS-D063", "5 words", "2 dimensions", "word 2 ")),
        (b"".join([*RECORDS[:2], b"caf\xe9 ", RECORDS[2][-12:], *RECORDS[3:]]), ("EPS-D063", "word 2 ", r"caf\xe9")),
        (RECORDS[0] + RECORDS[1] + b"x" * 5000, ("EPS-D063", "word 2 ", "4096")),
        (b"".join(binary(["a", "b", "a"], VECTORS[:3])), ("EPS-D071", "'a'", "2")),
        (b"".join(binary(["a", "b"], np.array([[1, 2], [np.nan, 0]]))), ("EPS-D072", "'b' (entry 2)")),
        (np.random.default_rng(5).bytes(5000), ("EPS-D056",)),
        (RECORDS[1] + RECORDS[2] + np.zeros(3).tobytes(), ("EPS-D056",)),
        (gzip.compress("\n".join(ROWS).encode()), ("EPS-D056",)),
        ("\n".join(ROWS).encode("utf-16"), ("EPS-D056",)),
        (lines("5 3", *ROWS[:4], "café 1 2 3").encode("latin-1"), ("EPS-D058", "line 6", r"b'caf\xe9'")),
        (lines("café 1 2 3", *ROWS).encode("latin-1"), ("EPS-D058", "line 1")),
        *((pickle.dumps({"vectors": [1]}, protocol), ("EPS-D055", "save_word2vec_format")) for protocol in range(2, 6)),
    ],
)
def test_damaged_and_foreign_bytes_are_refused(tmp_path: Path, content: bytes, refusal: tuple[str, ...]) -> None:
    (tmp_path / "vectors.bin").write_bytes(content)
    with refused(*refusal, "vectors.bin", whole=False):
        WordVectors.load(tmp_path / "vectors.bin")


def test_gensim_vectors_in_memory() -> None:
    read = WordVectors.from_gensim(SimpleNamespace(index_to_key=WORDS, vectors=VECTORS))
    assert read.words == WORDS
    np.testing.assert_array_equal(read.vectors, VECTORS)
    with refused("EPS-D075", "wv"):
        WordVectors.from_gensim(SimpleNamespace(wv=read))


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
    with refused("EPS-D065"):
        WordVectors.from_transformer(tmp_path)
    vocabulary = {token: i for i, token in enumerate(TOKENS)}
    (tmp_path / "tokenizer.json").write_text(json.dumps({"model": {"vocab": vocabulary}}))
    assert WordVectors.from_transformer(tmp_path).words == vectors.words


TEXTS = [
    f"{a} {b} {c}" for a in ("the", "a", "this") for b in ("flight", "flights", "flying") for c in ("to", "7", ".")
]


def learn(kind: str) -> tuple[Tokenizer, str]:
    """A small tokeniser of its kind, learnt from TEXTS or written by hand, and how it marks the start of a word."""
    if kind == "bert":
        tokenizer, mark = Tokenizer(models.WordPiece(unk_token="[UNK]")), ""
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        trainer: trainers.Trainer = trainers.WordPieceTrainer(
            vocab_size=60, special_tokens=["[PAD]", "[UNK]", "Ġ", "▁to"]
        )
    elif kind == "gpt2":
        tokenizer, mark = Tokenizer(models.BPE()), "Ġ"
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
        trainer = trainers.BpeTrainer(vocab_size=40, special_tokens=["<|endoftext|>"])
    else:
        whole = [("▁", -9.0), *((f"▁{word}", -2.0) for word in ("the", "to", "7", "flight", "."))]
        inner = [(piece, -5.0) for piece in ("s", "ing", *"abcdefghijklmnopqrtuvwxyz7.")]
        tokenizer = Tokenizer(models.Unigram([("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), *whole, *inner], 2, False))
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
        return tokenizer, "▁"
    tokenizer.train_from_iterator(TEXTS, trainer)
    return tokenizer, mark


def transformer(kind: str) -> PreTrainedModel:
    """A small model of its kind, with random weights."""
    import transformers as hf

    torch.manual_seed(0)
    if kind == "bert":
        sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
        return hf.BertForMaskedLM(hf.BertConfig(vocab_size=64, **sizes))
    if kind == "gpt2":
        return hf.GPT2LMHeadModel(hf.GPT2Config(vocab_size=64, n_embd=8, n_layer=1, n_head=2, n_positions=16))
    return hf.T5ForConditionalGeneration(
        hf.T5Config(vocab_size=64, d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2, decoder_start_token_id=0)
    )


@pytest.mark.parametrize("kind", ["bert", "gpt2", "t5"])
def test_whole_words_of_transformers_as_they_are_saved(tmp_path: Path, kind: str) -> None:
    tokenizer, mark = learn(kind)
    model = transformer(kind)
    rows = model.get_input_embeddings().weight.detach()
    for name, size in (("whole", "1GB"), ("shards", "2KB")):
        model.save_pretrained(tmp_path / name, max_shard_size=size)
        tokenizer.save(str(tmp_path / name / "tokenizer.json"))
    assert len(list((tmp_path / "shards").glob("*.safetensors"))) > 1
    read = WordVectors.from_transformer(tmp_path / "whole")
    ids = [tokenizer.token_to_id(mark + word) for word in read.words]
    assert ids == sorted(ids)
    np.testing.assert_array_equal(read.vectors, rows[ids].numpy())

    # All words of the texts that are single tokens, and no piece from within a word.
    single = {word for text in TEXTS for word in text.split() if len(tokenizer.encode(word).ids) == 1} - {"."}
    assert {"the", "to", "7"} <= single <= set(read.words)
    assert not {"pad", "unk", "endoftext", "."} & set(read.words)
    if mark:
        inner = {token for token in tokenizer.get_vocab() if words(token) == [token]}
        alone = inner - {token.removeprefix(mark) for token in tokenizer.get_vocab() if token.startswith(mark)}
        assert len(alone) > 1
        assert not alone & set(read.words)

    shards = WordVectors.from_transformer(tmp_path / "shards")
    assert shards.words == read.words
    np.testing.assert_array_equal(shards.vectors, read.vectors)

    if kind == "gpt2":  # NumPy has no bfloat16
        model.to(torch.bfloat16).save_pretrained(tmp_path / "whole")
        half = WordVectors.from_transformer(tmp_path / "whole").vectors
        np.testing.assert_array_equal(half, rows[ids].to(torch.bfloat16).float().numpy())


def test_of_equal_words_the_lower_id_is_kept(tmp_path: Path) -> None:
    checkpoint(tmp_path, TOKENS, 12, "shared.weight")
    (tmp_path / "vocab.txt").unlink()
    vocabulary = [["<pad>", 0.0], ["▁to", -1.0], ["▁the", -2.0], ["▁to", -3.0], ["to", -4.0]]
    (tmp_path / "tokenizer.json").write_text(json.dumps({"model": {"type": "Unigram", "vocab": vocabulary}}))
    read = WordVectors.from_transformer(tmp_path)
    assert read.words == ["to", "the"]
    np.testing.assert_array_equal(read.vectors[:, 0], [2, 4])


def test_the_encoders_embeddings_come_first(tmp_path: Path) -> None:
    checkpoint(tmp_path, TOKENS, 12, "decoder.embed_tokens.weight")
    decoder = WordVectors.from_transformer(tmp_path).vectors
    both = {"decoder.embed_tokens.weight": np.zeros((12, 2)), "encoder.embed_tokens.weight": np.ones((12, 2))}
    save_file(both, tmp_path / "model.safetensors")
    assert (WordVectors.from_transformer(tmp_path).vectors == 1).all()
    np.testing.assert_array_equal(decoder[:, 0], [4, 8, 16, 20, 22])


def test_a_folder_that_is_no_checkpoint_is_refused(tmp_path: Path) -> None:
    with refused("EPS-D067"):
        WordVectors.from_transformer(checkpoint(tmp_path, TOKENS, 12, "lm_head.weight"))
    with refused("EPS-D057", "9"):
        WordVectors.from_transformer(checkpoint(tmp_path, TOKENS, 9, "embeddings.word_embeddings.weight"))
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(b"no")
    with refused("EPS-D066", "Error while deserializing header: header too small"):
        WordVectors.from_transformer(tmp_path)
    weights.unlink()
    with refused("EPS-D066", ")); give a checkpoint"):
        WordVectors.from_transformer(tmp_path)
    for index in ("{", "[]", "{}", json.dumps({"weight_map": {"wte.weight": "model-1.safetensors"}})):
        (tmp_path / "model.safetensors.index.json").write_text(index)
        with refused("EPS-D066", "safetensors", "save_pretrained"):
            WordVectors.from_transformer(tmp_path)
    (tmp_path / "vocab.txt").write_bytes(b"caf\xe9\n")
    with refused("EPS-D065"):
        WordVectors.from_transformer(tmp_path)
    (tmp_path / "vocab.txt").unlink()
    for content in ("{", "[]", "{}", '{"model": {"vocab": [1, 2]}}'):
        (tmp_path / "tokenizer.json").write_text(content)
        with refused("EPS-D065", "tokenizer.json", "save_pretrained"):
            WordVectors.from_transformer(tmp_path)


def test_whole_words_and_unit_length() -> None:
    vectors = WordVectors(["Boston", ",", "the", "new york", "flight"], VECTORS)
    whole = vectors.whole_words()
    assert whole.words == ["the", "flight"]
    np.testing.assert_array_equal(whole.vectors, VECTORS[[2, 4]])
    unit = vectors.normalised()
    np.testing.assert_allclose(np.linalg.norm(unit.vectors, axis=1), 1, rtol=1e-6)
    np.testing.assert_allclose((unit.vectors * VECTORS).sum(1), np.linalg.norm(VECTORS, axis=1), rtol=1e-6)
    with refused("EPS-D076", "to"):
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


@pytest.mark.parametrize("targets", [1, 2, 5, 31, 32, 33, None])
@pytest.mark.parametrize("dimensions", [1, 25, 50, 300])
def test_a_distance_has_the_same_bits_in_every_call(dimensions: int, targets: int | None) -> None:
    vectors = hard_vectors(dimensions=dimensions)
    rows, to = np.arange(100, 200), None if targets is None else np.arange(targets) * 7
    everything = vectors.distances(rows, to)
    for count in [*range(1, 20), 63, 64, 65]:
        np.testing.assert_array_equal(vectors.distances(rows[:count], to), everything[:count])
        np.testing.assert_array_equal(vectors.distances(rows[-count:], to), everything[-count:])


@pytest.mark.parametrize("rare", [0.0, 1 / 256, 1.0])  # filter by first dimensions: never, by default, always
@pytest.mark.parametrize("radius", [0.0, 1e-3, 0.5, 3.0, 1e3])
def test_no_near_word_is_left_out(radius: float, rare: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("epsilometer.text.vectors._COLUMNS", 64)
    monkeypatch.setattr("epsilometer.text.vectors._HEAD", 3)
    monkeypatch.setattr("epsilometer.text.vectors._RARE", rare)
    vectors = hard_vectors()
    words = np.array([0, 2, 3, 250, 17] * 200)  # more words than fit into one product
    place, word = vectors.near(words, radius)
    pairs = np.zeros((len(words), len(vectors)), bool)
    pairs[place, word] = True
    distances = vectors.distances(words)
    assert pairs[distances <= radius].all()
    assert len(place) == pairs.sum()
    assert not pairs[distances > np.sqrt(radius**2 + 2)].any()  # the margin is small compared with lengths of 190


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


@pytest.mark.parametrize(("scale", "away"), [(1.0, 0.0), (1e-3, 0.0), (1.0, 1e3)])
@pytest.mark.parametrize("size", [2, 70, 200])
def test_a_survey_is_every_words_neighbours_and_the_extremes_of_all_pairs(scale: float, away: float, size: int) -> None:
    """By brute force in float64, to rounding; far from the origin single precision leaves nearly all pairs in doubt."""
    draw = np.random.default_rng(size)
    vectors = WordVectors([f"w{i}" for i in range(size)], scale * (away + draw.normal(size=(size, 7))))
    count = min(size, 9)
    near, far, low, high = vectors.survey(count)
    assert np.array_equal(near[:, 0], np.arange(size))
    alone, distances = vectors.neighbours(vectors.exact, count)
    assert np.array_equal(near, alone)
    assert np.array_equal(far, distances)
    pairs = np.linalg.norm(vectors.exact[:, None] - vectors.exact, axis=2)
    assert np.allclose(far, np.sort(pairs, axis=1)[:, :count], rtol=1e-12, atol=0)
    others = pairs[~np.eye(size, dtype=bool)]
    assert (low, high) == pytest.approx((others.min(), others.max()), rel=1e-12)


def test_equal_vectors_are_no_distance_apart() -> None:
    """Where the first two neighbours of a word are two others."""
    rows = np.array([[1.0, 2.0], [1.0, 2.0], [4.0, 6.0], [1.0, 2.0]])
    assert WordVectors(["a", "b", "c", "d"], rows).survey(2)[2:] == (0.0, 5.0)


class Shared(Vocabulary):
    """A vocabulary that another thread uses as soon as a text is read."""

    def __setattr__(self, name: str, value: object) -> None:
        elsewhere = (["others"], Ragged.of([[7]]))
        super().__setattr__(name, elsewhere if name == "_last" and value is not None else value)


def test_a_vocabulary_that_threads_share_gives_each_its_own_texts() -> None:
    assert Shared(["a", "b"]).encode(["b a b"]).values.tolist() == [1, 0, 1]
