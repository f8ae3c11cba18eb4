from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from epsilometer.attacks.identification import channel
from epsilometer.attacks.identification.channel import ChannelAttack
from epsilometer.core.attack import Context
from epsilometer.core.component import IDENTIFICATION, build, find
from epsilometer.core.mechanism import Rewrites
from epsilometer.core.randomness import Noise
from epsilometer.models.seq2seq import Seq2Seq
from tests.support import tiny_models
from tests.support.refusals import refused

TEXTS = ["a b", "c d e", "f", "g h a b c", "e e"]
REWRITES = ["a b", "h", "c d", "", "a b", "g g g g", "f e", "a"]
CANDIDATES = np.array([[0, 1, 2], [1, 4, 3], [1, 2, 0], [2, 3, 4], [0, 1, 2], [3, 1, 0], [4, 3, 2], [2, 0, 1]])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.save_t5(tmp_path_factory.mktemp("t5"))


def context(texts: list[str], count: int, name: str = "attack") -> Context:
    return Context(texts, None, 1.0, Noise.named(count, name))


def slow_score(model: Seq2Seq, rewrite: str, candidate: str) -> float:
    """The naive twin: the model's own logits over the outputs, one pair, one input at a time."""
    target = [*model.plain(candidate), model.end]

    def log_probability(source: str) -> float:
        decoder = torch.tensor([[model.start, *target[:-1]]])
        with torch.inference_mode():
            logits = model.network(input_ids=torch.tensor(model.tokens([source])), decoder_input_ids=decoder).logits[0]
        law = logits[:, model.outputs].double().log_softmax(-1)
        places = np.searchsorted(model.outputs, target)
        return float(law[np.arange(len(target)), places].sum())

    return log_probability(rewrite) - log_probability("")


def test_equals_a_slow_loop(folder: Path) -> None:
    model = Seq2Seq(folder)
    table = np.array(
        [[slow_score(model, y, TEXTS[i]) for i in row] for y, row in zip(REWRITES, CANDIDATES, strict=True)]
    )
    attack = ChannelAttack(model=str(folder))
    source, target = np.repeat(np.arange(len(REWRITES)), 3), CANDIDATES.ravel()
    computed = attack._log_probabilities(REWRITES, TEXTS, source, target)
    alone = attack._log_probabilities([""], TEXTS, np.zeros(5, int), np.arange(5))
    assert (computed - alone[target]).reshape(table.shape) == pytest.approx(table, abs=0.02)
    clear = np.ptp(np.sort(table, axis=1)[:, -2:], axis=1) > 0.1
    assert clear.sum() > 4
    guesses = attack.guess(Rewrites(REWRITES), CANDIDATES, context(TEXTS, len(REWRITES)))
    assert (guesses == table.argmax(axis=1))[clear].all()


def test_a_guess_does_not_feel_its_batch(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    attack, whole = ChannelAttack(model=str(folder)), context(TEXTS, len(REWRITES))
    guesses = attack.guess(Rewrites(REWRITES), CANDIDATES, whole)
    part = np.array([6, 2, 5])
    few = Context(TEXTS, None, 1.0, whole.noise[part])
    assert (attack.guess(Rewrites([REWRITES[i] for i in part]), CANDIDATES[part], few) == guesses[part]).all()
    monkeypatch.setattr(channel, "_PAIRS", 5)
    grid = attack.guess_grid([Rewrites(REWRITES), Rewrites(REWRITES[::-1])], CANDIDATES, [whole, whole])
    assert (grid[0] == guesses).all()


def test_ties_are_broken_by_the_stream(folder: Path) -> None:
    """An empty rewrite says nothing: 400 guesses among two candidates, off their mean by 60 with probability 2e-9."""
    attack, count = ChannelAttack(model=str(folder)), 400
    guesses = attack.guess(Rewrites([""] * count), np.tile([0, 1], (count, 1)), context(TEXTS, count))
    assert abs(int(guesses.sum()) - count // 2) < 60


def test_embedded_model_names_sources() -> None:
    """Damaged rewrites of unlike requests; chance would name 11 of 12 with probability 0.003."""
    sources = [
        "show me the cheapest flight from boston to denver",
        "what is the weather like in paris tomorrow",
        "book a table for two at an italian restaurant",
        "play some music by the beatles please",
    ]
    damaged = ["cheapest flight to denver", "weather in paris", "a table at a restaurant for two", "play beatles music"]
    pairs = [(i, j) for i in range(4) for j in range(4) if i != j]
    candidates = np.array([pair if n % 2 else pair[::-1] for n, pair in enumerate(pairs)])
    target = np.array([0 if n % 2 else 1 for n in range(len(pairs))])
    rewrites = Rewrites([damaged[i] for i, _ in pairs])
    guesses = ChannelAttack().guess(rewrites, candidates, context(sources, len(pairs)))
    assert (guesses == target).sum() >= 11


def test_settings(tmp_path: Path) -> None:
    with refused("EPS-C022"):
        build(find(IDENTIFICATION, "channel", "guess"), {"modle": "x"}, "attacks.channel")
    with refused("EPS-N038"):
        ChannelAttack(model=str(tiny_models.save_gpt2(tmp_path))).guess(
            Rewrites(["a"]), np.array([[0, 1]]), context(TEXTS, 1)
        )
