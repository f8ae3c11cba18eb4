"""Decepticons: properties that its malicious models have by construction, in both variants."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
import torch

from epsilometer.core.component import build
from epsilometer.studies.training.attacks.reconstruction.decepticons import Decepticons
from epsilometer.studies.training.attacks.reconstruction.shared import bins
from epsilometer.studies.training.attacks.reconstruction.shared.attack import Knowledge
from epsilometer.studies.training.attacks.reconstruction.shared.grouping import assigned, grouped
from epsilometer.studies.training.attacks.reconstruction.shared.superposition import WordsRead, read
from epsilometer.studies.training.attacks.reconstruction.shared.weights import ModelWeights, tensors_of
from epsilometer.studies.training.runs.sent import OnMean, Sent, send
from epsilometer.studies.training.runs.shared_model import SharedModel, Target
from tests.support.refusals import refused
from tests.support.tiny_models import WORDS, save_bert, save_gpt2, save_word_bert

SILENT = OnMean(0.0)
PIECES = [f"w{i}" for i in range(60)]
PUBLIC = [" ".join(PIECES[(7 * i + j * j) % 60] for j in range(6)) for i in range(40)]


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    sizes = {"hidden_size": 64, "num_hidden_layers": 3, "intermediate_size": 256}
    return save_word_bert(tmp_path_factory.mktemp("bert"), PIECES, **sizes)


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_gpt2(tmp_path_factory.mktemp("gpt2"))


def knows(public: list[str], seed: int = 1) -> Knowledge:
    return Knowledge(public, SILENT, np.random.default_rng(seed))


def answer(model: SharedModel, ids: list[list[int]], targets: list[Target]) -> Sent:
    return send(model, ids, targets, SILENT, np.random.default_rng(0))


def test_published_recovers_every_token_that_lies_alone_in_its_bin(bert: Path) -> None:
    """A bin is the step between two rows of a block: the tokens at which the one is open and the next is shut."""
    model = SharedModel(bert, longest=16)
    ready = Decepticons(variant="published").prepare(model, knows(PUBLIC))
    assert isinstance(ready, bins.Bins)
    ids = model.encode([PUBLIC[0], PUBLIC[0], "w3 w14 w15 w9 w26 w5"])  # equal texts share their bins
    inputs: list[list[torch.Tensor]] = [[] for _ in range(ready.blocks)]
    layers = ready.model.network.bert.encoder.layer[: ready.blocks]
    for states, layer in zip(inputs, layers, strict=True):
        layer.intermediate.dense.register_forward_pre_hook(
            lambda _, states_in, to=states: to.append(states_in[0][0].detach())
        )
    with torch.no_grad():
        for text in ids:
            ready.model.network(input_ids=torch.tensor([text]))
    alone = []
    for states, layer in zip(inputs, layers, strict=True):
        every = torch.cat(states)
        is_open = layer.intermediate.dense(every) > 0  # [tokens, rows]
        inside = is_open[:, :-1] & ~is_open[:, 1:]
        alone += [every[inside[:, row]][0].numpy() for row in torch.nonzero(inside.sum(0) == 1).flatten()]
    seen = ready.states(answer(ready.model, ids, [0, 1, 1]))
    assert len(alone) >= 5
    for state in alone:
        assert (np.abs(seen - state).max(1) / np.abs(state).max()).min() < 0.01


@pytest.mark.parametrize("objective", ["classification", "causal"])
def test_published_runs_on_gpt2(gpt2: Path, objective: str) -> None:
    public = ["a b c d e", "the f g h a", "of b d f"]
    model = SharedModel(gpt2, objective=objective, tensors="all", longest=16)
    ready = Decepticons(variant="published").prepare(model, knows(public))
    ids = model.encode(["a c e", "the b d h"])
    reconstruction = ready.reconstruct(
        answer(ready.model, ids, [0, 1] if objective == "classification" else [None, None]), knows([]).generator
    )
    assert len(reconstruction.ids) == 2
    assert reconstruction.notes["tokens"] == sum(map(len, ids))


def test_aware_reads_every_word_without_noise(bert: Path) -> None:
    """Sentences of other labels or lengths come back in order; equal words within and between them do no harm."""
    model = SharedModel(bert, longest=16)
    ready = Decepticons(batch=3).prepare(model, knows(PUBLIC))
    ids = model.encode(["w1 w2 w3 w4 w5", "w2 w2 w9 w40", "w59 w58 w3 w0 w1"])
    reconstruction = ready.reconstruct(answer(ready.model, ids, [0, 1, 1]), knows([]).generator)
    assert reconstruction.ids == tuple(tuple(model.plain(text)) for text in ids)


def test_aware_reads_gpt2(gpt2: Path) -> None:
    public = [" ".join(np.random.default_rng(i).choice(WORDS[5:13], 6)) for i in range(40)]
    model = SharedModel(gpt2, longest=16)
    ready = Decepticons(batch=1).prepare(model, knows(public))
    ids = model.encode(["d b g a h c"])
    reconstruction = ready.reconstruct(answer(ready.model, ids, [1]), knows([]).generator)
    assert reconstruction.ids == (tuple(model.plain(ids[0])),)


def test_aware_reads_what_is_masked_around(tmp_path: Path) -> None:
    model = SharedModel(save_bert(tmp_path), objective="masked", tensors="all", longest=12)
    ready = Decepticons(batch=1).prepare(model, knows(["a b c d", "e f g h"]))
    ids = model.encode(["a d c g"])
    masked, target = [*ids[0]], [-100] * len(ids[0])
    masked[1], target[1] = 2, masked[1]
    reading = ready.reconstruct(answer(ready.model, [masked], [target]), knows([]).generator).ids[0]
    assert [reading[i] for i in (0, 2, 3)] == [ids[0][i] for i in (0, 2, 3)]


def test_aware_reads_all_but_the_last_word_of_a_causal_model(gpt2: Path) -> None:
    model = SharedModel(gpt2, objective="causal", tensors="all", longest=12)  # none of these words is rare
    ready = Decepticons(batch=1).prepare(model, knows(["a b c d", "e f g h"]))
    ids = model.encode(["a d c b e"])[0]
    reading = ready.reconstruct(answer(ready.model, [ids], [None]), knows([]).generator).ids[0]
    assert list(reading[: len(ids) - 2]) == ids[: len(ids) - 2]


@pytest.mark.parametrize("architecture", ["bert", "gpt2"])
def test_the_length_of_the_gradient_is_in_the_rows_that_are_read(architecture: str, bert: Path, gpt2: Path) -> None:
    model = SharedModel(bert if architecture == "bert" else gpt2, tensors="all", longest=16)
    texts = PUBLIC if architecture == "bert" else ["a b c d", "e f g h"]
    ready = Decepticons(batch=2).prepare(model, knows(texts))
    sent = answer(ready.model, model.encode(texts[:1]), [1])
    tensors = tensors_of(ready.model, torch.from_numpy(sent.update))
    weights = ModelWeights(ready.model)
    rows = sum(float(weights.read(tensors, "up.weight", b).double().square().sum()) for b in range(weights.blocks - 1))
    assert rows > 0.99 * float(np.sum(sent.update.astype(np.float64) ** 2))
    assert np.linalg.norm(sent.update) > 1  # so clipping does not shrink the gradient more than needed


def test_a_model_is_refused_by_what_it_lacks(bert: Path, gpt2: Path, tmp_path: Path) -> None:
    shallow = SharedModel(save_word_bert(tmp_path, PIECES), longest=16)
    for variant, alone, unsent, unknown in (
        ("published", "EPS-A024", "EPS-A025", "EPS-A026"),
        ("aware", "EPS-A029", "EPS-A027", "EPS-A031"),
    ):
        with refused(alone):
            Decepticons(variant=variant).prepare(shallow, knows(PUBLIC))
        with refused(unsent, "bert.encoder.layer.0.intermediate.dense"):
            Decepticons(variant=variant, batch=2).prepare(SharedModel(bert, tensors="head", longest=16), knows(PUBLIC))
        with refused(unknown):
            Decepticons(variant=variant, batch=2).prepare(SharedModel(bert, longest=16), knows([]))
    with refused("EPS-C015", "1"):
        build(Decepticons, {"batch": 0}, "reconstruction.decepticons")


def test_words_are_read_in_noise_that_orthogonal_signals_stand() -> None:
    """Three sentences of eight words in 256 dimensions, each word's signal 12 standard deviations of the noise along
    any other: by the union bound over 300 words wrong in at most 24 * 300 * Q(12 / sqrt 2 - 3) < 1e-4 of the runs,
    where 3 allows for codewords that are not quite orthogonal.
    """
    rng = np.random.default_rng(3)
    codes = rng.permuted(np.tile([1.0, -1.0], (300, 128)), axis=1).astype(np.float32)
    gates = np.where(rng.random((3, 9)) < 0.4, 1.0, 0.1)
    words = rng.integers(0, 300, (3, 8))
    rows = np.einsum("sk,spd->pkd", gates, codes[words])
    noise = float(np.linalg.norm(gates, axis=1).min()) * np.sqrt(256) / 12
    rows += noise * rng.standard_normal(rows.shape)
    prior = np.full(300, -np.log(300))
    reading = read(WordsRead(rows.astype(np.float32), codes, prior, noise, lengths=(8, 8, 8), signs=(0, 0, 0)))
    assert sorted(map(tuple, reading)) == sorted(map(tuple, words))


def test_groups_respect_their_sizes_at_the_least_cost() -> None:
    rng = np.random.default_rng(0)
    costs = rng.random((5, 2))
    groups = assigned(costs, [2, 3])
    assert np.bincount(groups).tolist() == [2, 3]
    best = min(costs[range(5), list(order)].sum() for order in {*permutations([0, 0, 1, 1, 1])})
    assert costs[range(5), groups].sum() == pytest.approx(best)
    points = np.repeat([[0.0, 0.0], [9.0, 9.0]], [3, 4], axis=0) + rng.normal(0, 0.1, (7, 2))
    groups = grouped(points, [4, 3], 30, rng)
    assert len({*groups[:3]}) == len({*groups[3:]}) == 1
    assert sorted(np.bincount(groups)) == [3, 4]
    assert (grouped(points, [2, 3], 5, rng) == -1).sum() == 2
