"""A small judge: a causal language model (Qwen3's architecture) that names the source of a rewrite.
It continues the plain prompt of `judge_prompt` with a label. The attention of three heads is guided, one in each layer:
from every token to the labels before it, which tell its candidate; then from a candidate's token to equal tokens of the
rewrite (or outside of the rewrite, if there are none); then from the last position to tokens that have equal ones. The
head that matches starts with equal projections of query and key. The model learns from the answers how to use them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from epsilometer.attacks.identification.shared.judge_prompt import characters, plain
from epsilometer.models.locate import quiet_loading
from pretraining import texts, vocabulary
from pretraining.corruption import Unit, corrupt, words
from pretraining.guidance import astray
from pretraining.texts import Row, Rows

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from torch import Tensor

WIDTH, LAYERS, HEADS, INNER = 256, 3, 4, 512
WINDOW = 2048
LONG = 40  # pieces of a text in training; longer texts are truncated
COUNTS = (2, 2, 3, 4, 8, 16)  # candidates in training; above 9 the labels are letters


class Trial(NamedTuple):
    """Token numbers of a rewrite and of its candidates, and which of them is the source."""

    rewrite: list[int]
    candidates: list[list[int]]
    target: int


class Judge:
    """See `training.Recipe`."""

    rate = 1e-3

    def __init__(self, corpus: Path, pairs: Path, cache: Path, start: Path | None, device: str, tokens: int) -> None:
        import torch
        from transformers import Qwen3Config, Qwen3ForCausalLM

        self.module: Any
        self._device, self._tokens = device, tokens
        self._tokenizer = vocabulary.of(start) if start else vocabulary.small(corpus, cache)
        self._continues = vocabulary.continues(self._tokenizer)
        (self._lines, self._held_lines), (self._pairs, self._held_pairs) = (
            texts.read(path, columns, self._tokenizer, cache) for columns, path in ((1, corpus), (2, pairs))
        )
        self._special = vocabulary.special(self._tokenizer)
        with quiet_loading():
            if start is not None:
                self.module = Qwen3ForCausalLM.from_pretrained(
                    start, dtype=torch.float32, use_safetensors=True, attn_implementation="eager"
                )
            else:
                config: dict[str, Any] = dict(  # noqa: C408
                    vocab_size=self._tokenizer.get_vocab_size(), hidden_size=WIDTH, num_hidden_layers=LAYERS,
                    num_attention_heads=HEADS, num_key_value_heads=HEADS, head_dim=WIDTH // HEADS,
                    intermediate_size=INNER, max_position_embeddings=WINDOW, tie_word_embeddings=True,
                    bos_token_id=self._special.begin, eos_token_id=self._special.end, pad_token_id=self._special.pad,
                    rope_parameters={"rope_type": "default", "rope_theta": 1e6}, attention_bias=True,
                    attn_implementation="eager",  # this implementation returns the attention
                )  # fmt: skip
                self.module = Qwen3ForCausalLM(Qwen3Config(**config))
                with torch.no_grad():
                    self.module.model.embed_tokens.weight.copy_(vocabulary.embeddings(self._tokenizer, WIDTH))
                    _match(self.module.model.layers[1].self_attn)
        self.module.model.embed_tokens.weight.requires_grad_(False)  # so that equal tokens stay equal, even rare ones
        self.module.to(device)

    def loss(self, generator: np.random.Generator) -> tuple[Tensor, int, dict[str, float]]:
        """Return the loss: the cross-entropy of the label and the loss of the guided heads."""
        import torch

        count = int(generator.choice(COUNTS))
        kind = generator.choice(["line", "pair"], p=[0.75, 0.25])
        rows = self._pairs if kind == "pair" else self._lines
        room = self._tokens // (count + 1)
        batch = rows.batch(generator, room * len(rows.columns))
        trials = self._trials(batch, rows, generator, count, replaced=None)
        ids, last, places = self._prompts(trials)
        device_type = ids.device.type
        with torch.autocast(device_type, torch.bfloat16, enabled=device_type == "cuda"):
            out = self.module.model(ids, attention_mask=(ids != self._special.pad).long(), output_attentions=True)
            hidden = out.last_hidden_state[torch.arange(len(ids)), last]
            logits = self.module.lm_head(hidden).float()
        labels = self._labels(count)
        target = torch.tensor([trial.target for trial in trials], device=ids.device)
        loss = torch.nn.functional.cross_entropy(logits, labels[target])
        figures = {f"{kind}{count} right": float((logits[:, labels].argmax(1) == target).float().mean())}
        for layer, targets in enumerate(places):
            guided = astray(out.attentions[layer], [0], targets)
            loss = loss + 0.3 * guided
            figures[f"astray{layer}"] = float(guided.detach())
        return loss, int((ids != self._special.pad).sum()), figures

    def quality(self) -> dict[str, float]:
        """Return the share of correct answers on held-out trials, with replaced words and with paraphrases."""
        import torch

        from epsilometer.core.randomness import Noise

        generator = Noise.named(1, "pretrain", "judge", "quality").generator(0)
        result = {}
        for name, rows, count, replaced in (
            ("half_replaced_k2", self._held_lines, 2, 0.5),
            ("half_replaced_k4", self._held_lines, 4, 0.5),
            ("half_replaced_k8", self._held_lines, 8, 0.5),
            ("half_replaced_k16", self._held_lines, 16, 0.5),
            ("four_fifths_replaced_k2", self._held_lines, 2, 0.8),
            ("paraphrase_k2", self._held_pairs, 2, 0.0),
            ("paraphrase_k4", self._held_pairs, 4, 0.0),
        ):
            right = []
            spread = rows.spread(1200 // count)
            with torch.inference_mode():
                for first in range(0, len(spread), 20):
                    part = spread[first : first + 20]
                    trials = self._trials(part, rows, generator, count, replaced=replaced)
                    ids, last, _ = self._prompts(trials)
                    hidden = self.module.model(ids, attention_mask=(ids != self._special.pad).long()).last_hidden_state
                    logits = self.module.lm_head(hidden[torch.arange(len(ids)), last])[:, self._labels(count)]
                    right += (logits.argmax(1).cpu().numpy() == [trial.target for trial in trials]).tolist()
            result[name] = float(np.mean(right))
        return result

    def save(self, folder: Path) -> None:
        """Write a model folder with its tokeniser."""
        vocabulary.save_half(self.module, folder)
        vocabulary.save(self._tokenizer, folder, start=True)

    def _trials(
        self, batch: Sequence[Row], rows: Rows, generator: np.random.Generator, count: int, replaced: float | None
    ) -> list[Trial]:
        """Return one trial for each row, with its source among others, of similar length (from the batch) or of any.
        replaced: the share of the rewrite's words that become random words of other texts; if None, any kind of
        corruption, with a random degree for each trial.
        """
        trials = []
        elsewhere = [rows[int(i)] for i in generator.integers(len(rows), size=100)]
        spare = [word for row in elsewhere for word in words(row[-1], self._continues)]
        for number, row in enumerate(batch):
            units = words(row[-1], self._continues)

            def fill() -> Unit:
                return spare[int(generator.integers(len(spare)))]

            if replaced is not None:
                units, _ = corrupt(units, generator, fill, replaced)
            else:
                units = self._spoilt(units, generator, fill, mild=len(row) > 1)
            like = generator.random() < 0.5 and len(batch) >= count
            others = [batch[(number + 1 + i) % len(batch)] for i in range(count - 1)] if like else []
            while len(others) < count - 1:
                others.append(rows[int(generator.integers(len(rows)))])
            target = int(generator.integers(count))
            candidates = [other[0].tolist()[:LONG] for other in others]
            candidates.insert(target, row[0].tolist()[:LONG])
            trials.append(Trial([i for unit in units for i in unit][:LONG], candidates, target))
        return trials

    def _spoilt(
        self, units: list[Unit], generator: np.random.Generator, fill: Callable[[], Unit], mild: bool
    ) -> list[Unit]:
        degree = generator.random() * (0.3 if mild else 0.9)
        kind = generator.integers(4)
        if kind == 0:
            units, _ = corrupt(units, generator, lambda: [self._special.mask], 0.5 * degree, delete=0.5 * degree)
        else:
            share = generator.random() if kind == 1 else 1.0
            units, _ = corrupt(
                units, generator, fill, share * degree, delete=(1 - share) * degree, shuffle=8.0 * generator.integers(2)
            )
        return units

    def _labels(self, count: int) -> Tensor:
        import torch

        ids = [self._tokenizer.encode(label, add_special_tokens=False).ids[0] for label in characters(count)]
        return torch.tensor(ids, device=self._device)

    def _prompts(self, trials: Sequence[Trial]) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor, Tensor]]:
        """Return token numbers [n, length], last positions [n], and the guided heads' targets: bool [n, length,
        length]. The targets are, for each token, the labels before it and the first token; for a candidate's token,
        equal tokens of the rewrite, or all tokens outside of it if there are none; for the last position, tokens with
        equal ones.
        """
        import torch

        fixed = frame(self._tokenizer, len(trials[0].candidates))
        rows = [[trial.rewrite, *trial.candidates] for trial in trials]
        lengths = [sum(map(len, row)) + sum(map(len, fixed)) for row in rows]
        ids = np.full((len(rows), max(lengths)), self._special.pad)
        marks, equals = (np.zeros((len(rows), max(lengths), max(lengths)), bool) for _ in range(2))
        has_equal = np.zeros(ids.shape, bool)
        for number, row in enumerate(rows):
            end = 0
            for slot, (part, text) in enumerate(zip(fixed, row, strict=False)):
                ids[number, end : end + len(part)] = part
                begin = end + len(part)
                end = begin + len(text)
                ids[number, begin:end] = text
                if slot:
                    marks[number, begin - 2 :, begin - 2] = True  # the label, before its bracket
                if slot == 0:
                    rewrite = slice(begin, end)
                else:
                    equals[number, begin:end, rewrite] = ids[number, begin:end, None] == ids[number, None, rewrite]
                    has_equal[number, begin:end] = equals[number, begin:end].any(1)
                    lost = begin + np.flatnonzero(~has_equal[number, begin:end])
                    equals[number, lost] = True
                    equals[number, lost, rewrite] = False
            marks[number, :, 0] = True
            ids[number, end : end + len(fixed[-1])] = fixed[-1]
        final = np.zeros_like(equals)
        final[np.arange(len(rows)), np.array(lengths) - 1] = has_equal
        tokens, last, *places = (
            torch.from_numpy(array).to(self._device) for array in (ids, np.array(lengths) - 1, marks, equals, final)
        )
        return tokens, last, (places[0], places[1], places[2])


def _match(attention: Any) -> None:
    """Make the first head attend to tokens that are like the query, at any distance.
    Query and key have the same random projection onto the dimensions of the head that rotate least with distance.
    """
    import torch

    size = attention.head_dim
    slow = [*range(size // 4, size // 2), *range(size * 3 // 4, size)]
    axes = torch.linalg.qr(torch.randn(attention.q_proj.in_features, len(slow))).Q.T
    for part in (attention.q_proj, attention.k_proj):
        part.weight[:size] = 0.0
        part.weight[slow] = axes


def frame(tokenizer: Tokenizer, count: int) -> list[list[int]]:
    """Return the prompt's tokens before, between and after its texts, in count + 2 parts."""
    special = vocabulary.special(tokenizer)
    prompt = plain("[MASK]", ["[MASK]"] * count, characters(count))
    parts: list[list[int]] = [[special.begin]]
    for i in tokenizer.encode(prompt, add_special_tokens=False).ids:
        if i == special.mask:
            parts.append([])
        else:
            parts[-1].append(i)
    return parts
