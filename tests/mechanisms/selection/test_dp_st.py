"""DP-ST: its claim against the exact law, also at adversarial vectors; its law against a slow one; and refusals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chisquare

from epsilometer.attacks.identification.likelihood import LikelihoodAttack
from epsilometer.auditing.claims.verdicts import NOT_REFUTED, VIOLATED
from epsilometer.auditing.claims.worst_case import check_claim
from epsilometer.core.attack import Context
from epsilometer.core.component import build, find
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.selection import dp_st as dp_st_module
from epsilometer.mechanisms.selection.dp_st import DPST
from epsilometer.mechanisms.selection.shared import triples as triples_module
from epsilometer.mechanisms.selection.shared.triples import TripleCorpus
from epsilometer.mechanisms.selection.shared.writer import NoteWriter
from epsilometer.models.locate import locate
from epsilometer.models.seq2seq import assemble
from epsilometer.models.tagging import Triple
from tests.support import tiny_models
from tests.support.places import ROOT
from tests.support.refusals import refused

SENTENCES = [
    "The driver lost my parcel.",
    "My sister loves the garden.",
    "The waiter brought cold soup.",
    "Her doctor prescribed a pill.",
    "The engineer repaired the old boiler.",
    "An airline cancelled our flight.",
    "The baker sold two loaves.",
]
TEXTS = ["My sister sold the garden. She loves cold soup.", "show me flights", "", "The doctor lost two flights."]


class Numbered:
    """Stands in for the tagger and the encoder: a text "3 5" holds the triples 3 and 5, each of a known vector."""

    def __init__(self, vectors: NDArray[np.float32]) -> None:
        self.vectors = vectors

    def triples(self, texts: Sequence[str]) -> list[list[Triple]]:
        return [[Triple(number, "is", number) for number in text.split()] for text in texts]

    def encode(self, triples: Sequence[Triple]) -> NDArray[np.float32]:
        return self.vectors[[int(triple.subject) for triple in triples]]


def seeing(private: NDArray[np.float32], kind: type[DPST] = DPST, **settings: Any) -> DPST:
    """DP-ST over 30 triples of 3 dimensions in 5 clusters, one of them empty, for private triples of known vectors."""
    vectors, centroids, members = public()
    triples = [Triple(f"s{i}", "r", "o") for i in range(30)]
    corpus = TripleCorpus(triples, vectors, {5: centroids}, {5: members}, "none", "none")
    reader = Numbered(private)
    corpus.__dict__.update(reader=reader, encode=reader.encode)
    mechanism = kind(resource=Path("none"), **settings)
    mechanism.__dict__["_corpus"] = corpus
    return mechanism


def public() -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.int32]]:
    """The triples' vectors, the centroids, and the cluster of each triple."""
    rng = np.random.default_rng(0)
    centroids = unit(rng.normal(size=(5, 3))) * np.float32(0.7)
    return unit(rng.normal(size=(30, 3))), centroids, rng.choice([0, 1, 3, 4], 30, p=[0.1, 0.2, 0.3, 0.4]).astype("i4")


def unit(vectors: NDArray[Any]) -> NDArray[np.float32]:
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def law(mechanism: DPST, texts: Sequence[str], epsilon: float) -> NDArray[np.float64]:
    """[texts, slots, outputs]"""
    laws = mechanism.laws(texts)
    (log_p,) = laws.log_probabilities(laws.rows.values, [epsilon])
    return log_p.reshape(len(texts), -1, laws.outputs)


def worst(slots: int, epsilon: float, kind: type[DPST] = DPST) -> float:
    """The largest loss over private vectors that look for it, the empty text among them, and all outputs.

    The vectors point at each public triple and centroid, away from it, and all round. The slots are drawn
    independently, so their losses add up.
    """
    vectors, centroids, _ = public()
    aimed = np.concatenate([vectors, unit(centroids)])
    private = np.concatenate([aimed, -aimed, unit(np.random.default_rng(1).normal(size=(200, 3)))])
    texts = ["", *(" ".join([str(i)] * slots) for i in range(len(private)))]
    log_p = law(seeing(private, kind, triples=slots), texts, epsilon)
    assert log_p.shape == (len(texts), slots, 30)
    return float((log_p.max(axis=0) - log_p.min(axis=0)).max(axis=1).sum())


@pytest.mark.parametrize("slots", [1, 3])
@pytest.mark.parametrize("epsilon", [0.5, 10.0, 400.0])
def test_the_claim_holds_for_texts_as_wholes(slots: int, epsilon: float) -> None:
    """Exact."""
    claim = seeing(np.zeros((1, 3), np.float32), triples=slots).guarantee(epsilon)
    assert claim is not None
    assert worst(slots, epsilon) <= claim.epsilon + 1e-9
    assert worst(slots, epsilon) > 0.49 * epsilon  # the check would detect a law that is flat by mistake


class SensitivityForgotten(DPST):
    """Broken: exp(epsilon u), not exp(epsilon u / 2)."""

    def laws(self, texts: Sequence[str]) -> Any:
        parent = super().laws(texts)
        return replace(
            parent, log_probabilities=lambda rows, epsilons: parent.log_probabilities(rows, [2 * epsilons[0]])
        )


class WithoutSharing(DPST):
    """Broken: every slot spends the whole budget."""

    def _slots(self, texts: Sequence[str]) -> Any:
        slots = super()._slots(texts)
        slots.share[:] = 1
        return slots


@pytest.mark.parametrize("broken", [SensitivityForgotten, WithoutSharing])
def test_a_wrong_budget_is_seen(broken: type[DPST]) -> None:
    """Power: the same check fails."""
    assert worst(3, 10.0, broken) > 10


def test_a_text_falls_into_its_triples() -> None:
    assert seeing(public()[0]).tokens("3 5") == ["3 is 3.", "5 is 5."]


def test_the_law_is_the_slow_one() -> None:
    private = unit(np.random.default_rng(2).normal(size=(4, 3)))
    mechanism, epsilon = seeing(private, triples=2), 30.0
    vectors, centroids, members = public()
    probabilities = np.exp(law(mechanism, ["0 1", "2 3 1", "3", ""], epsilon))

    def utility(a: NDArray[np.float32] | None, b: NDArray[np.float32]) -> float:
        return 0.0 if a is None else max(0.0, float(a @ b) / float(np.linalg.norm(a) * np.linalg.norm(b)))

    held = [(0, 1), (2, 3), (3, None), (None, None)]
    for text, slots in enumerate(held):
        for slot, number in enumerate(slots):
            v = None if number is None else private[number]
            size = [int((members == c).sum()) for c in range(5)]
            weight = [size[c] * math.exp(epsilon / 2 / 2 * utility(v, centroids[c]) / 2) for c in range(5)]
            for y in range(30):
                inside = [math.exp(epsilon / 2 / 2 * utility(v, vectors[i]) / 2) for i in range(30)]
                total = sum(inside[i] for i in range(30) if members[i] == members[y])
                p = weight[members[y]] / sum(weight) * inside[y] / total
                assert probabilities[text, slot, y] == pytest.approx(p, rel=1e-5)
    np.testing.assert_allclose(probabilities[3], 1 / 30)  # an empty slot is a uniform draw


@pytest.mark.parametrize("settings", [{"triples": 2}, {"as_published": True}])
def test_single_entries_are_the_laws(settings: dict[str, Any]) -> None:
    mechanism = seeing(unit(np.random.default_rng(2).normal(size=(5, 3))), **settings)
    laws = mechanism.laws(["0 1", "2", "", "4 3 1", "  "])
    rows = np.unique(laws.rows.values)
    (log_p,) = laws.log_probabilities(rows, [20.0])
    np.testing.assert_allclose(np.exp(log_p).sum(axis=1), 1)
    row, output = np.meshgrid(rows, np.arange(laws.outputs), indexing="ij")
    assert laws.entries is not None
    (entries,) = laws.entries(row.ravel(), [output.ravel()], [20.0])
    np.testing.assert_allclose(entries, log_p[rows].ravel(), rtol=1e-9)


@pytest.mark.parametrize("settings", [{"triples": 2}, {"as_published": True}])
def test_draws_follow_the_law(settings: dict[str, Any]) -> None:
    """Chi-square at 1e-6 for each of two slots: false alarm 2e-6, at a fixed seed."""
    mechanism, count, epsilon = seeing(unit(np.random.default_rng(3).normal(size=(2, 3))), **settings), 6000, 12.0
    rewrites = mechanism.rewrite(["0 1"] * count, epsilon, Noise.named(count, "law"))
    assert rewrites.units is not None
    sequences = rewrites.units.values.reshape(count, 2)
    for slot, log_p in enumerate(law(mechanism, ["0 1"], epsilon)[0]):
        possible = np.isfinite(log_p)
        counts = np.bincount(sequences[:, slot], minlength=len(log_p))
        assert counts[~possible].sum() == 0
        assert chisquare(counts[possible], count * np.exp(log_p[possible])).pvalue > 1e-6


def test_the_likelihood_attack_keeps_below_the_claim_and_catches_the_release() -> None:
    """At a claim of 1 the success rate is at most e / (e + 1) = 0.731; the published form gives itself away.

    False alarm: of 3,000 trials at a true rate of 0.731, 76 % succeed with probability below 3e-4; fixed seed.
    """
    private, count = unit(np.array([[1.0, 0, 0], [-1, 0.1, 0]])), 3000
    source = np.arange(count) % 2
    texts = ["0", "1"]
    rates = []
    for settings in ({"triples": 1}, {"as_published": True}):
        mechanism = seeing(private, **settings)
        rewrites = mechanism.rewrite([texts[i] for i in source], 1.0, Noise.named(count, "audit"))
        context = Context(texts, mechanism, 1.0, Noise.named(count, "attack"), None)
        guess = LikelihoodAttack().guess(rewrites, np.tile([0, 1], (count, 1)), context)
        rates.append((guess == source).mean())
    assert 0.5 < rates[0] < 0.76
    assert rates[1] == 1.0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corpus")
    triples_module.build(SENTENCES, path, triples_module.Clustering([2, 3], dimensions=16))
    return path


def test_texts_become_public_triples(folder: Path) -> None:
    mechanism = DPST(resource=folder, triples=2)
    rewrites = mechanism.rewrite(TEXTS, 1e6, Noise.named(4, "texts"))
    sentences = {" ".join(triple) + "." for triple in mechanism._corpus.triples}
    assert rewrites.units is not None
    assert rewrites.units.lengths.tolist() == [2, 2, 2, 2]  # also for texts without triples
    for text in rewrites.texts:
        parts = [part + "." for part in text.split(". ")]
        assert len(parts) == 2
        assert {part.replace("..", ".") for part in parts} <= sentences


def test_a_rewrite_does_not_depend_on_its_batch_or_grid(folder: Path) -> None:
    mechanism, noise = DPST(resource=folder, triples=2), Noise.named(4, "batch")
    grid = mechanism.rewrite_grid(TEXTS, [1.0, 50.0], [noise, noise])
    for i, text in enumerate(TEXTS):
        for rewrites, epsilon in zip(grid, [1.0, 50.0], strict=True):
            assert mechanism.rewrite([text], epsilon, noise[np.array([i])]).texts[0] == rewrites.texts[i]


def test_the_exact_check_runs_over_whole_texts(folder: Path) -> None:
    finding = check_claim(DPST(resource=folder, triples=3), 20.0)
    assert (finding.method, finding.verdict, finding.claimed) == ("exact", NOT_REFUTED, 20.0)
    assert finding.worst is not None
    assert 2 < finding.worst <= 20


def test_a_triple_with_a_mark_is_no_input(folder: Path) -> None:
    """Its text would be two sentences, hence slots of unlike laws, which the exact check does not take."""
    mechanism = DPST(resource=folder, triples=2)
    odd = [Triple("who", "is", "? it"), *mechanism._corpus.triples]
    mechanism.__dict__["_corpus"] = replace(mechanism._corpus, triples=odd)
    assert len(mechanism.inputs) == len(odd)
    assert not any("?" in text for text in mechanism.inputs)


def test_the_released_form_is_refuted_with_a_witness(folder: Path) -> None:
    mechanism = DPST(resource=folder, as_published=True)
    finding = check_claim(mechanism, 20.0)
    assert (finding.verdict, finding.claimed, finding.worst) == (VIOLATED, 20.0, math.inf)
    assert finding.witness is not None
    x, other, _ = finding.witness
    assert x != other
    assert {x, other} <= set(mechanism.inputs)


def test_the_released_form_returns_texts_without_triples(folder: Path) -> None:
    rewrites = DPST(resource=folder, as_published=True).rewrite(TEXTS, 0.01, Noise.named(4, "as is"))
    assert [rewrites.texts[i] for i in (1, 2)] == [TEXTS[i] for i in (1, 2)]
    assert rewrites.texts[0] != TEXTS[0]
    assert rewrites.units is not None
    assert rewrites.units.lengths.tolist()[1:3] == [1, 1]
    assert rewrites.units.row(1) != rewrites.units.row(2)  # the likelihood distinguishes them


@pytest.mark.slow
def test_a_model_may_write_the_text(folder: Path, tmp_path: Path) -> None:
    trained = ROOT / "data" / "embedded" / "models" / "minilm-seq2seq"
    assemble(trained, locate("all-MiniLM-L6-v2"), tmp_path)
    noise = Noise.named(4, "writer")
    plain = DPST(resource=folder, triples=1).rewrite(TEXTS, 50.0, noise)
    rewrites = DPST(resource=folder, triples=1, writer=str(tmp_path), longest=3).rewrite(TEXTS, 50.0, noise)
    assert rewrites.units is not None
    assert plain.units is not None
    assert rewrites.units.values.tolist() == plain.units.values.tolist()
    assert all(len(text.split()) <= 3 for text in rewrites.texts)  # the longest output is public
    shared = [set(new.split()) & set(old.split()) for new, old in zip(rewrites.texts, plain.texts, strict=True)]
    assert sum(map(bool, shared)) >= 3  # a model that copies keeps most words


@pytest.mark.parametrize(("as_published", "limits"), [(True, [5, 15]), (False, [20, 20])])
def test_the_released_form_writes_as_long_as_its_text(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_published: bool, limits: list[int]
) -> None:
    """So a long output rules a short text out, which no budget pays for; without the form the limit is public."""
    requests: list[list[int]] = []
    monkeypatch.setattr(NoteWriter, "write", lambda self, notes, limits: requests.append(limits) or [*notes])
    model = str(tiny_models.save_llama(tmp_path))
    texts = ["The driver lost my parcel.", "The driver lost my parcel and it was raining all day long in the garden."]
    mechanism = DPST(resource=folder, writer=model, prompt="the {}", longest=20, as_published=as_published)
    mechanism.rewrite(texts, 0.1, Noise.named(2, "length"))
    assert requests == [limits]


@pytest.mark.parametrize("name", tiny_models.SAVE)
def test_writers_of_all_kinds(name: str, tmp_path: Path) -> None:
    """Decoder-only models, with and without a chat template, are asked by an instruction, encoder-decoders by notes."""
    model = tiny_models.SAVE[name](tmp_path)
    writer = NoteWriter(model, "the {}", 4)
    notes = ["a b", "c", "d e f g h", "c"]
    texts = writer.write(notes)
    assert texts[1] == texts[3]
    assert [writer.write([note])[0] for note in notes] == texts
    assert all(len(text.split()) <= 4 for text in texts)
    assert writer.write(notes, [1, 9, 4, 1])[1:3] == texts[1:3]
    assert writer.write(notes, [1, 9, 4, 1])[::3] == [" ".join(text.split()[:1]) for text in texts[::3]]
    assert writer.write([]) == []
    with refused("EPS-M074"):
        NoteWriter(model, "the {}", 4).write([" ".join(["a"] * 200)])
    with refused("EPS-M073"):
        NoteWriter(model, "the notes", 4)


def test_a_writer_must_write(tmp_path: Path) -> None:
    with refused("EPS-M072"):
        NoteWriter(tiny_models.save_bert(tmp_path))


@pytest.mark.parametrize(
    ("settings", "refusal"),
    [
        ({"clusters": 4}, ("EPS-M052", "clusters", "2", "3", "4")),
        ({"triples": 0}, ("EPS-C015", "m.triples", "0")),
        ({"longest": 0}, ("EPS-C015", "m.longest", "0")),
        ({"published": True}, ("EPS-C022", "as_published", "'published'")),
        ({"resource": "nowhere"}, ("EPS-M067", "nowhere")),
    ],
)
def test_what_is_refused(folder: Path, settings: dict[str, Any], refusal: tuple[str, ...]) -> None:
    with refused(*refusal):
        build(find("mechanisms", "dp_st", "rewrite"), {"resource": folder, **settings}, "m").rewrite(
            ["My sister sold the garden."], 1.0, Noise.named(1, "x")
        )


def test_a_text_is_read_once_and_texts_beyond_the_bound_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism = seeing(np.eye(3, dtype=np.float32), triples=1)
    asked_for: list[str] = []
    corpus = mechanism._corpus
    whole = corpus.reader

    class Counted:
        def triples(self, texts: Sequence[str]) -> list[list[Triple]]:
            asked_for.extend(texts)
            return whole.triples(texts)

    corpus.__dict__.update(reader=Counted())
    twice = [mechanism.rewrite(["0 1", "2", "0 1"], 4.0, Noise.named(3, "twice")).texts for _ in range(2)]
    assert twice[0] == twice[1]
    assert asked_for == ["0 1", "2"]
    monkeypatch.setattr(dp_st_module, "_REMEMBERED", 1)
    assert mechanism.rewrite(["0 1", "2", "0 1"], 4.0, Noise.named(3, "twice")).texts == twice[0]
    assert asked_for == ["0 1", "2"] * 2
