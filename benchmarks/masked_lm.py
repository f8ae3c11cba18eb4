"""Words per second of DP-MLM's forward passes, in the two ways of the reference code and by this project.

The reference code runs the same weights by transformers on the pair of texts: one word at a time, or 16 words in a
padded batch. It computes the vocabulary head at every position. All ways end with the word's distribution at epsilon
10.

usage: python -m benchmarks.masked_lm
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch

from epsilometer.corpora import synthetic
from epsilometer.models.bounds import bounds
from epsilometer.models.embedded import EMBEDDED
from epsilometer.models.locate import locate, quiet_loading
from epsilometer.models.masked_lm import MaskedLM, assemble
from epsilometer.text.words import words

DELTA = EMBEDDED / "minilm-mlm"
TEXTS, ROUNDS, EPSILON = 40, 4, 10.0

Law = Callable[[list[list[str]], np.ndarray], np.ndarray]


def reference(folder: Path, batch: int) -> Law:
    """Return a function that computes distributions as the reference code does, in padded batches."""
    with quiet_loading():
        from transformers import AutoModelForMaskedLM, AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        network = AutoModelForMaskedLM.from_pretrained(folder, use_safetensors=True, trust_remote_code=False)
        network.eval()
    low, high = bounds(folder)

    def law(texts: list[list[str]], rows: np.ndarray) -> np.ndarray:
        result = []
        for part in np.split(rows, range(batch, len(rows), batch)):
            masked = [[*texts[i][:j], tokenizer.mask_token, *texts[i][j + 1 :]] for i, j in part]
            originals = [" ".join(texts[i]) for i, _ in part]
            pair = tokenizer(originals, [" ".join(text) for text in masked], padding=True, return_tensors="pt")
            with torch.no_grad():
                logits = network(**pair).logits[pair["input_ids"] == tokenizer.mask_token_id]
            scaled = logits.clip(low, high) * (EPSILON / (2 * (high - low)))
            result.append(torch.softmax(scaled, dim=1).numpy())
        return np.concatenate(result)

    return law


def ours(folder: Path) -> Law:
    """Return a function that computes the distributions of all rows by MaskedLM."""
    model = MaskedLM(folder)
    low, high = bounds(folder)

    def law(texts: list[list[str]], rows: np.ndarray) -> np.ndarray:
        scaled = model.mask_logits(texts, rows).clip(low, high) * (EPSILON / (2 * (high - low)))
        weights = np.exp(scaled - scaled.max(axis=1, keepdims=True))
        return weights / weights.sum(axis=1, keepdims=True)

    return law


def rounds() -> Iterator[tuple[list[list[str]], np.ndarray]]:
    """Yield the words of some queries, and the indices (text, word) of all their words."""
    texts = [words(text) for text in synthetic.generate("queries", TEXTS, 0)["text"]]
    for part in range(ROUNDS):
        some = texts[part::ROUNDS]
        yield some, np.array([(i, j) for i, text in enumerate(some) for j in range(len(text))])


def main() -> None:
    """Print a table of words per second and ratios."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        assemble(DELTA, locate("all-MiniLM-L6-v2"), folder)
        ways = {
            "reference, word by word": reference(folder, 1),
            "reference, batch 16": reference(folder, 16),
            "epsilometer": ours(folder),
        }
        for way in ways.values():
            way([["warm", "up"]], np.array([[0, 0], [0, 1]]))
        seconds, count = dict.fromkeys(ways, 0.0), 0
        for texts, rows in rounds():  # in turns, so that other load on the machine affects all ways
            count += len(rows)
            for label, way in ways.items():
                start = time.perf_counter()
                way(texts, rows)
                seconds[label] += time.perf_counter() - start
    print(f"{count} words of {TEXTS} queries, {torch.get_num_threads()} threads")
    print(f"{'way':24} {'words/s':>8} {'ratio':>6}")
    slowest = max(seconds.values())
    for label, taken in seconds.items():
        print(f"{label:24} {count / taken:8.1f} {slowest / taken:6.1f}")


if __name__ == "__main__":
    main()
