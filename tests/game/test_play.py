"""The game, beside each attack called by itself."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from epsilometer.auditing.text_audit import as_mechanism, chosen_attacks
from epsilometer.core.attack import Context, guess_and_score
from epsilometer.core.likelihood import computed
from epsilometer.core.mechanism import Mechanism, Rewrites
from epsilometer.core.randomness import Noise
from epsilometer.game.play import Knowledge, play

TEXTS = ["no", "yes", "perhaps"]
TRIALS, SEED = 200, 3
CANDIDATES = Noise.named(TRIALS, SEED, "pairs").uniforms(3).argsort(axis=1)[:, :2].astype(np.int32)
EPSILONS = [0.5, 2.0]


def streams(attack: str, epsilon: float) -> Noise:
    return Noise.named(TRIALS, SEED, attack, epsilon)


@pytest.fixture(scope="module")
def mechanism() -> Mechanism:
    return as_mechanism("randomized_response", None, TEXTS)


@pytest.fixture(scope="module")
def outputs(mechanism: Mechanism) -> dict[float, Rewrites]:
    sources = [TEXTS[i] for i in CANDIDATES[:, 0]]
    return {at: mechanism.rewrite(sources, at, Noise.named(TRIALS, SEED, "rewrite", at)) for at in EPSILONS}


@pytest.mark.parametrize("shown", [True, False], ids=["likelihoods", "no likelihoods"])
def test_each_attack_guesses_as_it_does_alone(
    mechanism: Mechanism, outputs: dict[float, Rewrites], shown: bool
) -> None:
    attacks = chosen_attacks(["likelihood", "lexical", "length"])
    tables = computed(mechanism, TEXTS, CANDIDATES, list(outputs.values()), epsilons=EPSILONS)
    knowledge = Knowledge(TEXTS, CANDIDATES, mechanism, likelihoods=tables if shown else None)
    played = play(knowledge, outputs, attacks, streams)
    assert [*played] == EPSILONS
    for epsilon, table in zip(EPSILONS, tables, strict=True):
        assert [*played[epsilon]] == [*attacks]
        for name, attack in attacks.items():
            context = Context(
                TEXTS, mechanism, epsilon, streams(name, epsilon), log_likelihoods=table if shown else None
            )
            (alone,) = guess_and_score(attack, [outputs[epsilon]], CANDIDATES, [context])
            guesses = played[epsilon][name]
            np.testing.assert_array_equal(guesses.slots, alone.slots)
            np.testing.assert_array_equal(guesses.scores, alone.scores)
            assert (guesses.posteriors is None) == (not shown)


def test_an_attack_gets_one_stream_an_epsilon(mechanism: Mechanism, outputs: dict[float, Rewrites]) -> None:
    asked_for: Counter[tuple[str, float]] = Counter()

    def counting(attack: str, epsilon: float) -> Noise:
        asked_for[attack, epsilon] += 1
        return streams(attack, epsilon)

    attacks = chosen_attacks(["lexical", "length"])
    play(Knowledge(TEXTS, CANDIDATES, mechanism), outputs, attacks, counting)
    assert asked_for == {(name, epsilon): 1 for name in attacks for epsilon in EPSILONS}


def test_an_attack_gets_all_epsilons_at_once(mechanism: Mechanism, outputs: dict[float, Rewrites]) -> None:
    calls = []

    class Grid:
        def guess(self, rewrites, candidates, context):  # type: ignore[no-untyped-def]
            raise AssertionError("the grid is preferred")

        def guess_grid(self, rewrites, candidates, contexts):  # type: ignore[no-untyped-def]
            calls.append([context.epsilon for context in contexts])
            return [np.zeros(len(candidates), np.int16) for _ in rewrites]

    play(Knowledge(TEXTS, CANDIDATES, mechanism), outputs, {"grid": Grid()}, streams)
    assert calls == [EPSILONS]
