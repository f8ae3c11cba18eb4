from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chisquare

from epsilometer.component import build, find
from epsilometer.errors import UserError
from epsilometer.language.masked_lm import assemble
from epsilometer.language.models import locate
from epsilometer.language.words import words
from epsilometer.mechanisms.dp_mlm import DPMLM
from epsilometer.randomness import Noise

DELTA = Path(__file__).parents[1] / "data" / "embedded" / "models" / "minilm-mlm"
TEXTS = [
    "show me flights from boston to denver",
    "play 17 songs by prince, not by elvis!",
    "the",
    "call O'Brien at 555-0199 about order 48213",
]


@pytest.fixture(scope="module")
def mechanism(tmp_path_factory: pytest.TempPathFactory) -> DPMLM:
    folder = tmp_path_factory.mktemp("minilm-mlm")
    assemble(DELTA, locate("all-MiniLM-L6-v2"), folder)
    return DPMLM(resource=folder)


@pytest.mark.parametrize("epsilon", [0.5, 10.0, 400.0])
def test_a_words_law_keeps_its_claim(mechanism: DPMLM, epsilon: float) -> None:
    """Exact: over all pairs of (text, position) and all outputs, log P(y | x, i) - log P(y | x', j) <= epsilon."""
    laws = mechanism.laws(TEXTS)
    (log_p,) = laws.log_probabilities(np.arange(len(laws.rows.values)), [epsilon])
    np.testing.assert_allclose(np.exp(log_p).sum(axis=1), 1, rtol=1e-9)
    spread = log_p.max(axis=0) - log_p.min(axis=0)
    assert spread.max() <= epsilon + 1e-9
    assert spread.max() > epsilon / 4  # the check would see a law that is flat by mistake


def test_the_claim_breaks_without_clipping(mechanism: DPMLM) -> None:
    """Power: with bounds narrower than the scaling assumes, the same check fails."""
    laws = mechanism.laws(TEXTS)
    low, high = mechanism._clip
    model = mechanism._model
    places = np.stack([laws.rows.row_numbers, laws.rows.positions], axis=1)
    split = [["show", "me", "flights", "from", "boston", "to", "denver"]]
    utility = model.mask_logits(split, places[:7]).astype(float)  # not clipped
    scaled = utility * (10 / (2 * (high - low) / 4))
    log_p = (
        scaled - np.log(np.exp(scaled - scaled.max(1, keepdims=True)).sum(1, keepdims=True)) - scaled.max(1)[:, None]
    )
    assert (log_p.max(axis=0) - log_p.min(axis=0)).max() > 10


def test_draws_follow_the_law(mechanism: DPMLM) -> None:
    """Chi-square at 1e-6 over the 15 likeliest outputs and the rest: false alarm 1e-6, at a fixed seed."""
    count = 4000
    made = mechanism.rewrite(["the"] * count, 60.0, Noise.named(count, "law"))
    assert made.units is not None
    (log_p,) = mechanism.laws(["the"]).log_probabilities(np.array([0]), [60.0])
    best = np.argsort(-log_p[0])[:15]
    expected = np.exp(log_p[0, best])
    found = [(made.units.values == b).sum() for b in best]
    assert chisquare([*found, count - sum(found)], count * np.append(expected, 1 - expected.sum())).pvalue > 1e-6


def test_a_rewrite_does_not_depend_on_its_batch_or_grid(mechanism: DPMLM) -> None:
    noise = Noise.named(4, "batch")
    grid = mechanism.rewrite_grid(TEXTS, [1.0, 50.0], [noise, noise])
    for i, text in enumerate(TEXTS):
        for made, epsilon in zip(grid, [1.0, 50.0], strict=True):
            assert mechanism.rewrite([text], epsilon, noise[np.array([i])]).texts[0] == made.texts[i]


def test_nothing_passes_through(mechanism: DPMLM) -> None:
    """Names, numbers and stop-words are no exception: at epsilon 0.01 a word survives with probability 1/29,000.

    Of 120 words, 2 or more survive with probability below 1e-5; fixed seed.
    """
    texts = TEXTS * 5
    made = mechanism.rewrite(texts, 0.01, Noise.named(len(texts), "pass"))
    pieces = mechanism._model.outputs
    kept = [word == pieces[u] for i, t in enumerate(texts) for word, u in zip(words(t), made.units.row(i), strict=True)]
    assert len(kept) == 120
    assert sum(kept) < 2


def test_as_many_units_as_words_and_the_claim_counts_them(mechanism: DPMLM) -> None:
    made = mechanism.rewrite([*TEXTS, "", "?!"], 10.0, Noise.named(6, "units"))
    assert made.units is not None
    assert made.units.lengths.tolist() == [7, 8, 1, 8, 0, 0]
    pairs = np.array([[0, 1], [1, 3], [0, 0]])
    assert mechanism.distance(TEXTS, pairs).tolist() == [np.inf, 8, 7]
    claim = mechanism.guarantee(2.0)
    assert claim is not None
    assert (claim.epsilon, claim.delta) == (2.0, 0.0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"clip": [3, 1]}, "clip must be"),
        ({"clipp": [1, 3]}, "did you mean 'clip'"),
        ({"precision": "float16"}, "precision"),
    ],
)
def test_settings_are_checked_before_a_model_loads(settings: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        build(find("mechanisms", "dp_mlm", "rewrite"), {"resource": "any", **settings}, "mechanisms.dp_mlm.settings")


def test_a_model_path_that_does_not_exist() -> None:
    with pytest.raises(UserError, match="nowhere"):
        DPMLM(resource="./nowhere").rewrite(["a b"], 1.0, Noise.named(1, "x"))
