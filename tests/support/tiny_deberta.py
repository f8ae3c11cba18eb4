"""A small untrained DeBERTa with the architecture of microsoft/deberta-v3-base, and texts that it can learn."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from epsilometer.models.classifier import Examples

WORDS = ["good", "bad", "film", "plot", "the", "a", "was", "very", "song", "slow"]
PIECES = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", *(f"▁{word}" for word in WORDS), "▁", *"abcdefghijklmnopqrstuvwxyz"]


def save_network(folder: Path) -> Path:
    """Save the network without a tokeniser."""
    import torch
    from transformers import DebertaV2Config, DebertaV2ForMaskedLM

    shape: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    relative: dict[str, Any] = {"relative_attention": True, "position_buckets": 8, "pos_att_type": ["p2c", "c2p"]}
    rest: dict[str, Any] = {
        "vocab_size": len(PIECES) + 1,  # the tokeniser adds [MASK]
        "intermediate_size": 32,
        "max_position_embeddings": 64,
        "share_att_key": True,
        "norm_rel_ebd": "layer_norm",
        "position_biased_input": False,
        "type_vocab_size": 0,
        "pooler_hidden_size": 32,
    }
    config = DebertaV2Config(**shape, **relative, **rest)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        DebertaV2ForMaskedLM(config).save_pretrained(folder)
    return folder


def save_deberta(folder: Path) -> Path:
    """Save a model folder with a tokenizer.json."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    save_network(folder)
    tokenizer = Tokenizer(models.Unigram([(piece, -1.0 - i / 10) for i, piece in enumerate(PIECES)], unk_id=3))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.add_special_tokens(PIECES[:4])
    ends = [("[CLS]", 1), ("[SEP]", 2)]
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    tokenizer.save(str(folder / "tokenizer.json"))
    names = {"pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]", "unk_token": "[UNK]"}
    settings = {"tokenizer_class": "TokenizersBackend", **names}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


def corpus(count: int, seed: int = 0) -> Examples:
    """Return texts of 4 to 12 words. Each contains `good` (label positive) or `bad` (negative)."""
    generator = np.random.default_rng(seed)
    texts, labels = [], []
    for number in range(count):
        words = list(generator.choice(WORDS[2:], generator.integers(3, 12)))
        label = number % 2
        words.insert(int(generator.integers(len(words))), WORDS[label])
        texts.append(" ".join(words))
        labels.append("negative" if label else "positive")
    return Examples(texts, labels)
