"""Small randomly initialised BERT and GPT-2 classifiers, saved by transformers, to test the real loading code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from tests.support.tiny_models import SIZE, SPECIAL, WORDS, save_tokenizer, save_word_bert

WIDTH = 32


def save_bert_classifier(folder: Path, classes: int = 2, **config: Any) -> Path:
    """Save a BERT with pooler and classifier. A text is put between [CLS] and [SEP]."""
    from transformers import BertConfig, BertForSequenceClassification

    save_word_bert(folder, WORDS)
    shape = {"num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64, "max_position_embeddings": 64}
    settings: dict[str, Any] = {"vocab_size": 4 + len(WORDS), "hidden_size": WIDTH, **shape, "num_labels": classes}
    return _save(BertForSequenceClassification, BertConfig(**{**settings, **config}), folder)


def save_gpt2_classifier(folder: Path, classes: int = 2, **config: Any) -> Path:
    """Save a GPT-2 with a scorer and without a padding token; the end token (number 1) must be used instead."""
    from transformers import GPT2Config, GPT2ForSequenceClassification

    save_tokenizer(folder, closes=False)
    settings: dict[str, Any] = {
        "vocab_size": SIZE, "n_embd": WIDTH, "n_layer": 2, "n_head": 2, "n_positions": 64, "bos_token_id": 1,
        "eos_token_id": SPECIAL.index("</s>"), "num_labels": classes,
    }  # fmt: skip
    return _save(GPT2ForSequenceClassification, GPT2Config(**{**settings, **config}), folder)


def _save(kind: Any, config: Any, folder: Path) -> Path:
    with torch.random.fork_rng():
        torch.manual_seed(7)
        model = kind(config).eval()
        with torch.no_grad():
            for name, parameter in model.named_parameters():  # also norms and biases, which would otherwise be 1 or 0
                parameter.add_(torch.randn_like(parameter) * (0.3 if parameter.dim() > 1 else 0.1))
                if name == "transformer.ln_f.weight":
                    parameter.mul_(1.5)
        model.save_pretrained(folder)
    return folder


SAVE = {"bert": save_bert_classifier, "gpt2": save_gpt2_classifier}
