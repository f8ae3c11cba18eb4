"""PrivFill's variant of DP-Prompt: its blanks, its law over all outputs, and its claims."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from epsilometer.auditing.claims.verdicts import pair_claims
from epsilometer.core.guarantees import Granularity, Neighbours
from epsilometer.core.mechanism import Rewrites
from epsilometer.core.ragged import Ragged
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.tokens.privfill import PrivFill
from tests.support import tiny_models

CLIP = (-0.5, 0.5)  # narrower than the logits, so that both clip bounds are reached
TEXTS = ["a b!", "a b! c d!", "e! f g! h!", ""]  # a letter before a full stop would be an initial


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.SAVE["t5"](tmp_path_factory.mktemp("t5"))


def make(folder: Path, **settings: object) -> PrivFill:
    return PrivFill(**{"resource": folder, "clip": CLIP, "max_new_tokens": 1, **settings})  # type: ignore[arg-type]


def outputs(mechanism: PrivFill, blanks: int) -> Rewrites:
    """Every output of one token a blank."""
    every = list(product(mechanism._filler.model.outputs.tolist(), repeat=blanks))
    return Rewrites([""] * len(every), Ragged.of(every))


def table(mechanism: PrivFill, possible: Rewrites, epsilon: float) -> NDArray[np.float64]:
    candidates = np.tile(np.arange(len(TEXTS)), (len(possible.texts), 1))
    (log_p,) = mechanism.log_likelihoods(TEXTS, candidates, [possible], [epsilon])
    return log_p


def test_a_blank_for_each_sentence_or_for_a_public_number(folder: Path) -> None:
    published, corrected = make(folder, as_published=True), make(folder)
    assert published.blanked("A b! C d.") == ["[blank] C d.", "A b! [blank]"]
    assert published.blanked("Yes. Yes.") == ["[blank] [blank]"] * 2  # blanks every occurrence of the sentence
    assert published.blanked("") == ["[blank]"]
    assert corrected.blanked("Yes. Yes.") == ["[blank] Yes.", "Yes. [blank]"]
    assert corrected.blanked("A b!") == ["[blank]", "A b! [blank]"]
    assert corrected.blanked("A! B! C!") == ["[blank] B! C!", "A! [blank] C!"]


def test_claims(folder: Path) -> None:
    pairs = np.array([[0, 0], [0, 1], [1, 2]])
    claim = make(folder).guarantee(3.0)
    assert claim is not None
    assert (claim.epsilon, claim.granularity, claim.neighbours) == (3, Granularity.TOKEN, Neighbours.ANY)
    assert pair_claims(make(folder, max_new_tokens=4), 3.0, TEXTS, pairs).tolist() == [0, 24, 24]
    assert pair_claims(make(folder, as_published=True), 3.0, TEXTS, pairs).tolist() == [0, 6, 9]


@pytest.mark.parametrize("epsilon", [0.5, 6.0])
def test_all_outputs_of_the_corrected_form_sum_to_one_and_keep_the_claim(folder: Path, epsilon: float) -> None:
    mechanism = make(folder)
    log_p = table(mechanism, outputs(mechanism, 2), epsilon)
    np.testing.assert_allclose(np.exp(log_p).sum(axis=0), 1, atol=1e-6)
    largest = max(float((a - b).max()) for a in log_p.T for b in log_p.T)
    assert 0.1 * epsilon < largest <= 2 * epsilon + 1e-6  # more than one epsilon would not be seen for one blank


def test_two_blanks_lose_more_than_one_epsilon(folder: Path) -> None:
    """One epsilon for the whole text, as the package's `privatize(text, epsilon)` could be read, does not hold."""
    mechanism = make(folder, clip=(-0.05, 0.05))
    log_p = table(mechanism, outputs(mechanism, 2), 6.0)
    assert max(float((a - b).max()) for a in log_p.T for b in log_p.T) > 6.0


def test_the_published_number_of_blanks_rules_texts_out(folder: Path) -> None:
    """Two tokens, neither the end: impossible for a text of one sentence, whatever the model."""
    mechanism = make(folder, as_published=True)
    for blanks, possible in ((1, [0, 3]), (2, [1]), (3, [2])):
        log_p = table(mechanism, outputs(mechanism, blanks), 1.0)
        np.testing.assert_allclose(np.exp(log_p[:, possible]).sum(axis=0), 1, atol=1e-6)
        assert np.isneginf(np.delete(log_p, possible, axis=1)).all()


@pytest.mark.parametrize("as_published", [True, False])
def test_draws_follow_the_likelihood(folder: Path, as_published: bool) -> None:
    """Of 1,000 rewrites of one text, each output's count is within six standard deviations."""
    mechanism, count = make(folder, as_published=as_published), 1000
    rewritten = mechanism.rewrite([TEXTS[1]] * count, 4.0, Noise.named(count, "privfill")).units
    assert rewritten is not None
    assert set(rewritten.lengths.tolist()) == {2}
    possible = outputs(mechanism, 2)
    assert possible.units is not None
    expected = np.exp(table(mechanism, possible, 4.0)[:, 1]) * count
    size = int(max(possible.units.values)) + 1
    seen, every = (each.values.reshape(-1, 2) @ [size, 1] for each in (rewritten, possible.units))
    counts = np.array([(seen == output).sum() for output in every])
    assert counts.sum() == count
    assert (np.abs(counts - expected) <= 6 * np.sqrt(expected) + 6).all()


def test_texts_and_units_belong_together_at_several_epsilons(folder: Path) -> None:
    mechanism, texts = make(folder, as_published=True, max_new_tokens=3), [*TEXTS, TEXTS[2]]
    grid = mechanism.rewrite_grid(texts, [1.0, 50.0], [Noise.named(5, "a"), Noise.named(5, "b")])
    alone = mechanism.rewrite(texts[2:3], 50.0, Noise.named(5, "b")[2:3])
    assert alone.texts == [grid[1].texts[2]]
    for rewrites in grid:
        assert rewrites.units is not None
        for row, text in enumerate(texts):
            parts = mechanism._parts(rewrites.units.row(row))
            assert len(parts) == len(mechanism.blanked(text))
            written = [mechanism._filler.model.text(np.array(part)) for part in parts]
            assert rewrites.texts[row] == " ".join(written)
    assert mechanism.rewrite(["a b!"], 9.0, Noise.operating_system(1)).units is not None
