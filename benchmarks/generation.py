"""Rewrites per second of DP-Prompt with the embedded encoder-decoder: sampling by transformers and by this project.

transformers runs the same weights by `generate`, with a logits processor that clips, at the temperature of each
epsilon. It processes one text at a time, as the reference code does, or 16 texts in a padded batch. All sample up to 32
tokens from the whole vocabulary. transformers gets as many texts as take a second or two per round; this project gets
128 texts in one call, as in a small audit.

usage: python -m benchmarks.generation
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from epsilometer.core.randomness import Noise
from epsilometer.corpora import synthetic
from epsilometer.mechanisms.tokens.dp_prompt import DPPrompt, prompt
from epsilometer.models.embedded import EMBEDDED
from epsilometer.models.locate import locate, quiet_loading
from epsilometer.models.seq2seq import assemble

ROUNDS, EPSILONS, LONGEST = 2, (10.0, 50.0, 100.0, 200.0), 32

Way = Callable[[Sequence[str]], int]


def plain(folder: Path, batch: int, low: float, high: float) -> Way:
    """Return a function that rewrites texts by `transformers.generate`, and returns the number of rewrites."""
    with quiet_loading():
        from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, LogitsProcessor, LogitsProcessorList

        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        network = AutoModelForSeq2SeqLM.from_pretrained(folder, use_safetensors=True, trust_remote_code=False)
        network.eval()

    class Clip(LogitsProcessor):
        def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
            return scores.clip(low, high)  # type: ignore[return-value]

    def rewrite(texts: Sequence[str]) -> int:
        count = 0
        for epsilon in EPSILONS:
            for start in range(0, len(texts), batch):
                part = [prompt(text) for text in texts[start : start + batch]]
                sequences = network.generate(
                    **tokenizer(part, return_tensors="pt", padding=True),
                    do_sample=True,
                    top_k=0,
                    top_p=1.0,
                    temperature=2 * (high - low) / epsilon,
                    max_new_tokens=LONGEST,
                    logits_processor=LogitsProcessorList([Clip()]),
                    suppress_tokens=None,  # suppressed logits would be clipped to the lower bound
                )
                count += len(tokenizer.batch_decode(sequences, skip_special_tokens=True))
        return count

    return rewrite


def ours(mechanism: DPPrompt) -> Way:
    """Return a function that rewrites texts at all epsilons in one call, and returns the number of rewrites."""

    def rewrite(texts: Sequence[str]) -> int:
        noises = [Noise.named(len(texts), "benchmark", epsilon) for epsilon in EPSILONS]
        return sum(len(rewrites.texts) for rewrites in mechanism.rewrite_grid(texts, EPSILONS, noises))

    return rewrite


def main() -> None:
    """Print a table of rewrites per second and ratios."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        assemble(EMBEDDED / "minilm-seq2seq", locate("all-MiniLM-L6-v2"), folder)
        mechanism = DPPrompt(resource=folder, max_new_tokens=LONGEST)
        bounds = mechanism.law.low, mechanism.law.high
        ways = {
            "transformers, text by text": (plain(folder, 1, *bounds), 4),
            "transformers, batch 16": (plain(folder, 16, *bounds), 16),
            "epsilometer": (ours(mechanism), 128),
        }
        seconds, counts = dict.fromkeys(ways, 0.0), dict.fromkeys(ways, 0)
        texts = list(synthetic.generate("queries", ROUNDS * 128, 0)["text"])
        for way, _ in ways.values():
            way(["warm up"])
        for part in range(ROUNDS):  # in turns, so that other load on the machine affects all ways
            for label, (way, many) in ways.items():
                start = time.perf_counter()
                counts[label] += way(texts[part * 128 : part * 128 + many])
                seconds[label] += time.perf_counter() - start
    rates = {label: counts[label] / seconds[label] for label in ways}
    print(f"queries at {len(EPSILONS)} epsilons, {torch.get_num_threads()} threads")
    print(f"{'way':28} {'rewrites':>8} {'a second':>8} {'ratio':>6}")
    for label, rate in rates.items():
        print(f"{label:28} {counts[label]:8} {rate:8.1f} {rate / min(rates.values()):6.1f}")


if __name__ == "__main__":
    main()
