from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from epsilometer.errors import UserError
from epsilometer.guarantees import Guarantee, check_epsilons
from epsilometer.mechanism import FunctionMechanism, Latents, Mechanism, Rewrites, build_mechanism
from epsilometer.randomness import Noise
from epsilometer.rewriting import Job, rewrite_all, rewrite_blocks
from epsilometer.scaling import Engine
from epsilometer.tables import ArrayWriter

TEXTS = [f"text number {i}" for i in range(20)]


@pytest.fixture
def public(tmp_path: Path) -> Path:
    pl.DataFrame({"text": TEXTS}).write_parquet(tmp_path / "texts.parquet")
    return tmp_path / "texts.parquet"


def job(trials: int = 300) -> Job:
    source = Noise.named(trials, "source").uniforms()[:, 0] * len(TEXTS)
    noises = [Noise.named(trials, "rewrite", e) for e in (1.0, 4.0)]
    return Job(TEXTS, source.astype(int), [1.0, 4.0], noises)


def by_trial(blocks) -> dict[int, list[str]]:  # type: ignore[no-untyped-def]
    return {
        int(row): [made.texts[i] for made in block.rewrites] for block in blocks for i, row in enumerate(block.rows)
    }


def test_blocks_and_workers_do_not_matter(public: Path) -> None:
    build = partial(build_mechanism, "randomized_response", {}, str(public), "test")
    whole = by_trial(rewrite_blocks(build, job()))
    assert by_trial(rewrite_blocks(build, job(), block=7)) == whole
    assert by_trial(rewrite_blocks(build, job(), block=50, engine=Engine(workers=2))) == whole
    assert len(whole) == 300


def test_all_rewrites_come_in_the_order_of_trials(public: Path) -> None:
    mechanism: Mechanism = build_mechanism("randomized_response", {}, str(public), "test")
    made = rewrite_all(mechanism, job())
    work = job()
    for rewrites, epsilon, noise in zip(made, work.epsilons, work.noises, strict=True):
        alone = [mechanism.rewrite([TEXTS[s]], epsilon, noise[np.array([t])]) for t, s in enumerate(work.source)]
        assert list(rewrites.texts) == [a.texts[0] for a in alone]
        assert rewrites.units is not None
        assert rewrites.units.values.tolist() == [int(a.units.values[0]) for a in alone if a.units]


def test_a_plain_function_gets_a_generator_of_its_own() -> None:
    function = FunctionMechanism(lambda text, epsilon, rng: f"{rng.integers(10**9)}")
    one = rewrite_all(function, job())
    again = rewrite_all(function, job())
    assert one[0].texts == again[0].texts
    assert len(set(one[0].texts)) == 300


class Careless:
    def __init__(self, made: list) -> None:
        self.made = made

    def rewrite(self, texts: list[str], epsilon: float, noise: Noise) -> Rewrites:
        return Rewrites(self.made * (len(texts) // len(self.made) if len(self.made) == 1 else 1))

    def guarantee(self, epsilon: float) -> Guarantee | None:
        return None


@pytest.mark.parametrize(
    ("made", "message"),
    [(["a", "b"], "returned 2 texts for 300"), ([None], "returned NoneType where a string is due"), ([3], "int")],
)
def test_careless_mechanisms_are_refused(made: list, message: str) -> None:
    with pytest.raises(UserError, match=message):
        rewrite_all(Careless(made), job())


@pytest.mark.parametrize("bad", [[1, -2.0], [1, float("nan")], [], [1, 1]])
def test_epsilons_are_checked_with_their_place(bad: list[float]) -> None:
    with pytest.raises(UserError, match="epsilon"):
        check_epsilons(bad, "mechanisms.x.epsilons")


class Lengths:
    """A mechanism with latents: the text's length, and that with noise."""

    def rewrite(self, texts: list[str], epsilon: float, noise: Noise) -> Rewrites:
        before = self.encode(texts)
        after = before + (noise.uniforms() / epsilon).astype(np.float32)
        return Rewrites([f"{x:g}" for x in after[:, 0]], latents=Latents(before, after))

    def encode(self, texts: list[str]) -> np.ndarray:
        return np.array([[len(text)] for text in texts], np.float32)

    def guarantee(self, epsilon: float) -> Guarantee | None:
        return None


def test_latents_come_in_the_order_of_trials() -> None:
    work = job()
    for made in rewrite_all(Lengths(), work):
        assert made.latents is not None
        np.testing.assert_array_equal(made.latents.before[:, 0], [len(TEXTS[s]) for s in work.source])
        assert [f"{x:g}" for x in made.latents.after[:, 0]] == made.texts


def _fail(writer: ArrayWriter, values: np.ndarray) -> None:
    writer.write(np.array([0]), values[:1])
    raise RuntimeError


def test_an_array_is_written_whole_in_any_order_or_not_at_all(tmp_path: Path) -> None:
    values = np.arange(12, dtype=np.float32).reshape(6, 2)
    with ArrayWriter(tmp_path / "x.npy", 6) as writer:
        for rows in (np.array([3, 0, 5]), np.array([1, 2, 4])):
            writer.write(rows, values[rows])
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), values)
    with ArrayWriter(tmp_path / "y.npy", 6) as writer:
        writer.write(np.array([0]), values[:1])
        with pytest.raises(UserError, match="latents of 1 numbers after some of 2"):
            writer.write(np.array([1]), values[:1, :1])
    (tmp_path / "y.npy").unlink()
    with pytest.raises(RuntimeError), ArrayWriter(tmp_path / "broken.npy", 6) as writer:
        _fail(writer, values)
    with ArrayWriter(tmp_path / "z.npy", 6):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["x.npy"]
