"""A generator trained by DP-SGD: its gradients, coins and noise, an audit by canaries in one run, and its claim."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from epsilometer.accounting.budget import gaussian_for
from epsilometer.accounting.schedule import Poisson
from epsilometer.auditing.claims.verdicts import VIOLATED
from epsilometer.auditing.corpora.checks import check
from epsilometer.auditing.corpora.publishing import Publication, statement_of
from epsilometer.core.component import CORPORA, build, find
from epsilometer.core.corpus_mechanism import PrivateCorpus, Release
from epsilometer.core.errors import UserError
from epsilometer.core.guarantees import Granularity, Neighbours
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.corpora.private_generator import PrivateGenerator
from epsilometer.mechanisms.corpora.shared.private_steps import PrivateSteps, noise_for
from epsilometer.studies.training.one_run.scores import one_run
from tests.support.corpora import PUBLIC, TOPICS
from tests.support.refusals import refused

NAMES = tuple(TOPICS)
CANARIES, EPSILON, DELTA = 1000, 1.0, 1e-6
ALPHA, GUESSES = 0.002, 200
STEPS = PrivateSteps(Poisson(200, 20, 5), sigma=2.0, clip=0.5)


class Fake:
    """A language model without language. The gradient of text `i` is 1,000 along number i of its prompt."""

    width = CANARIES

    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        return [[int(text.split()[-1])] for text in texts]

    def means(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.zeros((len(texts), self.width), np.float32)

    def gradients(self, prompts: NDArray[np.float32], rows: Sequence[list[int]]) -> NDArray[np.float32]:
        out = np.zeros_like(prompts)
        out[np.arange(len(rows)), [row[0] for row in rows]] = 1000.0
        return out

    def write(self, prompts: NDArray[np.float32], generator: np.random.Generator) -> list[str]:
        return ["a text" if i else "" for i in range(len(prompts))]


def generator(kind: type[PrivateGenerator] = PrivateGenerator, **settings: object) -> PrivateGenerator:
    mechanism = kind(**{"resource": PUBLIC, "delta": DELTA, **settings})
    vars(mechanism)["language"] = Fake()
    return mechanism


def corpus(*numbers: int, people: Sequence[str] | None = None) -> PrivateCorpus:
    return PrivateCorpus([f"text {number}" for number in numbers], people, None)


class LittleNoise(PrivateGenerator):
    def steps(self, units: int, epsilon: float) -> PrivateSteps:
        right = super().steps(units, epsilon)
        return PrivateSteps(right.schedule, right.sigma / 10, right.clip)


class EveryoneInEachStep(PrivateGenerator):
    """A sampling that is not by coins; the noise is that for coins."""

    def steps(self, units: int, epsilon: float) -> PrivateSteps:
        right = super().steps(units, epsilon)

        class Whole(PrivateSteps):
            def batch(self, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
                return np.arange(count)

        return Whole(right.schedule, right.sigma, right.clip)


class Unclipped(PrivateGenerator):
    def steps(self, units: int, epsilon: float) -> PrivateSteps:
        right = super().steps(units, epsilon)

        class Free(PrivateSteps):
            def clipped(self, gradients: NDArray[np.float32]) -> NDArray[np.float64]:
                return gradients.astype(np.float64)

        return Free(right.schedule, right.sigma, right.clip)


class SpentInEachEpoch(PrivateGenerator):
    """The noise of one epoch, in each of 30."""

    def steps(self, units: int, epsilon: float) -> PrivateSteps:
        single = Poisson(self.schedule(units).texts, self.schedule(units).batch, 1)
        sigma = noise_for(epsilon, self.delta, single, neighbours=Neighbours(self.neighbours), size=CANARIES)
        return PrivateSteps(self.schedule(units), sigma, self.clip)


def verdict(kind: type[PrivateGenerator], epochs: int, seed: int) -> str:
    """The verdict of one training with canaries whose gradients are orthogonal, scored by the trained prompt."""
    coins = np.random.default_rng(seed).random(CANARIES) < 0.5
    audited = generator(kind, neighbours="added or removed", people=500, epochs=epochs)
    noise = Noise.named(1, "canaries", seed)
    prompt = audited.trained(corpus(*np.flatnonzero(coins).tolist()), EPSILON, noise.generator(0))
    scores = -prompt[coins], -prompt[~coins]
    table = one_run(*scores, DELTA, claim=[(EPSILON, DELTA)], alpha=ALPHA, guesses=GUESSES, seed=seed)
    return str(table["verdict"][0])


@pytest.mark.parametrize("epochs", [3, 30])
def test_canaries_do_not_refute_the_claim(epochs: int) -> None:
    """False alarm at most .001 a run, by the level of the test."""
    assert verdict(PrivateGenerator, epochs, 0) != VIOLATED


@pytest.mark.parametrize(
    ("kind", "epochs"), [(LittleNoise, 3), (EveryoneInEachStep, 3), (Unclipped, 3), (SpentInEachEpoch, 30)]
)
def test_canaries_refute_a_training_that_breaks_its_claim(kind: type[PrivateGenerator], epochs: int) -> None:
    """Seeded, so the outcome is fixed."""
    assert verdict(kind, epochs, 1) == VIOLATED


def test_an_update_is_the_clipped_sum_over_the_public_number_with_noise_of_its_deviation() -> None:
    gradients = np.zeros((3, 100_000), np.float32)
    gradients[0, 0], gradients[1, 1], gradients[2, 2] = 0.3, -7.0, np.nan
    assert np.allclose(STEPS.clipped(gradients)[:, :3], np.diag([0.3, -0.5, 0.0]))
    update = STEPS.update(gradients, np.random.default_rng(0))
    signal = STEPS.update(np.zeros_like(gradients), np.random.default_rng(0)) - update
    assert signal[:3] * -20 == pytest.approx([0.3, -0.5, 0.0], abs=1e-5)
    assert np.std(update) == pytest.approx(2.0 * 0.5 / 20, rel=0.015)  # 100,000 numbers: false alarm below 1e-9
    assert STEPS.update(np.zeros((0, 5), np.float32), np.random.default_rng(0)).any()  # of nobody


def test_each_person_enters_a_step_by_an_own_coin() -> None:
    """The sizes of 2,000 batches have the variance of coins; batches of one size, or of disjoint people, have not."""
    draws = np.random.default_rng(0)
    batches = [STEPS.batch(200, draws) for _ in range(2000)]
    sizes = np.array([len(batch) for batch in batches])
    assert sizes.mean() == pytest.approx(20, abs=0.6)  # 6 deviations of sqrt(18 / 2000): false alarm below 1e-8
    assert sizes.var() == pytest.approx(18, abs=3.5)  # 6 deviations of 18 sqrt(2 / 2000): false alarm below 1e-8
    both = np.mean([0 in batch and 1 in batch for batch in batches])
    assert both == pytest.approx(0.01, abs=0.0134)  # 6 deviations: false alarm below 1e-8 on either side


@pytest.mark.parametrize("neighbours", [Neighbours.REPLACED, Neighbours.ADDED_OR_REMOVED])
def test_noise_is_that_of_the_accountant_for_all_steps_and_rounding(neighbours: Neighbours) -> None:
    exact = gaussian_for(EPSILON, STEPS.schedule, DELTA, neighbours).sigma
    sigma = noise_for(EPSILON, DELTA, STEPS.schedule, neighbours=neighbours, size=2000)
    assert exact <= sigma * 1.0001
    assert sigma == pytest.approx(exact, rel=1e-3)


def test_a_claim_that_rounding_alone_exceeds_is_refused() -> None:
    with refused("EPS-M119"):
        noise_for(30.0, DELTA, STEPS.schedule, neighbours=Neighbours.REPLACED, size=2000)


def test_a_person_has_one_clipped_gradient_whatever_the_number_of_their_texts() -> None:
    """Two texts of one person move a prompt by at most C; two people by up to sqrt(2) C."""
    seen = list[NDArray[np.float32]]()

    class Watched(PrivateGenerator):
        def steps(self, units: int, epsilon: float) -> PrivateSteps:
            class Everyone(PrivateSteps):
                def batch(self, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
                    return np.arange(count)

                def update(self, gradients: NDArray[np.float32], generator: np.random.Generator) -> NDArray[np.float32]:
                    seen.append(self.clipped(gradients).sum(0))
                    return np.zeros(gradients.shape[1], np.float32)

            return Everyone(self.schedule(units), 1.0, self.clip)

    for people in (["a", "a", "b"], ["a", "c", "b"]):
        generator(Watched, most=2, epochs=1, batches=1).trained(
            corpus(4, 9, 9, people=people), 1.0, np.random.default_rng(0)
        )
    assert seen[0][[4, 9]] == pytest.approx([0.1 * 2**-0.5, 0.1 * (2**-0.5 + 1)])
    assert seen[1][[4, 9]] == pytest.approx([0.1, 0.2])


def test_the_schedule_of_a_private_number_of_people_does_not_depend_on_it() -> None:
    private = generator(neighbours="added or removed", people=500)
    assert private.schedule(60) == private.schedule(61) == Poisson(500, 50, 3)
    assert generator().schedule(60) == Poisson(60, 6, 3)
    for wrong in ({"people": 500}, {"neighbours": "added or removed"}, {"delta": 0.0}):
        with pytest.raises(UserError):
            build(find(CORPORA, "private_generator", "release"), {"resource": PUBLIC, **wrong}, "settings")


def test_a_publication_states_epsilon_and_delta_and_the_ledger_adds_both(tmp_path: Path) -> None:
    """Replacing one of those added or removed is two of them: (2 epsilon, 2 e^epsilon delta), by group privacy."""
    mechanism = generator(neighbours="added or removed", people=40, rows=5, epochs=1)
    texts = corpus(*range(40), people=[f"person {i}" for i in range(40)])
    check(mechanism, texts, EPSILON)
    claim = mechanism.guarantee(EPSILON)
    assert (claim.epsilon, claim.delta, claim.granularity) == (EPSILON, DELTA, Granularity.USER)
    sums = []
    for turn in range(2):
        publication = Publication("private_generator", mechanism, EPSILON, tmp_path / "ledger", again=turn == 1)
        release, standing = publication.publish(texts, tmp_path / "out.csv")
        sums.append((standing.after.epsilon, standing.after.delta))
    assert sums == [pytest.approx((times * 2 * EPSILON, times * 2 * np.exp(EPSILON) * DELTA)) for times in (1, 2)]
    stated = json.loads(statement_of(tmp_path / "out.csv").read_text())
    assert stated["claim"]["delta"] == DELTA
    assert stated["texts counted per person"] == 1
    assert stated["rows"] == len(release.texts) == 4


def written_twice(**settings: object) -> tuple[PrivateGenerator, Release]:
    """A mechanism with the embedded model, and its release; the same noise gives the same texts, other noise others."""
    mechanism = PrivateGenerator(**{"resource": PUBLIC, "rows": 4, "epochs": 1, **settings})
    labels = [NAMES[i % 2] for i in range(20)] if mechanism.labels else None
    private = PrivateCorpus([f"mine {TOPICS[NAMES[i % 2]][0]} number {i}" for i in range(20)], None, labels)
    release, again = (mechanism.release(private, 4.0, Noise.named(1, "release")) for _ in range(2))
    assert list(again.texts) == list(release.texts)
    assert list(mechanism.release(private, 4.0, Noise.operating_system(1)).texts) != list(release.texts)
    return mechanism, release


@pytest.mark.parametrize(("labels", "rank"), [((), None), (NAMES, None), (NAMES, 2)])
def test_the_embedded_model_writes_texts_of_each_label(labels: tuple[str, ...], rank: int | None) -> None:
    mechanism, release = written_twice(labels=labels, rank=rank)
    assert 1 <= len(release.texts) <= 4
    assert (release.labels is None) == (not labels)
    assert mechanism.steps(20, 4.0).schedule.steps == 10


@pytest.mark.parametrize("rank", [None, 2])
def test_each_text_has_its_own_gradient(rank: int | None) -> None:
    """Each is that of the text alone, and of the change of its loss along a direction (central differences)."""
    mechanism = PrivateGenerator(resource=PUBLIC, labels=NAMES, rank=rank)
    rows = mechanism.language.tokens(["a text", "another text that is longer", "short"])
    labels, draws = np.array([0, 1, 0]), np.random.default_rng(0)
    vector = mechanism.first() + draws.normal(0, 0.01, mechanism.first().shape).astype(np.float32)
    own = mechanism.trainable.gradients(vector, labels, rows)
    single = [mechanism.trainable.gradients(vector, labels[[i]], [rows[i]])[0] for i in range(3)]
    assert np.allclose(own, single, atol=1e-5)
    along = (single[1] / np.linalg.norm(single[1])).astype(np.float32)
    ahead, behind = (loss_of(mechanism, vector + sign * 0.01 * along, 1, rows[1]) for sign in (1, -1))
    assert (ahead - behind) / 0.02 == pytest.approx(np.linalg.norm(single[1]), rel=0.02)


def loss_of(mechanism: PrivateGenerator, vector: NDArray[np.float32], label: int, row: list[int]) -> float:
    """The mean loss of a text's tokens, computed with the whole weights W + B A instead of adapters."""
    language = mechanism.language
    prompts = PrivateGenerator(resource=PUBLIC, labels=NAMES)
    vars(prompts)["language"] = language
    start = prompts.first()
    if mechanism.rank is None:
        return float(language.losses(torch.from_numpy(vector.reshape(len(NAMES), -1)[[label]]), [row])[0])
    weights, place = list[tuple[torch.Tensor, torch.Tensor]](), 0
    for block in language.network.transformer.h:
        weight = block.attn.c_attn.weight  # [in, out]
        a = vector[place : (place := place + 2 * weight.shape[0])].reshape(2, -1)
        b = vector[place : (place := place + 2 * weight.shape[1])].reshape(-1, 2)
        weights.append((weight, weight.detach().clone()))
        weight.data += torch.from_numpy((b @ a).T)
    loss = float(language.losses(torch.from_numpy(start.reshape(len(NAMES), -1)[[label]]), [row])[0])
    for weight, before in weights:
        weight.data.copy_(before)
    assert place == vector.size
    return loss


def test_a_model_without_these_projections_gets_no_adapters() -> None:
    mechanism = generator(rank=2)
    mechanism.language.network = torch.nn.Linear(2, 2)
    with refused("EPS-M122"):
        mechanism.first()
