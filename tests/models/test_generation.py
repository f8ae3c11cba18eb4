from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from epsilometer.core.ragged import Ragged
from epsilometer.core.randomness import Noise
from epsilometer.models import generation
from epsilometer.models.causal_lm import CausalLM
from epsilometer.models.generation import TokenLaw, forced, generate, log_likelihoods
from epsilometer.models.generator import Generator
from epsilometer.models.logits import GRID
from epsilometer.models.seq2seq import Seq2Seq
from tests.support import tiny_models
from tests.support.refusals import refused

LAW = TokenLaw(-3.0, 3.0)
TEXTS = ["document : a b c", "a b", "e f g h a", "d d d", "h g f", "a b c d e f g", "c", "f f a b c", "b b b"]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Generator]:
    loaded: dict[str, Generator] = {}
    for name, save in tiny_models.SAVE.items():
        folder = save(tmp_path_factory.mktemp(name))
        loaded[name] = (CausalLM if name in ("gpt2", "qwen") else Seq2Seq)(folder)
    return loaded


def draw(model: Generator, law: TokenLaw, source: np.ndarray, epsilon: float, limit: int, seed: int = 0) -> Ragged:
    trials = np.arange(len(source))
    uniforms = Noise.named(trials, "generation", seed).uniforms(limit)
    budgets, limits = np.full(len(source), epsilon), np.full(len(source), limit)
    return generate(model, law, model.tokens(TEXTS), source, budgets, limits, uniforms)


def slowly(model: Generator, text: str, epsilon: float, uniforms: np.ndarray) -> list[int]:
    """The naive twin: transformers without a cache, one text, the whole sequence anew for every token."""
    prompt, tokens = model.tokens([text])[0], []
    for uniform in uniforms:
        with torch.inference_mode():
            if isinstance(model, Seq2Seq):
                out = model.network(
                    input_ids=torch.tensor([prompt]), decoder_input_ids=torch.tensor([[model.start, *tokens]])
                )
            else:
                out = model.network(input_ids=torch.tensor([prompt + tokens]))
        logits = np.round(out.logits[0, -1].double().numpy() * GRID) / GRID
        weights = np.exp(epsilon * np.clip(logits[model.outputs], LAW.low, LAW.high) / (2 * (LAW.high - LAW.low)))
        tokens.append(int(model.outputs[np.searchsorted(np.cumsum(weights) / weights.sum(), uniform)]))
        if tokens[-1] == model.end:
            break
    return tokens


@pytest.mark.parametrize("name", tiny_models.SAVE)
def test_equals_a_slow_loop(models: dict[str, Generator], name: str) -> None:
    model, limit = models[name], 7
    source = np.tile(np.arange(len(TEXTS)), 2)
    sequences = draw(model, LAW, source, 20.0, limit)
    uniforms = Noise.named(np.arange(len(source)), "generation", 0).uniforms(limit)
    twins = [slowly(model, TEXTS[text], 20.0, u) for text, u in zip(source, uniforms, strict=True)]
    assert [sequences.row(i).tolist() for i in range(len(source))] == twins
    assert min(map(len, twins)) < max(map(len, twins)) == limit  # some ended early


@pytest.mark.parametrize("name", tiny_models.SAVE)
def test_a_trial_does_not_feel_its_batch(
    models: dict[str, Generator], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = models[name]
    source = np.random.default_rng(0).integers(0, len(TEXTS), 120)
    monkeypatch.setitem(generation.ROWS, "cpu", 16)
    whole = draw(model, LAW, source, 10.0, 6)
    uniforms = Noise.named(np.arange(120), "generation", 0).uniforms(6)
    for part in (np.arange(120)[::-1], np.arange(40, 43), np.random.default_rng(1).permutation(120)[:37]):
        count = len(part)
        again = generate(
            model, LAW, model.tokens(TEXTS), source[part], np.full(count, 10.0), np.full(count, 6), uniforms[part]
        )
        assert [again.row(i).tolist() for i in range(count)] == [whole.row(i).tolist() for i in part]


@pytest.mark.parametrize("name", ["gpt2", "t5"])
def test_draws_follow_the_law(models: dict[str, Generator], name: str) -> None:
    """Chi-square of the first token and of the second after one fixed first token; false alarm 1e-3 for each."""
    model, count = models[name], 3000
    sequences = draw(model, LAW, np.zeros(count, int), 4.0, 2)
    first = np.array([sequences.row(i)[0] for i in range(count)])
    prompt = model.tokens(TEXTS[:1])
    logits, _ = model.read(np.array(prompt))
    law = LAW.log_probabilities(logits, torch.tensor([4.0])).exp()[0].numpy()
    counts = np.array([(first == token).sum() for token in model.outputs])
    assert chisquare(counts, law * count).pvalue > 1e-3
    fixed = int(np.bincount(first[first != model.end]).argmax())
    second = np.array([sequences.row(i)[1] for i in np.flatnonzero(first == fixed)])
    exact = np.exp(
        log_likelihoods(
            model, LAW, prompt, np.zeros(len(model.outputs), int), [[fixed, int(y)] for y in model.outputs],
            np.full(len(model.outputs), 4.0),
        )
    )  # fmt: skip
    exact /= exact.sum()
    assert chisquare([(second == y).sum() for y in model.outputs], exact * len(second)).pvalue > 1e-3


@pytest.mark.parametrize("name", tiny_models.SAVE)
def test_given_sequences_have_the_likelihood_of_being_drawn(models: dict[str, Generator], name: str) -> None:
    """Teacher forcing against the step-by-step logits, over prompts and lengths mixed in one call."""
    model = models[name]
    source = np.array([0, 3, 1, 0, 5, 0])
    sequences = [[7, 8, 1], [9], [3, 4, 5, 6, 7, 8, 9, 10, 11], [7, 8, 9, 1], [1], list(range(3, 16)) * 2]
    epsilons = np.array([1.0, 5.0, 20.0, 5.0, 2.0, 1.0])
    likelihoods = log_likelihoods(model, LAW, model.tokens(TEXTS), source, sequences, epsilons)
    for text, sequence, epsilon, value in zip(source, sequences, epsilons, likelihoods, strict=True):
        logits, cache = model.read(np.array([model.tokens([TEXTS[text]])[0]]))
        total = 0.0
        for token in sequence:
            law = LAW.log_probabilities(logits, torch.tensor([epsilon]))[0]
            total += float(law[int(np.searchsorted(model.outputs, token))])
            logits = model.step(torch.tensor([[token]]), cache)[:, 0]
        assert value == pytest.approx(total, abs=2e-3 * len(sequence))
    assert log_likelihoods(model, LAW, model.tokens(TEXTS), source[:1], [[7, 2]], np.ones(1)) == -np.inf  # never drawn


def test_the_first_token_costs_at_most_epsilon(models: dict[str, Generator]) -> None:
    """All texts of up to three words over eight: every pair, every output; and the top-k form breaks it."""
    words = ["a", "b", "c", "d", "e", "f", "g", "h"]
    texts = [*words, *(f"{x} {y}" for x in words for y in words), *(f"{x} {y} a" for x in words for y in words)]
    for model in (models["gpt2"], models["bart"]):
        prompts = model.tokens(texts)
        rows, logits = zip(
            *forced(model, prompts, np.arange(len(texts)), [[int(model.outputs[0])]] * len(texts)), strict=True
        )
        first = torch.cat([part[:, 0] for part in logits])
        assert sorted(np.concatenate(rows)) == list(range(len(texts)))
        for epsilon in (0.5, 8.0):
            budgets = torch.full((len(texts),), epsilon, dtype=torch.float64)
            # A range narrower than the logits, so that both clip bounds are reached.
            table = TokenLaw(-0.5, 0.5).log_probabilities(first, budgets)
            worst = float((table.max(0).values - table.min(0).values).max())
            assert 0.5 * epsilon < worst <= epsilon + 1e-9
            few = TokenLaw(-0.5, 0.5, top_k=4).log_probabilities(first, budgets)
            possible = few.isfinite()
            assert (possible.any(0) & ~possible.all(0)).any()  # some output is possible for only one text


def test_a_token_is_drawn_however_far_all_are_below_the_upper_bound() -> None:
    """Weights by their distance to it are all rounded to 0 at a large epsilon, and what was drawn was no token."""
    logits, uniforms = torch.tensor([[0.0, 1.0, -2.0]]), torch.tensor([[0.3, 0.9]], dtype=torch.float64)
    tokens = TokenLaw(-3.0, 30.0).draw(logits, torch.tensor([50_000.0], dtype=torch.float64), uniforms)
    assert tokens.tolist() == [[1, 1]]


def test_draws_stay_within_the_support() -> None:
    law, logits = TokenLaw(0.0, 4.0, top_k=2), torch.tensor([[0.0, 1.0, 4.0, 3.0, 0.0]]).repeat(3, 1)
    uniforms = torch.tensor([2.0**-54, 0.5, 1 - 2.0**-54], dtype=torch.float64)
    assert set(law.draw(logits, torch.full((3,), 8.0, dtype=torch.float64), uniforms[:, None])[:, 0].tolist()) == {2, 3}


def test_rows_that_ended_leave_the_batch(models: dict[str, Generator], monkeypatch: pytest.MonkeyPatch) -> None:
    model = models["t5"]
    monkeypatch.setitem(generation.ROWS, "cpu", 16)
    steps = 0
    step = model.step

    def counted(tokens: torch.Tensor, cache: object) -> torch.Tensor:
        nonlocal steps
        steps += 1
        assert len(tokens) == 16
        return step(tokens, cache)

    monkeypatch.setattr(model, "step", counted)
    sequences = draw(model, LAW, np.zeros(128, int), 1.0, 30)
    # Step t processes the rows longer than t; rows with equal tokens so far are counted once.
    rows = [tuple(sequences.row(i)) for i in range(128)]
    least = sum(-(-len({row[:t] for row in rows if len(row) > t}) // 16) for t in range(1, 30))
    assert steps == least < 8 * 29


def test_special_and_padding_entries_are_never_drawn(models: dict[str, Generator]) -> None:
    assert models["t5"].outputs.tolist() == [1, *range(3, tiny_models.SIZE)]  # three entries do not represent a token
    sequences = draw(models["t5"], LAW, np.zeros(500, int), 0.1, 8)
    assert set(sequences.values) == set(models["t5"].outputs)


@pytest.mark.parametrize("name", tiny_models.SAVE)
def test_half_precision_keeps_logits_apart(models: dict[str, Generator], name: str) -> None:
    """bfloat16 for the layers, float32 for the vocabulary head: near the whole logits, and on the fine grid."""
    whole = models[name]
    half = type(whole)(whole.folder, "bfloat16")
    prompts = np.array(whole.tokens(["a b c", "h g f"]))
    exact, rough = whole.read(prompts)[0], half.read(prompts)[0]
    assert rough.dtype == torch.float32
    assert 0 < (exact - rough).abs().max() < 0.3
    assert (rough * 16 % 1 != 0).any()  # bfloat16 cannot represent numbers between 4 and 4.03125
    assert half.step(torch.tensor([[8], [9]]), half.read(prompts)[1]).dtype == torch.float32


@pytest.mark.parametrize("name", ["gpt2", "t5"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_logits_that_are_not_finite_are_refused(models: dict[str, Generator], name: str, value: float) -> None:
    broken = type(models[name])(models[name].folder)
    with torch.no_grad():
        broken.network.get_output_embeddings().weight[5] = value
    with refused("EPS-N054", models[name].folder.name):
        draw(broken, TokenLaw(-5.0, 5.0), np.array([0]), 1.0, 3)


def test_prompts_stay_open(models: dict[str, Generator]) -> None:
    assert models["gpt2"].tokens(["a b"]) == [[7 + 1, 9]]  # the tokeniser would add an end token
    assert models["t5"].tokens(["a b"]) == [[8, 9, 1]]
    assert isinstance(models["qwen"], CausalLM)
    assert models["qwen"].chats
    with refused("EPS-N014"):
        models["gpt2"].chat_tokens(["a"])  # type: ignore[attr-defined]


def test_models_of_another_kind_are_refused(models: dict[str, Generator], tmp_path: Path) -> None:
    tiny_models.save_bert(tmp_path)
    with refused("EPS-N038"):
        Seq2Seq(tmp_path)
    with refused("EPS-N038"):
        Seq2Seq(models["gpt2"].folder)
    with refused("EPS-N038"):
        CausalLM(models["bart"].folder)
    with refused("EPS-N045"):
        CausalLM("all-MiniLM-L6-v2")
