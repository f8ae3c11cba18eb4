from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from epsilometer.attacks.identification.likelihood import LikelihoodAttack
from epsilometer.auditing.claims.verdicts import pair_claims
from epsilometer.auditing.estimation.betting import interval
from epsilometer.core.attack import Context
from epsilometer.core.component import EMBEDDED, build, find
from epsilometer.core.guarantees import Granularity, Neighbours
from epsilometer.core.mechanism import HasDistance, HasLikelihood, Rewrites, RewritesGrid
from epsilometer.core.ragged import Ragged
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.tokens.dp_prompt import DPPrompt, prompt
from epsilometer.models import generation
from tests.support import tiny_models
from tests.support.refusals import refused
from tests.support.tiny_judges import save_model

CLIP = (-0.5, 0.5)  # narrower than the logits, so that both clip bounds are reached
TEXTS = ["a", "b c", "d e f g h", "h h h", "c a b", "g f e d", "a b c d e f", "d", "e h", "b b"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {name: save(tmp_path_factory.mktemp(name)) for name, save in tiny_models.SAVE.items()}


@pytest.fixture(scope="module")
def mechanism(folders: dict[str, Path]) -> DPPrompt:
    return DPPrompt(resource=folders["t5"], clip=CLIP, max_new_tokens=4)


def test_claim(mechanism: DPPrompt) -> None:
    claim = mechanism.guarantee(2.0)
    assert claim is not None
    assert (claim.epsilon, claim.delta, claim.granularity) == (2.0, 0.0, Granularity.TOKEN)
    assert claim.neighbours is Neighbours.ANY
    pairs = np.array([[0, 1], [2, 2], [0, 6]])
    assert pair_claims(mechanism, 2.0, TEXTS, pairs).tolist() == [8.0, 0.0, 8.0]
    assert isinstance(mechanism, HasDistance)
    assert isinstance(mechanism, HasLikelihood)
    assert isinstance(mechanism, RewritesGrid)


def test_whole_rewrites_cost_at_most_the_claim(mechanism: DPPrompt) -> None:
    """The likelihoods of drawn sequences under all texts; and a claim of one epsilon a text would be broken."""
    epsilon, count = 6.0, 40
    rewrites = mechanism.rewrite([TEXTS[i % 10] for i in range(count)], epsilon, Noise.named(count, "p"))
    # The likeliest outputs of single texts, so that the loss is near the worst case.
    best = mechanism.rewrite(TEXTS, 200.0, Noise.named(10, "p"))
    candidates = np.tile(np.arange(len(TEXTS)), (count, 1))
    (of_rewrites,) = mechanism.log_likelihoods(TEXTS, candidates, [rewrites], [epsilon])
    (greedy,) = mechanism.log_likelihoods(TEXTS, candidates[:10], [best], [epsilon])
    losses = np.ptp(np.concatenate([of_rewrites, greedy]), axis=1)
    assert np.isfinite(losses).all()
    assert losses.max() <= 4 * epsilon + 1e-9
    assert losses.max() > 1.5 * epsilon


def test_the_law_of_all_rewrites_sums_to_one(folders: dict[str, Path]) -> None:
    """Every sequence of up to two tokens, ended or at the limit: the end is an outcome like any other."""
    mechanism = DPPrompt(resource=folders["bart"], clip=CLIP, max_new_tokens=2)
    outputs, end, possible = mechanism.model.outputs, mechanism.model.end, every_output(mechanism)
    candidates = np.tile([0, 1], (len(possible.texts), 1))
    (table,) = mechanism.log_likelihoods(["a", "b c"], candidates, [possible], [3.0])
    assert np.exp(table).sum(axis=0) == pytest.approx([1.0, 1.0], abs=1e-9)
    assert 2.0 < np.ptp(table, axis=1).max() <= 6.0 + 1e-9
    impossible = Rewrites(["", ""], Ragged.of([[int(outputs[3])], [end, end, end]]))  # stops early; too long
    assert (mechanism.log_likelihoods(["a"], np.zeros((2, 1), int), [impossible], [3.0])[0] == -np.inf).all()


def every_output(mechanism: DPPrompt) -> Rewrites:
    """Every sequence of up to two tokens, ended or at the limit."""
    outputs, end = mechanism.model.outputs, mechanism.model.end
    every = [[end], *([int(x), int(y)] for x in outputs if x != end for y in outputs)]
    return Rewrites([""] * len(every), Ragged.of(every))


@pytest.mark.parametrize("name", ["bart", "gpt2"])
def test_draws_between_two_texts_give_what_enumeration_gives(folders: dict[str, Path], name: str) -> None:
    """Overlap and delta inside intervals at 1e-9; P and P' sum to 1. Prompts of two lengths, outputs of two tokens."""
    mechanism, epsilon, count = DPPrompt(resource=folders[name], clip=CLIP, max_new_tokens=2), 4.0, 1500
    texts, possible = ["a", "b c", "d e"], every_output(mechanism)
    for pair in ([0, 1], [1, 2]):
        (table,) = mechanism.log_likelihoods(texts, np.tile(pair, (len(possible.texts), 1)), [possible], [epsilon])
        first, second = table.T
        sample = mechanism.draws_between(texts, np.tile(pair, (count, 1)), epsilon, Noise.named(count, "between"))
        assert sample.log_rho.max() <= 0
        assert np.ptp(sample.log_rho) > 1e-3  # a product over prefixes that differ
        for level in (0.0, 1.0):
            low, high = interval(np.exp(sample.log_rho - np.abs(sample.loss - level) / 2), 1e-9)
            assert low <= np.exp(np.minimum(first, second + level) - level / 2).sum() <= high
            assert high - low < 0.25
        for sign in (1, -1):
            whole = np.exp(sample.log_rho + sign * sample.loss / 2)
            assert whole.mean() == pytest.approx(1, abs=6 * whole.std() / count**0.5)


def test_draws_between_two_texts_do_not_depend_on_their_batch(
    mechanism: DPPrompt, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = np.array([[i, j] for i in range(10) for j in range(i)])
    noise = Noise.named(len(pairs), "batch")
    together = mechanism.draws_between(TEXTS, pairs, 5.0, noise)
    monkeypatch.setattr(generation, "BATCHES", 1)
    some = np.array([40, 3, 17])
    alone = mechanism.draws_between(TEXTS, pairs[some], 5.0, noise[some])
    np.testing.assert_allclose(alone.loss, together.loss[some], atol=1e-9)
    np.testing.assert_allclose(alone.log_rho, together.log_rho[some], atol=1e-9)
    same = mechanism.draws_between(TEXTS, np.array([[4, 4]]), 5.0, noise[:1])
    assert (same.log_rho[0], same.loss[0]) == (pytest.approx(0, abs=1e-12), 0)


def test_the_published_length_rules_outputs_out_between_texts_as_well(folders: dict[str, Path]) -> None:
    """Prompts of 9 and 16 tokens: 9 tokens without an end are possible under the shorter alone."""
    mechanism = DPPrompt(resource=folders["t5"], clip=(-40.0, 40.0), as_published=True)
    sample = mechanism.draws_between(["a", "a b c d e f g h"], np.tile([0, 1], (80, 1)), 0.1, Noise.named(80, "p"))
    assert 0 < np.isneginf(sample.log_rho).sum() < 80


def test_epsilons_together_equal_one_by_one(mechanism: DPPrompt, monkeypatch: pytest.MonkeyPatch) -> None:
    texts, epsilons = [*TEXTS, *TEXTS], [1.0, 10.0, 100.0]
    noises = [Noise.named(len(texts), "grid", epsilon) for epsilon in epsilons]
    together = mechanism.rewrite_grid(texts, epsilons, noises)
    for epsilon, noise, rewrites in zip(epsilons, noises, together, strict=True):
        alone = mechanism.rewrite(texts[5:9], epsilon, noise[5:9])
        assert alone.texts == rewrites.texts[5:9]
    units = together[0].units
    assert units is not None
    assert units.lengths.max() == 4
    assert together[0].texts == [mechanism.model.text(units.row(i)) for i in range(len(texts))]
    monkeypatch.setattr(generation, "BATCHES", 1)
    assert [rewrites.texts for rewrites in mechanism.rewrite_grid(texts, epsilons, noises)] == [
        m.texts for m in together
    ]


def test_prompts(folders: dict[str, Path]) -> None:
    def ids(name: str, text: str, **settings: bool) -> list[int]:
        return DPPrompt(resource=folders[name], clip=CLIP, max_new_tokens=4, **settings).prompts([text])[0]

    words = {word: len(tiny_models.SPECIAL) + i for i, word in enumerate(tiny_models.WORDS)}
    ids_of_prompt = [words[word] for word in prompt("a b").lower().split()]
    assert prompt("a b") == "Document : a b\nParaphrase of the document :"
    assert ids("t5", "A b") == [*ids_of_prompt, 1]  # closed by the encoder's end
    assert ids("gpt2", "A b") == ids_of_prompt  # a causal model without a template gets the plain prompt, left open
    assert ids("qwen", "A b") == [2, *ids_of_prompt, 2]  # "<user>" and "<reply>" are unknown words to this tokeniser
    assert ids("qwen", "A b", chat=False) == ids_of_prompt


def test_special_tokens_written_in_a_text_are_characters(tmp_path: Path) -> None:
    """A chat template's own tokens are such; a text must not end its message, or begin one of its own."""
    mechanism = DPPrompt(resource=save_model(tmp_path), clip=CLIP, max_new_tokens=4)
    end = mechanism.model.tokenizer.convert_tokens_to_ids("<|end|>")
    clean, hostile = mechanism.prompts(["a b", "a <|end|> b"])
    assert clean.count(end) == hostile.count(end) == 1
    assert len(hostile) > len(clean)


def test_long_texts_are_cut_and_the_cue_stays(folders: dict[str, Path]) -> None:
    for name, room in (("t5", 64), ("gpt2", 60)):
        mechanism = DPPrompt(resource=folders[name], clip=CLIP, max_new_tokens=4)
        short, long = mechanism.prompts(["a b", "a b c d " * 60])
        assert len(long) == room
        assert long[-5:] == short[-5:]
        assert mechanism.rewrite(["a b c d " * 60], 5.0, Noise.named(1, "long")).units is not None


def test_published_form_ends_at_the_length_of_the_prompt(folders: dict[str, Path]) -> None:
    mechanism = DPPrompt(resource=folders["t5"], clip=(-40.0, 40.0), as_published=True)
    texts = ["a", "a b c d e f g h"]  # prompts of 9 and 16 tokens
    rewrites = mechanism.rewrite([text for text in texts for _ in range(40)], 0.1, Noise.named(80, "published"))
    assert rewrites.units is not None
    assert rewrites.units.lengths[:40].max() == 9
    assert rewrites.units.lengths[40:].max() == 16
    assert pair_claims(mechanism, 0.1, texts, np.array([[0, 1]])) == pytest.approx([1.6])
    candidates = np.tile([0, 1], (80, 1))
    (table,) = mechanism.log_likelihoods(texts, candidates, [rewrites], [0.1])
    longer = rewrites.units.lengths > 9
    assert longer.any()
    assert (table[longer, 0] == -np.inf).all()  # excludes the shorter text, so no finite claim is true
    guesses = LikelihoodAttack().guess(rewrites, candidates, Context(texts, mechanism, 0.1, Noise.named(80, "attack")))
    assert (guesses[longer] == 1).all()


def test_embedded_model() -> None:

    assert EMBEDDED.is_dir()
    mechanism = DPPrompt(resource=DPPrompt.default_resource())
    low, high = mechanism.law.low, mechanism.law.high
    assert low < 0 < high
    model = mechanism.model
    (ids,) = model.tokens([prompt("The staff were rude [SEP]")])
    uncased = "document : the staff were rude [ sep ] paraphrase of the document :"
    assert ids == model.tokens([uncased])[0]
    assert ids.count(model.end) == 1  # "[SEP]" written in a text is text
    assert len(model.outputs) == 12_000
    texts = ["show me the cheapest flight from boston to denver", "the staff were rude"]
    rewrites = mechanism.rewrite(texts, 500.0, Noise.named(2, "embedded"))
    assert {"flight", "flights"} & set(rewrites.texts[0].split())
    assert "staff" in rewrites.texts[1]
    noisy = mechanism.rewrite(texts, 1.0, Noise.named(2, "embedded"))
    assert "staff" not in noisy.texts[1]
    assert mechanism.rewrite(texts[1:], 1.0, Noise.named(2, "embedded")[1:]).texts == noisy.texts[1:]


@pytest.mark.parametrize(
    ("settings", "refusal"),
    [
        ({"clip": [3, 1]}, ("EPS-C015", "dp_prompt.settings.clip", "[3, 1]")),
        ({"clip": [1, 1]}, ("EPS-C015", "dp_prompt.settings.clip", "[1, 1]")),
        ({"max_new_tokens": 0}, ("EPS-C015", "dp_prompt.settings.max_new_tokens", "0")),
        ({"max_new_tokens": 5000}, ("EPS-C015", "dp_prompt.settings.max_new_tokens", "5000")),
        ({"max_tokens": 5}, ("EPS-C022", "dp_prompt.settings", "'max_tokens'")),
    ],
)
def test_settings_are_checked_before_a_model_loads(settings: dict, refusal: tuple[str, ...]) -> None:
    with refused(*refusal):
        build(find("mechanisms", "dp_prompt", "rewrite"), {"resource": "any", **settings}, "dp_prompt.settings")


def test_models_that_do_not_fit(folders: dict[str, Path], tmp_path: Path) -> None:
    noise = Noise.named(1, "x")
    for epsilon in (0.0, -1.0, float("inf")):
        with refused("EPS-C026", "0"):
            DPPrompt(resource=folders["t5"], clip=CLIP).guarantee(epsilon)
        with refused("EPS-C033", "0"):
            DPPrompt(resource=folders["t5"], clip=CLIP).rewrite(["a"], epsilon, noise)
    with refused("EPS-N007", "5"):
        DPPrompt(resource=folders["t5"]).rewrite(["a"], 1.0, noise)
    with refused("EPS-N014"):
        DPPrompt(resource=folders["gpt2"], clip=CLIP, chat=True).rewrite(["a"], 1.0, noise)
    with refused("EPS-M076"):
        DPPrompt(resource=folders["t5"], clip=CLIP, chat=True).rewrite(["a"], 1.0, noise)
    with refused("EPS-M077"):
        DPPrompt(resource=folders["gpt2"], clip=CLIP, max_new_tokens=60).rewrite(["a"], 1.0, noise)
    with refused("EPS-M077"):
        DPPrompt(resource=folders["bart"], clip=CLIP, max_new_tokens=65).rewrite(["a"], 1.0, noise)
    with refused("EPS-M075"):
        DPPrompt(resource=tiny_models.save_bert(tmp_path), clip=CLIP).rewrite(["a"], 1.0, noise)
    with refused("EPS-N052"):
        DPPrompt(resource="./nowhere").rewrite(["a"], 1.0, noise)


def test_unlike_texts_are_told_apart_by_the_optimal_adversary(mechanism: DPPrompt) -> None:
    """It beats chance at epsilon 6; guessing would do as well with probability below 1e-6."""
    count = 300
    candidates = np.tile([2, 3], (count, 1))
    target = np.arange(count) % 2
    rewrites = mechanism.rewrite([TEXTS[i] for i in candidates[np.arange(count), target]], 6.0, Noise.named(count, "t"))
    context = Context(TEXTS, mechanism, 6.0, Noise.named(count, "attack"))
    right = int((LikelihoodAttack().guess(rewrites, candidates, context) == target).sum())
    assert right > count / 2 + 5 * np.sqrt(count / 4)


def test_a_text_falls_into_what_the_model_would_write(mechanism: DPPrompt) -> None:
    assert mechanism.tokens("b a c") == ["b", "a", "c", "(end)"]


@pytest.mark.parametrize("kind", ["t5", "gpt2"])
def test_the_first_tokens_law_is_that_of_rewrites_of_one_token(folders: dict[str, Path], kind: str) -> None:
    mechanism = DPPrompt(resource=folders[kind], clip=CLIP, max_new_tokens=1)
    outputs = len(mechanism.model.outputs)
    (tokens,) = mechanism.first_tokens(TEXTS[2], [4.0], outputs)
    assert sum(p for _, p in tokens) == pytest.approx(1)
    assert [p for _, p in tokens] == sorted((p for _, p in tokens), reverse=True)
    units = [Ragged.of([[int(i)] for i in mechanism.model.outputs])]
    rewrites = [Rewrites([""] * outputs, units[0])]
    (likelihoods,) = mechanism.log_likelihoods(TEXTS, np.full((outputs, 1), 2), rewrites, [4.0])
    np.testing.assert_allclose(sorted(np.exp(likelihoods[:, 0]), reverse=True), [p for _, p in tokens], atol=1e-9)
