from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from epsilometer.attacks.identification.likelihood import LikelihoodAttack
from epsilometer.auditing.claims.verdicts import VIOLATED, expected_successes, p_value, trial_claims, verdict
from epsilometer.core.attack import Context
from epsilometer.core.component import build, find
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.tokens import dp_paraphrase
from epsilometer.mechanisms.tokens.dp_paraphrase import DPParaphrase
from tests.support import tiny_models
from tests.support.refusals import refused

CLIP = (-0.5, 0.5)
TEXTS = ["a b", "c d", "e f", "h h", "g a", "d e"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.save_gpt2(tmp_path_factory.mktemp("gpt2"))


def attacked(mechanism: DPParaphrase, epsilon: float, count: int = 240) -> tuple[np.ndarray, str]:
    """The optimal adversary between pairs of texts: its likelihoods, and the verdict on the claim."""
    candidates = np.random.default_rng(0).permuted(np.tile(np.arange(len(TEXTS)), (count, 1)), axis=1)[:, :2]
    target = np.arange(count) % 2
    sources = [TEXTS[i] for i in candidates[np.arange(count), target]]
    rewrites = mechanism.rewrite(sources, epsilon, Noise.named(count, "rewrite"))
    (table,) = mechanism.log_likelihoods(TEXTS, candidates, [rewrites], [epsilon])
    guesses = LikelihoodAttack().guess(
        rewrites, candidates, Context(TEXTS, mechanism, epsilon, Noise.named(count, "attack"))
    )
    claims = trial_claims(mechanism, epsilon, TEXTS, candidates)
    right = int((guesses == target).sum())
    return table, verdict(p_value(right, count, expected_successes(claims, 2, 0.0)), 1e-6)


def test_claim_and_prompt(folder: Path) -> None:
    mechanism = DPParaphrase(resource=folder, clip=CLIP, max_new_tokens=8)
    claim = mechanism.guarantee(2.0)
    assert claim is not None
    assert claim.describe() == "2 per token; any two texts"
    assert mechanism.distance(TEXTS, np.array([[0, 1], [3, 3]]), 1.0).tolist() == [8.0, 0.0]
    marker = len(tiny_models.SPECIAL) + tiny_models.WORDS.index(">>>>>")
    assert [ids[-1] for ids in mechanism.prompts(TEXTS)] == [marker] * 6
    assert {len(ids) for ids in mechanism.prompts(TEXTS)} == {3}


def test_every_token_can_come_out(folder: Path) -> None:
    """The claim holds for drawn texts under all candidates; the audit's verdict may err with probability 1e-6."""
    mechanism = DPParaphrase(resource=folder, clip=CLIP, max_new_tokens=3)
    table, outcome = attacked(mechanism, 0.5)
    assert np.isfinite(table).all()
    assert 0.5 < np.abs(table[:, 0] - table[:, 1]).max() <= 3 * 0.5 + 1e-9
    assert outcome != VIOLATED


def test_published_form_is_seen_to_violate_its_claim(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the likeliest tokens of a text come out, so an output can rule the other text out.

    Of this model's 15 tokens as many are kept as makes supports differ; the verdict may err with probability 1e-6.
    """
    assert dp_paraphrase.TOP_K == 50
    monkeypatch.setattr(dp_paraphrase, "TOP_K", 5)
    mechanism = DPParaphrase(resource=folder, clip=(-4.0, 4.0), as_published=True)
    assert mechanism.law.top_k == 5
    table, outcome = attacked(mechanism, 0.1)
    assert (table == -np.inf).any(axis=1).mean() > 0.5
    assert (table.max(axis=1) > -np.inf).all()  # the source itself is always possible
    assert outcome == VIOLATED
    whole = DPParaphrase(resource=folder, clip=(-4.0, 4.0), max_new_tokens=3)
    assert attacked(whole, 0.1)[1] != VIOLATED


def test_settings(folder: Path) -> None:
    with refused("EPS-C015"):
        build(find("mechanisms", "dp_paraphrase", "rewrite"), {"resource": "any", "clip": [2, 1]}, "dp_paraphrase")
    with refused("EPS-C022"):
        build(find("mechanisms", "dp_paraphrase", "rewrite"), {"resource": "any", "chat": True}, "dp_paraphrase")
    with refused("EPS-N007"):
        DPParaphrase(resource=folder).rewrite(["a"], 1.0, Noise.named(1, "x"))


def test_an_encoder_decoder_is_refused(tmp_path: Path) -> None:
    with refused("EPS-N038"):
        DPParaphrase(resource=tiny_models.save_t5(tmp_path), clip=CLIP).rewrite(["a"], 1.0, Noise.named(1, "x"))
