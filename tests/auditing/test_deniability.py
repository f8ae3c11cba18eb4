"""Plausible deniability: exact against sampled, extremes, and closed forms."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from epsilometer.auditing.deniability import deniability
from epsilometer.core.component import build, find
from epsilometer.core.guarantees import Guarantee
from epsilometer.core.laws import Laws
from epsilometer.core.mechanism import FunctionMechanism, Mechanism, Rewrites
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.words.shared.lists import WordLists
from epsilometer.text.vectors import WordVectors
from tests.support.refusals import refused

# A test of sampled figures fails by chance at most once in 10^9 seeds.
ALPHA = 1e-9
SIZE = 60
WORDS = [f"w{i}" for i in range(SIZE)]
LAWFUL: dict[str, tuple[str, dict[str, Any]]] = {
    "tem": ("tem", {}),
    "santext": ("santext", {}),
    "santext_plus": ("santext_plus", {}),
    "custext": ("custext", {"size": 7}),
    "geometric": ("diffractor", {}),
    "tem on lists": ("diffractor", {"noise": "tem", "gamma": 5}),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """60 words of 10 dimensions, and three lists of them."""
    path = tmp_path_factory.mktemp("words")
    vectors = WordVectors(WORDS, np.random.default_rng(0).normal(size=(SIZE, 10)))
    vectors.save(path / "vectors.npz")
    WordLists.build([vectors], 3).save(path / "lists.npz")
    return path


def make(folder: Path, name: str) -> Mechanism:
    module, settings = LAWFUL.get(name, (name, {}))
    resource = folder / ("lists.npz" if module == "diffractor" else "vectors.npz")
    return build(find("mechanisms", module, "rewrite"), {"resource": resource, **settings}, name)


class Lawless:
    """Another mechanism's rewrites without its law."""

    def __init__(self, mechanism: Mechanism) -> None:
        self.mechanism = mechanism

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        return self.mechanism.rewrite(texts, epsilon, noise)

    def guarantee(self, epsilon: float) -> Guarantee | None:
        return self.mechanism.guarantee(epsilon)


@pytest.mark.parametrize("name", LAWFUL)
def test_exact_and_sampled_agree(folder: Path, name: str) -> None:
    """McDiarmid: a draw of `n = words * draws` moves either mean by at most c, so it strays by more than
    c sqrt(n ln(2 / alpha) / 2) with probability below alpha; c is 1 / n for the stays, 1 / words for the support.
    """
    words, draws, epsilons = WORDS * 5, 50, [0.5, 4.0]
    mechanism = make(folder, name)
    exact = deniability(mechanism, words, epsilons, draws)
    sampled = deniability(Lawless(mechanism), words, epsilons, draws)
    assert set(exact["method"]) == {"exact"}
    assert set(sampled["method"]) == {"sampled"}
    n = len(words) * draws
    room = np.sqrt(n * np.log(2 * 4 * len(LAWFUL) / ALPHA) / 2)
    assert np.abs(exact["stays"] - sampled["stays"]).max() < room / n  # 0.03
    assert np.abs(exact["support"] - sampled["support"]).max() < room / len(words)  # error 1.4, values up to 50
    assert exact["stays"][0] < exact["stays"][1]
    assert exact["support"][0] > exact["support"][1]


@pytest.mark.parametrize("name", ["santext", "custext", "geometric", "tem on lists", "mvc"])
def test_without_noise_every_word_stays(folder: Path, name: str) -> None:
    row = deniability(make(folder, name), WORDS, [1e5], draws=20).row(0, named=True)
    for figure in ("stays", "support"):
        for column in (figure, f"{figure}_low", f"{figure}_high"):
            assert row[column] == pytest.approx(1, abs=1e-6), column
    assert (row["words"], row["draws"], row["method"]) == (SIZE, 20, "sampled" if name == "mvc" else "exact")


def test_uniform_output_has_the_support_of_random_draws(folder: Path) -> None:
    row = deniability(make(folder, "santext"), WORDS[:7], [1e-9], draws=100).row(0, named=True)
    assert row["stays"] == pytest.approx(1 / SIZE, abs=1e-6)
    assert row["support"] == pytest.approx(SIZE * (1 - (1 - 1 / SIZE) ** 100), abs=1e-4)
    assert row["support_low"] == pytest.approx(row["support"])


def test_tem_leaves_a_word_with_its_beta_at_any_epsilon(folder: Path) -> None:
    """Its window shrinks with epsilon, so that all other words together keep probability 0.001."""
    assert deniability(make(folder, "tem"), WORDS, [1e5])["stays"][0] == pytest.approx(0.999, abs=1e-9)


def test_percentiles_are_over_words(folder: Path) -> None:
    """SanText+ keeps a common word with probability 0.8 and more, a sensitive one about never at a small epsilon."""
    row = deniability(make(folder, "santext_plus"), WORDS, [1e-9]).row(0, named=True)
    assert row["stays_low"] == pytest.approx(1 / (SIZE // 2), abs=1e-6)
    assert row["stays_high"] == pytest.approx(0.8, abs=1e-6)
    assert row["stays"] == pytest.approx((row["stays_low"] + row["stays_high"]) / 2, abs=1e-6)


def test_a_function_is_sampled_with_reproducible_draws() -> None:
    """Words 0 to 9, drawn uniformly: exact counts follow the seed."""
    mechanism = FunctionMechanism(lambda text, epsilon, rng: str(rng.integers(10)))
    first, again = (deniability(mechanism, ["3", "other"], [1.0], draws=200, seed=5) for _ in range(2))
    assert first.equals(again)
    assert not first.equals(deniability(mechanism, ["3", "other"], [1.0], draws=200, seed=6))
    row = first.row(0, named=True)
    assert row["method"] == "sampled"
    # 200 draws miss one of the ten with probability at most 10 * 0.9^200 < 1e-8. "other" is never written.
    assert row["support"] == row["support_low"] == 10
    assert 0 < row["stays"] < 0.25


def test_a_word_outside_the_vocabulary_never_stays(folder: Path) -> None:
    for mechanism in (make(folder, "santext"), Lawless(make(folder, "santext"))):
        assert deniability(mechanism, ["elsewhere"], [1e5])["stays"].to_list() == [0.0]


@pytest.mark.parametrize(
    ("words", "epsilons", "draws", "refusal"),
    [
        ([], [1.0], 100, ("EPS-A061",)),
        (["two words"], [1.0], 100, ("EPS-A062", "two words")),
        (["Upper"], [1.0], 100, ("EPS-A062", "Upper")),
        (["w1"], [0.0], 100, ("EPS-C033", "epsilon")),
        (["w1"], [1.0], 0, ("EPS-A063", "draws", "1", "0")),
    ],
)
def test_bad_input_is_named(
    folder: Path, words: list[str], epsilons: list[float], draws: int, refusal: tuple[str, ...]
) -> None:
    with refused(*refusal):
        deniability(make(folder, "santext"), words, epsilons, draws)


def test_a_word_of_several_units_is_refused(folder: Path) -> None:
    class Letters(Lawless):
        inputs = output_texts = WORDS

        def laws(self, texts: Sequence[str]) -> Laws:
            return make(folder, "santext").laws([" ".join(text) for text in texts])  # type: ignore[attr-defined]

    with refused("EPS-A064", "w1"):
        deniability(Letters(make(folder, "santext")), ["w", "w1"], [1.0])
