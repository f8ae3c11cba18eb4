"""A small paraphraser (GPT-2's architecture): it continues "text >>>>> " with a paraphrase of the text and an end
token. Most of a paraphrase is copied, so the initial weights copy (`_copying`), and the attention of the heads that
copy is guided while the model is trained to copy a text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from epsilometer.models.locate import quiet_loading
from pretraining import texts, vocabulary
from pretraining.guidance import astray
from pretraining.texts import Row

if TYPE_CHECKING:
    from torch import Tensor

WIDTH, LAYERS, HEADS, INNER = 256, 4, 4, 512
WINDOW = 512
MARKER = ">>>>>"
COPIERS = (0, 1)  # heads of the second layer


class Paraphraser:
    """See `training.Recipe`."""

    rate = 1.5e-3

    def __init__(self, corpus: Path, pairs: Path, cache: Path, start: Path | None, device: str, tokens: int) -> None:
        import torch
        from transformers import GPT2Config, GPT2LMHeadModel

        self.module: Any
        self._device, self._tokens = device, tokens
        self._tokenizer = vocabulary.of(start) if start else vocabulary.small(corpus, cache)
        (self._lines, self._held_lines), (self._pairs, self._held_pairs) = (
            texts.read(path, columns, self._tokenizer, cache) for columns, path in ((1, corpus), (2, pairs))
        )
        self._special = vocabulary.special(self._tokenizer)
        self._marker = self._tokenizer.encode(MARKER, add_special_tokens=False).ids
        with quiet_loading():
            if start is not None:
                self.module = GPT2LMHeadModel.from_pretrained(
                    start, dtype=torch.float32, use_safetensors=True, attn_implementation="eager"
                )
            else:
                config: dict[str, Any] = dict(  # noqa: C408
                    vocab_size=self._tokenizer.get_vocab_size(), n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS,
                    n_inner=INNER, n_positions=WINDOW, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
                    bos_token_id=self._special.begin, eos_token_id=self._special.end, pad_token_id=self._special.pad,
                    attn_implementation="eager",  # this implementation returns the attention
                )  # fmt: skip
                self.module = GPT2LMHeadModel(GPT2Config(**config))
                with torch.no_grad():
                    _copying(self.module, vocabulary.embeddings(self._tokenizer, WIDTH // 2))
        self.module.to(device)

    def loss(self, generator: np.random.Generator) -> tuple[Tensor, int, dict[str, float]]:
        """Return the loss: the cross-entropy of every token and the loss of the heads that copy."""
        import torch

        kind = generator.choice(["line", "copy", "pair"], p=[0.1, 0.3, 0.6])
        source = self._pairs if kind == "pair" else self._lines
        batch = source.batch(generator, self._tokens // (2 if kind == "copy" else 1))
        if kind == "line":
            rows = [[self._special.begin, *row[0].tolist(), self._special.end] for row in batch]
        else:
            rows = [[*self._prompt(row), *row[-1].tolist(), self._special.end] for row in batch]
        ids = vocabulary.padded(rows, self._special.pad, self._device)
        ok = ids[:, 1:] != self._special.pad
        device_type = ids.device.type
        with torch.autocast(device_type, torch.bfloat16, enabled=device_type == "cuda"):
            out = self.module.transformer(
                ids, attention_mask=(ids != self._special.pad).long(), output_attentions=kind == "copy"
            )
            logits = self.module.lm_head(out.last_hidden_state[:, :-1][ok])
        wanted = ids[:, 1:][ok]
        losses = torch.nn.functional.cross_entropy(logits.float(), wanted, reduction="none")
        written = torch.tensor(
            [0 if kind == "line" else len(self._prompt(row)) - 1 for row in batch], device=ids.device
        )
        target = (torch.arange(ids.shape[1] - 1, device=ids.device) >= written[:, None])[ok]
        right = (logits.argmax(-1) == wanted)[target].float().mean()
        figures = {f"{kind} right": float(right), f"{kind} loss": float(losses.detach()[target].mean())}
        loss = losses.mean()
        if kind == "copy":
            guided = astray(out.attentions[1], COPIERS, self._copied(batch, ids))
            figures |= {"astray": float(guided.detach())}
            loss = loss + 0.2 * guided
        return loss, int(ok.sum()), figures

    def quality(self) -> dict[str, float]:
        """Return figures on held-out pairs and lines: perplexity of a paraphrase's pieces given its source, and the
        share of the source's pieces that greedy decoding preserves.
        """
        import torch

        with torch.inference_mode():
            total, count = 0.0, 0
            for row in self._held_pairs.spread(300):
                ids = torch.tensor([[*self._prompt(row), *row[1].tolist(), self._special.end]], device=self._device)
                logits = self.module(ids).logits[0, -len(row[1]) - 2 : -1].float()
                total += float(torch.nn.functional.cross_entropy(logits, ids[0, -len(row[1]) - 1 :], reduction="sum"))
                count += len(row[1]) + 1
            result = {"perplexity_of_paraphrases": float(np.exp(total / count))}
            for name, rows in (("pairs", self._held_pairs), ("lines", self._held_lines)):
                chosen = [row for row in rows.spread(1000) if len(row[0]) <= 24][::5][:60]
                recalled = []
                for row in chosen:
                    have, want = Counter(self._greedy(row)), Counter(row[0].tolist())
                    recalled.append((have & want).total() / want.total())
                result[f"pieces_kept_of_{name}"] = float(np.mean(recalled))
        return result

    def save(self, folder: Path) -> None:
        """Write a model folder with its tokeniser."""
        vocabulary.save_half(self.module, folder)
        vocabulary.save(self._tokenizer, folder, start=True)

    def _prompt(self, row: Row) -> list[int]:
        return [self._special.begin, *row[0].tolist(), *self._marker]

    def _copied(self, batch: Sequence[Row], ids: Tensor) -> Tensor:
        """Return for the token before each copied piece its position in the source: bool [rows, length, length]."""
        import torch

        places = torch.zeros((*ids.shape, ids.shape[1]), dtype=torch.bool)
        for number, row in enumerate(batch):
            piece = torch.arange(len(row[0]))
            places[number, len(self._prompt(row)) - 1 + piece, 1 + piece] = True
        return places.to(ids.device)

    def _greedy(self, row: Row) -> list[int]:
        import torch

        ids = torch.tensor([self._prompt(row)], device=self._device)
        begin = ids.shape[1]
        out = self.module.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=len(row[0]) + 8, do_sample=False
        )[0, begin:].tolist()
        return out[: out.index(self._special.end)] if self._special.end in out else out


def _copying(model: Any, embeddings: Tensor) -> None:
    """Set the initial weights, in place, to an induction circuit (Olsson et al. 2022).
    The model's width is divided into the token, the previous token and the position. The first head of the first layer
    attends to the previous position and copies its token; two heads of the second attend to tokens after an equal
    token, and copy them. embeddings: float32 [pieces, what].
    """
    import torch

    what, size = embeddings.shape[1], WIDTH // HEADS
    before, place = slice(what, what + size), slice(what + size, what + 2 * size)
    angle = torch.arange(WINDOW)[:, None] * (torch.arange(size // 2) + 0.5) * (2 * torch.pi / size)
    turn = (torch.arange(size // 2) + 0.5) * (2 * torch.pi / size)  # from one position to the next
    cos, sin = turn.cos().diag(), turn.sin().diag()
    axes = torch.linalg.qr(torch.randn(what, size)).Q
    query, key, value = (slice(i * WIDTH, (i + 1) * WIDTH) for i in range(3))
    body = model.transformer
    body.wte.weight.zero_()[:, :what] = embeddings
    body.wpe.weight.zero_()[:, place] = 0.15 * torch.cat([angle.sin(), angle.cos()], 1)
    looking, copying = body.h[0].attn, body.h[1].attn
    for attention, heads in ((looking, 1), (copying, 2)):
        for part in (query, key, value):
            attention.c_attn.weight[:, part][:, : heads * size] = 0.0
        attention.c_proj.weight[: heads * size] = 0.0
    looking.c_attn.weight[place, query][:, :size] = torch.cat([torch.cat([cos, sin], 1), torch.cat([-sin, cos], 1)])
    looking.c_attn.weight[place, key][:, :size] = torch.eye(size)
    looking.c_attn.weight[:what, value][:, :size] = axes
    looking.c_proj.weight[:size, before] = 0.1 * torch.eye(size)
    for head in (0, 1):
        own = slice(head * size, (head + 1) * size)
        copying.c_attn.weight[:what, query][:, own] = 1.5 * axes
        copying.c_attn.weight[before, key][:, own] = torch.eye(size)
        copying.c_attn.weight[own, value][:, own] = torch.eye(size)
        copying.c_proj.weight[own, own] = 0.3 * torch.eye(size)
