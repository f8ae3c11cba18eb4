"""The judge, through its real loading path, on small models with random weights: what is tested is not judgement."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from epsilometer.attack import Context, HasTally
from epsilometer.attacks.judge import JudgeAttack
from epsilometer.component import build
from epsilometer.errors import UserError
from epsilometer.language import judge_model
from epsilometer.language.judge_model import JudgeModel
from epsilometer.language.judge_prompt import CHAT_LEAD, characters, instruction, message, numbers, parse, plain, question
from epsilometer.mechanism import Rewrites
from epsilometer.randomness import Noise

TEMPLATE = (
    "{% for m in messages %}<|start|>{{ m.role }}\n{{ m.content }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
)
TEXTS = [
    "show flights to boston on monday morning",
    "play some jazz",
    "what is the weather like in paris tomorrow",
    "set an alarm for seven and remind me to call my mother about the tickets",
]


def save_tokeniser(folder: Path, template: bool = True) -> int:
    """A small byte-level BPE tokeniser; returns the number of its entries."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", "<|start|>", "<|end|>"]
    trainer = trainers.BpeTrainer(
        vocab_size=500,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    raw.train_from_iterator([*TEXTS, instruction(numbers(9)), "answer: [[1]]"] * 3, trainer)
    tokeniser = PreTrainedTokenizerFast(
        tokenizer_object=raw, eos_token="<|end|>", pad_token="<|endoftext|>", additional_special_tokens=special
    )
    if template:
        tokeniser.chat_template = TEMPLATE
    tokeniser.save_pretrained(folder)
    return len(tokeniser)


def save_model(folder: Path, architecture: str = "qwen3", template: bool = True, positions: int = 1024) -> Path:
    """A causal language model of this architecture with large random weights, so that answers differ."""
    import torch
    from transformers import AutoModelForCausalLM, GPT2Config, LlamaConfig, Qwen3Config

    entries = save_tokeniser(folder, template)
    kinds: dict[str, Any] = {"qwen3": Qwen3Config, "llama": LlamaConfig, "gpt2": GPT2Config}
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": positions}
    if architecture != "gpt2":
        sizes |= {"num_key_value_heads": 2, "head_dim": 8, "intermediate_size": 64}
    config = kinds[architecture](vocab_size=entries, eos_token_id=2, bos_token_id=None, **sizes)
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(5 if weight.dim() > 1 else 1)
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def chat_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("qwen3"))


def questions(count: int, candidates: int = 2) -> list[tuple[str, list[str]]]:
    draw = np.random.default_rng(0)
    pool = [" ".join(draw.permutation(text.split())[: draw.integers(1, 12)]) for text in TEXTS for _ in range(8)]
    return [(str(draw.choice(pool)), [str(t) for t in draw.choice(pool, candidates)]) for _ in range(count)]


def naive_scores(folder: Path, asked: Sequence[tuple[str, Sequence[str]]]) -> np.ndarray:
    """One prompt at a time as one string, with the whole vocabulary's logits."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokeniser, model = AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder).eval()
    scores = []
    for rewrite, candidates in asked:
        labels = characters(len(candidates))
        prompt = plain(rewrite, candidates, labels)
        if tokeniser.chat_template:
            content = instruction(labels) + question(rewrite, candidates, labels)
            prompt = tokeniser.apply_chat_template(
                [{"role": "user", "content": content}], tokenize=False, add_generation_prompt=True
            )
            prompt += CHAT_LEAD
        ids = tokeniser(prompt, return_tensors="pt", add_special_tokens=False).input_ids
        with torch.no_grad():
            logits = model(ids).logits[0, -1]
        scores.append([float(logits[tokeniser(label, add_special_tokens=False).input_ids[0]]) for label in labels])
    return np.array(scores)


@pytest.mark.parametrize("candidates", [2, 12])
@pytest.mark.parametrize(("architecture", "template"), [("qwen3", True), ("llama", True), ("gpt2", False)])
def test_scores_are_those_of_one_prompt_at_a_time(
    tmp_path: Path, architecture: str, template: bool, candidates: int
) -> None:
    folder = save_model(tmp_path, architecture, template)
    asked = questions(40, candidates)
    scores, tokens = JudgeModel(folder).scores(asked)
    expected = naive_scores(folder, asked)
    assert expected.std() > 0.1  # the weights make a difference
    np.testing.assert_allclose(scores, expected, atol=1 / 1024)
    assert np.array_equal(scores * 1024, np.rint(scores * 1024))
    assert tokens > 40 * 20
