"""The exact check, compared with brute force, at the claims' edges and on published forms; and the sampled check."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from epsilometer.auditing.claims import worst_case
from epsilometer.auditing.claims.largest_loss import largest_losses
from epsilometer.auditing.claims.monte_carlo import monte_carlo
from epsilometer.auditing.claims.verdicts import NO_CLAIM, NOT_CHECKED, NOT_REFUTED, VIOLATED, pair_claims
from epsilometer.auditing.claims.worst_case import Extent, check_claim, exact
from epsilometer.core.component import build, find
from epsilometer.core.guarantees import Granularity, Guarantee, Neighbours
from epsilometer.core.laws import Laws
from epsilometer.core.ragged import Ragged
from epsilometer.mechanisms.words.mvc import MVC
from epsilometer.mechanisms.words.santext import SanText
from epsilometer.mechanisms.words.shared.lists import WordLists
from epsilometer.text.vectors import WordVectors
from tests.support.commands import app, call
from tests.support.refusals import refused


def clustered(words: int = 500) -> WordVectors:
    """Words of 20 dimensions, half of them in ten clusters: the set-up in which the published TEM was caught."""
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(words, 20))
    half = words // 2
    vectors[:half] = vectors[rng.integers(half, half + 10, half)] + 0.2 * vectors[:half]
    return WordVectors(["the", "unknown", *(f"w{i}" for i in range(2, words))], vectors)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("claims")
    clustered().save(path / "vectors.npz")
    WordLists.build([clustered()], 3).save(path / "lists.npz")
    clustered(40).save(path / "few.npz")
    WordLists.build([clustered(40)], 2).save(path / "few_lists.npz")
    return path


def make(name: str, resource: Path, **settings: Any) -> Any:
    return build(find("mechanisms", name, "rewrite"), {"resource": resource, **settings}, name)


@pytest.mark.parametrize(
    ("name", "resource", "settings"),
    [
        ("tem", "few.npz", {}),
        ("tem", "few.npz", {"as_published": True, "beta": 0.2}),
        ("exponential", "few.npz", {}),
        ("custext", "few.npz", {"size": 7}),
        ("custext", "few.npz", {"as_published": True, "size": 7}),
        ("diffractor", "few_lists.npz", {"noise": "tem"}),
    ],
)
def test_the_exact_check_is_brute_force(folder: Path, name: str, resource: str, settings: dict[str, Any]) -> None:
    mechanism, epsilon = make(name, folder / resource, **settings), 3.0
    finding = check_claim(mechanism, epsilon)
    names = list(mechanism.inputs)
    (law,) = mechanism.laws(names).log_probabilities(np.arange(len(names)), [epsilon])
    best = -np.inf
    for i, j in itertools.permutations(range(len(names)), 2):
        claim = epsilon * mechanism.distance([names[i], names[j]], np.array([(0, 1)]), epsilon)[0]
        for y in range(len(names)):
            if law[i, y] > -np.inf and claim < np.inf:
                best = max(best, law[i, y] - law[j, y] - claim)
    assert finding.method == "exact"
    assert finding.inputs == 40
    assert -finding.slack == pytest.approx(best, abs=1e-9)
    assert (finding.verdict == VIOLATED) == (best > 1e-9)
    x, other, y = (names.index(word) for word in finding.witness)
    assert law[x, y] - law[other, y] == pytest.approx(finding.worst, abs=1e-9)


CORRECT = [
    ("tem", "vectors.npz", {}),
    ("tem", "vectors.npz", {"normalise": True}),
    ("santext", "vectors.npz", {}),
    ("exponential", "vectors.npz", {}),
    ("custext", "vectors.npz", {}),
    ("diffractor", "lists.npz", {}),
    ("diffractor", "lists.npz", {"noise": "tem", "gamma": 3.5}),
]


@pytest.mark.parametrize(("name", "resource", "settings"), CORRECT)
@pytest.mark.parametrize("epsilon", [0.1, 5, 40])
def test_the_shipped_forms_hold_and_their_bounds_lie_above(
    folder: Path, name: str, resource: str, settings: dict[str, Any], epsilon: float
) -> None:
    finding = check_claim(make(name, folder / resource, **settings), epsilon)
    assert (finding.verdict, finding.method, finding.inputs) == (NOT_REFUTED, "exact", 500)
    assert finding.slack >= -1e-9
    assert -finding.slack <= finding.bound + 1e-9
    assert finding.bound <= 1e-9


@pytest.mark.parametrize(
    ("name", "resource", "settings", "epsilon", "at_least"),
    [
        ("tem", "vectors.npz", {}, 5, 1.0),  # because of the candidate for all other words
        ("custext", "vectors.npz", {}, 1, np.inf),  # unlike supports
        ("diffractor", "lists.npz", {}, 0.01, np.inf),  # words that pass through
        ("truncated_gumbel", "vectors.npz", {}, 40, np.inf),  # words beyond the k nearest
    ],
)
def test_the_released_forms_break_their_claims(
    folder: Path, name: str, resource: str, settings: dict[str, Any], epsilon: float, at_least: float
) -> None:
    finding = check_claim(make(name, folder / resource, as_published=True, **settings), epsilon)
    assert finding.verdict == VIOLATED
    assert finding.slack <= -at_least
    assert finding.bound is None
    assert len(set(finding.witness[:2])) == 2


def test_no_claim_no_verdict(folder: Path) -> None:
    for name in ("truncated_gumbel", "santext_plus"):
        finding = check_claim(make(name, folder / "few.npz"), 1)
        assert (finding.verdict, finding.witness, finding.slack) == (NO_CLAIM, None, None)


def test_a_large_vocabulary_is_sampled_and_bounded(folder: Path) -> None:
    mechanism = make("santext", folder / "vectors.npz")
    finding = check_claim(mechanism, 5.0, extent=Extent(100, 60))
    assert (finding.method, finding.inputs) == ("largest found", 60)
    assert -finding.slack <= -exact(mechanism, 5.0, mechanism.inputs).slack <= finding.bound + 1e-9


@pytest.mark.parametrize("count", [2, 40])
def test_a_user_says_how_many_inputs_are_compared(folder: Path, count: int) -> None:
    mechanism = make("santext", folder / "vectors.npz")
    finding = check_claim(mechanism, 5.0, extent=Extent.of(count))
    assert (finding.method, finding.inputs) == ("largest found", count)


@pytest.mark.parametrize(("words", "inputs"), [((), 60), (("--inputs", "20"), 20), (("--inputs", "99"), 60)])
def test_the_command_compares_that_many_inputs(words, inputs: int, folder: Path, capsys) -> None:
    options = ["--vectors", folder / "vectors.npz", "--epsilon", "5", "--vocabulary", "60", "--json"]
    code, out, _ = call(capsys, "claims", "tem", *options, *words)
    assert (code, json.loads(out)["inputs"]) == (0, inputs)


def test_one_input_is_no_comparison(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = call(capsys, "claims", "tem", "--inputs", "1")
    assert code == 2
    assert "[EPS-A231]" in err


def test_a_long_check_says_how_far_it_is(folder: Path, monkeypatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("epsilometer.runtime.progress._SECONDS", 0.0)
    exact(make("santext", folder / "few.npz"), 5.0, make("santext", folder / "few.npz").inputs)
    assert re.search(r"blocks of inputs compared at epsilon 5: \d+ of \d+, about \d+ s left", capsys.readouterr().err)


class Sharper(MVC):
    """MVC with less noise than it claims."""

    def guarantee(self, epsilon: float) -> Guarantee | None:
        return super().guarantee(epsilon / 8)


@pytest.mark.parametrize("name", ["mvc", "vickrey", "mahalanobis"])
def test_continuous_noise_is_bounded_by_sampling(tmp_path: Path, name: str) -> None:
    """True claims are refuted with probability at most alpha = 0.01 over all seeds; the seed is fixed."""
    WordVectors([f"w{i}" for i in range(12)], np.random.default_rng(3).normal(size=(12, 2))).save(tmp_path / "v.npz")
    finding = check_claim(make(name, tmp_path / "v.npz"), 2.0)
    assert (finding.method, finding.verdict, finding.draws) == ("Monte Carlo", NOT_REFUTED, 2000)
    assert finding.slack > 0
    assert finding.claimed < finding.testable


def test_sampling_catches_too_little_noise(tmp_path: Path) -> None:
    """An eighth of the noise that the claim needs; a correct mechanism would be refuted at most once in 100 seeds."""
    WordVectors([f"w{i}" for i in range(12)], np.random.default_rng(3).normal(size=(12, 2))).save(tmp_path / "v.npz")
    mechanism = Sharper(resource=tmp_path / "v.npz")
    finding = monte_carlo(mechanism, 4.0, mechanism.inputs)
    assert finding.verdict == VIOLATED
    assert finding.worst > finding.claimed


def test_the_command(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--vectors", str(folder / "vectors.npz"), "--json"]
    cli_result(["claims", "tem", "--epsilon", "5", "--as-published", *options])
    published = json.loads(capsys.readouterr().out)
    assert published["verdict"] == VIOLATED
    assert published["worst"] > published["claimed"]
    assert set(published["witness"]) == {"x", "x'", "y"}
    cli_result(["claims", "tem", "--vocabulary", "50", *options])
    sound = json.loads(capsys.readouterr().out)
    assert (sound["verdict"], sound["inputs"]) == (NOT_REFUTED, 50)
    cli_result(["claims", "tem", "--vocabulary", str(10**21), *options])
    every = capsys.readouterr()
    assert f"all {json.loads(every.out)['inputs']} are checked" in every.err
    for wrong, refusal in (
        (["claims", "tem", "--vocabulary", "1"], ("EPS-A130", "--vocabulary", "2", "1")),
        (["claims", "tem", "--epsilon", "-1"], ("EPS-C033", "--epsilon", "-1.0")),
        (["claims", "santext", "--as-published"], ("EPS-C022", "santext", "as_published")),
        (["claims", "dp_mlm", *options], ("EPS-A131", "dp_mlm", "--set resource")),
    ):
        with refused(*refusal):
            cli_result(wrong)
    cli_result(["claims", "identity"])
    assert "no claim" in capsys.readouterr().out


def cli_result(arguments: list[str]) -> None:
    app(arguments)


@pytest.mark.parametrize(
    ("name", "resource", "settings"),
    [
        ("tem", "few.npz", {}),
        ("santext", "few.npz", {}),
        ("custext", "few.npz", {"size": 7}),
        ("diffractor", "few_lists.npz", {}),
        ("diffractor", "few_lists.npz", {"noise": "tem"}),
        ("exponential", "few.npz", {}),
    ],
)
def test_the_largest_loss_is_brute_force_and_lies_below_its_bound(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, resource: str, settings: dict[str, Any]
) -> None:
    mechanism, epsilon = make(name, folder / resource, **settings), 3.0
    finding = check_claim(mechanism, epsilon)
    words = len(mechanism.inputs)
    (law,) = mechanism.laws(mechanism.inputs).log_probabilities(np.arange(words), [epsilon])
    possible = [np.flatnonzero(row > -np.inf) for row in law]
    losses = [law[i, y] - law[j, y] for i, j in itertools.permutations(range(words), 2) for y in possible[i]]
    other = replace(finding, epsilon=1.0)
    ((largest, how),) = largest_losses(mechanism, [finding])
    assert largest_losses(mechanism, [other, finding]) == [*largest_losses(mechanism, [other]), (largest, how)]
    assert how == "exact"
    assert largest == pytest.approx(max(losses), abs=1e-9)
    assert finding.largest == pytest.approx(largest, abs=1e-9)
    monkeypatch.setattr("epsilometer.auditing.claims.largest_loss._ENTRIES", 0)
    monkeypatch.setattr("epsilometer.auditing.claims.largest_loss._SAMPLED", 20 * len(law[0]))
    ((bound, how),) = largest_losses(mechanism, [finding])
    assert how == "lower bound"
    assert 0 < bound <= largest + 1e-9


@pytest.mark.parametrize(("share", "verdict"), [(1 / 9, VIOLATED), (1, NOT_REFUTED)])
def test_a_claim_with_a_delta_is_judged_by_events(folder: Path, share: float, verdict: str) -> None:
    """A ninth of the law's epsilon, which a small delta does not make up for."""

    class WithDelta(SanText):
        def guarantee(self, epsilon: float) -> Guarantee:
            return Guarantee(
                share * epsilon, Granularity.WORD, Neighbours.SAME_LENGTH, delta=0.02, metric="L2 distance"
            )

    finding = check_claim(WithDelta(resource=folder / "few.npz"), 2.0)
    assert (finding.verdict, finding.method) == (verdict, "exact")


class Folds:
    """Two words of three are one to it: randomised response on the other distinction, with epsilon times `factor`."""

    inputs = ("a", "A", "b")
    output_texts = ("a", "b")

    def __init__(self, factor: float = 1.0, shift: float = 0.0) -> None:
        self.factor, self.shift = factor, shift

    def guarantee(self, epsilon: float) -> Guarantee:
        return Guarantee(epsilon, Granularity.WORD, Neighbours.SAME_LENGTH)

    def distance(self, texts, pairs, epsilon):
        words = [text.lower().split() for text in texts]
        differ = [sum(x != y for x, y in zip(words[i], words[j], strict=False)) for i, j in pairs]
        return np.where([len(words[i]) != len(words[j]) for i, j in pairs], np.inf, np.array(differ, float))

    def laws(self, texts):
        def log_probabilities(rows, epsilons):
            for epsilon in epsilons:
                logits = np.array([[self.factor * epsilon, 0.0], [self.factor * epsilon + self.shift, 0.0], [0.0, 0.0]])
                yield (logits - np.logaddexp.reduce(logits, axis=1, keepdims=True))[rows]

        numbers = [[self.inputs.index(word) for word in text.split()] for text in texts]
        return Laws(Ragged.of(numbers), 2, log_probabilities)


def test_two_inputs_that_are_one_to_the_mechanism_are_no_witness() -> None:
    """What is claimed for them is 0 and so is their loss: a row of zeros would be said of every mechanism."""
    finding = check_claim(Folds(), 2.0)
    assert finding.verdict == NOT_REFUTED
    assert finding.claimed == 2.0
    assert 0 < finding.worst < 2
    assert set(finding.witness[:2]) != {"a", "A"}


def test_unless_they_are_told_apart() -> None:
    finding = check_claim(Folds(shift=0.1), 0.5)
    assert finding.verdict == VIOLATED
    assert finding.claimed == 0.0
    assert set(finding.witness[:2]) == {"a", "A"}


def test_so_many_losses_are_computed_at_most(folder: Path) -> None:
    mechanism = make("santext", folder / "vectors.npz")
    outputs = mechanism.laws(mechanism.inputs[:1]).outputs
    finding = check_claim(mechanism, 5.0, extent=Extent(entries=30**2 * outputs + 1))
    assert (finding.method, finding.inputs) == ("largest found", 30)


class WholeTexts(Folds):
    """The same, with a claim for texts that differ in any way, but for a sentence's number of words where `length`."""

    def __init__(self, *, length: bool, outputs: tuple[str, str] = ("a", "b"), most: float = 1.0) -> None:
        super().__init__()
        self.length, self.output_texts, self.most = length, outputs, most

    def guarantee(self, epsilon: float) -> Guarantee:
        return Guarantee(epsilon, Granularity.DOCUMENT, Neighbours.ANY)

    def distance(self, texts, pairs, epsilon):
        differ = super().distance(texts, pairs, epsilon)
        return np.where(np.isinf(differ), np.inf if self.length else self.most, np.minimum(differ, self.most))


def test_a_claim_for_whole_texts_is_not_upheld_by_single_words() -> None:
    """Whose losses add up, and whose number is seen."""
    finding = check_claim(WholeTexts(length=False), 2.0)
    assert (finding.verdict, finding.worst, finding.claimed) == (VIOLATED, np.inf, 2.0)
    assert finding.witness[1] == f"{finding.witness[0]} {finding.witness[0]}"
    finding = check_claim(WholeTexts(length=True), 2.0)
    word = check_claim(Folds(), 2.0).worst
    assert finding.verdict == VIOLATED
    assert finding.worst == pytest.approx(2 * word)
    assert finding.claimed == 2.0
    assert [len(text.split()) for text in finding.witness] == [2, 2, 2]


def test_a_claim_that_stops_growing_is_broken_beyond() -> None:
    finding = check_claim(WholeTexts(length=True, most=5.0), 2.0)
    assert finding.verdict == VIOLATED
    assert finding.worst > finding.claimed == 10.0


def test_a_mechanism_that_reads_so_many_words_alone_loses_no_more_than_these() -> None:
    """A claim for whole texts that holds, as no text has more than 100 units."""

    class OfFirstWords(WholeTexts):
        def guarantee(self, epsilon: float) -> Guarantee:
            return Guarantee(100 * epsilon, Granularity.DOCUMENT, Neighbours.ANY)

        def laws(self, texts):
            return super().laws([" ".join(text.split()[:100]) for text in texts])

    assert check_claim(OfFirstWords(length=True), 1.0).verdict == NOT_REFUTED


def test_whoever_may_release_nothing_hides_how_many_words_there_were() -> None:
    finding = check_claim(WholeTexts(length=False, outputs=("a", ""), most=1e6), 2.0)
    assert finding.verdict == NOT_REFUTED


def test_pairs_without_a_claim_are_counted() -> None:
    class OfFew(Folds):
        def distance(self, texts, pairs, epsilon):
            return np.where(super().distance(texts, pairs, epsilon) > 0, np.inf, 0.0)

    finding = check_claim(OfFew(), 2.0)
    assert finding.verdict == NOT_REFUTED
    assert "does not cover 2 of the 3 pairs" in finding.reason
    assert check_claim(Folds(), 2.0).reason is None


class Lawful:
    """Inputs of one unit with the laws [inputs, outputs], claimed to be epsilon and delta for any two texts."""

    def __init__(self, law: np.ndarray, delta: float = 0.0) -> None:
        self.law, self.delta = law, delta
        self.inputs, self.output_texts = (
            [f"{side}{i}" for i in range(n)] for side, n in zip("xy", law.shape, strict=True)
        )

    def guarantee(self, epsilon: float) -> Guarantee:
        return Guarantee(epsilon, Granularity.DOCUMENT, Neighbours.ANY, delta=self.delta)

    def laws(self, texts):
        with np.errstate(divide="ignore"):
            table = np.log(self.law)
        rows = Ragged.of([[self.inputs.index(text.split()[0])] for text in texts])  # a mechanism of the first word
        return Laws(rows, self.law.shape[1], lambda rows, epsilons: (table[rows] for _ in epsilons))


def randomised(epsilon: float, words: int = 4) -> np.ndarray:
    law = np.exp(epsilon * np.eye(words))
    return law / law.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("delta", [1e-12, 0.1, 0.17])
def test_no_delta_hides_a_loss_beyond_the_claim(delta: float) -> None:
    """Randomised response with 1.1 of the epsilon that it claims has a delta of .163 there, whatever is claimed."""
    finding = check_claim(Lawful(randomised(2.2, 2), delta), 2.0)
    p = 1 / (1 + np.exp(-2.2))
    assert p - np.exp(2.0) * (1 - p) == pytest.approx(0.163, abs=1e-3)
    assert (finding.verdict, finding.method) == (VIOLATED if delta < 0.163 else NOT_REFUTED, "exact")
    assert (finding.slack < 0) == (finding.verdict == VIOLATED)
    assert finding.worst == pytest.approx(np.log((p - delta) / (1 - p)))


def test_the_check_with_a_delta_is_brute_force() -> None:
    """Over all sets of outputs, at random laws, some of whose outputs rule an input out."""
    rng = np.random.default_rng(5)
    for _ in range(40):
        law = rng.dirichlet(np.full(5, 0.4), 3) * (rng.random((3, 5)) < 0.8) + 1e-3
        law /= law.sum(axis=1, keepdims=True)
        epsilon, delta = rng.uniform(0.2, 3), rng.uniform(0.01, 0.5)
        sets = np.array(list(itertools.product([0, 1], repeat=5)))
        masses = law @ sets.T
        excess = max((masses[i] - np.exp(epsilon) * masses[j]).max() for i, j in itertools.permutations(range(3), 2))
        finding = check_claim(Lawful(law, delta), epsilon)
        assert (finding.verdict == VIOLATED) == (excess > delta)
        if finding.verdict == VIOLATED:
            here, there = (law[int(text[1:])] for text in finding.witness[:2])
            with np.errstate(divide="ignore", invalid="ignore"):
                losses = np.log(np.maximum(here @ sets.T - delta, 0) / (there @ sets.T))
            assert finding.worst == pytest.approx(np.nanmax(losses))
            assert finding.worst > epsilon


def test_a_delta_that_is_met_exactly_leaves_no_loss() -> None:
    """The text itself with that probability, else one sentence for all: rounding is no loss."""

    class OfDelta(Lawful):
        def guarantee(self, epsilon: float) -> Guarantee:
            return Guarantee.of_delta(self.delta, Granularity.DOCUMENT, Neighbours.ANY)

    for delta in np.tanh(np.linspace(0.05, 4, 80) / 2).tolist():
        law = np.append(delta * np.eye(7), np.full((7, 1), 1 - delta), axis=1)
        finding = check_claim(OfDelta(law, delta), 1.0)
        assert (finding.verdict, finding.claimed, finding.worst) == (NOT_REFUTED, 0.0, 0.0)


def test_an_output_that_rules_an_input_out_breaks_a_smaller_delta() -> None:
    law = np.array([[0.998, 0.002], [1.0, 0.0]])
    assert check_claim(Lawful(law, 0.001), 2.0).worst == np.inf
    assert check_claim(Lawful(law, 0.001), 2.0).verdict == VIOLATED
    assert check_claim(Lawful(law, 0.003), 2.0).verdict == NOT_REFUTED


@pytest.mark.parametrize(("delta", "verdict"), [(0.1, NOT_REFUTED), (0.05, VIOLATED)])
def test_deltas_of_two_units_are_those_of_all_their_outputs(delta: float, verdict: str) -> None:
    """A claim that holds for a word without its delta; for two words, brute force over their four outputs."""

    class OfTwo(Folds):
        def guarantee(self, epsilon: float) -> Guarantee:
            return Guarantee(1.2 * epsilon, Granularity.DOCUMENT, Neighbours.ANY, delta=delta)

        def distance(self, texts, pairs, epsilon):
            differ = super().distance(texts, pairs, epsilon)
            return np.where(np.isinf(differ), np.inf, np.minimum(differ, 1.0))

    (pair,) = OfTwo().laws(["a", "b"]).log_probabilities(np.array([0, 2]), [2.0])
    here, there = (np.multiply.outer(law, law) for law in np.exp(pair))
    excess = max(np.maximum(p - np.exp(2.4) * q, 0).sum() for p, q in ((here, there), (there, here)))
    assert (excess > delta) == (verdict == VIOLATED)
    finding = check_claim(OfTwo(), 2.0)
    assert finding.verdict == verdict
    if verdict == NOT_REFUTED:
        assert "at most 2 units" in finding.reason


class OfFirstWord(Folds):
    """Each word is drawn by the first word of its text alone, while words that differ are counted."""

    def laws(self, texts):
        laws = super().laws(texts)
        first = [np.full(length, laws.rows.row(i)[0]) for i, length in enumerate(laws.rows.lengths)]
        return replace(laws, rows=Ragged.of(first))


def test_words_that_depend_on_the_words_beside_them_lose_more_than_is_counted() -> None:
    """Of `a b` and `b b`, which differ in one word, both words lose; `a a` and `b b` lose no more than is claimed."""
    assert check_claim(Folds(), 2.0).verdict == NOT_REFUTED
    finding = check_claim(OfFirstWord(), 2.0)
    assert finding.verdict == VIOLATED
    assert finding.worst == pytest.approx(2 * check_claim(Folds(), 2.0).worst)
    assert finding.claimed == 2.0
    assert "depend on other units" in finding.reason


def test_a_text_that_shows_more_than_its_law_upholds_no_claim() -> None:
    class Prepends(Folds):
        def write(self, texts, units):
            return [f"{text} {unit}" for text, unit in zip(texts, units.values, strict=True)]

    finding = check_claim(Prepends(), 2.0)
    assert finding.verdict == NOT_CHECKED
    assert "more of the source" in finding.reason
    assert check_claim(Prepends(factor=2), 2.0).verdict == VIOLATED


def test_texts_of_equal_length_must_be_named() -> None:
    class EqualLength(Lawful):
        def guarantee(self, epsilon: float) -> Guarantee:
            return Guarantee(epsilon, Granularity.DOCUMENT, Neighbours.SAME_LENGTH)

    with refused("EPS-A055"):
        check_claim(EqualLength(randomised(2.0)), 2.0)


def test_half_of_a_sample_are_neighbours(folder: Path) -> None:
    """Between which a claim that grows with the distance is tightest."""
    mechanism = make("santext", folder / "vectors.npz")
    outputs = mechanism.laws(mechanism.inputs[:1]).outputs
    some = worst_case._sample(mechanism, 5.0, list(mechanism.inputs), 20, seed=0)
    pairs = np.array(list(itertools.combinations(range(20), 2)))
    at_random = np.random.default_rng(0).choice(list(mechanism.inputs), 20, replace=False).tolist()
    near, far = (np.sort(pair_claims(mechanism, 5.0, texts, pairs))[:10].mean() for texts in (some, at_random))
    assert near < 0.8 * far
    assert check_claim(mechanism, 5.0, extent=Extent(entries=20**2 * outputs + 1)).inputs == 20
