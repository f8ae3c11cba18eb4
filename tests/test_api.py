from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from broken.halved import Halved
from broken.noise_reused import NoiseReused
from broken.rare_words_pass import RareWordsPass

import epsilometer
from epsilometer.attack import Context
from epsilometer.attacks.lexical import LexicalAttack
from epsilometer.claims import NOT_REFUTED, VIOLATED, expected_successes, p_value, trial_claims, verdict
from epsilometer.errors import UserError
from epsilometer.estimation import success_bound
from epsilometer.mechanism import Rewrites
from epsilometer.mechanisms.identity import Identity
from epsilometer.mechanisms.randomized_response import RandomizedResponse
from epsilometer.trials import sample

TEXTS = [f"please book table {i} for {n} people" for i, n in zip(range(30), "abcdefghij" * 3, strict=True)]


@pytest.fixture
def public(tmp_path: Path) -> Path:
    pl.DataFrame({"text": TEXTS}).write_parquet(tmp_path / "texts.parquet")
    return tmp_path / "texts.parquet"


def test_identity_reaches_the_ceiling() -> None:
    found = epsilometer.audit(TEXTS, Identity(), [1.0], ["lexical"], trials=500, temperature=0)
    assert found["loss"].item() == found["ceiling"].item()
    assert found["successes"].item() == 500


def test_a_constant_gives_nothing_away() -> None:
    """Two-sided Clopper-Pearson at 0.01 for each of 2 attacks: false alarm at most 0.01; fixed seed."""

    def constant(text: str, epsilon: float, rng: np.random.Generator) -> str:
        return "no comment"

    found = epsilometer.audit(TEXTS, constant, [0.5], ["lexical", "length"], trials=2000, temperature=0)
    assert found["attack"].to_list() == ["lexical", "length", "strongest"]
    assert found["loss"].to_list() == [0, 0, 0]
    assert found["success_rate"].is_between(0.45, 0.55).all()


def test_columns_and_their_order() -> None:
    found = epsilometer.audit(TEXTS, Identity(), [1, 2], ["lexical", "length", "likelihood"], trials=50, temperature=0)
    assert found.columns == [
        "epsilon", "attack", "trials", "candidates", "successes",
        "success_rate", "loss", "point", "upper", "ceiling",
    ]  # fmt: skip
    names = ("lexical", "length", "strongest")
    assert found.select("epsilon", "attack").rows() == [(e, name) for e in (1, 2) for name in names]


def test_embeddings_choose_candidates_and_attack() -> None:
    queries = ["play some jazz", "will it rain", "wake me at six", "flights to boston", "a table for two", "read it"]
    found = epsilometer.audit(queries, Identity(), [1.0], trials=100, candidates=3)
    assert found.select("attack", "candidates", "success_rate").row(0) == ("embedding", 3, 1.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epsilons": [0]}, "epsilon must be a finite number > 0"),
        ({"epsilons": []}, "epsilons is empty"),
        ({"trials": 0}, "trials must be >= 1"),
        ({"candidates": 1}, "candidates"),
        ({"candidates": 31}, r"number of distinct texts \(30\), got 31"),
        ({"alpha": 1}, "alpha must be in"),
        ({"attacks": ["embeding"]}, "unknown attack 'embeding'; did you mean 'embedding'"),
        ({"attacks": ["lexical", "lexical"]}, "two attacks are named 'lexical'; leave one out"),
        ({"attacks": [LexicalAttack(), LexicalAttack()]}, "two attacks are named 'LexicalAttack'"),
        ({"texts": []}, "there are no texts"),
        ({"texts": "one string"}, "list of strings"),
        ({"texts": ["a", None]}, "every text must be a string, got NoneType"),
        ({"mechanism": 3}, "mechanism must have rewrite"),
    ],
)
def test_bad_input_is_refused_before_a_model_loads(change: dict, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("epsilometer.language.encoder.Encoder", None)
    arguments = {"texts": TEXTS, "mechanism": Identity(), "epsilons": [1.0], **change}
    with pytest.raises(UserError, match=message):
        epsilometer.audit(**arguments)


def test_a_users_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("def rewrite(text, epsilon, rng):\n    return text.upper() if rng.random() < 0.5 else ''\n")
    mine = epsilometer.api.mechanism(str(file))
    found = epsilometer.audit(TEXTS, mine, [1.0], ["lexical"], trials=400, temperature=0)
    assert 0.6 < found["success_rate"].item() < 0.9
    file.write_text("def rewrite(text, epsilon, rng):\n    return None\n")
    with pytest.raises(UserError, match="NoneType where a string is due"):
        epsilometer.audit(TEXTS, epsilometer.api.mechanism(str(file)), [1.0], ["lexical"], trials=4, temperature=0)
    file.write_text("1 +")
    with pytest.raises(UserError, match="cannot be imported: SyntaxError"):
        epsilometer.api.mechanism(str(file))


def judged(mechanism: RandomizedResponse, attack: str) -> str:
    """The verdict on a mechanism's claim of epsilon = 1, as the estimate stage finds it."""
    trials, seed = 20_000, 3
    found = epsilometer.audit(TEXTS, mechanism, [1.0], [attack], trials, temperature=0, alpha=0.01, seed=seed)
    drawn = sample(np.zeros((len(TEXTS), 1), np.float32), trials, 2, 0, seed)
    expected = expected_successes(trial_claims(mechanism, 1.0, TEXTS, drawn.candidates), 2, 0.0)
    return verdict(p_value(found["successes"].item(), trials, expected), 0.01, 1)


def test_the_correct_mechanism_is_not_refuted(public: Path) -> None:
    """A tight claim is rejected with probability at most 0.01 by design; fixed seed."""
    pl.DataFrame({"text": TEXTS[:2]}).write_parquet(public)
    assert judged(RandomizedResponse(resource=public), "lexical") == NOT_REFUTED


@pytest.mark.parametrize("broken", [Halved, RareWordsPass])
def test_mechanisms_broken_on_purpose_are_caught(broken: type[RandomizedResponse], public: Path) -> None:
    """Power: with 20,000 trials on two texts each is caught with probability above 0.999; fixed seed."""
    texts, trials = TEXTS[:2], 20_000
    pl.DataFrame({"text": texts}).write_parquet(public)
    found = epsilometer.audit(texts, broken(resource=public), [1.0], ["lexical"], trials, temperature=0, seed=3)
    expected = trials * np.e / (np.e + 1)
    assert verdict(p_value(found["successes"].item(), trials, expected), 0.01, 1) == VIOLATED


class Agreement:
    """Names the candidate whose two words agree as the rewrite's do."""

    def guess(self, rewrites: Rewrites, candidates: np.ndarray, context: Context) -> np.ndarray:
        alike = np.array([len(set(text.split())) for text in context.texts])
        seen = np.array([len(set(text.split())) for text in rewrites.texts])
        return (alike[candidates] == seen[:, None]).argmax(axis=1).astype(np.int8)


def test_reused_noise_is_caught() -> None:
    """Every guess is right, where the claim of 2 words * 0.1 allows 55 %: certain."""
    found = epsilometer.audit(["yes yes", "yes no"], NoiseReused(), [0.1], [Agreement()], 1000, temperature=0)
    bound = 1000 * success_bound(2 * 0.1, 2)
    assert verdict(p_value(found["successes"].item(), 1000, bound), 0.01, 1) == VIOLATED
