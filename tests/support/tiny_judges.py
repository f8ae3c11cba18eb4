"""Small randomly initialised judges, saved on disk with a tokeniser trained on the judge's prompt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from epsilometer.attacks.identification.shared.judge_prompt import (
    instruction,
    numbers,
)

TEMPLATE = (
    "{% for m in messages %}<|start|>{{ m.role }}\n{{ m.content }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant\n"
    "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% endif %}{% endif %}"
)
TEXTS = [
    "show flights to boston on monday morning",
    "play some jazz",
    "what is the weather like in paris tomorrow",
    "set an alarm for seven and remind me to call my mother about the tickets",
]


def save_tokeniser(folder: Path, template: bool = True) -> int:
    """Save a small byte-level BPE tokeniser, and return the size of its vocabulary."""
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


def save_model(
    folder: Path, architecture: str = "qwen3", template: bool = True, positions: int = 1024, width: int = 32
) -> Path:
    """Save a causal language model of this architecture. Its random weights are large, so that answers differ."""
    import torch
    from transformers import AutoModelForCausalLM, GPT2Config, LlamaConfig, Qwen3Config

    entries = save_tokeniser(folder, template)
    kinds: dict[str, Any] = {"qwen3": Qwen3Config, "llama": LlamaConfig, "gpt2": GPT2Config}
    sizes = {
        "hidden_size": width,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "max_position_embeddings": positions,
    }
    if architecture != "gpt2":
        sizes |= {"num_key_value_heads": 2, "head_dim": width // 4, "intermediate_size": 2 * width}
    config = kinds[architecture](vocab_size=entries, eos_token_id=2, bos_token_id=None, **sizes)
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(5 if weight.dim() > 1 else 1)
    model.save_pretrained(folder)
    return folder
