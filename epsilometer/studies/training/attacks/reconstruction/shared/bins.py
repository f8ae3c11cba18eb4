"""The bins of Decepticons as published (Fowl et al. 2023), and their decoding.

**The model.** Norms are neutral, and only the first attention writes anything. It writes the sentence's tag into the
first dimensions, which are 0 in all word and position vectors. The tag is a copy of the next dimensions of the token
most similar to position 0. In each block, all rows of the first feed-forward layer equal one random probe, and the
biases are minus the quantiles of the probe's values. So row r has a gradient only from tokens whose value exceeds
quantile r. The second feed-forward layers write very little, and only into the last dimension. Through this dimension
the gradient flows back from the loss.

**Decoding.** A bin is the interval between two consecutive quantiles. The gradients of two consecutive rows differ by
the weighted states of one bin's tokens, and their bias gradients differ by the tokens' weights. If a token is alone in
its bin, the quotient of the two differences is the token's state. Tags group the states into sentences of the known
sizes (`grouping`). Within a sentence, states are assigned to positions by their correlation with the position vectors.
The position vectors are then projected out. The remainders are matched with the words that the embedding table's
gradient, if sent, reveals. A state gets another word of the vocabulary only if this word fits far better.

The settings are those of the authors' notebooks. Probes are multiplied by 1e8 for BERT and by 1e6 for GPT-2, so that
GELU is a step. The published attack has these known faults, which are not corrected here:

- Bins begin at -10, which has no special meaning at such scales.
- If [CLS] is the token most similar to position 0, all texts have the same tag.
- The last row of a block and the first row of the next block differ, although no token lies between them.
- If more rows differ than there are tokens, the rows with the smallest bias gradients are used.

Two changes were needed to recover anything. In a classifier, the last attention spreads over all tokens, as in the
authors' code for masked language models, and bins lie in the earlier blocks. A tag has at most half the size of one
attention head.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.stats import norm
from torch import Tensor

from epsilometer.core.errors import UserError
from epsilometer.studies.training.attacks.reconstruction.shared.attack import Knowledge, Reconstruction
from epsilometer.studies.training.attacks.reconstruction.shared.grouping import grouped
from epsilometer.studies.training.attacks.reconstruction.shared.weights import ModelWeights, tensors_of
from epsilometer.studies.training.runs.sent import Sent
from epsilometer.studies.training.runs.shared_model import SharedModel

SCALE = {"bert": 1e8, "gpt2": 1e6}  # scale of the probes, so that GELU is a step
LET_THROUGH = {"bert": 1e-8, "gpt2": 1e-16}  # total weight with which the units of a block write their output
FIRST_BIN = -10.0  # lower bound of the first bin
TAG = 32  # dimensions of a tag
SKEW = 1e8  # factor by which the first attention prefers tokens similar to position 0
SPREAD = 10.0  # output weight of the last attention, which spreads over all tokens
STARTS = 40  # random starts of k-means
CUTOFF = 1.5  # a word counts as used if its log gradient norm is this many deviations above the mean
VOCABULARY_WEIGHT = 0.25  # weight of a correlation with any word, relative to a used word
DIFFERENT = 1e-6  # share of the largest bias gradient below which two rows differ only by rounding
PUBLIC = 64  # public texts on which the probe's values are measured


@dataclass(frozen=True)
class Bins:
    """A malicious model and the decoding of its gradient.

    blocks: the number of blocks with bins.
    tag:    the number of dimensions of a tag.
    words:  [vocabulary, width], the word vectors that the server sends out.
    places: [positions, width], the position vectors that the server sends out.
    """

    model: SharedModel
    blocks: int
    tag: int
    words: NDArray[np.float32] = field(repr=False)
    places: NDArray[np.float32] = field(repr=False)

    def reconstruct(self, sent: Sent, generator: np.random.Generator) -> Reconstruction:
        """Return the texts of a batch, in the order of their lengths."""
        states = self.states(sent)
        sizes = list(sent.lengths)
        tags = states[:, : self.tag]
        spread = tags.std(0)
        tags = (tags - tags.mean(0)) / np.where(spread > 0, spread, 1) if len(tags) else tags
        groups = grouped(tags, sizes, STARTS, generator)
        rest = slice(self.tag, states.shape[1] - 1)
        placed = [self._in_place(states[groups == s][:, rest], length, rest) for s, length in enumerate(sizes)]
        ids = self._named(placed, self._used(sent), rest)
        return Reconstruction(
            tuple(tuple(self.model.plain(row)) for row in ids),
            {"states": float(len(states)), "tokens": float(sum(sizes))},
        )

    def states(self, sent: Sent) -> NDArray[np.float64]:
        """Return the state [n, width] of each bin that contains tokens: the mean state of its tokens.

        n is at most the number of tokens sent.
        """
        weights = ModelWeights(self.model)
        tensors = tensors_of(self.model, torch.from_numpy(sent.update))
        rows, biases = (
            torch.cat([weights.read(tensors, role, block) for block in range(self.blocks)]).double().numpy()
            for role in ("up.weight", "up.bias")
        )
        rows, biases = (np.concatenate([every[:-1] - every[1:], every[-1:]]) for every in (rows, biases))
        different = np.flatnonzero(np.abs(biases) > DIFFERENT * np.abs(biases).max())
        smallest = different[np.argsort(np.abs(biases[different]), kind="stable")][: sum(sent.lengths)]
        return np.asarray(rows[smallest] / biases[smallest, None])

    def _in_place(self, states: NDArray[np.float64], length: int, rest: slice) -> dict[int, NDArray[np.float64]]:
        """Return the states of one sentence by position, with the position vector projected out.

        length: the number of positions of the sentence; rest: the dimensions that are neither tag nor output.
        """
        if not len(states):
            return {}
        places = _normal(self.places[:length, rest].astype(np.float64))
        likeness = np.abs(_normal(states) @ places.T)
        rows, numbers = linear_sum_assignment(-likeness)
        by_place = {}
        for row, place in zip(rows, numbers, strict=True):
            centred = states[row] - states[row].mean()
            by_place[int(place)] = centred - (centred @ places[place]) * places[place]
        return by_place

    def _used(self, sent: Sent) -> NDArray[np.int64]:
        """Return the words whose embeddings have far larger gradients than others; none if no table is sent."""
        weights = ModelWeights(self.model)
        if weights.name("word.weight") not in self.model.names:
            return np.empty(0, np.int64)
        table = weights.read(tensors_of(self.model, torch.from_numpy(sent.update)), "word.weight")
        norms = table.double().norm(dim=1).numpy()
        logs = np.log(np.maximum(norms, max(norms.max(), 1e-300) * 1e-12))
        return np.flatnonzero(logs > logs.mean() + CUTOFF * logs.std())

    def _named(
        self, placed: list[dict[int, NDArray[np.float64]]], used: NDArray[np.int64], rest: slice
    ) -> list[list[int]]:
        """Return the words of each sentence, in the order of their positions."""
        every = [(s, place, state) for s, states in enumerate(placed) for place, state in sorted(states.items())]
        ids: list[list[int]] = [[] for _ in placed]
        if not every:
            return ids
        words = _normal(self.words[:, rest].astype(np.float64))
        likeness = _normal(np.stack([state for _, _, state in every])) @ words.T
        names = likeness.argmax(1)
        if len(used):
            bag = np.concatenate([used] * math.ceil(len(every) / len(used)))
            rows, columns = linear_sum_assignment(-likeness[:, bag])
            for row, word in zip(rows, bag[columns], strict=True):
                if VOCABULARY_WEIGHT * likeness[row, names[row]] <= likeness[row, word]:
                    names[row] = word
        for (s, _, _), name in zip(every, names, strict=True):
            ids[s].append(int(name))
        return ids


def build(model: SharedModel, knowledge: Knowledge) -> Bins:
    """Return the attack with the model that the server sends out.

    Raises UserError if the model has no block for bins, if clients do not send the gradients that the attack needs, or
    if there are no public texts.
    """
    weights = ModelWeights(model)
    spreads = model.objective != "causal"
    blocks = weights.blocks - spreads
    if blocks < 1:
        raise UserError("bins need two blocks, but the model has one; use a model with at least 2 blocks", "EPS-A024")
    if (name := weights.name("up.bias")) not in model.names:
        raise UserError(
            f"the attack needs the gradient of {name}, which is not sent; set tensors: all or without_embeddings",
            "EPS-A025",
        )
    tag = min(TAG, weights.width // weights.heads // 2)
    words, places = _emptied(weights, tag)
    _pass_on(weights, tag, spreads=spreads)
    probe = _probe(weights.width, tag, knowledge.generator)
    ends = _quantiles(model, weights, knowledge, probe=probe, count=blocks * weights.units)
    _imprint(weights, model, ends, probe)
    return Bins(model.with_parameters(weights.changed), blocks, tag, words=words, places=places)


def _emptied(weights: ModelWeights, tag: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Set the tag's dimensions of word and position vectors to 0, and return copies of both."""
    for role in ("word.weight", "position.weight"):
        weights.get(role)[:, :tag] = 0.0
    if weights.has("type.weight"):
        weights.get("type.weight")[:, :tag] = 0.0
    return weights.get("word.weight").numpy().copy(), weights.get("position.weight").numpy().copy()


def _pass_on(weights: ModelWeights, tag: int, *, spreads: bool) -> None:
    """Make all norms neutral. The first attention writes tags; all other attentions write nothing.

    spreads: whether the last attention instead spreads over all tokens.
    """
    weights.neutral_norms()
    identity = torch.eye(weights.width)
    for block in range(weights.blocks):
        for role in ("query", "key", "value", "mixed"):
            weights.set(f"{role}.weight", 0.0, block)
            weights.set(f"{role}.bias", 0.0, block)
    query, value = torch.zeros(weights.width), torch.zeros(weights.width, weights.width)
    query[tag : 2 * tag] = SKEW * weights.get("position.weight")[0, tag : 2 * tag]
    value[:tag, tag : 2 * tag] = torch.eye(tag)
    weights.set("query.bias", query)
    weights.set("key.weight", identity)
    weights.set("value.weight", value)
    weights.set("mixed.weight", identity)
    if spreads:
        weights.set("value.weight", identity, weights.blocks - 1)
        weights.set("mixed.weight", SPREAD * identity, weights.blocks - 1)


def _probe(width: int, tag: int, generator: np.random.Generator) -> Tensor:
    """Return a random unit vector [width] of mean 0, which is 0 on the tag's dimensions and the last dimension."""
    probe = np.zeros(width)
    inner = generator.standard_normal(width - tag - 1)
    inner -= inner.mean()
    probe[tag:-1] = inner / np.linalg.norm(inner)
    return torch.from_numpy(probe)


def _quantiles(
    model: SharedModel, weights: ModelWeights, knowledge: Knowledge, *, probe: Tensor, count: int
) -> NDArray[np.float64]:
    """Return the lower bounds [count] of the bins: FIRST_BIN, then quantiles of the probe's values.

    The values are measured on public texts, and approximated by a normal law. Raises UserError if there are no public
    texts.
    """
    texts = model.encode(list(knowledge.public[:PUBLIC]))
    if not texts:
        raise UserError(
            "the bins need public texts, but there are none; give texts similar to the client's", "EPS-A026"
        )
    for block in range(weights.blocks):  # blocks write nothing while the probe's values are measured
        weights.set("down.weight", 0.0, block)
        weights.set("down.bias", 0.0, block)
    values: list[Tensor] = []
    network = model.with_parameters(weights.changed).network
    name = weights.name("up.weight").removesuffix(".weight")
    hook = network.get_submodule(name).register_forward_pre_hook(
        lambda _, inputs: values.append(inputs[0].detach().cpu().double().reshape(-1, len(probe)) @ probe)
    )
    with torch.inference_mode():
        for ids in texts:
            network(input_ids=torch.tensor([ids], device=model.device))
    hook.remove()
    measured = torch.cat(values)
    ends = norm.ppf(np.arange(1, count) / count, float(measured.mean()), float(measured.std()))
    return np.concatenate([[FIRST_BIN], ends])


def _imprint(weights: ModelWeights, model: SharedModel, ends: NDArray[np.float64], probe: Tensor) -> None:
    """Set the feed-forward layers: weights to SCALE times the probe, biases to minus SCALE times the lower bounds."""
    scale, through = SCALE[model.architecture], LET_THROUGH[model.architecture]
    for block in range(weights.blocks):
        first = block * weights.units
        own = first < len(ends)
        weights.set("up.weight", (scale if own else 0.0) * probe.expand(weights.units, -1), block)
        weights.set("up.bias", torch.from_numpy(-scale * ends[first : first + weights.units]) if own else 0.0, block)
        down = torch.zeros(weights.width, weights.units)
        down[-1] = through / weights.units if own else 0.0
        weights.set("down.weight", down, block)
        weights.set("down.bias", 0.0, block)


def _normal(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the rows minus their means, scaled to length 1, so that inner products are correlations."""
    centred = rows - rows.mean(1, keepdims=True)
    return np.asarray(centred / np.maximum(np.linalg.norm(centred, axis=1, keepdims=True), 1e-300))
