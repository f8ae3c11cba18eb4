from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

from epsilometer.auditing.trials.rewriting import Job, rewrite_all, rewrite_blocks
from epsilometer.core.guarantees import Guarantee, check_epsilons
from epsilometer.core.mechanism import FunctionMechanism, Latents, Mechanism, Repeated, Rewrites, build_mechanism
from epsilometer.core.outcomes import FOUND, NOTHING, Outcomes
from epsilometer.core.randomness import Noise
from epsilometer.core.tables import ArrayWriter
from epsilometer.runtime.progress import parse, track
from epsilometer.runtime.scaling import Engine
from tests.support.refusals import refused

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
        int(row): [rewrites.texts[i] for rewrites in block.rewrites]
        for block in blocks
        for i, row in enumerate(block.rows)
    }


def test_blocks_and_workers_do_not_matter(public: Path) -> None:
    build = partial(build_mechanism, "randomized_response", {}, str(public), "test")
    whole = by_trial(rewrite_blocks(build, job()))
    assert by_trial(rewrite_blocks(build, job(), block=7)) == whole
    assert by_trial(rewrite_blocks(build, job(), block=50, engine=Engine(workers=2))) == whole
    assert len(whole) == 300


def test_repeated_texts_are_handled_by_number(public: Path) -> None:
    """The same rewrites as text by text, and no list of a text a trial on the way."""
    mechanism: Mechanism = build_mechanism("randomized_response", {}, str(public), "test")
    work = job()
    texts = [TEXTS[i] for i in work.source]
    for blocks in (False, True):
        for rewrites, epsilon, noise in zip(
            rewrite_all(mechanism, work, blocks), work.epsilons, work.noises, strict=True
        ):
            assert isinstance(rewrites.texts, Repeated)
            assert rewrites.texts.texts is mechanism.output_texts  # type: ignore[attr-defined]
            alone = mechanism.rewrite(texts, epsilon, noise).texts
            assert list(rewrites.texts) == list(alone)
            assert (rewrites.texts[7], list(rewrites.texts[3:5])) == (alone[7], list(alone[3:5]))


def test_mechanisms_get_lists_unless_they_ask() -> None:
    seen = []

    def rewrite(texts: list[str], epsilon: float, noise: Noise) -> Rewrites:
        seen.append(texts)
        return Rewrites(texts)

    rewrite_all(SimpleNamespace(rewrite=rewrite, guarantee=lambda epsilon: None), job())  # type: ignore[arg-type]
    assert all(type(texts) is list for texts in seen)


def test_all_rewrites_come_in_the_order_of_trials(public: Path) -> None:
    mechanism: Mechanism = build_mechanism("randomized_response", {}, str(public), "test")
    output = rewrite_all(mechanism, job())
    work = job()
    for rewrites, epsilon, noise in zip(output, work.epsilons, work.noises, strict=True):
        alone = [mechanism.rewrite([TEXTS[s]], epsilon, noise[np.array([t])]) for t, s in enumerate(work.source)]
        assert list(rewrites.texts) == [a.texts[0] for a in alone]
        assert rewrites.units is not None
        assert rewrites.units.values.tolist() == [int(a.units.values[0]) for a in alone if a.units]


def test_a_plain_function_gets_a_generator_of_its_own() -> None:
    function = FunctionMechanism(lambda text, epsilon, rng: f"{rng.integers(10**9)}")
    first = rewrite_all(function, job())
    again = rewrite_all(function, job())
    assert first[0].texts == again[0].texts
    assert len(set(first[0].texts)) == 300


class Careless:
    def __init__(self, rewrites: list) -> None:
        self.outputs = rewrites

    def rewrite(self, texts: list[str], epsilon: float, noise: Noise) -> Rewrites:
        return Rewrites(self.outputs * (len(texts) // len(self.outputs) if len(self.outputs) == 1 else 1))

    def guarantee(self, epsilon: float) -> Guarantee | None:
        return None


@pytest.mark.parametrize(
    ("rewrites", "refusal"),
    [(["a", "b"], ("EPS-A182", "2", "300")), ([None], ("EPS-A183", "NoneType")), ([3], ("EPS-A183", "int"))],
)
def test_careless_mechanisms_are_refused(rewrites: list, refusal: tuple[str, ...]) -> None:
    with refused(*refusal):
        rewrite_all(Careless(rewrites), job())


@pytest.mark.parametrize(
    ("bad", "refusal"),
    [
        ([1, -2.0], ("EPS-C033", "mechanisms.x.epsilons[1]", "-2.0")),
        ([1, float("nan")], ("EPS-C033", "mechanisms.x.epsilons[1]", "nan")),
        ([], ("EPS-C032", "mechanisms.x.epsilons")),
        ([1, 1], ("EPS-C035", "mechanisms.x.epsilons", "1, 1")),
    ],
)
def test_epsilons_are_checked_with_their_place(bad: list[float], refusal: tuple[str, ...]) -> None:
    with refused(*refusal):
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
    for rewrites in rewrite_all(Lengths(), work):
        assert rewrites.latents is not None
        np.testing.assert_array_equal(rewrites.latents.before[:, 0], [len(TEXTS[s]) for s in work.source])
        assert [f"{x:g}" for x in rewrites.latents.after[:, 0]] == rewrites.texts


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
        with refused("EPS-C065", "1", "2"):
            writer.write(np.array([1]), values[:1, :1])
    (tmp_path / "y.npy").unlink()
    with pytest.raises(RuntimeError), ArrayWriter(tmp_path / "broken.npy", 6) as writer:
        _fail(writer, values)
    with ArrayWriter(tmp_path / "z.npy", 6):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["x.npy"]


class Slow(FunctionMechanism):
    """A mechanism that takes a second a call and a text, and a minute to load; the clock is the test's."""

    def __init__(self, clock: SimpleNamespace) -> None:
        super().__init__(lambda text, epsilon, rng: text.upper())
        self.clock, self.calls = clock, 0

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        self.clock.now += len(texts) + (0 if self.calls else 60)
        self.calls += 1
        return super().rewrite(texts, epsilon, noise)


class SlowByText(Slow):
    """One that takes a second for each distinct text, whatever the trials and epsilons."""

    def rewrite_grid(self, texts: Sequence[str], epsilons: Sequence[float], noises: Sequence[Noise]) -> list[Rewrites]:
        before = self.clock.now + (0 if self.calls else 60)
        rewrites = [self.rewrite(texts, e, n) for e, n in zip(epsilons, noises, strict=True)]
        self.clock.now = before + len(set(texts))
        return rewrites


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr("epsilometer.runtime.progress.time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


def test_long_work_says_early_how_long_and_what_would_be_shorter(
    clock: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    mechanism, work = Slow(clock), job()
    whole = rewrite_all(mechanism, work)
    capsys.readouterr()
    mechanism = Slow(clock)
    begun = clock.now
    assert [r.texts for r in rewrite_all(mechanism, work, paced=True)] == [r.texts for r in whole]
    assert clock.now - begun == 60 + 2 * 300
    assert mechanism.calls > 10
    note, *lines = capsys.readouterr().err.splitlines()
    assert re.fullmatch(
        r"note: rewrite: about (8|9|9\.\d|10) min to go for 300 trials of 20 texts, the attacks not counted; "
        r"with 20 trials about [34]\d s, with one epsilon about (4\.\d|5|5\.\d) min",
        note,
    )
    shown = [parse(line) for line in lines]
    assert all(state is not None and state.total == 100 for state in shown)
    assert [state.left for state in shown if state] == sorted((state.left for state in shown if state), reverse=True)


def test_what_trials_share_is_known(clock: SimpleNamespace, capsys: pytest.CaptureFixture[str]) -> None:
    """2,000 texts with ten trials each: a tenth of the trials still meets most texts."""
    texts = [f"text number {i:04}" for i in range(2000)]
    source = (Noise.named(20_000, "source").uniforms()[:, 0] * len(texts)).astype(int)
    work = Job(texts, source, [1.0, 2.0], [Noise.named(20_000, "rewrite", e) for e in (1.0, 2.0)])
    rewrite_all(SlowByText(clock), work, paced=True)
    note = capsys.readouterr().err.splitlines()[0]
    assert re.search(
        r"about 33 min to go for 20000 trials of 2000 texts, the attacks not counted; "
        r"with 200 trials about 3\.\d min",
        note,
    )
    assert note.endswith("with 200 texts about 3.3 min")


def test_a_first_text_that_takes_minutes_is_estimated_from_its_beginning(
    clock: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    class ByWord(FunctionMechanism):
        def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
            for _ in track(range(100), 100, "read words"):
                clock.now += 4 * len(texts)
                if clock.now < 20:
                    said.append(capsys.readouterr().err)
            return Rewrites(texts)

    said: list[str] = []
    rewrite_all(ByWord(str), Job(TEXTS * 5, np.arange(100), [1.0], [Noise.named(100)]), paced=True)
    size = "100 trials of 100 texts, the attacks not counted"
    note = rf"note: rewrite: about 1[12] h to go for {size}; with 10 trials about 6\d min\n"
    assert re.search(note, "".join(said))


def test_steps_within_long_work_do_not_begin_progress_anew(
    clock: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each part of the work reads, then writes; what is said is how far the whole is, and never goes back."""

    class ByStep(FunctionMechanism):
        def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
            for step in ("read words", "write words"):
                for _ in track(texts, len(texts), step):
                    clock.now += 2
            return Rewrites(list(texts))

    rewrite_all(ByStep(str), Job(TEXTS * 5, np.arange(100), [1.0], [Noise.named(100)]), paced=True)
    shown = [parse(line) for line in capsys.readouterr().err.splitlines() if not line.startswith("note")]
    assert len(shown) > 5
    assert {state.label for state in shown if state} == {"rewrite, %"}
    assert [state.done for state in shown if state] == sorted(state.done for state in shown if state)


def test_short_work_is_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    rewrite_all(FunctionMechanism(lambda text, epsilon, rng: text), job(), paced=True)
    assert capsys.readouterr().err == ""


class _Marks:
    """Writes a mark behind every third text, and says of each text what it did."""

    has_budget = False

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        changed = np.array([int(text.split()[-1]) % 3 == 0 for text in texts])
        status = [FOUND if differs else NOTHING for differs in changed]
        words, questions = np.full(len(texts), 3), np.array([len(text) for text in texts])
        rewrites = [f"{text}!" if differs else text for text, differs in zip(texts, changed, strict=True)]
        return Rewrites(rewrites, outcomes=Outcomes(status, changed.astype(int), words, questions, 0 * questions))

    def guarantee(self, epsilon: float) -> Guarantee | None:
        return None


def test_outcomes_stay_with_their_texts_through_blocks() -> None:
    work = job(60)
    whole = rewrite_all(_Marks(), work)[0]
    assert whole.outcomes is not None
    for number, text, status, questions in zip(
        work.source, whole.texts, whole.outcomes.status, whole.outcomes.asked, strict=True
    ):
        assert (status == FOUND) == (number % 3 == 0) == text.endswith("!")
        assert questions == len(TEXTS[number])
    for block in rewrite_blocks(_Marks, work, 7):
        assert block.rewrites[0].outcomes is not None
        assert block.rewrites[0].outcomes.table().equals(whole.outcomes.take(block.rows).table())


@pytest.mark.parametrize(
    ("status", "changed", "many", "refusal"),
    [
        (FOUND, 0, 1, ("EPS-A186", "text 1 of 20")),
        (NOTHING, 1, 1, ("EPS-A186", "text 1 of 20")),
        (NOTHING, 0, 2, ("EPS-A185", "600", "300")),
    ],
)
def test_an_unchanged_text_is_never_a_success(status: str, changed: int, many: int, refusal: tuple[str, ...]) -> None:
    def rewrite(texts: list[str], epsilon: float, noise: Noise) -> Rewrites:
        count = np.zeros(many * len(texts), np.int64)
        return Rewrites(texts, outcomes=Outcomes([status] * len(count), count + changed, count, count, count))

    with refused(*refusal):
        rewrite_all(SimpleNamespace(rewrite=rewrite, guarantee=lambda epsilon: None), job())  # type: ignore[arg-type]


def test_a_mechanism_that_edits_or_reuses_its_lists_changes_no_other_rewrite() -> None:
    """A text's first letters at epsilon 4, and nothing of it at 1."""
    reused = [""] * 300

    def rewrite(texts: list[str], epsilon: float, noise: Noise) -> Rewrites:
        for i, text in enumerate(texts):
            texts[i] = text[: 4 * int(epsilon - 1)]
        reused[:] = texts
        return Rewrites(reused if epsilon == 4 else texts)

    careless = SimpleNamespace(rewrite=rewrite, guarantee=lambda epsilon: None)
    for turn in range(2):
        first, second = rewrite_all(careless, job())  # type: ignore[arg-type]
        assert set(first.texts) == {""}
        assert set(second.texts) == {text[:12] for text in TEXTS}, turn
