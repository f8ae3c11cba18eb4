"""Beam search with an encoder-decoder, from texts or from encoder states.

Hypotheses are ranked by their mean log-probability per token, including the end token. The search for a text stops when
the number of ended hypotheses equals the number of beams. Unlike `generate` of transformers, this search computes
logits only for the tokens in `model.outputs`, and computes the cross-attention keys of the encoder states once.
Repeated n-grams are allowed. Batches have a fixed number of rows, so the output for a text does not depend on other
texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import groupby
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from epsilometer.models.generator import gather
from epsilometer.models.seq2seq import Seq2Seq
from epsilometer.runtime.progress import track

TEXTS = {"cpu": 32, "cuda": 128}  # texts per batch when all states have one length; fewer if memory is short
FEW = {"cpu": 8, "cuda": 64}  # texts per batch when lengths differ, since few texts share a length


class _Ended(NamedTuple):
    score: float
    places: list[int]


def rewritten(model: Seq2Seq, texts: Sequence[str], longest: int, beams: int = 3) -> list[str]:
    """Return the model's output for each text, of at most `longest` tokens.

    Equal texts are rewritten once. The texts of a batch have one length, so they need no padding. Texts longer than the
    model's window are truncated.
    """
    distinct = list(dict.fromkeys(texts))
    ids = model.cut(model.tokens(distinct))
    order = sorted(range(len(distinct)), key=lambda i: len(ids[i]))
    written: dict[str, str] = {}
    runs = [list(run) for _, run in groupby(order, key=lambda i: len(ids[i]))]
    for rows in track(runs, len(runs), "rewrite sentences"):
        states = model.states(np.array([ids[i] for i in rows]))
        outputs = beam_search(model, states, longest, beams, texts=FEW[model.device])
        written |= {distinct[i]: output for i, output in zip(rows, outputs, strict=True)}
    return [written[text] for text in texts]


@torch.inference_mode()
def beam_search(model: Seq2Seq, states: Tensor, longest: int, beams: int = 3, texts: int | None = None) -> list[str]:
    """Return a text of at most `longest` tokens for each of n encoder states [n, length, width].

    The decoder attends to all positions. The text for a state does not depend on other states. texts: number of texts
    per batch; None: `TEXTS`.
    """
    most = TEXTS[model.device] if texts is None else texts
    written: list[str] = []
    for _, outputs in model.memory.parts(states, partial(_first_batch, model, longest, beams, most)):
        written += outputs
    return written


def _first_batch(model: Seq2Seq, longest: int, beams: int, most: int, states: Tensor) -> list[str]:
    """Return the texts for the first `most` states, or for fewer states if memory is short."""
    size = model.memory.rows(beams * model.row_bytes(states.shape[1], longest), most)
    part = states[:size]
    rows = torch.cat([part, part[-1:].expand(size - len(part), -1, -1)])
    hidden = rows.repeat_interleave(beams, dim=0).to(model.device, model.network.dtype)
    return [model.text(model.outputs[places]) for places in _search(model, hidden, longest, beams)[: len(part)]]


def _search(model: Seq2Seq, hidden: Tensor, longest: int, beams: int) -> list[list[int]]:
    """Return the best sequence for each group of `beams` equal rows of `hidden`.

    A sequence is a list of indices into `model.outputs`, without the end token.
    """
    from transformers import DynamicCache, EncoderDecoderCache

    rows = len(hidden)
    count = rows // beams
    end = int(np.searchsorted(model.outputs, model.end))
    outputs = torch.from_numpy(model.outputs).to(model.device)
    cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
    begin = torch.tensor(_beginning(model), device=model.device).expand(rows, -1)
    logits = model._decode(begin, hidden, cache)[:, -1]
    scores = torch.full((count, beams), -torch.inf)
    scores[:, 0] = 0  # all beams start equal, so only the first may continue
    written: list[list[list[int]]] = [[[] for _ in range(beams)] for _ in range(count)]
    ended: list[list[_Ended]] = [[] for _ in range(count)]
    for step in range(1, longest + 1):
        total = scores.to(logits.device)[..., None] + logits.log_softmax(-1).unflatten(0, (count, beams))
        best, flat = (
            tensor.cpu() for tensor in total.flatten(1).topk(2 * beams)
        )  # only a few numbers per text are copied from the device
        beam, place = flat // total.shape[-1], flat % total.shape[-1]
        origin = torch.empty(rows, dtype=torch.long)
        word = torch.empty(rows, dtype=torch.long)
        for i in range(count):
            going: list[tuple[float, int, int]] = []
            best_first = zip(best[i].tolist(), beam[i].tolist(), place[i].tolist(), strict=True)
            for rank, (score, b, p) in enumerate(best_first):
                if p != end:
                    going.append((score, b, p))
                elif rank < beams and len(ended[i]) < beams:
                    ended[i].append(_Ended(score / step, written[i][b]))
            going = going[:beams]
            scores[i] = torch.tensor([score for score, _, _ in going])
            written[i] = [[*written[i][b], p] for _, b, p in going]
            origin[i * beams : (i + 1) * beams] = torch.tensor([i * beams + b for _, b, _ in going])
            word[i * beams : (i + 1) * beams] = torch.tensor([p for _, _, p in going])
        if step == longest or all(len(done) >= beams for done in ended):
            break
        cache = gather([cache], origin.to(model.device))
        logits = model.step(outputs[word.to(model.device)][:, None], cache)[:, -1]
    return [
        _best(done, sequences, scores[i], beams) for i, (done, sequences) in enumerate(zip(ended, written, strict=True))
    ]


def _best(ended: list[_Ended], going: list[list[int]], scores: Tensor, beams: int) -> list[int]:
    """Return the best ended hypothesis. If fewer than `beams` have ended, unfinished hypotheses compete, too."""
    if len(ended) < beams:
        cut = [_Ended(score / len(row), row) for score, row in zip(scores.tolist(), going, strict=True)]
        ended = ended + cut
    return max(ended, key=lambda hypothesis: hypothesis.score).places


def _beginning(model: Seq2Seq) -> list[int]:
    """Return the decoder's first tokens: its start token and, if different, the token that begins texts."""
    first = model.tokens(["a"])[0][0]
    opens = first in model.tokenizer.all_special_ids and first != model.start
    return [model.start, first] if opens else [model.start]
