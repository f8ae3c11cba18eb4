"""A model whose clipped gradient reveals the text: the malicious parameters of Decepticons' variant `aware`.

Decepticons (Fowl et al. 2023) sorts tokens into bins by their projection on a random direction. Feed-forward row r is
open for tokens whose projection exceeds a threshold that grows with r. So the gradients of two consecutive rows differ
by the tokens of one bin. A token is spread over half of the rows but decoded from two, so with noise nearly all of the
gradient is wasted. After clipping, the bins have a billionth of the gradient's length. A server that knows the clipping
length C and the noise can give the decoded rows nearly the whole length:

- **Words are codewords.** Row w of the embedding table is a random balanced vector of +-1 on most dimensions. 30,522
  such vectors in 340 dimensions are nearly orthogonal.
- **Positions are points on a circle and have gates.** Unit (p, i) of the feed-forward layers is gate i of position p,
  and is open only at this position. Its input is K (cos(angle between the token's position and p) - 1), which is 0 at
  p. The constant K is so large that the input is below -50 elsewhere. The gradient of the unit's weight row is the
  token's state, so each row by itself reveals the token at its position.
- **Tags control the gates, too.** Uniform attention projects the mean codeword of the sentence on k random directions.
  GPT-2 does not see later tokens, so it uses the mean over the first EARLY tokens. Unit (p, i) is open only if
  projection i is above its upper quantile on public texts. So the k rows of a position contain different sums of the
  sentences' words. A sentence opens the same gates at all positions (GPT-2: from position EARLY - 1 on).
  `superposition` separates the sentences.
- **The length is concentrated.** A norm before the gates multiplies by GAIN, and the gates' weights are divided by
  GAIN. No activation changes, but all other tensors have negligible gradients: the decoded rows have all but a
  thousandth of the clipped gradient's squared length.
- **A classifier's last attention is uniform** over all tokens. Otherwise only the first token (GPT-2: the last) would
  have a gradient.

The norms scale each text differently. This scale cancels, because thresholds are weights on a constant dimension, not
biases.

Capacity: a text of n tokens sends each token with length C/sqrt(n), in noise of deviation sigma C. For a vocabulary of
V words, each token is one of V nearly orthogonal signals. These signals are distinguished reliably if 1/(2 n sigma^2)
exceeds ln V, that is, n ln V < 1/(2 sigma^2). No attack without knowledge of language does better: it needs n ln V
nats, and the release contains at most 1/(2 sigma^2) nats.

The gates are always closed for special tokens. For the objectives `masked` and `causal`, the model gives half of the
predicted probability to a set of rare vocabulary entries. So the gradients of nearly all tokens have one sign. For
`causal`, two kinds of tokens are lost: a token before a rare entry has a gradient of the other sign, and the last
token, after which nothing is predicted, has none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from epsilometer.core.errors import UserError
from epsilometer.studies.training.attacks.reconstruction.shared.attack import Knowledge
from epsilometer.studies.training.attacks.reconstruction.shared.weights import ModelWeights, tensors_of
from epsilometer.studies.training.runs.sent import Sent
from epsilometer.studies.training.runs.shared_model import SharedModel

GAIN = 1e7  # gain of the norm before the gates
LIFT = 1e-3  # output weight of a gate, in units of the state to which its output is added
SHUT = 50.0  # the input of a closed gate is at least this far below 0
STEEP = 8.0  # a gate's input per standard deviation of its tag
TAG = 0.3  # standard deviation of tags, relative to codewords of +-1
OPEN = 0.3  # share of public texts for which a tag opens its gate
EARLY = 3  # number of first tokens whose mean gives the tags in GPT-2
RARE = 64  # number of rare vocabulary entries that get probability under the objectives of language models
PUBLIC = 256  # number of public texts on which thresholds are measured

WRITTEN, READ = 0, 1  # the dimension that gates write, and the dimension that the loss depends on
CONSTANT, POSITION, FLAG, TAGS = slice(2, 4), slice(4, 8), slice(8, 10), 10


@dataclass(frozen=True)
class Gates:
    """A malicious model and the decoding of its gradient.

    codes: float32 [vocabulary, D], the codewords of +-1; tags: k, the number of gates of each position.
    """

    model: SharedModel
    codes: NDArray[np.float32] = field(repr=False)
    tags: int

    def rows(self, sent: Sent) -> NDArray[np.float32]:
        """Return the weight rows of each position's gates in the sum of the texts' gradients, [positions, k, D]."""
        weights = ModelWeights(self.model)
        tensors = tensors_of(self.model, torch.from_numpy(sent.update))
        rows = np.concatenate([weights.read(tensors, "up.weight", b).numpy() for b in range(weights.blocks - 1)])
        start, width = TAGS + self.tags, self.codes.shape[1]
        longest = max(sent.lengths)
        read = rows[: longest * self.tags, start : start + width].reshape(longest, self.tags, width)
        return np.ascontiguousarray(read) * np.float32(sent.texts)

    def noise(self, sent: Sent) -> float:
        """Return the noise's standard deviation in one number of the sum of the texts' gradients.

        The deviation is measured on the gradient of the last block's queries, which is only noise because the block's
        keys are zero. So the kind of noise need not be known. From 10,000 numbers the result is accurate to within 3 %.
        """
        weights = ModelWeights(self.model)
        tensors = tensors_of(self.model, torch.from_numpy(sent.update))
        empty = weights.read(tensors, "query.weight", weights.blocks - 1)
        return float(empty.std()) * sent.texts


def build(model: SharedModel, knowledge: Knowledge, batch: int) -> Gates:
    """Return the model to send to clients with at most `batch` texts.

    Raises UserError if the model has one block, or too few units or dimensions; if clients do not send the gradients
    that the attack needs; or if there are no public texts. The message says what is missing.
    """
    weights = ModelWeights(model)
    tags = _tags(model, weights, batch)
    if (name := weights.name("up.weight")) not in model.names:
        raise UserError(
            f"the attack needs the gradient of {name}, which is not sent; set tensors: all or without_embeddings",
            "EPS-A027",
        )
    dimensions = (weights.width - TAGS - tags) // 2 * 2
    if dimensions < 8:
        raise UserError(
            f"a width of {weights.width} is too small for {tags} tags, a position and words; use a wider model, or a "
            "smaller batch",
            "EPS-A028",
        )
    codes = _codes(len(model.words), dimensions, knowledge.generator)
    weights.neutral()
    _embed(weights, model, codes, tags)
    projection, thresholds = _tagging(model, knowledge, codes, tags)
    if tags > 1:
        _tag(weights, projection, causal=model.architecture == "gpt2")
    # BERT adds the gates' output to the state that the norm multiplied by GAIN, GPT-2 adds it to the state before the
    # norm.
    _open(weights, model.longest, thresholds, lift=LIFT * (GAIN if model.architecture == "bert" else 1.0))
    _aim(weights, model)
    return Gates(model.with_parameters(weights.changed), codes, tags)


def _tags(model: SharedModel, weights: ModelWeights, batch: int) -> int:
    """Return the number of gates per position: one for a batch of one text, else up to three for each text."""
    if weights.blocks < 2:
        raise UserError(
            "the attack needs a block after its feed-forward layers, but the model has one block; use a model with at "
            "least 2 blocks",
            "EPS-A029",
        )
    rows = (weights.blocks - 1) * weights.units
    if rows < model.longest:
        raise UserError(
            f"texts of {model.longest} tokens need as many feed-forward units before the last block, but the model has "
            f"{rows}; truncate texts (longest), or use a larger model",
            "EPS-A030",
        )
    return 1 if batch == 1 else min(3 * batch, rows // model.longest)


def _codes(count: int, dimensions: int, generator: np.random.Generator) -> NDArray[np.float32]:
    """Return random vectors [count, dimensions] with as many +1 as -1, so that all have the same norm and mean."""
    half = np.repeat(np.array([1, -1], np.int8), dimensions // 2)
    return generator.permuted(np.broadcast_to(half, (count, dimensions)), axis=1).astype(np.float32)


def _embed(weights: ModelWeights, model: SharedModel, codes: NDArray[np.float32], tags: int) -> None:
    """Set the word table to codewords. Set the position table to a constant, a point on the circle, and a flag.

    The flag marks the first EARLY positions.
    """
    words = torch.zeros(len(codes), weights.width)
    words[:, TAGS + tags : TAGS + tags + codes.shape[1]] = torch.from_numpy(codes)
    special = torch.tensor(sorted(model.special), dtype=torch.long)
    words[special, CONSTANT] = torch.tensor([2.0, -2.0])  # beyond every gate's threshold
    weights.set("word.weight", words)
    number = torch.arange(weights.positions, dtype=torch.float64)
    angle = 2 * math.pi * number / model.longest
    places = torch.zeros(weights.positions, weights.width)
    places[:, CONSTANT] = torch.tensor([1.0, -1.0])
    places[:, POSITION] = _circle(angle)
    sign = torch.where(number < EARLY, 1.0, -1.0)
    places[:, FLAG] = torch.stack([sign, -sign], 1).float()
    weights.set("position.weight", places)


def _circle(angle: torch.Tensor) -> torch.Tensor:
    """Return points [n, 4] for angles [n], of equal length and mean 0.

    Their inner product is twice the cosine of the difference of their angles.
    """
    return torch.stack([angle.cos(), angle.sin(), -angle.cos(), -angle.sin()], 1).float()


def _tagging(
    model: SharedModel, knowledge: Knowledge, codes: NDArray[np.float32], tags: int
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the projection [k, D] from a mean codeword to the tags, and the thresholds [k] of their gates.

    Special tokens do not contribute to tags. A sentence's tags sum to 0, and their standard deviation on public texts
    is TAG.
    """
    if tags == 1:
        return np.zeros((1, codes.shape[1]), np.float32), np.zeros(1, np.float32)
    projection = knowledge.generator.standard_normal((tags, codes.shape[1]))
    basis, _ = np.linalg.qr(codes[sorted(model.special)].T.astype(np.float64))
    projection -= projection @ basis @ basis.T
    projection -= projection.mean(0)
    early = EARLY if model.architecture == "gpt2" else None
    texts = list(knowledge.public[:PUBLIC])
    if not texts:
        raise UserError("tags need public texts, but there are none; give texts like the client's", "EPS-A031")
    means = np.stack([codes[ids[:early]].mean(0) for ids in model.encode(texts)])
    values = means @ projection.T
    scale = TAG / values.std()
    return (projection * scale).astype(np.float32), np.quantile(values * scale, 1 - OPEN, axis=0).astype(np.float32)


def _tag(weights: ModelWeights, projection: NDArray[np.float32], *, causal: bool) -> None:
    """Set the first attention to write the projections of the mean codeword to every token.

    causal: True for the mean over the first EARLY tokens.
    """
    tags, dimensions = projection.shape
    value, mixed = torch.zeros(weights.width, weights.width), torch.zeros(weights.width, weights.width)
    value[:tags, TAGS + tags : TAGS + tags + dimensions] = torch.from_numpy(projection)
    mixed[range(TAGS, TAGS + tags), range(tags)] = 1.0
    weights.set("value.weight", value)
    weights.set("mixed.weight", mixed)
    if causal:
        width = weights.width // weights.heads
        key, query = torch.zeros(weights.width, weights.width), torch.zeros(weights.width)
        key[::width, FLAG] = torch.tensor([1.0, -1.0])
        query[::width] = 4 * SHUT * math.sqrt(width)
        weights.set("key.weight", key)
        weights.set("query.bias", query)


def _open(weights: ModelWeights, positions: int, thresholds: NDArray[np.float32], *, lift: float) -> None:
    """Set the gates. Unit (p, i) is row p k + i of the feed-forward layers, counted across all blocks."""
    tags = len(thresholds)
    angle = 2 * math.pi * torch.arange(positions, dtype=torch.float64) / positions
    narrow = SHUT / max(1 - math.cos(2 * math.pi / max(positions, 2)), 1e-9) + 4 * STEEP
    gates = torch.zeros(positions, tags, weights.width)
    gates[:, :, POSITION] = narrow / 2 * _circle(angle)[:, None]
    level = torch.full((tags,), narrow)
    if tags > 1:
        gates[:, range(tags), range(TAGS, TAGS + tags)] = STEEP / TAG
        level += STEEP / TAG * torch.from_numpy(thresholds)
    gates[:, :, CONSTANT] = torch.stack([-level, level], 1) / 2
    every = gates.reshape(-1, weights.width) / GAIN
    for block, part in enumerate(every.split(weights.units)):
        up, down = torch.zeros(weights.units, weights.width), torch.zeros(weights.width, weights.units)
        up[: len(part)] = part
        down[WRITTEN, : len(part)] = lift
        weights.set("before_up.weight", GAIN, block)
        weights.set("up.weight", up, block)
        weights.set("down.weight", down, block)


def _aim(weights: ModelWeights, model: SharedModel) -> None:
    """Set the model's last layers so that the loss depends, to first order, only on the output of the gates."""
    last = weights.blocks - 1
    written = WRITTEN
    if model.objective != "causal":
        value, mixed = torch.zeros(weights.width, weights.width), torch.zeros(weights.width, weights.width)
        value[0, WRITTEN], mixed[READ, 0] = 1.0, 1.0
        weights.set("value.weight", value, last)
        weights.set("mixed.weight", mixed, last)
        written = READ
    if model.objective == "classification":
        _aim_classifier(weights, written)
    else:
        _aim_vocabulary(weights, written, masked=model.objective == "masked")


def _aim_classifier(weights: ModelWeights, written: int) -> None:
    """Set the first logit to the gates' output and the others to 0, so that a gradient's sign reveals the label."""
    if weights.has("classifier.weight"):
        weights.get("bert.pooler.dense.weight")[0, written] = 1.0
        weights.get("classifier.weight")[0, 0] = 1.0
    else:
        weights.get("score.weight")[0, written] = 1.0


def _aim_vocabulary(weights: ModelWeights, written: int, *, masked: bool) -> None:
    """Give the last vocabulary entries half of the predicted probability; the gates' output changes this share."""
    words = weights.get("word.weight")
    rare = min(RARE, len(words) // 4)
    odds = math.log((len(words) - rare) / rare)
    words[-rare:, written] = 1.0
    if not masked:
        norm = weights.get("transformer.ln_f.weight")
        norm.fill_(0.0)
        norm[written] = 1.0
        weights.get("transformer.ln_f.bias")[written] = odds
        return
    transform = "cls.predictions.transform"
    weights.get(f"{transform}.dense.weight")[written, written] = 1.0
    weights.get(f"{transform}.dense.bias").copy_(torch.tensor([0.0, 2.0]).repeat(weights.width)[: weights.width])
    weights.get(f"{transform}.dense.bias")[written] = 0.0
    norm = weights.get(f"{transform}.LayerNorm.weight")
    norm.fill_(0.0)
    norm[written] = 1.0
    weights.get("cls.predictions.bias")[-rare:] = odds + 1.0  # the output is about -1 after the norm
