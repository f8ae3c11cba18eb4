"""The public corpus of triples: near-duplicates, clusters, reproducible bytes, and refusals."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.selection.dp_st import DPST
from epsilometer.mechanisms.selection.shared import near_duplicates
from epsilometer.mechanisms.selection.shared import triples as shared_triples
from epsilometer.mechanisms.selection.shared.near_duplicates import GRAM, PERMUTATIONS, stand_ins
from epsilometer.mechanisms.selection.shared.triples import (
    Clustering,
    TripleCorpus,
    build,
    cluster,
    embed,
)
from epsilometer.models.tagging import Tagger, Triple
from epsilometer.pipeline.checking import check
from epsilometer.pipeline.params import Params, read
from epsilometer.pipeline.stages import build as build_stage
from tests.support.places import ROOT
from tests.support.refusals import refused
from tests.support.sparing import first

SENTENCES = [
    "The driver lost my parcel.",
    "The driver lost my parcel!",
    "My sister loves the garden.",
    "The waiter brought cold soup.",
    "Her doctor prescribed a pill.",
    "The engineer repaired the old boiler.",
    "An airline cancelled our flight.",
    "The baker sold two loaves.",
    "Birds sing.",
]


def jaccard(left: str, right: str) -> float:
    grams = [{text[i : i + GRAM] for i in range(len(text) - GRAM + 1)} for text in (left, right)]
    return len(grams[0] & grams[1]) / len(grams[0] | grams[1])


@pytest.mark.slow
def test_reading_that_was_killed_goes_on_to_the_same_bytes(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed twice between parts of two texts; what was read is not read again."""
    monkeypatch.setattr(shared_triples, "_PART", 2)
    whole, parsed, left = Tagger.triples, list[str](), 2

    def mortal(reader: Tagger, texts: Sequence[str]) -> list[list[Triple]]:
        nonlocal left
        if not left:
            raise KeyboardInterrupt
        left -= 1
        parsed.extend(texts)
        return whole(reader, texts)

    monkeypatch.setattr(Tagger, "triples", mortal)
    folder = tmp_path / "triples" / "public"
    with pytest.raises(KeyboardInterrupt):
        build(SENTENCES, folder, Clustering([2, 4], dimensions=16))
    left = 1
    with pytest.raises(KeyboardInterrupt):
        build(SENTENCES, folder, Clustering([2, 4], dimensions=16))
    left = 100
    build(SENTENCES, folder, Clustering([2, 4], dimensions=16))
    assert parsed == SENTENCES
    assert [path.name for path in tmp_path.iterdir()] == ["triples"]
    assert (folder / "triples.parquet").read_bytes() == (corpus / "triples.parquet").read_bytes()
    assert (folder / "meta.json").read_bytes() == (corpus / "meta.json").read_bytes()


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("triples") / "public"
    build(SENTENCES, folder, Clustering([2, 4], dimensions=16))
    return folder


def test_a_corpus_from_texts(corpus: Path) -> None:
    loaded = TripleCorpus.load(corpus)
    counts = json.loads((corpus / "meta.json").read_text())["counts"]
    assert counts == {"texts": 9, "texts_with_triples": 8, "triples": 8, "distinct": 7, "kept": 7}
    assert loaded.triples[0] == Triple("the driver", "lost", "my parcel")  # the most frequent
    assert loaded.vectors.shape == (7, 16)
    np.testing.assert_allclose(np.linalg.norm(loaded.vectors, axis=1), 1, rtol=1e-6)
    np.testing.assert_array_equal(loaded.encode(loaded.triples[2:4]), loaded.vectors[2:4])
    for size in (2, 4):
        assert loaded.centroids[size].shape == (size, 16)
        assert sorted(set(loaded.members[size].tolist())) == list(range(size))
    assert loaded.reader.triples(["My sister loves the garden."]) == [[Triple("my sister", "loves", "the garden")]]


def test_the_same_texts_give_the_same_bytes(corpus: Path, tmp_path: Path) -> None:
    build(SENTENCES, tmp_path, Clustering([4, 2], dimensions=16))
    names = sorted(path.relative_to(corpus) for path in corpus.rglob("*") if path.is_file())
    assert len(names) == 9
    for name in names:
        assert (corpus / name).read_bytes() == (tmp_path / name).read_bytes(), name


def test_near_duplicates_fall_to_one_that_stays() -> None:
    """Against exact Jaccard similarities, away from the threshold by more than the estimate's error.

    A MinHash estimate over 128 permutations is off by 0.2 with probability below 1e-4 for a pair (Hoeffding), and the
    index misses a pair of similarity 0.7 with probability below 1e-3; fixed seed.
    """
    words = ["parcel", "garden", "kettle", "invoice", "weather", "museum"]
    base = [f"the {a} keeper | looked after | the {b} downstairs" for a, b in itertools.permutations(words, 2)]
    texts = base + [text.replace("looked", "looks") for text in base] + ["one | is | two", "zebras | eat | grass"]
    representatives = stand_ins(texts, 0.6)
    survivors = set(np.flatnonzero(representatives == np.arange(len(texts))).tolist())
    for i, representative in enumerate(representatives.tolist()):
        assert representative in survivors
        assert representative <= i
        if representative != i:
            assert jaccard(texts[i], texts[representative]) > 0.4
        else:
            assert all(jaccard(texts[i], texts[j]) < 0.8 for j in survivors if j < i)
    assert 2 < len(survivors) < len(texts)
    assert {len(texts) - 2, len(texts) - 1} <= survivors


def test_the_threshold_decides() -> None:
    texts = ["a | b | c", "a | b | d", "a | b | e", "zz"]
    assert stand_ins(texts, 0.95).tolist() == [0, 1, 2, 3]
    assert stand_ins(texts, 0.1).tolist() == [0, 0, 0, 3]
    for threshold in (0.0, 1.0):
        with refused("EPS-M062", "0.95", str(threshold)):
            stand_ins(texts, threshold)


def in_memory(texts: Sequence[str], threshold: float, seed: int) -> list[int]:
    """The stand-ins by one index in memory, text after text."""
    from datasketch import MinHash, MinHashLSH

    index = MinHashLSH(threshold=threshold, num_perm=PERMUTATIONS)
    grams = ([text[i : i + GRAM].encode() for i in range(max(1, len(text) - GRAM + 1))] for text in texts)
    hashes = list(MinHash.generator(grams, num_perm=PERMUTATIONS, seed=seed + 1, scheme="affine32"))
    result = []
    for i, own in enumerate(hashes):
        near = [j for j in index.query(own) if own.jaccard(hashes[j]) >= threshold]
        result.append(min(near, default=i))
        if not near:
            index.insert(i, own, check_duplication=False)
    return result


def phrases() -> list[str]:
    """600 texts, many of them near-duplicates."""
    random = np.random.default_rng(3)
    words = [
        "parcel",
        "garden",
        "kettle",
        "invoice",
        "weather",
        "museum",
        "driver",
        "keeper",
        "lost",
        "lose",
        "the",
        "a",
    ]
    return [" | ".join(" ".join(random.choice(words, 2)) for _ in range(3)) for _ in range(600)]


@pytest.mark.parametrize(("threshold", "part"), first(2, [(0.4, 64), (0.9, 8192), (0.4, 7), (0.7, 100)]))
def test_the_index_on_disk_names_the_same_as_one_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threshold: float, part: int
) -> None:
    """Whatever the size of the parts, with runs that are merged several times; the result alone stays on disk."""
    texts = phrases()
    monkeypatch.setattr(near_duplicates, "_PART", part)
    monkeypatch.setattr(near_duplicates, "_PAIRS", 50)
    ours = stand_ins(texts, threshold, 5, tmp_path / "index")
    assert ours.tolist() == in_memory(texts, threshold, 5)
    assert 20 < len(set(ours.tolist())) < 600
    assert {path.name: path.stat().st_size for path in tmp_path.glob("index/*") if path.suffix != ".json"} == {
        "stand_ins": 8 * 600,
        "hashes": 0,
    }


@pytest.mark.parametrize("step", first(1, ["_merged", "nearest", "_append", "_write", "_forget_the_rest"]))
def test_an_index_that_was_killed_goes_on_to_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Killed in each of its steps, three times one after the other; what was done is not done again."""
    texts, killed, parts = phrases(), 0, [0]
    monkeypatch.setattr(near_duplicates, "_PART", 40)
    whole = stand_ins(texts, 0.7, 5)
    work, nearest = getattr(near_duplicates._Index, step), near_duplicates._Index.nearest

    def counting(index: Any, *arguments: Any) -> Any:
        parts[-1] += 1
        return nearest(index, *arguments)

    def mortal(index: Any, *arguments: Any) -> Any:
        if parts[-1] >= 3 and killed < 3:
            if step == "_append":  # half a part's numbers are written
                work(index, arguments[0], arguments[1][: len(arguments[1]) // 2])
            raise KeyboardInterrupt
        return counting(index, *arguments) if step == "nearest" else work(index, *arguments)

    monkeypatch.setattr(near_duplicates._Index, "nearest", counting)
    monkeypatch.setattr(near_duplicates._Index, step, mortal)
    for killed in range(3):  # noqa: B007  # `mortal` reads it
        with pytest.raises(KeyboardInterrupt):
            stand_ins(texts, 0.7, 5, tmp_path / "index")
        parts.append(0)
    killed = 3
    assert stand_ins(texts, 0.7, 5, tmp_path / "index").tolist() == whole.tolist()
    assert sum(parts) <= 15 + 3
    assert parts[-1] <= 15 - 3 * 2
    again = stand_ins(texts, 0.7, 5, tmp_path / "index")
    assert again.tolist() == whole.tolist()
    other = stand_ins(texts[::-1], 0.7, 5, tmp_path / "index")  # other texts in the same folder
    assert other.tolist() == stand_ins(texts[::-1], 0.7, 5).tolist()


def test_clusters_are_those_of_the_data() -> None:
    rng = np.random.default_rng(0)
    centres = np.eye(3, 8)
    truth = np.arange(300) % 3
    vectors = (centres[truth] + 0.01 * rng.normal(size=(300, 8))).astype(np.float32)
    centroids, members = cluster(vectors, 3)
    assert set(Counter(zip(truth.tolist(), members.tolist(), strict=True)).values()) == {100}
    for number in range(3):
        np.testing.assert_allclose(centroids[number], vectors[members == number].mean(axis=0), atol=0.02)


@pytest.mark.parametrize(
    ("texts", "settings", "refusal"),
    [
        (["Birds sing.", "show me flights"], {"clusters": [1]}, ("EPS-M069", "2")),
        ([], {"clusters": [1]}, ("EPS-M069", "0")),
        (SENTENCES, {"clusters": [2, 8]}, ("EPS-M070", "7", "8")),
        (SENTENCES, {"clusters": [2], "dimensions": 999}, ("EPS-M071", "dimensions", "384", "999")),
    ],
)
def test_what_cannot_become_a_corpus(
    tmp_path: Path, texts: list[str], settings: dict, refusal: tuple[str, ...]
) -> None:
    with refused(*refusal):
        build(texts, tmp_path / "out", Clustering(**settings))
    assert not (tmp_path / "out").exists()


def test_a_folder_that_holds_no_corpus(tmp_path: Path, corpus: Path) -> None:
    with refused("EPS-M067"):
        TripleCorpus.load(tmp_path)
    for path in corpus.iterdir():
        if path.is_file():
            (tmp_path / path.name).write_bytes(path.read_bytes())
    np.save(tmp_path / "members-2.npy", np.zeros(3, np.int32))
    with refused("EPS-M068"):
        TripleCorpus.load(tmp_path)


def test_no_triples_have_no_vectors() -> None:
    from epsilometer.models.encoder import Encoder

    assert embed(Encoder("all-MiniLM-L6-v2"), [], 32).shape == (0, 32)


def stage(folder: Path, monkeypatch: pytest.MonkeyPatch, **corpus: Any) -> Params:
    """A run's folder with the default parameters and a public corpus of triples."""
    raw = yaml.safe_load((ROOT / "profiles/generated.yaml").read_text())
    raw |= {"root": str(ROOT), "triples": {"public": {"corpus": corpus, "clusters": [2, 5]}}}
    (folder / "params.yaml").write_text(yaml.safe_dump(raw))
    monkeypatch.chdir(folder)
    return read()


def test_the_stage_makes_what_the_mechanism_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "public.txt").write_text("\n".join(SENTENCES))
    params = stage(tmp_path, monkeypatch, source=str(tmp_path / "public.txt"))
    check(params)
    build_stage.main("triples-public")
    assert [path.name for path in (tmp_path / "data").glob("triples*")] == ["triples"]
    mechanism = DPST(resource=tmp_path / "data/triples/public", clusters=5)
    assert mechanism.rewrite(SENTENCES[:1], 1.0, Noise.named(1, "stage")).texts[0].count(".") == 2


def test_a_corpus_that_does_not_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    params = stage(tmp_path, monkeypatch, source="nowhere.txt")
    with refused("EPS-P080", "triples.public.corpus.source", "nowhere.txt"):
        check(params)
