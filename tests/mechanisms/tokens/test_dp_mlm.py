from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chisquare

from epsilometer.attacks.identification.likelihood import LikelihoodAttack
from epsilometer.auditing.exact_loss.importance import Sampling, draws, sampled
from epsilometer.core.attack import Context
from epsilometer.core.component import build, find
from epsilometer.core.guarantees import Granularity, Guarantee, Neighbours
from epsilometer.core.laws import log_likelihood, sample
from epsilometer.core.mechanism import HasLaws, HasLikelihood, Rewrites
from epsilometer.core.ragged import Ragged
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.tokens.dp_mlm import DPMLM
from epsilometer.mechanisms.tokens.dp_mlm_plus import DPMLMPlus
from epsilometer.models import masked_lm
from epsilometer.models.locate import locate
from epsilometer.models.masked_lm import assemble
from epsilometer.text.words import words
from tests.support.places import ROOT
from tests.support.refusals import refused

DELTA = ROOT / "data" / "embedded" / "models" / "minilm-mlm"
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


@pytest.mark.parametrize("published", [False, True])
def test_what_was_read_elsewhere_gives_the_same_laws(
    mechanism: DPMLM, published: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (DPMLM(resource=mechanism.resource, as_published=published) for _ in range(2))
    readings = first.read(TEXTS[:3])
    second.recall(TEXTS[:3], readings)
    laws, network = first.laws(TEXTS), second._model._model
    rows = np.arange(len(laws.rows.values))
    expected = list(laws.log_probabilities(rows, [2.0, 50.0]))
    ran: list[int] = []
    monkeypatch.setattr(
        network._bert,
        "states",
        lambda ids, kinds, masks, run=network._bert.states: ran.append(len(ids)) or run(ids, kinds, masks),
    )
    for law, other in zip(expected, second.laws(TEXTS).log_probabilities(rows, [2.0, 50.0]), strict=True):
        np.testing.assert_array_equal(law, other)
    fourth = sum(word not in first._unchanged for word in words(TEXTS[3]))
    assert ran == [fourth]  # only the words of the last text are not cached yet
    assert len(readings) + fourth == len(second._model._model._recalled)


def test_a_search_over_budgets_reads_its_texts_once(mechanism: DPMLM, monkeypatch: pytest.MonkeyPatch) -> None:
    searching, fresh = (DPMLMPlus(resource=mechanism.resource) for _ in range(2))
    monkeypatch.setattr(masked_lm, "REMEMBERED", 20)  # fewer than the texts' 14 and 16 masks
    network = searching._model._model
    ran: list[int] = []
    monkeypatch.setattr(
        network._bert,
        "states",
        lambda ids, kinds, masks, run=network._bert.states: ran.append(len(ids)) or run(ids, kinds, masks),
    )
    for epsilon in (1.0, 20.0, 100.0):
        noises = [Noise.named(2, "search", epsilon) for _ in range(2)]
        output, other = (
            each.rewrite(TEXTS[:2], epsilon, noise) for each, noise in zip((searching, fresh), noises, strict=True)
        )
        assert output.texts == other.texts
    masks = sum(2 * len(words(text)) for text in TEXTS[:2])
    assert len(network._recalled) == 20
    assert sum(ran) == masks + 2 * (masks - 20)


@pytest.mark.parametrize("epsilon", [0.5, 10.0, 400.0])
def test_a_words_law_keeps_its_claim(mechanism: DPMLM, epsilon: float) -> None:
    """Exact: over all pairs of (text, position) and all outputs, log P(y | x, i) - log P(y | x', j) <= epsilon."""
    laws = mechanism.laws(TEXTS)
    (log_p,) = laws.log_probabilities(np.arange(len(laws.rows.values)), [epsilon])
    np.testing.assert_allclose(np.exp(log_p).sum(axis=1), 1, rtol=1e-9)
    spread = log_p.max(axis=0) - log_p.min(axis=0)
    assert spread.max() <= epsilon + 1e-9
    assert spread.max() > epsilon / 4  # the check would detect a law that is flat by mistake


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
    rewrites = mechanism.rewrite(["the"] * count, 60.0, Noise.named(count, "law"))
    assert rewrites.units is not None
    (log_p,) = mechanism.laws(["the"]).log_probabilities(np.array([0]), [60.0])
    best = np.argsort(-log_p[0])[:15]
    expected = np.exp(log_p[0, best])
    counts = [(rewrites.units.values == b).sum() for b in best]
    assert chisquare([*counts, count - sum(counts)], count * np.append(expected, 1 - expected.sum())).pvalue > 1e-6


def test_a_rewrite_does_not_depend_on_its_batch_or_grid(mechanism: DPMLM) -> None:
    noise = Noise.named(4, "batch")
    grid = mechanism.rewrite_grid(TEXTS, [1.0, 50.0], [noise, noise])
    for i, text in enumerate(TEXTS):
        for rewrites, epsilon in zip(grid, [1.0, 50.0], strict=True):
            assert mechanism.rewrite([text], epsilon, noise[np.array([i])]).texts[0] == rewrites.texts[i]


def test_nothing_passes_through(mechanism: DPMLM) -> None:
    """Names, numbers and stop-words are no exception: at epsilon 0.01 a word survives with probability 1/29,000.

    Of 120 words, 2 or more survive with probability below 1e-5; fixed seed.
    """
    texts = TEXTS * 5
    rewrites = mechanism.rewrite(texts, 0.01, Noise.named(len(texts), "pass"))
    pieces = mechanism._model.outputs
    unchanged = [
        word == pieces[u] for i, t in enumerate(texts) for word, u in zip(words(t), rewrites.units.row(i), strict=True)
    ]
    assert len(unchanged) == 120
    assert sum(unchanged) < 2


def test_as_many_units_as_words_and_the_claim_counts_them(mechanism: DPMLM) -> None:
    rewrites = mechanism.rewrite([*TEXTS, "", "?!"], 10.0, Noise.named(6, "units"))
    assert rewrites.units is not None
    assert rewrites.units.lengths.tolist() == [7, 8, 1, 8, 0, 0]
    pairs = np.array([[0, 1], [1, 3], [0, 0]])
    assert mechanism.distance(TEXTS, pairs, 1.0).tolist() == [np.inf, 8, 0]
    claim = mechanism.guarantee(2.0)
    assert claim is not None
    assert (claim.epsilon, claim.delta) == (2.0, 0.0)


def test_where_laws_stay_on_the_device_draws_and_likelihoods_are_the_same(
    mechanism: DPMLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Computed here as it is elsewhere; a uniform between the two ways' last bits, some 1e-13 a draw, would differ."""
    source, epsilons = np.array([3, 0, 1, 1, 2, 0, 1] * 9), [5.0, 100.0]
    noises = [Noise.named(len(source), "device", epsilon) for epsilon in epsilons]
    here = mechanism.laws(TEXTS)
    assert here.draw is None
    assert here.entries is None
    published = DPMLM(resource=mechanism.resource, as_published=True)
    for form in (mechanism, published):
        monkeypatch.setattr(form._model, "device", "elsewhere")
    assert published.laws(TEXTS).draw is None  # unchanged words have separate laws
    there = mechanism.laws(TEXTS)
    assert there.draw is not None
    sequences = sample(here, source, epsilons, noises)
    for form, other in zip(sequences, sample(there, source, epsilons, noises), strict=True):
        assert form.values.tolist() == other.values.tolist()
    likelihoods, again = (log_likelihood(laws, source, sequences, epsilons) for laws in (here, there))
    np.testing.assert_allclose(likelihoods, again, rtol=0, atol=1e-6)  # numpy clips logits in float32, torch in float64


def test_kept_stop_words_are_kept_and_nothing_is_claimed(mechanism: DPMLM) -> None:
    keeping = DPMLM(resource=mechanism.resource, stop_words="kept")
    assert keeping.guarantee(1.0) is None
    texts = ["Sing me the flights mightn yours sleeps", "the", "prince"]
    rewrites = keeping.rewrite(texts, 0.01, Noise.named(3, "stop"))
    assert rewrites.texts[1] == "the"
    for stays, word in zip([0, 1, 1, 0, 1, 1, 0], rewrites.texts[0].split(), strict=True):
        assert (word in ("me", "the", "mightn", "yours")) == stays
    laws = keeping.laws(texts)
    assert laws.outputs == len(keeping.output_texts)
    rows = laws.rows.values
    (log_p,) = laws.log_probabilities(rows, [5.0])
    np.testing.assert_allclose(np.exp(log_p).sum(axis=1), 1)
    assert [keeping.output_texts[i] for i in log_p[4].argsort()[-1:]] == ["mightn"]  # not in the model's vocabulary
    (plain,) = mechanism.laws(texts).log_probabilities(rows, [5.0])
    np.testing.assert_array_equal(log_p[[0, 3, 6, 8], : plain.shape[1]], plain[[0, 3, 6, 8]])


def test_a_kept_layout_is_kept_and_nothing_is_claimed(mechanism: DPMLM) -> None:
    keeping = DPMLM(resource=mechanism.resource, layout="kept")
    assert keeping.guarantee(1.0) is None
    noise = Noise.named(1, "layout")
    (text,) = keeping.rewrite(["Wait, NASA: (why)?"], 10.0, noise).texts
    first, second, third = mechanism.rewrite(["wait nasa why"], 10.0, noise).texts[0].split()
    assert text == f"{first[:1].upper() + first[1:]}, {second.upper()}: ({third})?"


def test_the_published_form_keeps_both_and_its_claim_fails(mechanism: DPMLM) -> None:
    """Exactly: "mightn" is no piece of the model, so it comes out of itself alone, and the loss is infinite."""
    published = DPMLM(resource=mechanism.resource, as_published=True)
    assert published.guarantee(2.0) == Guarantee(2.0, Granularity.TOKEN, Neighbours.SAME_LENGTH)
    (text,) = published.rewrite(["Wait, the NASA mightn: (why)?"], 10.0, Noise.named(1, "both")).texts
    assert re.fullmatch(r"\S+, the \S+ mightn: \(why\)\?", text)  # "why" is a stop-word, too
    laws = published.laws(["mightn", "prince"])
    (log_p,) = laws.log_probabilities(np.arange(2), [2.0])
    output = published.output_texts.index("mightn")
    assert log_p[:, output].tolist() == [0.0, -np.inf]
    keeping = DPMLM(resource=mechanism.resource, stop_words="kept", layout="kept")
    (plain,) = keeping.laws(["mightn", "prince"]).log_probabilities(np.arange(2), [2.0])
    np.testing.assert_array_equal(log_p, plain)


def test_an_inserted_mask_stands_between_its_words(mechanism: DPMLM) -> None:
    """At every place of a text longer than the model's window too."""
    model = mechanism._model
    mask = model._frame.mask
    short, long = ["fly", "to", "krakow"], [f"word{i} kwyjibo"[: 5 + i % 9].replace(" ", "") for i in range(400)]
    for i, pair in enumerate(model.inputs([short], np.array([(0, 0), (0, 1), (0, 2)]), inserted=True)):
        tokens = [model._tokenizer.id_to_token(token) for token in pair.ids]
        second = tokens[len(tokens) // 2 :][:-1]
        assert pair.ids[pair.mask] == mask
        at = second.index("[MASK]")
        assert "".join(second[:at]).replace("##", "") == "".join(short[: i + 1])
        assert "".join(second[at + 1 :]).replace("##", "") == "".join(short[i + 1 :])
    places = np.array([(0, i) for i in range(len(long))])
    pairs = list(model.inputs([long], places, inserted=True))
    assert all(len(pair.ids) <= model.window and pair.ids[pair.mask] == mask for pair in pairs)
    contexts = {tuple(pair.ids) for pair in pairs}
    assert len(contexts) == len(long)


class ThreeWords:
    """A masked language model of three outputs; its logits reach both clip bounds and depend on the text alone."""

    outputs = ("a", "b", "c")

    def mask_logits(
        self, texts_words: Sequence[Sequence[str]], rows: NDArray[np.integer], inserted: bool = False
    ) -> NDArray[np.float32]:
        table = {"x": (9, -9, -9), "y": (-9, 9, 9), "z": (0.5, 0.25, -9 if inserted else 9)}
        return np.array([table[texts_words[text][word]] for text, word in rows], np.float32).reshape(-1, 3)


def small(**settings: Any) -> DPMLMPlus:
    plus = DPMLMPlus(resource="none", clip=(-1, 1), **settings)
    plus.__dict__["_model"] = ThreeWords()
    return plus


EVERY = [list(units) for length in range(5) for units in product(range(3), repeat=length)]


def every_likelihood(mechanism: DPMLMPlus, texts: Sequence[str], epsilon: float) -> NDArray[np.float64]:
    """[outputs of up to four words, texts]"""
    rewrites = Rewrites([""] * len(EVERY), Ragged.of(EVERY))
    candidates = np.tile(np.arange(len(texts)), (len(EVERY), 1))
    return mechanism.log_likelihoods(texts, candidates, [rewrites], [epsilon])[0]


@pytest.mark.parametrize("coins", [{}, {"insert": 0}, {"delete": 0}, {"delete": 0, "insert": 0}, {"delete": 0.4}])
def test_the_likelihood_of_deletions_and_insertions_is_the_sum_over_all_coins(coins: dict[str, float]) -> None:
    mechanism, epsilon, texts = small(**coins), 3.0, ["x y", "z x", "y", ""]
    likelihoods = np.exp(every_likelihood(mechanism, texts, epsilon))
    np.testing.assert_allclose(likelihoods.sum(axis=0), 1)  # two words have at most four outputs
    d, q = mechanism.delete, mechanism.insert
    for column, text in enumerate(texts):
        split = text.split()
        places = np.array([(0, i) for i in range(len(split))], np.int64).reshape(-1, 2)
        both = [np.exp(next(mechanism.log_laws([split], places, [epsilon], inserted))) for inserted in (False, True)]
        expected = dict.fromkeys(map(tuple, EVERY), 0.0)
        for coin in product([False, True], repeat=2 * len(split)):
            deleted, inserted = coin[::2], coin[1::2]
            laws_in_turn = [
                both[kind][i]
                for i in range(len(split))
                for kind, there in ((0, not deleted[i]), (1, inserted[i]))
                if there
            ]
            chance = np.prod([d if x else 1 - d for x in deleted] + [q if x else 1 - q for x in inserted])
            for units in product(range(3), repeat=len(laws_in_turn)):
                expected[units] += chance * np.prod([law[u] for law, u in zip(laws_in_turn, units, strict=True)])
        np.testing.assert_allclose(likelihoods[:, column], list(expected.values()), atol=1e-12)


def test_the_claim_with_insertions_counts_every_draw() -> None:
    """Exact: each output of L words loses at most L epsilon, 2n epsilon in all; n epsilon would be false."""
    mechanism, epsilon, texts = small(), 3.0, ["x x", "y y"]
    log_p = every_likelihood(mechanism, texts, epsilon)
    loss = np.abs(log_p[:, 0] - log_p[:, 1])
    draws = np.array([len(units) for units in EVERY])
    assert (loss <= draws * epsilon + 1e-9).all()
    pairs = np.array([[0, 1]])
    assert loss.max() <= epsilon * mechanism.distance(texts, pairs, 1.0)[0] + 1e-9
    assert mechanism.distance(texts, pairs, 1.0)[0] == 4
    assert loss.max() > epsilon * 2  # power: the claim of n epsilon fails
    assert mechanism.distance(["x", "y y"], pairs, 1.0)[0] == np.inf
    only_deleting = small(insert=0)
    log_p = every_likelihood(only_deleting, texts, epsilon)
    with np.errstate(invalid="ignore"):
        assert np.nanmax(np.abs(log_p[:, 0] - log_p[:, 1])) <= epsilon * 2 + 1e-9
    assert only_deleting.distance(texts, pairs, 1.0)[0] == 2


def test_draws_with_deletions_and_insertions_follow_the_likelihood() -> None:
    """Chi-square at 1e-6 over the 20 likeliest outputs and the rest: false alarm 1e-6, at a fixed seed."""
    mechanism, count = small(delete=0.3, insert=0.4), 6000
    rewrites = mechanism.rewrite(["z x"] * count, 2.0, Noise.named(count, "plus"))
    assert rewrites.units is not None
    p = np.exp(every_likelihood(mechanism, ["z x"], 2.0)[:, 0])
    number = {tuple(units): i for i, units in enumerate(EVERY)}
    counts = np.bincount([number[tuple(rewrites.units.row(i).tolist())] for i in range(count)], minlength=len(EVERY))
    best = np.argsort(-p)[:20]
    observed, expected = counts[best], p[best]
    assert chisquare([*observed, count - observed.sum()], count * np.append(expected, 1 - expected.sum())).pvalue > 1e-6
    assert rewrites.texts[0] == " ".join("abc"[u] for u in rewrites.units.row(0))


@pytest.mark.parametrize(("coins", "epsilon"), [({}, 1.0), ({"delete": 0.3, "insert": 0.4}, 3.0), ({"insert": 0}, 5.0)])
def test_the_loss_between_two_texts_with_hidden_coins_against_enumeration(
    coins: dict[str, float], epsilon: float
) -> None:
    """Draws of the mixture of both laws, two intervals at 1e-9 each. One word fewer is no proof: words come and go."""
    mechanism, texts, pairs = small(**coins), ["x y", "z x", "y"], np.array([[0, 1], [0, 2]])
    draw, log_p = draws(mechanism, texts, pairs, epsilon), every_likelihood(mechanism, texts, epsilon)
    assert draw is not None
    results = sampled(draw, 2, lambda numbers: Noise.named(numbers, "p"), Sampling(draws=3200, alpha=1e-9))
    for (a, b), result in zip(pairs, results, strict=True):
        error = np.exp(np.minimum(log_p[:, a], log_p[:, b])).sum() / 2
        assert result.log_error.low <= np.log(error) <= result.log_error.high
        ways = [np.exp(np.minimum(log_p[:, i], log_p[:, j] + 1)).sum() for i, j in ((a, b), (b, a))]
        delta = result.deltas(np.ones(1))
        assert delta.low[0] <= 1 - sum(ways) / 2 <= delta.high[0]


def test_the_likelihood_attack_takes_deletions_and_insertions() -> None:
    """At a large epsilon texts of two kinds are told apart whatever coins fell, but for outputs without a word.

    With 2 words deleted at 0.3 and nothing inserted at 0.6 each, these are (0.3 * 0.6)^2 = 3 % of 400, half guessed
    right: 1.6 % wrong; more than 5 % wrong has probability below 1e-5; fixed seed.
    """
    mechanism, count, texts = small(delete=0.3, insert=0.4), 400, ["x x", "y y"]
    assert isinstance(mechanism, HasLikelihood)
    assert not isinstance(mechanism, HasLaws)  # units are not independent draws
    target = np.arange(count) % 2
    rewrites = mechanism.rewrite([texts[i] for i in target], 60.0, Noise.named(count, "plus"))
    context = Context(texts, mechanism, 60.0, Noise.named(count, "guess"), None)
    guess = LikelihoodAttack().guess(rewrites, np.tile([0, 1], (count, 1)), context)
    assert (guess == target).mean() > 0.95


@pytest.mark.slow
def test_a_rewrite_with_deletions_and_insertions_does_not_depend_on_its_batch_or_grid(mechanism: DPMLM) -> None:
    plus, noise = DPMLMPlus(resource=mechanism.resource, delete=0.2, insert=0.4), Noise.named(4, "batch")
    plus.__dict__["_model"] = mechanism._model
    grid = plus.rewrite_grid(TEXTS, [1.0, 50.0], [noise, noise])
    assert grid[0].units is not None
    assert grid[0].units.lengths.tolist() != [7, 8, 1, 8]
    for i, text in enumerate(TEXTS):
        for rewrites, epsilon in zip(grid, [1.0, 50.0], strict=True):
            assert plus.rewrite([text], epsilon, noise[np.array([i])]).texts[0] == rewrites.texts[i]


@pytest.mark.parametrize(
    ("settings", "refusal"),
    [
        ({"delete": 1.0}, ("EPS-C015", "m.delete", "1.0")),
        ({"insert": -0.1}, ("EPS-C015", "m.insert", "-0.1")),
        ({"clip": [3, 1]}, ("EPS-C015", "m.clip", "[3, 1]")),
    ],
)
def test_coins_are_checked(settings: dict, refusal: tuple[str, ...]) -> None:
    with refused(*refusal):
        build(find("mechanisms", "dp_mlm_plus", "rewrite"), {"resource": "any", **settings}, "m")


@pytest.mark.parametrize(
    ("settings", "refusal"),
    [
        ({"stop_words": "some"}, ("EPS-C015", "mechanisms.dp_mlm.settings.stop_words", "some")),
        ({"layout": "some"}, ("EPS-C015", "mechanisms.dp_mlm.settings.layout", "some")),
        ({"clip": [3, 1]}, ("EPS-C015", "mechanisms.dp_mlm.settings.clip", "[3, 1]")),
        ({"clipp": [1, 3]}, ("EPS-C022", "mechanisms.dp_mlm.settings", "'clip'", "clipp")),
        ({"precision": "float16"}, ("EPS-C015", "mechanisms.dp_mlm.settings.precision", "float16")),
    ],
)
def test_settings_are_checked_before_a_model_loads(settings: dict, refusal: tuple[str, ...]) -> None:
    with refused(*refusal):
        build(find("mechanisms", "dp_mlm", "rewrite"), {"resource": "any", **settings}, "mechanisms.dp_mlm.settings")


def test_a_model_path_that_does_not_exist() -> None:
    with refused("EPS-N052"):
        DPMLM(resource="./nowhere").rewrite(["a b"], 1.0, Noise.named(1, "x"))


@pytest.mark.parametrize("epsilon", [3e3, 1e4, 1e9])
def test_a_large_epsilon_writes_the_likeliest_words(mechanism: DPMLM, epsilon: float) -> None:
    """All weights were rounded to 0 where no logit reaches the upper end of the clip."""
    laws = mechanism.laws(TEXTS)
    (law,) = laws.log_probabilities(np.arange(len(laws.rows.values)), [epsilon])
    np.testing.assert_allclose(np.exp(law).sum(axis=1), 1, atol=1e-9)


def test_clipped_logits_have_one_law_whichever_way_it_is_computed(mechanism: DPMLM) -> None:
    """At an epsilon at which the rounding of a clip bound to 32 bits would show."""
    split, place = [["the", "capital", "of", "france"]], np.array([[0, 3]])
    logits = mechanism._model.mask_logits(split, place)
    ends = np.quantile(logits, [0.1, 0.999]).astype(np.float32)
    low, high = (
        float(end) + 0.49 * float(np.spacing(end)) for end in ends
    )  # nearly half-way to the next 32-bit number
    clipped = DPMLM(resource=mechanism.resource, clip=(low, high))
    (law,) = clipped.log_laws(split, place, [2500.0])
    pieces = np.array([law.argmax(), law.argmin()])
    rows = np.zeros(2, np.int64)
    (values,) = clipped.entries(split, place, rows, [pieces], [2500.0])
    np.testing.assert_allclose(values, law[0, pieces], rtol=0, atol=1e-8)
