"""Batches sized by a memory budget: equal rewrites at any budget, and fewer rows if memory runs out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from epsilometer.core.exact_samplers import ExactDraws
from epsilometer.core.ragged import Ragged
from epsilometer.core.randomness import Noise
from epsilometer.models.causal_lm import CausalLM
from epsilometer.models.generation import ROWS, TokenLaw, forced, generate, shape_of
from epsilometer.models.generator import Generator
from epsilometer.models.memory import Memory, cached
from epsilometer.models.seq2seq import Seq2Seq
from tests.support import tiny_models
from tests.support.refusals import refused

LAW = TokenLaw(-3.0, 3.0)
TEXTS = ["document : a b c", "a b", "e f g h a", "d d d", "h g f", "a b c d e f g", "c"]
SOURCE = np.random.default_rng(0).integers(0, len(TEXTS), 40)
OUT_OF_MEMORY = torch.cuda.OutOfMemoryError


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Generator]:
    kinds = {"gpt2": CausalLM, "qwen": CausalLM}
    return {
        name: kinds.get(name, Seq2Seq)(save(tmp_path_factory.mktemp(name))) for name, save in tiny_models.SAVE.items()
    }


def generated(model: Generator, draws: np.ndarray | ExactDraws) -> list[list[int]]:
    budgets, limits = np.full(len(SOURCE), 10.0), np.full(len(SOURCE), 6)
    sequences = generate(model, LAW, model.tokens(TEXTS), SOURCE, budgets, limits, draws)
    return rows(sequences)


def rows(sequences: Ragged) -> list[list[int]]:
    return [sequences.row(i).tolist() for i in range(len(SOURCE))]


def uniforms() -> np.ndarray:
    return Noise.named(np.arange(len(SOURCE)), "memory").uniforms(6)


def with_budget(model: Generator, budget: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows as on CUDA, where their number may fall; computed on the processor all the same."""
    monkeypatch.setattr(model, "memory", Memory("cuda", "the model", budget))


@pytest.mark.parametrize("name", tiny_models.SAVE)
def test_keys_and_values_are_counted_as_models_keep_them(models: dict[str, Generator], name: str) -> None:
    """Of a prompt of 5 tokens and 2 more, against the tensors that transformers keeps."""
    model = models[name]
    _, cache = model.read(np.full((3, 5), 8))
    model.step(torch.full((3, 2), 8), cache)
    parts = [cache.self_attention_cache, cache.cross_attention_cache] if isinstance(model, Seq2Seq) else [cache]
    entries = sum(layer.keys.numel() + layer.values.numel() for part in parts for layer in part.layers)
    tokens = 5 + 2 + isinstance(model, Seq2Seq)  # the decoder's start
    assert entries == 3 * tokens * cached(model.network.config)


@pytest.mark.parametrize("name", ["qwen", "t5"])
def test_on_the_processor_the_budget_changes_no_byte(
    models: dict[str, Generator], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, sequences = models[name], [[7, 8], [9, 10, 11, 12, 13]] * 20
    whole, logits = generated(model, uniforms()), all_forced(model, sequences)
    for budget in (1, 40 * model.row_bytes(7, 6)):  # memory for one batch at a time, and for two
        monkeypatch.setattr(model, "memory", Memory("cpu", "the model", budget))
        assert shape_of(model, 7, 6).rows == ROWS["cpu"]
        assert shape_of(model, 7, 6).size in (ROWS["cpu"], 2 * ROWS["cpu"])
        assert generated(model, uniforms()) == whole
        assert all(torch.equal(*pair) for pair in zip(all_forced(model, sequences), logits, strict=True))


def all_forced(model: Generator, sequences: list[list[int]]) -> list[torch.Tensor]:
    by_number = {
        int(i): row[: len(sequences[i])]
        for part, logits in forced(model, model.tokens(TEXTS), SOURCE, sequences)
        for i, row in zip(part, logits, strict=False)
    }
    return [by_number[i] for i in range(len(sequences))]


@pytest.mark.parametrize("fitting", [1, 5])
def test_elsewhere_rows_follow_the_budget(
    models: dict[str, Generator], fitting: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = models["qwen"]
    whole = generated(model, uniforms())
    with_budget(model, fitting * model.row_bytes(9, 6), monkeypatch)
    shape = shape_of(model, 9, 6)
    assert shape.size == shape.rows == shape.prompts == {1: 1, 5: 4}[fitting]
    assert generated(model, uniforms()) == whole


def failing(model: Generator, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have steps of more rows than `most` fail, but for the first three."""
    step: Callable[..., Any] = model.step
    steps = 0

    def limited(tokens: torch.Tensor, cache: Any) -> torch.Tensor:
        nonlocal steps
        steps += 1
        if len(tokens) > most and steps > 3:
            raise OUT_OF_MEMORY("CUDA out of memory")
        return step(tokens, cache)

    monkeypatch.setattr(model, "step", limited)


@pytest.mark.parametrize("name", ["qwen", "t5"])
def test_where_memory_runs_out_rows_are_halved(
    models: dict[str, Generator], name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model = models[name]
    whole = generated(model, uniforms())
    with_budget(model, 1 << 30, monkeypatch)
    failing(model, 4, monkeypatch)
    assert generated(model, uniforms()) == whole
    assert "half as many rows" in capsys.readouterr().err
    sequences = [[7, 8], [9, 10, 11]] * 20
    with_budget(model, 1 << 30, monkeypatch)
    failing(model, 1, monkeypatch)
    rows = [int(i) for part, _ in forced(model, model.tokens(TEXTS), SOURCE, sequences) for i in part]
    assert sorted(rows) == list(range(40))  # each once


def test_no_token_is_drawn_twice(models: dict[str, Generator], monkeypatch: pytest.MonkeyPatch) -> None:
    """Else texts that take little memory would be likelier than their law."""
    model, chosen = models["t5"], 0
    with_budget(model, 1 << 30, monkeypatch)
    failing(model, 4, monkeypatch)
    exact = Noise.operating_system(len(SOURCE)).exact
    assert exact is not None
    choose = exact.choose

    def counted(weights: Any, count: int = 1) -> Any:
        nonlocal chosen
        chosen += count
        return choose(weights, count)

    monkeypatch.setattr(type(exact), "choose", lambda self, *arguments: counted(*arguments))
    assert sum(map(len, generated(model, exact))) == chosen


def test_one_row_that_does_not_fit_is_an_error(models: dict[str, Generator], monkeypatch: pytest.MonkeyPatch) -> None:
    model = models["t5"]
    with_budget(model, 1 << 30, monkeypatch)
    failing(model, 0, monkeypatch)
    with refused("EPS-N060"):
        generated(model, uniforms())


def test_rows_are_powers_of_two_within_the_budget() -> None:
    memory = Memory("cuda", "a model", budget=1000)
    assert [memory.rows(each, 256) for each in (1, 3, 10, 100, 501, 5000)] == [256, 256, 64, 8, 1, 1]
    done: list[int] = []

    def run(rest: Any) -> Any:
        size = memory.rows(100, 8)
        for start in range(0, len(rest), size):
            if size > 2 and len(done) >= 8:
                raise OUT_OF_MEMORY("CUDA out of memory")
            done.extend(rest[start : start + size])
            yield rest[start : start + size]

    memory.work_off(range(20), run)
    assert sorted(done) == list(range(20))
