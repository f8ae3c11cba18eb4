"""Prompts per second of the judge with reading: score, with the shared prefix computed once or in every prompt.

The model has random weights in Qwen3's architecture; queries are like those of ATIS, with two candidates each.
`benchmarks.gpu` measures Qwen3-8B's shape.

usage: python -m benchmarks.judge
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from benchmarks.shared.clock import seconds
from epsilometer.attacks.identification.shared.judge_model import JudgeModel
from epsilometer.attacks.identification.shared.judge_prompt import Question, message
from epsilometer.corpora import synthetic
from epsilometer.models.locate import quiet_loading

SMALL = {"hidden_size": 384, "num_hidden_layers": 4, "num_attention_heads": 6, "num_key_value_heads": 2,
         "head_dim": 64, "intermediate_size": 1152}  # fmt: skip
PROMPTS = 400
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n\n</think>\n\n{% endif %}"
)


class Whole(JudgeModel):
    """A judge that computes the shared prefix in every prompt."""

    def _prefix(self, labels: Sequence[str]) -> list[int]:
        return []

    def _prompt(self, about: Question, labels: Sequence[str], again: bool = False, lead: str = "") -> list[int]:
        return super()._prefix(labels) + super()._prompt(about, labels, again, lead)


def questions(count: int) -> list[Question]:
    """Return questions: a query with half of its words, and two candidates."""
    draw = np.random.default_rng(0)
    texts = list(synthetic.generate("queries", 3000, 0)["text"])
    pairs = [[str(text) for text in draw.choice(texts, 2, replace=False)] for _ in range(count)]
    return [(" ".join(word for word in pair[0].split() if draw.random() < 0.5), pair) for pair in pairs]


def save(folder: Path, sizes: dict[str, int]) -> None:
    """Save a model of these sizes with random weights, and a tokeniser with about one token per word."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    special = ["<|im_start|>", "<|im_end|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=8000, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    raw.train_from_iterator([message(*question) for question in questions(1000)] + ["answer: [[1]]"] * 10, trainer)
    tokeniser = PreTrainedTokenizerFast(tokenizer_object=raw, eos_token="<|im_end|>")
    tokeniser.chat_template = TEMPLATE
    tokeniser.save_pretrained(folder)
    torch.manual_seed(0)
    with quiet_loading():
        AutoModelForCausalLM.from_config(config(sizes, len(tokeniser))).save_pretrained(folder)


def config(sizes: dict[str, int], entries: int) -> Any:
    """Return a configuration of Qwen3's architecture."""
    from transformers import Qwen3Config

    return Qwen3Config(vocab_size=entries, max_position_embeddings=40960, eos_token_id=1, bos_token_id=None, **sizes)


def small(folder: Path) -> None:
    """Print prompts per second of both ways on the CPU."""
    ways = {"in every prompt": Whole(folder), "computed once": JudgeModel(folder)}
    parts = [questions(PROMPTS)[start : start + PROMPTS // 2] for start in (0, PROMPTS // 2)]
    taken = dict.fromkeys(ways, 0.0)
    for part in parts:  # in turns, so that other load on the machine affects both ways
        for label, judge in ways.items():
            judge.scores(part[:1])
            taken[label] += seconds(partial(judge.scores, part))
    shared = len(ways["computed once"]._prefix("12"))
    tokens = ways["computed once"].scores(parts[0])[1] / len(parts[0])
    print(f"{PROMPTS} prompts, {tokens:.0f} tokens each, {shared} of them shared; {torch.get_num_threads()} threads")
    print(f"{'shared beginning':18} {'prompts/s':>9} {'ratio':>6}")
    for label, time_ in taken.items():
        print(f"{label:18} {PROMPTS / time_:9.1f} {max(taken.values()) / time_:6.2f}")


def main() -> None:
    """Print prompts per second and ratios."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        save(folder, SMALL)
        small(folder)


if __name__ == "__main__":
    main()
