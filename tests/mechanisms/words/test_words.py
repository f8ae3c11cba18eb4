"""Word mechanisms: their laws satisfy their claims exactly, and their draws follow their laws."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import lambertw, logsumexp

import epsilometer
from epsilometer.auditing.claims.worst_case import check_claim
from epsilometer.auditing.trials.design import Design
from epsilometer.core.component import build, find
from epsilometer.core.guarantees import Granularity, Neighbours
from epsilometer.core.mechanism import HasDistance, HasLaws, RewritesGrid
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.words.diffractor import Diffractor, Geometric, Truncated, _log_sum
from epsilometer.mechanisms.words.shared.lists import WordLists
from epsilometer.mechanisms.words.shared.moved import spherical
from epsilometer.mechanisms.words.tem import TEM
from epsilometer.text.vectors import WordVectors
from epsilometer.text.words import words
from tests.support.places import BROKEN, SHARED
from tests.support.refusals import refused

GLOVE = SHARED / "data" / "glove_50d.npz"
# A test of a distribution fails by chance once in 10^9 seeds, and wrong distributions must be below it.
ALPHA = 1e-9


def clustered() -> WordVectors:
    """200 words of 20 dimensions, half of them in clusters, two of them equal."""
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(200, 20))
    vectors[:100] = vectors[rng.integers(100, 110, 100)] + 0.2 * vectors[:100]
    vectors[1] = vectors[0]
    return WordVectors([f"w{i}" for i in range(200)], vectors)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Resources: clustered.npz, tiny.npz (30 words), glove.npz where there is data, and 1 and 3 lists from each."""
    path = tmp_path_factory.mktemp("words")
    everything = {"clustered": clustered()}
    everything["tiny"] = WordVectors(everything["clustered"].words[85:115], everything["clustered"].vectors[85:115])
    if GLOVE.is_file():
        glove = WordVectors.load(GLOVE).whole_words()
        everything["glove"] = WordVectors(glove.words[:300], glove.vectors[:300])
    for name, vectors in everything.items():
        vectors.save(path / f"{name}.npz")
        for lists in (1, 3):
            WordLists.build([vectors], lists).save(path / f"{name}_{lists}.npz")
    return path


def make(name: str, resource: Path, **settings: Any) -> Any:
    return build(find("mechanisms", name, "rewrite"), {"resource": resource, **settings}, name)


LAWFUL = {
    "tem": ("tem", "", {}),
    "tem_wide_window": ("tem", "", {"beta": 0.5}),
    "santext": ("santext", "", {}),
    "geometric_1": ("diffractor", "_1", {}),
    "geometric_3": ("diffractor", "_3", {}),
    "tem_1": ("diffractor", "_1", {"noise": "tem"}),
    "tem_3": ("diffractor", "_3", {"noise": "tem", "gamma": 2.5}),
}
PLAIN = {  # the same epsilon for all pairs of words
    "exponential": ("exponential", "", {}),
    "custext": ("custext", "", {"size": 8}),
}
UNCLAIMED = {
    "santext_plus": ("santext_plus", "", {}),
    "truncated_gumbel": ("truncated_gumbel", "", {}),
    "custext_plus": ("custext", "", {"stop_words": "kept"}),
}
PUBLISHED = {
    "tem_released": ("tem", "", {"as_published": True, "beta": 0.3}),
    "custext_released": ("custext", "", {"as_published": True, "size": 8}),
    "diffractor_released": ("diffractor", "_1", {"as_published": True}),
}
METRIC = {
    **LAWFUL,
    "santext_normalised": ("santext", "", {"normalise": True}),
    "mvc": ("mvc", "", {}),
    "vickrey": ("vickrey", "", {}),
    "mahalanobis": ("mahalanobis", "", {}),
}
ALL = {**METRIC, **PLAIN, **UNCLAIMED, **PUBLISHED}


def mechanism_of(folder: Path, key: str, data: str) -> Any:
    name, lists, settings = ALL[key]
    if not (folder / f"{data}.npz").exists():
        pytest.skip("no shared data beside the project")
    return make(name, folder / f"{data}{lists}.npz", **settings)


def law(mechanism: Any, epsilon: float) -> np.ndarray:
    """[V, V]: log P(y | x) of all words."""
    size = len(mechanism.vocabulary)
    (log_p,) = mechanism.laws(mechanism.vocabulary.words).log_probabilities(np.arange(size), [epsilon])
    np.testing.assert_allclose(logsumexp(log_p, axis=1), 0, atol=1e-12)
    return log_p


def excess(mechanism: Any, epsilon: float, cap: float = np.inf) -> float:
    """max of log P(y|x) - log P(y|x') - epsilon d(x, x') over words x, x', y: at most 0 if the claim is true."""
    names = mechanism.vocabulary.words
    pairs = np.array(list(itertools.product(range(len(names)), repeat=2)))
    distance = mechanism.distance(names, pairs, epsilon).reshape(len(names), -1)
    log_p = law(mechanism, epsilon)
    with np.errstate(invalid="ignore"):  # outputs that neither word can have give inf - inf
        return max(
            float(np.nanmax(row - log_p - epsilon * np.minimum(d, cap)[:, None]))
            for row, d in zip(log_p, distance, strict=True)
        )


@pytest.mark.parametrize("data", ["clustered", "glove"])
@pytest.mark.parametrize("key", [*LAWFUL, *PLAIN])
def test_the_claim_holds_for_all_words_and_outputs(folder: Path, key: str, data: str) -> None:
    mechanism = mechanism_of(folder, key, data)
    for epsilon in (0.05, 1, 5, 20):
        assert excess(mechanism, epsilon) <= 1e-9


@pytest.mark.parametrize("key", ["tem_1", "tem_3"])
def test_the_loss_of_list_tem_is_at_most_epsilon_gamma(folder: Path, key: str) -> None:
    mechanism = mechanism_of(folder, key, "clustered")
    for epsilon in (0.05, 1, 5):
        cap = 2 / epsilon * np.log(999 * 199) if mechanism.gamma == "auto" else mechanism.gamma
        assert excess(mechanism, epsilon, cap=cap) <= 1e-9


def test_the_gamma_of_list_tem_depends_on_epsilon(folder: Path) -> None:
    """Words beyond it come out with a probability of at most 0.001, where a gamma of 5 leaves nearly all there.

    The claim for two words ends at 2 ln(999 (V - 1)) at every epsilon.
    """
    mechanism = mechanism_of(folder, "tem_1", "clustered")
    place = mechanism.lists.place[0].astype(int)
    apart = np.abs(place[:, None] - place)
    for epsilon in (0.2, 1, 5):
        gamma = 2 / epsilon * np.log(999 * 199)
        share = (np.exp(law(mechanism, epsilon)) * (apart >= gamma)).sum(axis=1).max()
        assert share <= 0.001
        assert (share > 0) == (gamma < apart.max())
        expected = min(apart[3, 150], gamma) + min(apart[100, 20], gamma)
        assert mechanism.distance(["w3 w100", "w150 w20"], np.array([(0, 1)]), epsilon)[0] == pytest.approx(expected)
    fixed = make("diffractor", folder / "clustered_1.npz", noise="tem", gamma=5)
    assert (np.exp(law(fixed, 0.2)) * (apart >= 5)).sum(axis=1).min() > 0.9


def test_the_claim_of_geometric_noise_is_tight(folder: Path) -> None:
    """With one place less it fails, so the check has power; so it does for the others with far less distance."""
    mechanism = mechanism_of(folder, "geometric_1", "tiny")
    assert excess(mechanism, 1.0, cap=28) > 0.999  # the list's ends are 29 places apart
    for key in ("tem", "santext", "geometric_3", "tem_1"):
        mechanism = mechanism_of(folder, key, "clustered")
        assert excess(mechanism, 5, cap=0.1) > 1


@pytest.mark.parametrize("epsilon", [3.33e5, 3.33e7])
def test_a_tight_claim_of_many_nats_is_not_violated_by_rounding(folder: Path, epsilon: float) -> None:
    finding = check_claim(mechanism_of(folder, "geometric_3", "clustered"), epsilon)
    assert finding.claimed is not None
    assert finding.worst is not None
    assert finding.worst - finding.claimed > 1e-9, "more than a rounding of so few nats"
    assert finding.verdict == "not refuted"


@pytest.mark.parametrize("epsilon", [3, 4, 5])
def test_the_released_tem_breaks_the_claim(folder: Path, epsilon: float) -> None:
    """By its own gamma, where some words see fewer words within it than others do."""
    assert excess(make("tem", folder / "clustered.npz", as_published=True), epsilon) > 0.5
    assert excess(mechanism_of(folder, "tem", "clustered"), epsilon) <= 1e-9


def test_the_released_diffractor_breaks_the_claim(folder: Path) -> None:
    released = str(BROKEN / "diffractor_released.py")
    assert excess(make(released, folder / "clustered_3.npz"), 1) > 100  # unlike lists
    assert excess(make(released, folder / "clustered_1.npz"), 1) == np.inf  # words that pass through


def test_tem_is_the_two_step_mechanism_with_the_rest_candidate(folder: Path) -> None:
    """The naive twin: words within gamma, and one candidate for the rest that is then drawn from uniformly."""
    for epsilon in (1, 5, 20):
        mechanism = mechanism_of(folder, "tem", "clustered")
        gamma, log_p = mechanism.gamma(epsilon), law(mechanism, epsilon)
        for x in (0, 50, 150):
            d = np.linalg.norm(mechanism.vectors.exact - mechanism.vectors.exact[x], axis=1)
            inside = d <= gamma
            weight = np.exp(-epsilon / 2 * d[inside])
            outside = (~inside).sum()
            rest = np.exp(epsilon / 2 * (-gamma + 2 / epsilon * np.log(outside))) if outside else 0.0
            np.testing.assert_allclose(np.exp(log_p[x, inside]), weight / (weight.sum() + rest), rtol=1e-9)
            assert rest / (weight.sum() + rest) <= mechanism.beta * (1 + 1e-9)
            if outside:
                np.testing.assert_allclose(np.exp(log_p[x, ~inside]), rest / outside / (weight.sum() + rest), rtol=1e-9)
    assert outside > 0  # the largest epsilon leaves words outside


def test_geometric_noise_has_the_published_probabilities() -> None:
    """1-Diffractor eq. 4: P(k) = (1 - a) / (1 + a) a^|k|, and the tails at the ends (eq. 5)."""
    a, p = np.exp(-0.5), np.exp(Geometric(41).log_law(np.array(20), np.arange(41), 0.5))
    k = np.arange(-19, 20)
    np.testing.assert_allclose(p[1:-1], (1 - a) / (1 + a) * a ** np.abs(k), rtol=1e-12)
    np.testing.assert_allclose(p[[0, -1]], a**20 / (1 + a), rtol=1e-12)
    assert np.exp(Geometric(9).log_law(np.array(4), np.arange(3, 6), np.log(3))).tolist() == pytest.approx(
        [1 / 6, 1 / 2, 1 / 6]
    )


@pytest.mark.parametrize(
    "moves", [Geometric(12), Truncated(12), Truncated(12, 5), Truncated(12, 2.5), Truncated(12, 0), Truncated(12, 99)]
)
@pytest.mark.parametrize("epsilon", [1e-6, 0.3, 3, 800])
def test_closed_forms_invert_their_laws(moves: Any, epsilon: float) -> None:
    """Each place takes one stretch of the uniform: of 10,000 even steps it must get its share to within one."""
    uniforms = (np.arange(10_000) + 0.5) / 10_000
    for place in (0, 1, 6, 11):
        places = moves.draw(np.full(10_000, place), epsilon, uniforms)
        expected = 10_000 * np.exp(moves.log_law(np.array(place), np.arange(12), epsilon))
        assert np.abs(np.bincount(places, minlength=12) - expected).max() <= 1 + 1e-6


@pytest.mark.parametrize("epsilon", [1e-4, 0.04, 1.0, 30.0, 700.0])
def test_the_law_over_lists_is_that_of_all_terms(epsilon: float) -> None:
    """Terms that cannot reach the last bit are left out: the same bits as when every one is added."""
    orders = np.stack([np.random.default_rng(seed).permutation(3000) for seed in range(3)])
    place = np.argsort(orders, axis=1)
    each = [Geometric(3000).log_law(row[:40, None], row, epsilon) for row in place]
    expected = np.logaddexp(np.logaddexp(each[0], each[1]), each[2])
    np.testing.assert_array_equal(_log_sum(_log_sum(each[0], each[1]), each[2]), expected)


def test_closed_forms_survive_the_ends_of_the_uniform() -> None:
    ends = np.array([2.0**-54, 1 - 2.0**-53])
    for moves, epsilon in itertools.product(
        (Geometric(9), Truncated(9), Truncated(9, 5), Truncated(9, 99)), (1e-300, 1e-9, 1.0, 1e4)
    ):
        places = moves.draw(np.array([4, 4]), epsilon, ends)
        assert ((places >= 0) & (places < 9)).all()


def fit(sample: np.ndarray, log_p: np.ndarray) -> float:
    """p-value of Pearson's chi-square, outputs of small expectation pooled; 0 if an impossible one was drawn."""
    if np.isneginf(log_p[sample]).any():
        return 0.0
    order = np.argsort(log_p)
    order = order[np.isfinite(log_p[order])]
    expected = np.exp(log_p[order]) * len(sample)
    seen = np.bincount(sample, minlength=len(log_p))[order]
    pool = np.maximum(np.cumsum(expected) // 20, 0)
    pool = np.minimum(np.unique(pool, return_inverse=True)[1], np.unique(pool).size - 2)
    return float(stats.chisquare(np.bincount(pool, seen), np.bincount(pool, expected)).pvalue)


@pytest.mark.parametrize("key", [*LAWFUL, *PLAIN, *UNCLAIMED, *PUBLISHED, "santext_normalised"])
def test_draws_follow_the_law(folder: Path, key: str) -> None:
    """Chi-square of 20,000 draws of one word of a text; a law whose epsilon is off is told apart."""
    mechanism, count = mechanism_of(folder, key, "tiny"), 20_000
    epsilon, off = {
        "truncated_gumbel": (200.0, 10.0),
        "exponential": (4.0, 1.25),
        "custext": (4.0, 1.25),
        "santext_normalised": (4.0, 1.25),
    }.get(key.split("_released")[0].removesuffix("_plus"), (1.0, 1.25))
    units = mechanism.rewrite(["w3 w100 w90"] * count, epsilon, Noise.named(count, 0, key)).units
    for place, word in ((1, "w100"), (2, "w90")):
        outputs = units.values[place::3]
        x = mechanism.vocabulary.index[word]
        assert fit(outputs, law(mechanism, epsilon)[x]) > ALPHA
        assert fit(outputs, law(mechanism, off * epsilon)[x]) < ALPHA


@pytest.mark.parametrize("key", ["tem", "santext", "exponential", "geometric_3", "tem_3", "diffractor_released"])
def test_single_entries_are_the_law(folder: Path, key: str) -> None:
    mechanism = mechanism_of(folder, key, "clustered")
    laws = mechanism.laws(mechanism.vocabulary.words)
    word, low = np.meshgrid(np.arange(200), np.arange(200), indexing="ij")
    high = low[:, ::-1]
    values = laws.entries(word.ravel(), [low.ravel(), high.ravel()], [2.0, 9.0])
    for outputs, epsilon, entries in zip([low, high], [2.0, 9.0], values, strict=True):
        log_p = law(mechanism, epsilon)[word, outputs]
        np.testing.assert_allclose(entries, log_p.ravel(), rtol=1e-9, atol=1e-9)


def test_noise_of_mvc_has_the_right_length_and_every_direction() -> None:
    """Kolmogorov-Smirnov on 20,000 draws; lengths and directions a little off are told apart."""
    size, epsilon = 6, 3.0
    z = spherical(Noise.named(20_000, 0, "mvc").uniforms(size + 1), epsilon)
    length = np.linalg.norm(z, axis=1)
    assert stats.kstest(length * epsilon, stats.gamma(size).cdf).pvalue > ALPHA
    assert stats.kstest(length * epsilon, stats.gamma(size + 0.2).cdf).pvalue < ALPHA
    # A coordinate of a uniform direction: (u + 1) / 2 ~ Beta((d - 1) / 2, (d - 1) / 2).
    slanted = (z @ np.array([0.6, 0.8, 0, 0, 0, 0])) / length
    half = (size - 1) / 2
    for u in (z[:, 0] / length, z[:, 5] / length, slanted):
        assert stats.kstest((u + 1) / 2, stats.beta(half, half).cdf).pvalue > ALPHA
    assert stats.kstest((slanted + 1) / 2, stats.beta(half - 0.5, half - 0.5).cdf).pvalue < ALPHA
    assert abs(np.corrcoef(length, z[:, 0] / length)[0, 1]) < 6.2 / np.sqrt(20_000)  # 6.2 standard errors: 6e-10


def test_mvc_on_a_line_follows_its_law_and_keeps_its_claim(tmp_path: Path) -> None:
    """In one dimension the noise is Laplace, so the law is a difference of its CDF at the middles between words."""
    at = np.sort(np.random.default_rng(4).normal(size=9)).astype(np.float32).astype(np.float64)
    WordVectors([f"w{i}" for i in range(9)], at[:, None]).save(tmp_path / "line.npz")
    mechanism, epsilon, count = make("mvc", tmp_path / "line.npz"), 1.5, 20_000
    borders = np.concatenate([[-np.inf], (at[1:] + at[:-1]) / 2, [np.inf]])
    log_p, sharper = (np.log(np.diff(stats.laplace.cdf(borders, at[:, None], 1 / e), axis=1)) for e in (1.5, 1.9))
    ratio = log_p[:, None] - log_p[None] - epsilon * np.abs(at[:, None] - at)[:, :, None]
    assert ratio.max() <= 1e-9
    outputs = mechanism.rewrite(["w2"] * count, epsilon, Noise.named(count, 0, "line")).units.values
    assert fit(outputs, log_p[2]) > ALPHA
    assert fit(outputs, sharper[2]) < ALPHA


def test_mvc_is_its_naive_twin(folder: Path) -> None:
    """Word by word, with a generator's worth of uniforms for each."""
    mechanism = make("mvc", folder / "clustered.npz")
    texts, epsilon = ["w1 w150 nonsense", "", "w7", "w150 w150"], 12.0
    noise = Noise.named(4, 1, "twin")
    twin = []
    for i, text in enumerate(texts):
        for number, word in enumerate(words(text)):
            x = mechanism.vectors.exact[mechanism.vocabulary.index.get(word, 0)]
            *u, last, _ = noise[i : i + 1].uniforms(22, first=22 * number)[0]
            g = stats.norm.ppf(u)
            z = x + stats.gamma(20, scale=1 / epsilon).ppf(last) * g / np.sqrt((g**2).sum())
            twin.append(min(range(200), key=lambda w: np.linalg.norm(mechanism.vectors.exact[w] - z)))
    assert mechanism.rewrite(texts, epsilon, noise).units.values.tolist() == twin


@pytest.mark.parametrize("key", ALL)
def test_texts_keep_their_length_and_do_not_depend_on_the_batch(folder: Path, key: str) -> None:
    mechanism = mechanism_of(folder, key, "clustered")
    texts = ["w1 W2, w3!", "", "zebra w7", "w1 W2, w3!", "...", "w199 " * 40] * 20
    noise = Noise.named(len(texts), 2, key)
    whole = mechanism.rewrite(texts, 2.0, noise)
    assert [len(words(text)) for text in whole.texts] == [3, 0, 2, 3, 0, 40] * 20
    assert whole.units.lengths.tolist() == [3, 0, 2, 3, 0, 40] * 20
    if key != "diffractor_released":  # this form leaves words outside the vocabulary unchanged
        assert list(whole.texts) == [
            " ".join(mechanism.vocabulary.words[u] for u in whole.units.row(i)) for i in range(len(texts))
        ]
    assert whole.texts[5] != whole.texts[11]  # the same text with two streams
    for i in range(0, len(texts), 7):
        assert mechanism.rewrite(texts[i : i + 1], 2.0, noise[i : i + 1]).texts[0] == whole.texts[i]
    order = np.random.default_rng(0).permutation(len(texts))
    shuffled = mechanism.rewrite([texts[i] for i in order], 2.0, noise[order])
    assert list(shuffled.texts) == [whole.texts[i] for i in order]
    assert list(mechanism.rewrite([], 2.0, noise[:0]).texts) == []


@pytest.mark.parametrize("key", ["tem", "santext", "exponential", "santext_plus", "tem_released"])
def test_a_grid_equals_its_parts(folder: Path, key: str) -> None:
    mechanism = mechanism_of(folder, key, "clustered")
    assert isinstance(mechanism, RewritesGrid)
    texts, noises = ["w1 w2", "w150", ""] * 10, [Noise.named(30, e) for e in range(3)]
    grid = mechanism.rewrite_grid(texts, [0.5, 2, 9], noises)
    for part, epsilon, noise in zip(grid, [0.5, 2, 9], noises, strict=True):
        assert list(part.texts) == list(mechanism.rewrite(texts, epsilon, noise).texts)


@pytest.mark.parametrize("key", ["tem", "santext"])
def test_words_draw_alike_in_whatever_order_they_came(folder: Path, key: str) -> None:
    """One half of the words at one epsilon first, then all at two: as all at once."""
    words = clustered().words
    texts, epsilons = [*words, *words[::-1]], [3.0, 12.0]
    noises = [Noise.named(len(texts), epsilon) for epsilon in epsilons]
    late = mechanism_of(folder, key, "clustered")
    late.rewrite(words[::-2], 12.0, Noise.named(len(words[::-2]), "first"))
    grids = [m.rewrite_grid(texts, epsilons, noises) for m in (late, mechanism_of(folder, key, "clustered"))]
    for first, other in zip(*grids, strict=True):
        assert list(first.texts) == list(other.texts)
    assert sorted(late._tables) == epsilons
    for table in late._tables.values():
        assert np.array_equal(np.sort(table.place), np.arange(len(words)))  # each word has exactly one row


@pytest.mark.parametrize("key", ["tem", "tem_released", "santext", "santext_plus", "exponential"])
def test_blocks_and_single_outputs_draw_the_same_words(folder: Path, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large vocabulary keeps the probabilities of blocks, a small one those of all outputs. One of 2,000 draws would
    differ by rounding with probability below 1e-8; seed fixed."""
    texts, epsilons = clustered().words * 5, [3.0, 12.0]
    noises = [Noise.named(len(texts), epsilon) for epsilon in epsilons]
    grids = []
    for whole, block in ((1 << 28, 1), (0, 32)):
        monkeypatch.setattr("epsilometer.mechanisms.words.shared.kernel._WHOLE", whole)
        mechanism = mechanism_of(folder, key, "clustered")
        assert mechanism.block == block
        grids.append([list(rewrites.texts) for rewrites in mechanism.rewrite_grid(texts, epsilons, noises)])
    assert grids[0] == grids[1]


@pytest.mark.parametrize("whole", [0, 1 << 28])
@pytest.mark.parametrize("key", ["tem", "tem_wide_window", "tem_released"])
def test_tem_draws_from_its_law_however_few_words_lie_within_gamma(
    folder: Path, key: str, whole: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The published form keeps the same table as the others: its blocks' probabilities are those of its law."""
    monkeypatch.setattr("epsilometer.mechanisms.words.shared.kernel._WHOLE", whole)
    texts, epsilons = clustered().words, [3.0, 12.0, 60.0]
    noises = [Noise.named(len(texts), epsilon) for epsilon in epsilons]
    grids = []
    for share in (0, 1):  # all words, or only those within gamma, are weighed individually
        monkeypatch.setattr("epsilometer.mechanisms.words.tem._FEW", share)
        mechanism = mechanism_of(folder, key, "clustered")
        grids.append([list(rewrites.texts) for rewrites in mechanism.rewrite_grid(texts, epsilons, noises)])
        for epsilon in epsilons:
            starts = range(0, 200, mechanism.block)
            expected = np.add.reduceat(np.exp(law(mechanism, epsilon)), starts, axis=1).cumsum(axis=1)
            table = mechanism._tables[epsilon]
            np.testing.assert_allclose(table.cumulative[table.place], expected, rtol=0, atol=1e-12)
    assert grids[0] == grids[1]


@pytest.mark.parametrize("key", METRIC)
def test_claims_and_distances(folder: Path, key: str) -> None:
    mechanism = mechanism_of(folder, key, "clustered")
    claim = mechanism.guarantee(0.5)
    assert (claim.epsilon, claim.granularity, claim.neighbours) == (0.5, Granularity.WORD, Neighbours.SAME_LENGTH)
    assert claim.delta == 0
    assert isinstance(mechanism, HasDistance)
    assert isinstance(mechanism, HasLaws) == (key not in ("mvc", "vickrey", "mahalanobis"))
    texts = ["w3 w100", "w3 w20", "w150 w20", "w3", "", "?", "zebra w100"]
    pairs = np.array([(0, 1), (1, 2), (0, 2), (0, 3), (4, 5), (4, 3), (0, 0), (0, 6)])
    d = mechanism.distance(texts, pairs, 0.5)
    if "vectors" in dir(type(mechanism)):
        v = mechanism.vectors.exact
        if key == "mahalanobis":  # ||M^(-1/2) (x - y)||
            s = np.cov(v, rowvar=False, ddof=0)
            v = v @ np.linalg.cholesky(np.linalg.inv(0.2 * s / np.diag(s).mean() + 0.8 * np.eye(20)))
        near, two = np.linalg.norm(v[100] - v[20]), np.linalg.norm(v[3] - v[150])
        far = np.linalg.norm(v[3] - v[0])  # a word outside the vocabulary counts as the first word
        assert claim.metric == ("Mahalanobis distance" if key == "mahalanobis" else "L2 distance")
    else:
        place = mechanism.lists.place.tolist()
        gamma = {"tem_1": 2 / 0.5 * np.log(999 * 199), "tem_3": 2.5}
        near, two, far = (
            min(gamma.get(key, np.inf), max(abs(p[i] - p[j]) for p in place)) for i, j in ((100, 20), (3, 150), (3, 0))
        )
        assert claim.metric == "largest list distance"
    np.testing.assert_allclose(d, [near, two, near + two, np.inf, 0, np.inf, 0, far], rtol=1e-12)
    assert mechanism.distance(texts, np.empty((0, 2), int), 0.5).shape == (0,)


def test_plain_claims_count_words(folder: Path) -> None:
    texts = ["w3 w100", "w3 w20", "w150 w20", "w3"]
    pairs = np.array([(0, 1), (0, 2), (0, 3), (1, 1)])
    exponential, custext = (
        mechanism_of(folder, "exponential", "clustered"),
        mechanism_of(folder, "custext", "clustered"),
    )
    assert exponential.distance(texts, pairs, 1.0).tolist() == [1, 2, np.inf, 0]
    assert (exponential.guarantee(1).metric, custext.guarantee(1).metric) == (None, "0 or 1 within a group")
    group, sets = custext._sets
    assert sorted(sets[sets >= 0].tolist()) == list(range(200))  # a partition
    assert all(group[word] == number for number, words in enumerate(sets) for word in words[words >= 0])
    far = {i for i in range(200) if group[i] != group[0]}
    near = {i for i in range(200) if group[i] == group[0]} - {0}
    names = custext.vocabulary.words
    for others, distance in ((far, np.inf), (near, 1.0)):
        pair = [names[0], names[min(others)]]
        assert custext.distance(pair, np.array([(0, 1)]), 1.0).tolist() == [distance]


def released_sets(vectors: np.ndarray, size: int, mapping: str) -> dict[int, list[int]]:
    """The naive twin of the reference code's three strategies: each word's set of outputs, nearest first."""
    d = np.linalg.norm(vectors[:, None] - vectors, axis=2)
    sets: dict[int, list[int]] = {}
    for word in range(len(vectors)):
        if word in sets:
            continue
        pool = [w for w in range(len(vectors)) if mapping != "conservative" or w not in sets]
        near = sorted(pool, key=lambda w: (w != word, d[word, w], w))[:size]
        for w in near if mapping != "aggressive" else [word]:
            sets.setdefault(w, near)
    return sets


@pytest.mark.parametrize("mapping", ["conservative", "aggressive", "overlapping"])
def test_the_released_custext_has_the_sets_of_each_strategy(folder: Path, mapping: str) -> None:
    released = make("custext", folder / "clustered.npz", as_published=True, mapping=mapping, size=8)
    outputs, _ = released._scores
    expected = released_sets(released.vectors.exact, 8, mapping)
    assert {word: row[row >= 0].tolist() for word, row in enumerate(outputs)} == expected
    law_of = law(released, 4.0)
    supports = {frozenset(row) for row in expected.values()}
    overlap = any(a != b and a & b for a, b in itertools.combinations(supports, 2))
    assert overlap == (mapping != "conservative")
    if mapping == "conservative":
        np.testing.assert_array_equal(law_of, law(make("custext", folder / "clustered.npz", size=8), 4.0))
    # Epsilon for any two words is infinitely exceeded; without shared outputs, only by words of different groups.
    assert excess(released, 4.0) == np.inf
    same = np.array([[set(expected[a]) == set(expected[b]) for b in range(200)] for a in range(200)])
    within = max(np.ptp(law_of[np.ix_(np.flatnonzero(same[w]), expected[w])], axis=0).max() for w in range(200))
    assert within <= 4.0 + 1e-9


def test_groups_of_custext_are_greedy_and_nearest(folder: Path) -> None:
    """The naive twin: word after word, each with the nearest of those that are left."""
    mechanism = mechanism_of(folder, "custext", "clustered")
    v, left, groups = mechanism.vectors.exact, set(range(200)), []
    for word in range(200):
        if word in left:
            near = sorted(left, key=lambda w: (w != word, np.linalg.norm(v[w] - v[word]), w))[:8]
            groups.append(near)
            left -= set(near)
    assert [row[row >= 0].tolist() for row in mechanism._sets[1]] == groups


def test_vickrey_prices_the_two_nearest_words(folder: Path) -> None:
    mechanism = mechanism_of(folder, "vickrey", "clustered")
    points = np.random.default_rng(1).normal(size=(50, 20))
    d = np.linalg.norm(points[:, None] - mechanism.vectors.exact, axis=2)
    order = np.argsort(d, axis=1)[:, :2]
    nearest, two = np.take_along_axis(d, order, 1).T
    price = two / (nearest + two)  # t = 1/2
    assert mechanism.chosen(points, price - 1e-9, order[:, 0]).tolist() == order[:, 0].tolist()
    assert mechanism.chosen(points, price + 1e-9, order[:, 0]).tolist() == order[:, 1].tolist()
    points = points[:5]
    mvc = make("vickrey", folder / "clustered.npz", t=0)
    assert mvc.chosen(points, np.full(5, 1 - 1e-9), order[:5, 0]).tolist() == order[:5, 0].tolist()


def published_vickrey_in_one_dimension(epsilon: float, words: np.ndarray, private: int) -> np.ndarray:
    """The published law by quadrature: Laplace noise, the own word left out where it is the nearest, then the price."""
    grid = np.linspace(-60, 60, 2_400_001)
    d = np.abs(words[private] + grid[:, None] - words)
    order = np.argsort(d, axis=1)
    first = (order[:, 0] == private).astype(int)
    rows = np.arange(len(grid))
    nearest, two = order[rows, first], order[rows, first + 1]
    density = epsilon / 2 * np.exp(-epsilon * np.abs(grid)) * (grid[1] - grid[0])
    price = 1 / (1 + np.exp(np.minimum(d[rows, nearest] ** 2, 700)))
    return np.bincount(nearest, density * price, 3) + np.bincount(two, density * (1 - price), 3)


def test_the_released_vickrey_breaks_the_claim(tmp_path: Path) -> None:
    """Words 0.02 apart may lose 0.01 nats at epsilon 0.5, and lose 0.59: each is left out for itself alone.

    The law is computed by quadrature; the sampler follows it by chi-square at 1e-9, 40,000 draws from each word.
    """
    places, epsilon = np.array([0.0, 0.02, 9.0]), 0.5
    WordVectors(["a", "b", "c"], places[:, None]).save(tmp_path / "v.npz")
    mechanism = make("vickrey", tmp_path / "v.npz", as_published=True)
    laws = np.array([published_vickrey_in_one_dimension(epsilon, places, word) for word in (0, 1)])
    np.testing.assert_allclose(laws.sum(axis=1), 1, atol=1e-4)
    for word, law in zip("ab", laws, strict=True):
        units = mechanism.rewrite([word] * 40_000, epsilon, Noise.named(40_000, "vickrey", word)).units
        assert stats.chisquare(np.bincount(units.values, minlength=3), law / law.sum() * 40_000).pvalue > 1e-9
    assert mechanism.moved(["a"], epsilon, Noise.named(1, 0)) is None  # a test of its noise would prove nothing
    claimed = epsilon * mechanism.distance(["a", "b"], np.array([(0, 1)]), epsilon)[0]
    assert claimed == pytest.approx(0.01)
    assert np.abs(np.log(laws[0] / laws[1])).max() > 0.58
    # The corrected form satisfies the claim of 0.01 nats between the two words, up to 6 standard errors.
    corrected = make("vickrey", tmp_path / "v.npz")
    counts = [
        np.bincount(corrected.rewrite([w] * 40_000, epsilon, Noise.named(40_000, 1, w)).units.values, minlength=3)
        for w in "ab"
    ]
    error = np.sqrt(1 / counts[0] + 1 / counts[1])
    assert (np.abs(np.log(counts[0] / counts[1])) < claimed + 6 * error).all()


def test_the_released_vickrey_hardly_ever_writes_the_word(folder: Path) -> None:
    released = make("vickrey", folder / "clustered.npz", as_published=True)
    texts, noise = ["w3 w50 w100 w150"] * 500, Noise.named(500, 2)
    stays = [
        np.mean(mechanism.rewrite(texts, 30.0, noise).units.values.reshape(500, 4) == [3, 50, 100, 150])
        for mechanism in (released, mechanism_of(folder, "vickrey", "clustered"))
    ]
    assert stays[0] < 0.1 < 0.3 < stays[1]


def test_noise_of_mahalanobis_has_the_covariance_of_its_matrix(folder: Path) -> None:
    """Of 50,000 draws; a deviation of 6.2 standard errors in one of 210 entries has probability 210 * 6e-10."""
    mechanism, count = mechanism_of(folder, "mahalanobis", "clustered"), 50_000
    z = mechanism.stretched(spherical(Noise.named(count, 0, "ellipsoid").uniforms(21), 1.0))
    s = np.cov(mechanism.vectors.exact, rowvar=False, ddof=0)
    matrix = 0.2 * s / np.diag(s).mean() + 0.8 * np.eye(20)
    products = z[:, :, None] * z[:, None] / (20 * 21 / 20)  # E r^2 = d (d + 1), spread over d coordinates
    error = np.abs(products.mean(axis=0) - matrix) / (products.std(axis=0) / np.sqrt(count))
    assert error.max() < 6.2


def test_scale_and_neighbours_of_the_truncated_gumbel(folder: Path) -> None:
    """Its constants by the paper's formulas, and a large epsilon keeps the word."""
    mechanism = mechanism_of(folder, "truncated_gumbel", "tiny")
    v = mechanism.vectors.exact
    d = np.linalg.norm(v[:, None] - v, axis=2)[np.triu_indices(30, 1)]
    low, high, epsilon = d.min(), d.max(), 100.0
    a = (epsilon - 2 * (1 + np.log(30)) / low) / 3
    w = np.real(lambertw(2 * a * high))
    assert w * np.exp(w) == pytest.approx(2 * a * high)
    assert mechanism.scale(epsilon) == pytest.approx(2 * high / min(w, np.log(a * low)))
    assert mechanism.scale(0.01) == np.inf
    reached = mechanism._competitors
    k = np.arange(1, 31)
    p = stats.poisson(np.log(29)).pmf(k)
    np.testing.assert_allclose(reached, np.cumsum(p / p.sum())[: len(reached)], rtol=1e-12)


def test_a_new_word_of_the_truncated_gumbel_costs_no_search(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its neighbours come out of the pass over all pairs that the noise's range needs anyway."""
    mechanism = mechanism_of(folder, "truncated_gumbel", "tiny")
    mechanism.scale(1.0)
    near, far = mechanism.vectors.neighbours(mechanism.vectors.exact, len(mechanism._competitors))
    monkeypatch.setattr(WordVectors, "neighbours", None)
    monkeypatch.setattr(WordVectors, "survey", None)
    nearest, distances = mechanism._nearest(np.arange(30))
    assert np.array_equal(nearest, near)
    assert np.array_equal(distances, far)
    mechanism.rewrite(mechanism.vocabulary.words[:3], 1.0, Noise.named(3, "new"))


def test_the_released_diffractor_lets_words_through(tmp_path: Path) -> None:
    names = ["unknown", "the", "1984", "cat", "dog", "bird"]
    vectors = WordVectors(names, np.random.default_rng(0).normal(size=(6, 4)))
    WordLists.build([vectors], 2).save(tmp_path / "l.npz")
    texts = ["The cat Schmidt 1984"] * 30
    released = make("diffractor", tmp_path / "l.npz", as_published=True).rewrite(texts, 0.01, Noise.named(30, 0)).texts
    assert all(text.split()[0] == "the" and text.split()[2] == "schmidt" for text in released)
    for place in (1, 3):  # numbers are words like others: moved if the lists contain them, otherwise unchanged
        assert len({text.split()[place] for text in released}) > 1
    outside = make("diffractor", tmp_path / "l.npz", as_published=True).rewrite(["2001"], 0.01, Noise.named(1, 0))
    assert outside.texts == ["2001"]
    rewrites = make("diffractor", tmp_path / "l.npz").rewrite(texts, 0.01, Noise.named(30, 0)).texts
    assert not any("schmidt" in text for text in rewrites)


def test_sensitive_words_of_a_file(tmp_path: Path) -> None:
    clustered().save(tmp_path / "v.npz")
    (tmp_path / "s.txt").write_text("w3\nW7 w9\nnowhere\n")
    mechanism = make("santext_plus", tmp_path / "v.npz", sensitive=tmp_path / "s.txt", keep=0)
    assert mechanism.outputs.tolist() == [3, 7, 9]
    assert set(mechanism.rewrite(["w3 w150"] * 50, 0.1, Noise.named(50, 0)).units.values.tolist()) == {3, 7, 9}
    (tmp_path / "s.txt").write_text("nowhere")
    for path, code in ((tmp_path / "s.txt", "EPS-M085"), (tmp_path / "none", "EPS-M084")):
        with refused(code, str(path)):
            make("santext_plus", tmp_path / "v.npz", sensitive=path).rewrite(["w3"], 1, Noise.named(1, 0))


def test_words_far_apart_at_a_large_epsilon_have_laws(tmp_path: Path) -> None:
    """Weights of -1e13 nats: their sums round to .002, the law does not."""
    words = clustered()
    WordVectors(words.words, 1e4 * words.vectors).save(tmp_path / "v.npz")
    for name in ("santext", "santext_plus"):
        assert np.exp(law(make(name, tmp_path / "v.npz"), 1e9)).sum(axis=1) == pytest.approx(1)


def test_equal_vectors_have_no_gumbel_scale(folder: Path) -> None:
    mechanism = mechanism_of(folder, "truncated_gumbel", "clustered")  # its first two words are equal
    assert mechanism.scale(1e6) == np.inf
    noise = mechanism._noise(np.array([0.25, 0.5]), 1e6) / mechanism._range[1]
    assert noise.tolist() == [-0.5, 0]  # uniform


def test_a_vocabulary_without_gumbel_noise_is_refused(tmp_path: Path) -> None:
    for names, vectors, refusal in (
        ("ab", np.eye(2), ("EPS-M093", "3", "2")),
        ("abc", np.ones((3, 2)), ("EPS-M092",)),
    ):
        WordVectors(list(names), vectors.astype(np.float32)).save(tmp_path / "v.npz")
        with refused(*refusal):
            make("truncated_gumbel", tmp_path / "v.npz").rewrite(["a"], 1.0, Noise.named(1, 0))


@pytest.mark.parametrize("epsilon", [1e3, 1e4, 1e9])
def test_custext_writes_no_word_whose_probability_is_too_small_for_a_number(folder: Path, epsilon: float) -> None:
    """Beyond 1,490 it wrote such words in place of the likeliest."""
    mechanism = mechanism_of(folder, "custext", "clustered")
    names = mechanism.vocabulary.words
    units = mechanism.rewrite(names * 5, epsilon, Noise.named(5 * len(names), 0)).units
    assert np.exp(law(mechanism, epsilon)[np.tile(np.arange(len(names)), 5), units.values]).min() > 0


@pytest.mark.parametrize("key", ALL)
def test_keeping_the_layout_drops_the_claim(folder: Path, key: str) -> None:
    name, lists, settings = ALL[key]
    with_layout = make(name, folder / f"clustered{lists}.npz", layout="kept", **settings)
    assert with_layout.guarantee(1.0) is None
    noise = Noise.named(3, 5, key)
    texts = ["W3,  (w20)! W100?", "", "..."]
    plain, laid = (
        mechanism_of(folder, key, "clustered").rewrite(texts, 9.0, noise),
        with_layout.rewrite(texts, 9.0, noise),
    )
    first, two, three = plain.texts[0].split()
    assert list(laid.texts) == [f"{first.upper()},  ({two})! {three.upper()}?", "", "..."]
    assert laid.units.values.tolist() == plain.units.values.tolist()


@pytest.mark.parametrize("key", ALL)
def test_texts_of_any_script(folder: Path, key: str) -> None:
    """Right-to-left, emoji, combining characters, no known word: as many words out as in, all of the vocabulary."""
    mechanism = mechanism_of(folder, key, "clustered")
    texts = [
        "שלום עולם w3",
        "👍🏽 🎉",
        "e\u0301te\u0301 İstanbul ǅ",
        "नमस्ते",
        "\u202emalicious\u202c w1",
        "zebra quagga",
        "ß ﬁ ½",
    ]
    rewrites = mechanism.rewrite(texts, 3.0, Noise.named(len(texts), 6, key))
    for text, rewrite, units in zip(texts, rewrites.texts, rewrites.units.lengths, strict=True):
        assert len(words(text)) == units
        if key != "diffractor_released":
            assert len(rewrite.split()) == units
            assert set(rewrite.split()) <= set(mechanism.vocabulary.words)


def test_settings_are_checked_and_files_read_late(tmp_path: Path) -> None:
    for name, settings, refusal in (
        ("tem", {"beta": 1.0}, ("EPS-C015", "tem.beta", "1.0")),
        ("diffractor", {"noise": "laplace"}, ("EPS-C015", "diffractor.noise", "laplace")),
        ("diffractor", {"gamma": -1}, ("EPS-C015", "diffractor.gamma", "-1")),
        ("mvc", {"gamma": 1}, ("EPS-C022", "mvc", "gamma")),
    ):
        with refused(*refusal):
            make(name, tmp_path / "none.npz", **settings)
    for name in ("tem", "santext", "mvc", "diffractor"):
        mechanism = make(name, tmp_path / "none.npz")
        assert mechanism.guarantee(1).epsilon == 1
        with refused("EPS-M089" if name == "diffractor" else "EPS-D073", "none.npz"):
            mechanism.rewrite(["a"], 1, Noise.named(1, 0))


def test_the_likelihood_attack_reads_the_words_that_are_let_through(tmp_path: Path) -> None:
    """Both texts have one word outside the lists: their units say nothing, the text names the source every time."""
    vectors = WordVectors([*"abcdefgh", "unknown"], np.random.default_rng(0).normal(size=(9, 3)).astype(np.float32))
    WordLists.build([vectors], 2).save(tmp_path / "l.npz")
    texts = ["a Zanzibar b", "a quixotic b"]
    for settings in ({"as_published": True}, {"as_published": True, "layout": "kept"}):
        released = Diffractor(resource=tmp_path / "l.npz", **settings)
        table = epsilometer.audit(texts, released, [0.1], ["likelihood"], 200, design=Design(temperature=0))
        assert table["successes"].item() == 200
    ours = epsilometer.audit(
        texts, Diffractor(resource=tmp_path / "l.npz"), [0.1], ["likelihood"], 200, design=Design(temperature=0)
    )
    assert ours["loss"].item() == 0


def test_the_likelihood_attack_reads_the_layout(tmp_path: Path) -> None:
    vectors = WordVectors([*"abcdefgh"], np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32))
    vectors.save(tmp_path / "v.npz")
    texts = ["A, b!", "a b"]
    mechanism = TEM(resource=tmp_path / "v.npz", layout="kept")
    table = epsilometer.audit(texts, mechanism, [0.1], ["likelihood"], 200, design=Design(temperature=0))
    assert table["successes"].item() == 200
