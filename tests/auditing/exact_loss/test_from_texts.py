"""Exact losses of texts agree with enumeration, with claims, and with a sampled audit."""

from __future__ import annotations

import math
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.special import log_softmax

import epsilometer
from epsilometer import Design
from epsilometer.auditing.claims.verdicts import NO_CLAIM, NOT_CHECKED, NOT_REFUTED, VIOLATED
from epsilometer.auditing.estimation.successes import loss_at
from epsilometer.auditing.exact_loss import by_laws, products
from epsilometer.auditing.exact_loss.bracket import Bracket
from epsilometer.auditing.exact_loss.from_texts import sampled_pairs
from epsilometer.auditing.exact_loss.losses import LEVELS
from epsilometer.auditing.exact_loss.measuring import measure
from epsilometer.auditing.exact_loss.pairs import furthest_pairs, of_trials
from epsilometer.auditing.exact_loss.rows import average_loss, quantile
from epsilometer.auditing.schemas import EXACT, EXACT_CURVES
from epsilometer.auditing.trials.sampling import Trials, sample
from epsilometer.core.laws import Laws
from epsilometer.mechanisms.controls.randomized_response import RandomizedResponse
from epsilometer.mechanisms.words.shared import embedded
from tests.support.refusals import refused
from tests.support.spelled import Spelled

UNIFORM = Design(temperature=0)
TEXTS = [" ".join(letters) for n in (1, 2, 3) for letters in product("abc", repeat=n)][:20]
LAW = np.asarray(log_softmax(np.random.default_rng(0).normal(size=(3, 3)), axis=1))


def errors(mechanism: Spelled, epsilon: float, equal: bool) -> list[float]:
    """The Bayes errors of all pairs of texts, by enumeration; 0 where their lengths differ."""
    values = []
    for first, second in combinations(TEXTS, 2):
        if len(first) == len(second):
            p, q = (np.exp(mechanism.outputs(text, epsilon)) for text in (first, second))
            values.append(float(np.minimum(p, q).sum() / 2))
        elif not equal:
            values.append(0.0)
    return values


def test_the_row_is_that_of_all_outputs() -> None:
    mechanism = Spelled(LAW)
    table = epsilometer.exact_loss(TEXTS, mechanism, [0.5, 4.0], design=UNIFORM)
    assert table.columns == list(EXACT)[2:]
    assert table.select("epsilon", "pairs").rows() == [(e, g) for e in (0.5, 4.0) for g in ("all", "equal length")]
    for row in table.rows(named=True):
        each = errors(mechanism, row["epsilon"], row["pairs"] != "all")
        mean = np.mean(each)
        assert row["average_low"] - 1e-9 <= math.log((1 - mean) / mean) <= row["average_high"] + 1e-9
        assert row["average_high"] - row["average_low"] <= 0.04
        assert row["error"] == pytest.approx((row["average_high"] - row["average_low"]) / 2)
        assert row["compared"] == len(each)
        assert row["share"] == pytest.approx(len(each) / math.comb(len(TEXTS), 2))
        if row["pairs"] == "all":
            assert row["worst"] == math.inf
            continue
        losses = sorted(math.log((1 - e) / e) for e in each)
        assert row["worst"] == pytest.approx(losses[-1], abs=0.02)
        assert row["median"] == pytest.approx(losses[math.ceil(0.5 * len(losses)) - 1], abs=0.02)
        assert row["q95"] == pytest.approx(losses[math.ceil(0.95 * len(losses)) - 1], abs=0.02)
        p, q = (np.exp(mechanism.outputs(TEXTS[row[x]], row["epsilon"])) for x in ("worst_x", "worst_other"))
        assert math.log(2 / np.minimum(p, q).sum() - 1) == pytest.approx(losses[-1], abs=1e-9)


def test_curves_bracket_those_of_all_outputs() -> None:
    mechanism = Spelled(LAW)
    table = epsilometer.exact_curves(TEXTS, mechanism, [2.0], design=UNIFORM)
    assert table.columns == list(EXACT_CURVES)[2:]
    of_equal_length = table.filter(pairs="equal length")
    assert of_equal_length["level"].to_list() == LEVELS.tolist()
    for row in of_equal_length.rows(named=True):
        each, larger = [], 0.0
        for first, second in combinations(TEXTS, 2):
            if len(first) == len(second):
                p, q = (np.exp(mechanism.outputs(text, 2.0)) for text in (first, second))
                both = [
                    float(np.maximum(a - math.exp(min(row["level"], 700)) * b, 0).sum()) for a, b in ((p, q), (q, p))
                ]
                each.append(sum(both) / 2)
                larger = max(larger, *both)
        assert row["delta_low"] - 1e-12 <= np.mean(each) <= row["delta_high"] + 1e-12
        assert larger <= row["worst_high"] + 1e-12
        assert row["delta_high"] - row["delta_low"] < 0.01


FAR = -2000.0  # ln of the probability of each other word's own output; all words share one output
SPLIT = np.where(np.eye(3, 4, dtype=bool), math.log1p(-math.exp(-10.0)), FAR)
SPLIT[:, 3] = -10.0


def test_no_curve_falls_below_its_average_where_losses_are_in_the_thousands() -> None:
    both = measure(Spelled(SPLIT), TEXTS, [1.0], sampled_pairs(TEXTS, np.zeros((len(TEXTS), 1)), 1000, UNIFORM))
    assert both.losses["pairs"].to_list() == ["all", "equal length"]
    for row in both.losses.rows(named=True):
        curve = both.curves.filter(pairs=row["pairs"], level=0.0)
        assert row["average_low"] - 1e-6 <= 2 * math.atanh(curve["delta_high"].item())
        assert 2 * math.atanh(curve["delta_low"].item()) <= row["average_high"] + 1e-6


def test_a_curve_that_contradicts_its_average_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where part of a law got lost on the way to the curve and not to the average."""
    pairs = sampled_pairs(TEXTS, np.zeros((len(TEXTS), 1)), 1000, UNIFORM)
    deltas = products.Product.deltas

    def lost(distribution: products.Product, levels: Any) -> Bracket[Any]:
        curve = deltas(distribution, levels)
        return Bracket(curve.low - 1e-3, curve.high - 1e-3)

    monkeypatch.setattr(products.Product, "deltas", lost)
    with refused("EPS-A091", "4"):
        measure(Spelled(LAW), TEXTS, [4.0], pairs)


def test_more_candidates_are_bracketed_by_pairs() -> None:
    mechanism, texts = Spelled(LAW), [" ".join(two) for two in product("abc", repeat=2)]
    sets = np.array(list(combinations(range(len(texts)), 3)), np.int32)
    pairs = of_trials(Trials(sets, np.zeros(len(sets), np.int16)), texts)
    row = measure(mechanism, texts, [3.0], pairs).losses.row(0, named=True)
    laws = np.array([np.exp(mechanism.outputs(text, 3.0)) for text in texts])
    right = np.mean([laws[some].max(axis=0).sum() / 3 for some in sets])
    assert row["average_low"] <= loss_at(float(right), 3) <= row["average_high"]


def test_blocks_change_no_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    def bytes_of() -> list[Any]:
        mechanism = Spelled(LAW)
        both = measure(mechanism, TEXTS, [0.5, 4.0], sampled_pairs(TEXTS, np.zeros((len(TEXTS), 1)), 1000, UNIFORM))
        return [*both.losses.drop("seconds").rows(), *both.curves.rows()]

    whole = bytes_of()
    monkeypatch.setattr(by_laws, "_CELLS", 1)
    assert bytes_of() == whole


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0, 25.0])
def test_randomised_response_loses_epsilon(epsilon: float) -> None:
    table = epsilometer.exact_loss(["yes", "no"], RandomizedResponse(resource=("yes", "no")), [epsilon], design=UNIFORM)
    for name in ("average_low", "average", "average_high", "worst", "median", "relative_epsilon", "claimed"):
        assert table[name][0] == pytest.approx(epsilon, abs=1e-9)
    assert table["verdict"][0] == NOT_REFUTED


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The embedded vectors of 300 words, and lists of them."""
    folder = tmp_path_factory.mktemp("words")
    few = {kind: embedded.over_words(kind, None, 300, folder) for kind in (embedded.vectors, embedded.lists)}
    return {"vectors": few[embedded.vectors], "lists": few[embedded.lists]}  # type: ignore[dict-item]


def sentences(resource: Path, count: int = 12, seed: int = 0) -> list[str]:
    """Texts of two to four words of the vocabulary."""
    with np.load(resource, allow_pickle=False) as archive:
        vocabulary = archive["words"]
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(vocabulary, n)) for n in rng.integers(2, 5, count)]


CORRECT = [
    ("tem", "vectors", {}),
    ("santext", "vectors", {}),
    ("exponential", "vectors", {}),
    ("custext", "vectors", {"size": 300}),
    ("rantext", "vectors", {}),
    ("clusant", "vectors", {"clusters": 8}),
    ("diffractor", "lists", {}),
    ("diffractor", "lists", {"noise": "tem"}),
]


@pytest.mark.parametrize(("name", "resource", "settings"), CORRECT)
def test_whole_texts_keep_the_claims_of_corrected_mechanisms(
    words: dict[str, Path], name: str, resource: str, settings: dict[str, Any]
) -> None:
    texts = sentences(words[resource])
    chosen = {"resource": words[resource], **settings}
    table = epsilometer.exact_loss(texts, name, [0.3, 5.0, 30.0], chosen, design=UNIFORM).filter(pairs="equal length")
    assert table["verdict"].to_list() == [NOT_REFUTED] * 3
    assert table["delta_at_claim"].to_list() == [0] * 3
    assert table["relative_method"].unique().to_list() == ["all pairs"]
    assert table["relative_epsilon"].is_finite().all()
    assert (table["worst"] <= table["relative_epsilon"] + 1e-9).all()
    assert table["average"].is_sorted()


PUBLISHED = [
    ("custext", "vectors", {"size": 20}),
    ("diffractor", "lists", {}),
]


@pytest.mark.parametrize(("name", "resource", "settings"), PUBLISHED)
def test_published_forms_whose_supports_differ_lose_without_bound(
    words: dict[str, Path], name: str, resource: str, settings: dict[str, Any]
) -> None:
    texts = [*sentences(words[resource]), "the flibbertigibbet", "the quartzalcoatl"]
    chosen = {"resource": words[resource], "as_published": True, **settings}
    table = epsilometer.exact_loss(texts, name, [5.0], chosen, design=UNIFORM).filter(pairs="equal length")
    assert table["relative_epsilon"].to_list() == [math.inf]
    assert table["verdict"].to_list() == [VIOLATED]
    assert table["delta_at_claim"][0] > 0.1


def test_a_text_that_shows_more_than_its_words_loses_at_least_what_these_do(words: dict[str, Path]) -> None:
    texts, settings = sentences(words["vectors"]), {"resource": words["vectors"]}
    alone, more = (
        epsilometer.exact_loss(texts, "tem", [5.0], {**settings, "layout": layout}, design=UNIFORM)
        for layout in ("normalised", "kept")
    )
    assert more["average"].to_list() == alone["average_low"].to_list()
    assert set(more["method"]) == {"at least"}
    assert more.select("average_high", "all_high").row(0) == (math.inf, math.inf)
    assert more.select("delta_at_4", "all_delta_at_4").row(0) == (1.0, 1.0)
    assert set(alone["verdict"]) == {NOT_REFUTED}
    assert set(more["verdict"]) <= {NOT_CHECKED, NO_CLAIM}, "words within the claim uphold nothing of the layout"
    assert more.select("median", "q95", "worst").row(0) == (None, None, None)
    assert set(more["relative_method"]) <= {"lower bound", None}
    with refused("EPS-A078"):
        epsilometer.exact_pairs(texts, "tem", [5.0], {**settings, "layout": "kept"})
    assert (alone["average_high"].is_finite().all(), alone["delta_at_4"][0] < 1) == (True, True)


def test_claims_that_are_too_small_too_far_or_missing() -> None:
    largest = float(np.abs(LAW[:, None] - LAW).max())
    for claimed, verdict in ((0.9 * largest, VIOLATED), (largest + 1e-12, NOT_REFUTED), (None, NO_CLAIM)):
        table = epsilometer.exact_loss(TEXTS, Spelled(LAW, claimed), [1.0], design=UNIFORM)
        assert set(table["verdict"]) == {verdict}
    apart = epsilometer.exact_loss(["a", "b b"], Spelled(LAW, 9.0), [1.0], design=UNIFORM)
    assert apart["verdict"].to_list() == [NOT_CHECKED]
    assert apart["average"].to_list() == [math.inf]


def test_the_furthest_pairs_are_those_that_trials_draw() -> None:
    embeddings = np.random.default_rng(1).normal(size=(40, 6)).astype(np.float32)
    embeddings /= np.linalg.norm(embeddings, axis=1, keepdims=True)
    texts = ["a " * (1 + i % 3) for i in range(40)]
    for groups in (None, np.arange(40) % 3):
        pairs = furthest_pairs(embeddings, texts, groups)
        often = of_trials(sample(embeddings, 20_000, seed=3, groups=groups, temperature=-1e7), texts)
        assert pairs.numbers.tolist() == often.numbers.tolist()
        # Each count is within 5 deviations: a false alarm has a probability below 1e-4; fixed seed.
        assert np.abs(pairs.weights - often.weights).max() < 5 * math.sqrt(0.1 / 20_000)
        assert pairs.equal.all() == (groups is not None)


def test_averages_and_quantiles_by_hand() -> None:
    log_error = np.log(np.array([0.5, 0.1, 0.0001]))
    weights = np.array([0.25, 0.5, 0.25])
    average = average_loss(by_laws.Bracket(log_error, log_error), weights)
    mean = 0.25 * 0.5 + 0.5 * 0.1 + 0.25 * 0.0001
    assert average.low == pytest.approx(math.log((1 - mean) / mean))
    assert average.high == pytest.approx(average.low)
    losses = np.array([0.0, 2.0, math.inf])
    assert [quantile(losses, weights, q) for q in (0.25, 0.5, 0.75, 0.95)] == [0, 2, 2, math.inf]


@pytest.mark.parametrize(
    ("texts", "mechanism", "epsilons", "trials", "refusal"),
    [
        (["a", "b"], "mvc", [1.0], 10, ("EPS-A079",)),
        (["a"], Spelled(LAW), [1.0], 10, ("EPS-A080", "2", "1")),
        (["a", "b"], Spelled(LAW), [-1.0], 10, ("EPS-C033", "epsilon")),
        (["a", "b"], Spelled(LAW), [1.0], 0, ("EPS-A178", "trials")),
    ],
)
def test_bad_input_is_one_clear_error(
    texts: list[str], mechanism: Any, epsilons: list[float], trials: int, refusal: tuple[str, ...]
) -> None:
    with refused(*refusal):
        epsilometer.exact_loss(texts, mechanism, epsilons, trials=trials, design=UNIFORM)


@pytest.mark.slow
def test_the_average_lies_inside_the_interval_of_a_sampled_audit(words: dict[str, Path]) -> None:
    """At 99.9 %: a false alarm has a probability of .001 for each budget; fixed seed."""
    texts, chosen = sentences(words["vectors"], 10), {"resource": words["vectors"]}
    exact = epsilometer.exact_loss(texts, "tem", [3.0, 8.0], chosen, design=UNIFORM).filter(pairs="all")
    design = Design(temperature=0, alpha=0.001)
    sampled = epsilometer.audit(texts, "tem", [3.0, 8.0], ["likelihood"], 100_000, chosen, design=design)
    for low, high, loss, upper in zip(
        exact["average_low"], exact["average_high"], sampled["loss"], sampled["upper"], strict=True
    ):
        assert loss <= high
        assert low <= upper


def test_a_law_of_one_row_a_text() -> None:
    """Units need not be words: length is then no part of what is released, and unlike lengths are compared."""

    class Whole(Spelled):
        def laws(self, texts: Any) -> Laws:
            return super().laws([text[0] for text in texts])

    table = epsilometer.exact_loss(["a b c", "b a", "c"], Whole(LAW), [1.0], design=UNIFORM)
    assert table["average"].is_finite().all()
    assert table["pairs"].to_list() == ["all"]
    assert isinstance(table, pl.DataFrame)
