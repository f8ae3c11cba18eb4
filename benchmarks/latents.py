"""Speed, memory and signal-to-noise ratio of mechanisms with latents.

Noise is sampled in three ways: as these mechanisms do; by inverse CDF of the uniforms that other mechanisms use; and by
one numpy call, without separate trials. DP-BART runs on the embedded encoder-decoder, with beam search by this project
and by transformers. ADePT runs on an autoencoder of the embedded size with random weights, which is as fast as a
trained one.

usage: python -m benchmarks.latents
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from scipy.special import ndtri
from transformers.modeling_outputs import BaseModelOutput

from epsilometer.core.randomness import Noise
from epsilometer.corpora import synthetic
from epsilometer.mechanisms.latents.adept import ADePT
from epsilometer.mechanisms.latents.dp_bart import DPBART
from epsilometer.mechanisms.latents.shared.autoencoder import Autoencoder, Shape
from epsilometer.mechanisms.latents.shared.noise import Gaussian, add
from epsilometer.models.beam_search import beam_search
from epsilometer.models.embedded import EMBEDDED
from epsilometer.models.locate import locate
from epsilometer.models.seq2seq import Seq2Seq, assemble
from epsilometer.text.words import words

DECODER = EMBEDDED / "minilm-seq2seq"
TRIALS, COORDINATES = 128, 7680  # coordinates of DP-BART with 20 tokens of 384 dimensions
TEXTS, BEAMED, EPSILONS, CLIP = 256, 32, (10, 100, 250, 1000, 2500), 0.5


def rate(work: Callable[[], object], count: int, rounds: int = 3) -> float:
    """Return units per second: the median of some rounds, after one to warm up."""
    work()
    taken = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return count / float(np.median(taken))


def noise() -> None:
    """Print the numbers of Gaussian noise per second."""
    before, streams = np.zeros((TRIALS, COORDINATES), np.float32), Noise.named(TRIALS, "bench")
    ways: dict[str, Callable[[], object]] = {
        "a stream a trial": lambda: add(before, Gaussian(1.0), streams),
        "the same, of the operating system": lambda: add(before, Gaussian(1.0), Noise.operating_system(TRIALS)),
        "Noise.uniforms and inverse CDF": lambda: ndtri(streams.uniforms(COORDINATES)),
        "numpy, one stream for all": lambda: np.random.default_rng(0).standard_normal((TRIALS, COORDINATES)),
    }
    print(f"{'noise':36} {'million/s':>9}")
    for label, way in ways.items():
        print(f"{label:36} {rate(way, TRIALS * COORDINATES) / 1e6:9.1f}")


def by_transformers(model: Seq2Seq, states: torch.Tensor, longest: int) -> list[str]:
    """Decode texts by transformers' beam search, 8 texts at a time."""
    texts = []
    for part in states.split(8):
        sequences = model.network.generate(
            encoder_outputs=BaseModelOutput(last_hidden_state=part),
            attention_mask=torch.ones(part.shape[:2], dtype=torch.long),
            num_beams=3,
            max_new_tokens=longest,
            do_sample=False,
            early_stopping=True,
        )
        texts += [model.text(ids) for ids in sequences.numpy()]
    return texts


def rewriting(folder: Path) -> DPBART:
    """Print texts per second of each step; return the DP-BART mechanism."""
    texts = synthetic.generate("queries", TEXTS, 0)["text"].to_list()
    vocabulary = sorted({word for text in texts for word in words(text)})
    torch.manual_seed(0)
    Autoencoder(Shape(), vocabulary + [f"w{i}" for i in range(2000 - len(vocabulary))]).save(folder / "adept")
    assemble(DECODER, locate("all-MiniLM-L6-v2"), folder / "seq2seq")
    adept, bart = ADePT(resource=folder / "adept"), DPBART(resource=folder / "seq2seq", clip=CLIP)
    latents = adept.latents(texts)
    hidden = torch.from_numpy(bart.latents(texts[:BEAMED])).view(BEAMED, bart.length, -1)
    ways: dict[str, tuple[Callable[[], object], int]] = {
        "adept: encode": (lambda: adept.latents(texts), TEXTS),
        "adept: decode, greedily": (lambda: adept.decoded(latents), TEXTS),
        "dp_bart: encode": (lambda: bart.latents(texts), TEXTS),
        "dp_bart: decode, beam 3": (lambda: beam_search(bart._model, hidden, bart.length), BEAMED),
        "dp_bart: decode by transformers": (lambda: by_transformers(bart._model, hidden, bart.length), BEAMED),
    }
    print(f"\n{'step':36} {'texts/s':>9}")
    for label, (way, count) in ways.items():
        print(f"{label:36} {rate(way, count, 1):9.1f}")
    return bart


def signals(bart: DPBART) -> None:
    """Print the ratio of a latent's length to the length of its noise, by epsilon."""
    before = bart.latents(synthetic.generate("queries", 200, 0)["text"].to_list())
    length = np.linalg.norm(before, axis=1).mean()  # the noise's length is its root mean square
    ratios = {e: length / (bart.law(e).deviation * before.shape[1] ** 0.5) for e in EPSILONS}
    print(f"\nsignal-to-noise of dp_bart, clip {CLIP}, latents of length {length:.1f}")
    print("  ".join(f"epsilon {e}: {ratio:.4f}" for e, ratio in ratios.items()))


def main() -> None:
    """Print the tables."""
    print(f"{torch.get_num_threads()} threads")
    noise()
    with TemporaryDirectory() as name:
        signals(rewriting(Path(name)))
    print(f"\npeak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")


if __name__ == "__main__":
    main()
