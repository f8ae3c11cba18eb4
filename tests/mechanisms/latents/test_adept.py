"""ADePT: its sensitivity and densities satisfy its claim exactly, and its audit agrees with the losses of Gaussians."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from epsilometer.attacks.identification.internal import InternalAttack
from epsilometer.attacks.identification.likelihood import LikelihoodAttack
from epsilometer.auditing.claims.verdicts import pair_claims
from epsilometer.auditing.estimation.successes import estimate
from epsilometer.auditing.text_audit import Pool, attacked
from epsilometer.auditing.trials.rewriting import Job, rewrite_all
from epsilometer.auditing.trials.sampling import Trials
from epsilometer.core.component import build, find
from epsilometer.core.guarantees import Granularity, Neighbours
from epsilometer.core.mechanism import HasLatents, HasLikelihood, RewritesGrid
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.latents.adept import ADePT
from epsilometer.mechanisms.latents.shared.autoencoder import Autoencoder, AutoencoderTraining, Shape, quality, train
from epsilometer.mechanisms.latents.shared.noise import Gaussian, gaussian_log_delta
from epsilometer.text.vectors import WordVectors
from tests.support.refusals import refused
from tests.support.sparing import first

WHO, WHAT, WHERE = (
    ["i", "you", "we", "they", "she"],
    ["see", "want", "like", "find", "need"],
    ["boston", "paris", "rome", "home", "denver"],
)
TEXTS = [f"{a} {b} {c}" for a in WHO for b in WHAT for c in WHERE]
SHAPE = Shape(hidden=24, dimensions=16, longest=6, clip=2.0)
HOW = AutoencoderTraining(words=40, steps=250, batch=16, rate=1e-2, dropped=0.1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    autoencoder, record = train(TEXTS, SHAPE, HOW)
    assert record["word_accuracy"] > 0.7
    path = tmp_path_factory.mktemp("autoencoder")
    autoencoder.save(path)
    return path


def test_words_come_back_in_their_places_anywhere_or_not_at_all() -> None:
    sources, rebuilt = ["i see rome", "we want home", "they like paris"], ["i see rome", "want we home", "they find"]
    stub: Any = SimpleNamespace(
        encode=lambda texts: np.zeros((len(texts), 16), np.float32), decode=lambda latents: rebuilt, shape=SHAPE
    )
    record = quality(stub, sources)
    assert record == {"held_out_texts": 3, "word_accuracy": 0.5556, "words_kept": 0.7778, "exact": 0.3333}


def make(folder: Path, **settings: object) -> ADePT:
    mechanism: ADePT = build(find("mechanisms", "adept", "rewrite"), {"resource": folder, **settings}, "adept")
    return mechanism


def extreme(mechanism: ADePT, vectors: np.ndarray) -> np.ndarray:
    """The latents that the mechanism makes of whatever its encoder might give."""
    stub = SimpleNamespace(encode=lambda texts: vectors.astype(np.float32), shape=SHAPE, width=vectors.shape[1])
    mechanism.__dict__["_model"] = stub
    return mechanism.latents([""] * len(vectors)).astype(np.float64)


def corners(columns: int) -> np.ndarray:
    """Opposite corners, axes, and random directions, from tiny to huge."""
    random = np.random.default_rng(0).normal(size=(40, columns))
    signs = np.sign(random)
    rows = np.concatenate([signs, -signs, np.eye(columns), -np.eye(columns), random, np.zeros((1, columns))])
    return np.concatenate([rows * size for size in (1e-3, 1.0, 1e6)])


@pytest.mark.parametrize("epsilon", first(1, [0.5, 10.0, 2500.0]))
def test_gaussian_noise_keeps_the_claim_for_any_two_latents(folder: Path, epsilon: float) -> None:
    """Exact: the privacy profile at the used sigma and the largest distance that any two latents can have."""
    mechanism = make(folder)
    law = mechanism.law(epsilon)
    corner = extreme(mechanism, corners(48))
    farthest = max(np.linalg.norm(row - corner, axis=1).max() for row in corner)
    claim = mechanism.guarantee(epsilon)
    assert claim is not None
    assert isinstance(law, Gaussian)
    assert 0.999 * 2 * SHAPE.clip < farthest <= 2 * SHAPE.clip
    assert math.exp(gaussian_log_delta(claim.epsilon, law.scale / farthest)) <= claim.delta
    assert math.exp(gaussian_log_delta(claim.epsilon, law.scale / (1.01 * farthest))) > claim.delta  # no slack


def worst_loss(mechanism: ADePT, epsilon: float) -> float:
    """The largest log-ratio of densities at one of two latents; for Laplace noise no output is worse."""
    corner = extreme(mechanism, corners(48))
    law = mechanism.law(epsilon)
    return max(float((law.log_density(0 * row) - law.log_density(row - corner)).max()) for row in corner)


@pytest.mark.parametrize("epsilon", [0.5, 10.0, 2500.0])
def test_laplace_noise_keeps_the_claim_for_any_two_latents(folder: Path, epsilon: float) -> None:
    mechanism = make(folder, noise="laplace")
    claim = mechanism.guarantee(epsilon)
    assert claim is not None
    assert claim.delta == 0
    assert 0.999 * epsilon < worst_loss(mechanism, epsilon) <= epsilon


@pytest.mark.parametrize("epsilon", [0.5, 10.0, 2500.0])
def test_the_published_form_loses_sqrt_n_times_its_claim(folder: Path, epsilon: float) -> None:
    """Habernal 2021: between opposite corners of the ball, n = 48."""
    published = make(folder, noise="laplace", as_published=True)
    assert published.guarantee(epsilon) == make(folder, noise="laplace").guarantee(epsilon)
    assert worst_loss(published, epsilon) == pytest.approx(epsilon * math.sqrt(48), rel=1e-3)


def test_the_claim_covers_any_two_texts(folder: Path) -> None:
    claim = make(folder, delta=1e-6).guarantee(3.0)
    assert claim is not None
    assert (claim.granularity, claim.neighbours, claim.delta) == (Granularity.DOCUMENT, Neighbours.ANY, 1e-6)
    assert pair_claims(make(folder), 3.0, ["a", "much longer text"], np.array([[0, 1]])).tolist() == [3.0]


def audit(mechanism: ADePT, epsilons: list[float], count: int) -> tuple[dict[tuple[float, str], int], np.ndarray]:
    """Successes of both attacks by epsilon; and the latents of the two candidates of each trial."""
    random = np.random.default_rng(3)
    candidates = np.array([random.choice(len(TEXTS), 2, replace=False) for _ in range(count)])
    trials = Trials(candidates, random.integers(0, 2, count))
    streams = [Noise.named(count, "audit", epsilon) for epsilon in epsilons]
    grid = rewrite_all(mechanism, Job(TEXTS, trials.source, epsilons, streams))
    attacks = {"internal": InternalAttack(), "likelihood": LikelihoodAttack()}
    rewrites = dict(zip(epsilons, grid, strict=True))
    table = attacked(Pool(TEXTS), trials, rewrites, attacks, mechanism)
    successes = {(row["epsilon"], row["attack"]): row["successes"] for row in table.iter_rows(named=True)}
    return successes, mechanism.encode(TEXTS)[candidates]


def test_the_audit_finds_what_gaussian_noise_must_give(folder: Path) -> None:
    """The optimal adversary is right with probability Phi(||x - x'|| / 2 sigma) in each trial: exact.

    2,000 trials within 5 standard deviations at each of four epsilons: false alarm below 3e-6; fixed seed.
    """
    epsilons, count = [0.1, 1.0, 10.0, 40.0], 2000
    mechanism = make(folder)
    successes, pairs = audit(mechanism, epsilons, count)
    distance = np.linalg.norm(pairs[:, 0].astype(float) - pairs[:, 1], axis=1)
    for epsilon in epsilons:
        right = norm.cdf(distance / (2 * mechanism.law(epsilon).scale))
        spread = math.sqrt((right * (1 - right)).sum())
        assert abs(successes[epsilon, "likelihood"] - right.sum()) < 5 * spread
        # So the loss stays below the claim, which this adversary could reach only on the farthest pair.
        assert estimate(successes[epsilon, "likelihood"], count, delta=mechanism.delta).loss <= epsilon
        assert successes[epsilon, "internal"] <= successes[epsilon, "likelihood"] + 5 * math.sqrt(count) / 2


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_losses_go_from_nothing_to_the_ceiling(folder: Path, noise: str) -> None:
    """Nothing at a tiny epsilon (a loss is seen by chance once in 200 seeds), nearly all at a huge one; ascending.

    Ascending fails by chance with probability below 1e-6: neighbours are 5 standard deviations apart. Fixed seed.
    """
    epsilons, count = [0.01, 20.0, 3000.0], 1000
    successes, _ = audit(make(folder, noise=noise), epsilons, count)
    for attack in ("internal", "likelihood"):
        small, middle, large = (successes[epsilon, attack] for epsilon in epsilons)
        assert estimate(small, count).loss == 0
        assert middle > small + 5 * math.sqrt(count / 2)
        assert large >= 0.99 * count > middle


def test_a_rewrite_does_not_depend_on_its_batch_or_grid(folder: Path) -> None:
    mechanism, texts = make(folder), [*TEXTS[:70], "we", "", TEXTS[0]]
    assert isinstance(mechanism, RewritesGrid | HasLatents)
    assert isinstance(mechanism, HasLikelihood)
    noise = Noise.named(len(texts), "batch")
    grid = mechanism.rewrite_grid(texts, [5.0, 200.0], [noise, noise])
    for epsilon, rewrites in zip([5.0, 200.0], grid, strict=True):
        for i in (0, 7, 70, 71, 72):
            alone = mechanism.rewrite([texts[i]], epsilon, noise[np.array([i])])
            assert alone.texts[0] == rewrites.texts[i]
            assert alone.latents is not None
            assert rewrites.latents is not None
            np.testing.assert_array_equal(alone.latents.after[0], rewrites.latents.after[i])
    assert grid[0].texts[0] != grid[0].texts[72]  # equal texts have different noise


def test_without_noise_to_speak_of_texts_come_back(folder: Path) -> None:
    rewrites = make(folder).rewrite(TEXTS, 1e7, Noise.named(len(TEXTS), "back"))
    assert np.mean([a == b for a, b in zip(rewrites.texts, TEXTS, strict=True)]) > 0.8


def test_words_outside_the_vocabulary_are_one_symbol_and_never_come_out(folder: Path) -> None:
    mechanism = make(folder)
    latents = mechanism.latents(["i see mumbai", "i see 555-0199", "I SEE, mumbai!", "i see", ""])
    np.testing.assert_array_equal(latents[0], latents[2])
    assert not np.array_equal(latents[0], latents[3])
    np.testing.assert_array_equal(latents[1], mechanism.latents(["i see x x"])[0])
    long = mechanism.latents([" ".join(["we"] * 6), " ".join(["we"] * 60)])  # longer texts are truncated
    np.testing.assert_array_equal(long[0], long[1])
    rewrites = mechanism.rewrite(["mumbai"] * 50, 100.0, Noise.named(50, "unknown"))
    assert {word for text in rewrites.texts for word in text.split()} <= set(mechanism._model.vocabulary)


def test_an_empty_output_stays_empty_or_is_unk_as_published(folder: Path) -> None:
    for published, text in ((False, ""), (True, "UNK")):
        mechanism = make(folder, noise="laplace", as_published=published)
        mechanism.__dict__["_model"] = SimpleNamespace(decode=lambda latents: ["", "a"])
        assert mechanism.decoded(np.zeros((2, 48), np.float32)) == [text, "a"]


def test_training_is_the_same_under_its_seed_and_survives_the_disk(folder: Path, tmp_path: Path) -> None:
    short = AutoencoderTraining(words=40, steps=5, batch=8)
    (first, record), (second, again) = (train(TEXTS, SHAPE, short) for _ in range(2))
    first.save(tmp_path / "a")
    second.save(tmp_path / "b")
    for name in ("config.json", "vocabulary.json", "model.safetensors"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert record == again
    np.testing.assert_array_equal(Autoencoder.load(tmp_path / "a").encode(TEXTS[:3]), first.encode(TEXTS[:3]))
    other, _ = train(TEXTS, SHAPE, AutoencoderTraining(words=40, steps=5, batch=8, seed=1))
    assert not np.array_equal(other.encode(TEXTS[:3]), first.encode(TEXTS[:3]))


def test_a_folder_that_is_no_autoencoder(folder: Path, tmp_path: Path) -> None:
    with refused("EPS-M039", "config.json", "epsilometer pipeline stage build autoencoders"):
        make(tmp_path).rewrite(["a"], 1.0, Noise.named(1, "x"))
    for name in ("config.json", "vocabulary.json", "model.safetensors"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    (tmp_path / "vocabulary.json").write_text('["too", "few"]')
    with refused("EPS-M040"):
        make(tmp_path).rewrite(["a"], 1.0, Noise.named(1, "x"))
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with refused("EPS-M040"):
        make(tmp_path).rewrite(["a"], 1.0, Noise.named(1, "x"))


def test_too_few_texts_to_learn_from() -> None:
    with refused("EPS-M042", "20", "3"):
        train(TEXTS[:3], SHAPE, HOW)


@pytest.mark.parametrize(
    ("settings", "refusal"),
    [
        ({"clip": 0}, ("EPS-C015", "adept.clip", "0")),
        ({"clip": float("nan")}, ("EPS-C015", "adept.clip", "nan")),
        ({"delta": 0}, ("EPS-C015", "adept.delta", "(0, 1)")),
        ({"delta": 1.5}, ("EPS-C015", "adept.delta", "(0, 1)", "1.5")),
        ({"noise": "uniform"}, ("EPS-C015", "adept.noise", "uniform")),
        ({"as_published": True}, ("EPS-C015", "as_published", "noise: laplace")),
    ],
)
def test_settings_are_checked_before_the_model_loads(settings: dict, refusal: tuple[str, ...]) -> None:
    with refused(*refusal):
        make(Path("nowhere"), **settings)


@pytest.mark.parametrize("epsilon", [0, -1, math.inf, math.nan])
def test_an_epsilon_that_is_none(folder: Path, epsilon: float) -> None:
    for noise in ("gaussian", "laplace"):
        with refused("EPS-M045", "0"):
            make(folder, noise=noise).rewrite(["a"], epsilon, Noise.named(1, "x"))


def test_frozen_word_vectors(folder: Path) -> None:
    """As in the paper, with GloVe: the vocabulary is theirs, and training leaves them as they are."""
    random = np.random.default_rng(0)
    vectors = WordVectors([*WHO, *WHERE, "zebra"], random.normal(size=(11, 16)))
    model, record = train(TEXTS, SHAPE, AutoencoderTraining(steps=3, batch=8), vectors)
    assert set(model.vocabulary) == {*WHO, *WHERE}
    assert record["vocabulary"] == 10
    row = model.words.weight[model.number["paris"]].numpy()
    vector = vectors.vectors[vectors.words.index("paris")]
    assert np.corrcoef(row, vector)[0, 1] == pytest.approx(1)
    with refused("EPS-M041", "16"):
        train(TEXTS, Shape(dimensions=8), AutoencoderTraining(steps=1), vectors)
    with refused("EPS-M043"):
        train(TEXTS, SHAPE, HOW, WordVectors(["x", "y"], np.eye(2, 16)))
