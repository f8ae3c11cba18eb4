"""Time of reconstruction from gradients: LAMP's steps and moves as in the released code and from activations, a batch
of Decepticons, and guesses among 1,024 candidates.

A step of the released code computes the gradients of the texts, and differentiates their matching loss. Each candidate
of a move has its own forward pass, backward pass and call of the language model, even if candidates are equal. This
project computes the losses from activations, for all candidates together. Times are processor seconds, since other
programs affect them less than wall-clock time. One run measures both ways, in turn.

usage: python -m benchmarks.reconstruction [--model all-MiniLM-L6-v2] [--tokens 20] [--repeats 5]
"""

from __future__ import annotations

import time
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import polars as pl
import torch
from torch import Tensor

from epsilometer.corpora.synthetic import generate
from epsilometer.studies.training.attacks.reconstruction.candidates import GradientPool
from epsilometer.studies.training.attacks.reconstruction.decepticons import Decepticons
from epsilometer.studies.training.attacks.reconstruction.lamp import Descent, Lamp, moves
from epsilometer.studies.training.attacks.reconstruction.shared.attack import Knowledge
from epsilometer.studies.training.attacks.reconstruction.shared.matching import Matching
from epsilometer.studies.training.results.candidates import guesses, trials
from epsilometer.studies.training.runs.noise import GaussianNoise
from epsilometer.studies.training.runs.sent import OnMean, Sent, send
from epsilometer.studies.training.runs.shared_model import SharedModel

MOVES, STEPS = 24, 2000  # rounds and steps of the released schedule
CANDIDATES, SAMPLED = 200, 20  # candidates of a round; how many of them are timed for the released code
BATCH, SIGMA = 8, 0.014
GUESSED, TRIALS = 1024, 100_000


def cosines(model: SharedModel, sent: Sent, texts: Tensor, *, create_graph: bool) -> Tensor:
    """Return the matching loss of a batch of texts of one length, by their gradients as in the released code."""
    logits = model.network(inputs_embeds=texts).logits
    loss = torch.nn.functional.cross_entropy(logits, torch.tensor(sent.labels))
    formed = torch.autograd.grad(loss, model.parameters, create_graph=create_graph)
    pairs = zip(formed, model.split(sent.update), strict=True)
    return torch.stack([1 - (a * b).sum() / (a.norm() * b.norm()).clamp(min=1e-12) for a, b in pairs]).mean()


def seconds(work: Callable[[], Any], repeats: int) -> float:
    """Return the smallest processor time of the repeats."""
    spent = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        spent.append(time.process_time() - start)
    return min(spent)


def lamp(model: SharedModel, ids: Sequence[Sequence[int]], repeats: int) -> list[tuple[str, float, float]]:
    """Return rows (name, seconds as released, our seconds): a step, moves of one text, and a batch's whole search.

    ids: the tokens of texts of one length.
    """
    sent = send(model, ids, [i % 2 for i in range(len(ids))], OnMean(0.0), np.random.default_rng(0))
    ready = Lamp().prepare(model, Knowledge([], OnMean(0.0), np.random.default_rng(0)))
    assert isinstance(ready, Descent)
    language = ready.language
    assert language is not None
    matching = Matching(model, sent, "cos")
    still = model.words.detach()[torch.tensor(ids)]
    texts = still.clone().requires_grad_()
    orders = torch.from_numpy(moves(len(ids[0]) - 2, CANDIDATES, np.random.default_rng(1)))
    ends = still[0].expand(len(orders), -1, -1)
    arranged = torch.cat([ends[:, :1], still[0, 1:-1][orders], ends[:, -1:]], 1)
    words = [model.decode(np.array(ids[0][1:-1])[order]) for order in orders.numpy()]

    def released_step() -> None:
        torch.autograd.grad(cosines(model, sent, texts, create_graph=True), texts)

    def our_step() -> None:
        torch.autograd.grad(matching.loss(list(texts), create_graph=True), texts)

    def released_moves() -> None:
        for vector, word in zip(arranged[:SAMPLED], words[:SAMPLED], strict=True):
            cosines(model, sent, torch.cat([vector[None], still[1:]]), create_graph=False)
            language.losses([word])

    def our_moves() -> None:
        matching.losses(list(still), 0, arranged)
        language.losses(words)

    name = f"lamp, batch of {len(ids)}:"
    rows = [(f"{name} step", seconds(released_step, repeats), seconds(our_step, repeats))]
    released = seconds(released_moves, repeats) * CANDIDATES / SAMPLED
    rows.append((f"{name} moves of a text", released, seconds(our_moves, repeats)))
    whole = [STEPS * rows[0][way] + MOVES * len(ids) * rows[1][way] for way in (1, 2)]
    return [*rows, (f"{name} released schedule", whole[0], whole[1])]


def decepticons(model: SharedModel, texts: Sequence[str], public: Sequence[str]) -> list[tuple[str, float]]:
    """Return rows (name, seconds) for making the malicious model, and for reading a batch of 8 texts with noise."""
    noise = GaussianNoise(SIGMA)
    start = time.process_time()
    ready = Decepticons(batch=BATCH).prepare(model, Knowledge(public, noise, np.random.default_rng(0)))
    rows = [("decepticons, model", time.process_time() - start)]
    sent = send(ready.model, model.encode(texts), [0, 1] * (BATCH // 2), noise, np.random.default_rng(1))
    start = time.process_time()
    ready.reconstruct(sent, np.random.default_rng(2))
    return [*rows, (f"decepticons, batch of {BATCH} at sigma {SIGMA}", time.process_time() - start)]


def guessed() -> list[tuple[str, float]]:
    """Return rows (name, seconds) for guesses among 1,024 texts, at one level of Gaussian noise and at four levels."""
    rows = np.random.default_rng(0).standard_normal((GUESSED, 2 * GUESSED)) + 1.0
    pools, sizes = [GradientPool.of(rows @ rows.T, 148_610)], []
    for levels in ([0.3], [0.03, 0.1, 0.3, 1.0]):
        start = time.process_time()
        guesses(pools, trials(GUESSED, GUESSED, TRIALS, ["0"]), list(map(GaussianNoise, levels)), seed=["0"])
        sizes.append((f"{TRIALS:,} trials among {GUESSED:,}, {len(levels)} levels", time.process_time() - start))
    return sizes


def main() -> None:
    """Print a row for each task."""
    parser = ArgumentParser()
    parser.add_argument("--model", default="all-MiniLM-L6-v2")
    parser.add_argument("--tokens", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    reviews = generate("reviews", 200, 1)["text"].to_list()
    model = SharedModel(options.model, longest=options.tokens)
    full = [ids for ids in model.encode(reviews) if len(ids) == options.tokens]
    rows: list[tuple[str, float | None, float, float | None]] = []
    for batch in (1, 4):
        rows += [(what, a, b, a / b) for what, a, b in lamp(model, full[:batch], options.repeats)]
    rows += [(what, None, b, None) for what, b in decepticons(model, reviews[:BATCH], reviews[BATCH:])]
    rows += [(what, None, b, None) for what, b in guessed()]
    print(f"{options.tokens} tokens, {torch.get_num_threads()} threads")
    pl.Config.set_fmt_str_lengths(60)
    print(pl.DataFrame(rows, ["task", "released, s", "ours, s", "ratio"], orient="row"))


if __name__ == "__main__":
    main()
