"""A small DeBERTa-v2 masked language model (He et al. 2021), for fine-tuning on downstream tasks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from epsilometer.core.randomness import Noise
from epsilometer.models.locate import quiet_loading
from pretraining import texts, vocabulary
from pretraining.texts import Row

if TYPE_CHECKING:
    from torch import Tensor

WIDTH, LAYERS, HEADS, INNER = 256, 4, 4, 512
WINDOW = 512
MASKED = 0.2  # share of the pieces that are predicted
SEEN = 0.1  # share of these that stay unchanged, so that the model also learns to represent unmasked pieces


class Deberta:
    """See `training.Recipe`."""

    rate = 1.5e-3

    def __init__(self, corpus: Path, pairs: Path, cache: Path, start: Path | None, device: str, tokens: int) -> None:
        import torch
        from transformers import DebertaV2Config, DebertaV2ForMaskedLM

        self.module: Any
        self._device, self._tokens = device, tokens
        self._tokenizer = vocabulary.of(start) if start else vocabulary.small(corpus, cache)
        self._lines, self._held = texts.read(corpus, 1, self._tokenizer, cache)
        self._special = vocabulary.special(self._tokenizer)
        with quiet_loading():
            if start is not None:
                self.module = DebertaV2ForMaskedLM.from_pretrained(start, dtype=torch.float32, use_safetensors=True)
            else:
                config: dict[str, Any] = dict(  # noqa: C408
                    vocab_size=self._tokenizer.get_vocab_size(), hidden_size=WIDTH, num_hidden_layers=LAYERS,
                    num_attention_heads=HEADS, intermediate_size=INNER, max_position_embeddings=WINDOW,
                    relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=32, share_att_key=True,
                    norm_rel_ebd="layer_norm", position_biased_input=False, type_vocab_size=0,
                    hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, pad_token_id=self._special.pad,
                )  # fmt: skip
                self.module = DebertaV2ForMaskedLM(DebertaV2Config(**config))
                with torch.no_grad():
                    table = vocabulary.embeddings(self._tokenizer, WIDTH)
                    self.module.deberta.embeddings.word_embeddings.weight.copy_(table)
        self.module.to(device)

    def loss(self, generator: np.random.Generator) -> tuple[Tensor, int, dict[str, float]]:
        """Return the cross-entropy of the masked pieces."""
        import torch

        logits, wanted, tokens = self._masked(self._lines.batch(generator, self._tokens), generator)
        loss = torch.nn.functional.cross_entropy(logits.float(), wanted)
        return (
            loss,
            tokens,
            {"right": float((logits.argmax(-1) == wanted).float().mean()), "loss": float(loss.detach())},
        )

    def quality(self) -> dict[str, float]:
        """Return how often a masked piece of held-out lines is the most probable entry, or one of the first five."""
        import torch

        generator = Noise.named(1, "pretrain", "deberta", "quality").generator(0)
        rows, best = self._held.spread(600), []
        with torch.inference_mode():
            for first in range(0, len(rows), 20):
                logits, wanted, _ = self._masked(rows[first : first + 20], generator)
                best.append(logits.topk(5).indices == wanted[:, None])
        hits = torch.cat(best).float()
        return {
            "masked_top1": float(hits[:, 0].mean()),
            "masked_top5": float(hits.sum(1).mean()),
            "pieces": len(hits),
        }

    def save(self, folder: Path) -> None:
        """Write a model folder with its tokeniser."""
        vocabulary.save_half(self.module, folder)
        vocabulary.save(self._tokenizer, folder, start=False)

    def _masked(self, rows: Sequence[Row], generator: np.random.Generator) -> tuple[Tensor, Tensor, int]:
        """Return the logits at masked pieces, the original pieces, and the number of tokens in the batch."""
        import torch

        lengths = np.array([len(row[0]) for row in rows])
        ids = np.full((len(rows), lengths.max() + 2), self._special.pad)
        place = np.arange(ids.shape[1])
        inner = (place > 0) & (place <= lengths[:, None])
        ids[:, 0], ids[np.arange(len(rows)), lengths + 1] = self._special.begin, self._special.end
        ids[inner] = np.concatenate([row[0] for row in rows])
        chosen = inner & (generator.random(ids.shape) < MASKED)
        if not chosen.any():
            chosen[:, 1] = True
        shown = np.where(chosen & (generator.random(ids.shape) >= SEEN), self._special.mask, ids)
        source, masked, wanted = (torch.from_numpy(part).to(self._device) for part in (shown, chosen, ids[chosen]))
        device_type = source.device.type
        with torch.autocast(device_type, torch.bfloat16, enabled=device_type == "cuda"):
            attend = (source != self._special.pad).long()
            states = self.module.deberta(source, attention_mask=attend).last_hidden_state[masked]
            logits = self.module.cls(states)
        return logits, wanted, int(attend.sum())
