"""Encoder-decoders (T5, BART, a pair of BERTs) by id or folder, in safetensors; `assemble` makes the embedded one.

`generation` samples texts from these models. Mechanisms that change the encoder's states use `padded` (texts as ids of
one length), `states` (the encoder's last hidden states) and `beam_search` (text from given states).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from epsilometer.core.atomic import write_text
from epsilometer.core.errors import UserError
from epsilometer.models.generator import EQUAL_ROWS, Generator, filled, positions
from epsilometer.models.locate import quiet_loading

_NEVER = -29.0  # entries with at most this bias are never generated; training gives them the bias -30


class Seq2Seq(Generator):
    """An encoder-decoder. The output for a row depends only on that row.

    model: a model that `models.locate` accepts. precision: "float32", "bfloat16" or "auto".

    width: size of an encoder state. start, pad: ids of the decoder's first token and of padding.
    """

    _kind = "seq2seq"
    _auto = "AutoModelForSeq2SeqLM"

    def __init__(self, model: str | Path, precision: str = "float32") -> None:
        super().__init__(model, precision)
        config, settings = self.network.config, self.network.generation_config
        encoder = getattr(config, "encoder", config)
        self.width = int(encoder.hidden_size)
        start = settings.decoder_start_token_id
        start = getattr(config, "decoder_start_token_id", None) if start is None else start
        if start is None:
            raise UserError(
                f"{self.folder} has no decoder_start_token_id; state it in its generation_config.json", "EPS-N064"
            )
        self.start = int(start)
        self.pad = int(self.end if self.tokenizer.pad_token_id is None else self.tokenizer.pad_token_id)

    def cut(self, tokens: Sequence[list[int]], length: int | None = None) -> list[list[int]]:
        """Return token ids truncated to `length`. Closing special tokens are kept. length: None for the window."""
        room = self.window if length is None else length
        ids_of_one = self.tokens(["a"])[0]
        closing = len(ids_of_one) - 1 - ids_of_one.index(self.plain("a")[-1])
        return [ids if len(ids) <= room else ids[: room - closing] + ids[len(ids) - closing :] for ids in tokens]

    def padded(self, texts: Sequence[str], length: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the token ids of n texts, truncated or padded to `length`, and a mask. Both are int64 [n, length].

        Truncation keeps the closing special tokens. The mask is 1 at tokens and 0 at padding.
        """
        ids = np.full((len(texts), length), self.pad, np.int64)
        mask = np.zeros_like(ids)
        for row, row_ids in enumerate(self.cut(self.tokens(texts), length)):
            ids[row, : len(row_ids)], mask[row, : len(row_ids)] = row_ids, 1
        return ids, mask

    @torch.inference_mode()
    def states(self, ids: NDArray[np.integer], mask: NDArray[np.integer] | None = None) -> Tensor:
        """Return the encoder's last hidden states, float32 [n, length, width], in CPU memory.

        ids: [n, length]. mask: [n, length], 1 at tokens and 0 at padding; None: no padding.
        """
        size = EQUAL_ROWS[self.device]
        out = torch.empty((*ids.shape, self.width))
        for start in range(0, len(ids), size):
            part = slice(start, start + size)
            seen = None if mask is None else self.tensor(filled(mask[part], size))
            hidden = self._encode(self.tensor(filled(ids[part], size)), seen)
            out[part] = hidden[: len(ids[part])].float().cpu()
        return out

    @torch.inference_mode()
    def longest(self, prompt: int) -> int:
        """Return the decoder's limit of tokens, which does not depend on the prompt."""
        config = self.network.config
        return positions(getattr(config, "decoder", config)) or 1 << 16

    def room(self, new: int) -> int:
        """Return the same as `Generator.room`."""
        return self.window if new <= self.longest(0) else 0

    @torch.inference_mode()
    def read(self, prompts: NDArray[np.integer]) -> tuple[Tensor, Any]:
        """Run the encoder on prompts of one length, int [rows, length], and the decoder on its start token.

        Returns the logits of the first generated token [rows, outputs], and the cache of keys and values.
        """
        from transformers import DynamicCache, EncoderDecoderCache

        cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
        hidden = self._encode(self.tensor(prompts), None)
        first = torch.full((len(prompts), 1), self.start, device=self.device)
        return self._decode(first, hidden, cache)[:, 0], cache

    @torch.inference_mode()
    def step(self, tokens: Tensor, cache: Any) -> Tensor:
        """Return the same as `Generator.step`."""
        # The cache has the keys and values of the encoder states, so only the shape of `hidden` matters.
        length = cache.cross_attention_cache.get_seq_length()
        hidden = torch.zeros(1, dtype=self.network.dtype, device=self.device).expand(len(tokens), length, self.width)
        return self._decode(tokens, hidden, cache)

    def _decode(self, tokens: Tensor, hidden: Tensor, cache: Any) -> Tensor:
        with self._only_outputs():
            out = self.network(
                encoder_outputs=(hidden,), decoder_input_ids=tokens, past_key_values=cache, use_cache=True
            )
        return self._rounded(out.logits)

    def _encode(self, ids: Tensor, mask: Tensor | None) -> Tensor:
        mask = torch.ones_like(ids) if mask is None else mask
        hidden: Tensor = self.network.get_encoder()(input_ids=ids, attention_mask=mask).last_hidden_state
        return hidden


def assemble(decoder_folder: Path, encoder_folder: Path, out: Path) -> None:
    """Write one encoder-decoder: an unchanged sentence encoder, joined with a decoder that was trained on top of it.

    decoder_folder:  decoder.safetensors (trained parameters, float16), config.json of the decoder, and bounds.json if
                     the bounds of its logits were measured.
    encoder_folder:  a BERT without a head, with its tokeniser. The decoder uses this BERT's word embeddings for input
                     and output. If the decoder's configuration has `encoder_layers`, only this number of first layers
                     of the encoder is used.
    out:             the folder to write: an EncoderDecoderModel in float32. Its generation settings suppress the
                     vocabulary entries that the decoder was not trained to generate (bias -30).
    """
    with quiet_loading():
        from safetensors.torch import load_file
        from transformers import (
            AutoTokenizer,
            BertConfig,
            BertLMHeadModel,
            BertModel,
            EncoderDecoderModel,
            GenerationConfig,
        )

        encoder = BertModel.from_pretrained(encoder_folder, use_safetensors=True)
        decoder = BertLMHeadModel(BertConfig.from_pretrained(decoder_folder))
        tokenizer = AutoTokenizer.from_pretrained(encoder_folder, trust_remote_code=False)
    layers = getattr(decoder.config, "encoder_layers", encoder.config.num_hidden_layers)
    encoder.encoder.layer, encoder.config.num_hidden_layers = encoder.encoder.layer[:layers], layers
    embeddings = {f"bert.embeddings.{name}": part for name, part in encoder.embeddings.state_dict().items()}
    trained = {name: part.float() for name, part in load_file(decoder_folder / "decoder.safetensors").items()}
    report = decoder.load_state_dict(embeddings | trained, strict=False)
    tied = "cls.predictions.decoder."
    wrong = report.unexpected_keys + [name for name in report.missing_keys if not name.startswith(tied)]
    if wrong:
        raise UserError(
            f"{decoder_folder} was not trained on {encoder_folder}: only one of them contains {wrong[0]}; give the "
            "encoder that it was trained on",
            "EPS-N065",
        )
    decoder.tie_weights()
    start, end, pad = tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.pad_token_id
    model = EncoderDecoderModel(encoder=encoder, decoder=decoder)
    model.config.update(
        {"decoder_start_token_id": start, "eos_token_id": end, "pad_token_id": pad}
        | {"vocab_size": decoder.config.vocab_size}
    )
    never = (decoder.cls.predictions.bias <= _NEVER).nonzero()[:, 0].tolist()
    model.generation_config = GenerationConfig(
        decoder_start_token_id=start, bos_token_id=start, eos_token_id=end, pad_token_id=pad, max_new_tokens=64,
        suppress_tokens=never,
    )  # fmt: skip
    with quiet_loading():
        model.save_pretrained(out)
    tokenizer.save_pretrained(out)
    # The encoder's settings of truncation and padding are for sentences, so remove them.
    settings = json.loads((out / "tokenizer.json").read_text()) | {"truncation": None, "padding": None}
    write_text(json.dumps(settings, ensure_ascii=False), out / "tokenizer.json")
    if (decoder_folder / "bounds.json").is_file():
        shutil.copyfile(decoder_folder / "bounds.json", out / "bounds.json")
