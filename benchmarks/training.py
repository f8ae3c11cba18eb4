"""Private training steps: milliseconds, ratios within one run, and memory; also those of opacus if it is installed.

A step consists of everything from hidden states to updated parameters: gradients of the examples, noise, AdamW. Cases
take turns, so that other load on the machine affects all of them alike; times are processor time on one thread. Memory
is the increase of the peak during the step: of numpy's allocations for our steps, of the whole process for torch's
(Linux). Features are reviews per second through the embedded BERT and GPT-2 without their trainable layers. They are
compared with the same network run by transformers, on the texts in their order, in batches of 32 that are padded to the
longest text.

usage: python -m benchmarks.training
"""

from __future__ import annotations

import multiprocessing
import statistics
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from threadpoolctl import threadpool_limits

from epsilometer.accounting.schedule import Poisson
from epsilometer.core import system
from epsilometer.core.randomness import Noise
from epsilometer.corpora import synthetic
from epsilometer.models.embedded import weights
from epsilometer.models.locate import ENCODER, quiet_loading
from epsilometer.models.optimisers import AdamW
from epsilometer.studies.training.runs.directional import average, average_of_draws
from epsilometer.studies.training.runs.features import Frozen
from epsilometer.studies.training.runs.heads import BertHead, GptHead, Head
from epsilometer.studies.training.runs.noise import DirectionalNoise, GaussianNoise, NoNoise, ScaledNoise, TrainingNoise
from epsilometer.studies.training.runs.private import Settings, train
from epsilometer.studies.training.runs.shadows import train_together
from epsilometer.studies.training.runs.tokens import NONE

WIDTH, CLASSES, BATCH, ROUNDS = 768, 2, 128, 20
PLAIN, GAUSSIAN, DIRECTIONAL = "plain", "Gaussian", "directional"
NOISES: dict[str, TrainingNoise] = {
    PLAIN: NoNoise(),
    GAUSSIAN: GaussianNoise(0.6),
    "scaled": ScaledNoise(0.6),
    DIRECTIONAL: DirectionalNoise(1e4),
    "directional, by tensors": DirectionalNoise(1e4, parts=True),
}
LIMITS = ((GAUSSIAN, PLAIN, 1.6), (DIRECTIONAL, GAUSSIAN, 2.5))  # largest ratios, at bert-base's shape
MIB = 1 << 20
TEXTS, LENGTH, PADDED = 128, 66, 32  # for features: number of texts, most tokens per text, texts per padded batch

Step = Callable[[], object]


def head(kind: str) -> Head:
    """Return a head of bert-base's or gpt2's shape with small weights."""
    rng, size = np.random.default_rng(0), (WIDTH + 1) * (WIDTH + CLASSES) if kind == "bert" else (2 + CLASSES) * WIDTH
    vector = (rng.standard_normal(size) * 0.02).astype(np.float32)
    return BertHead(vector, WIDTH, CLASSES, dropout=0.1) if kind == "bert" else GptHead(vector, WIDTH, CLASSES)


def batch() -> tuple[np.ndarray, np.ndarray]:
    """Return states [128, 768] with a large common part, like those of encoders, and labels [128]."""
    rng = np.random.default_rng(1)
    states = rng.standard_normal(WIDTH) + 0.3 * rng.standard_normal((BATCH, WIDTH))
    return states.astype(np.float32), rng.integers(0, CLASSES, BATCH)


class Ours:
    """Steps of one head. generator: if None, each step has a seeded stream, as in an audit's training."""

    def __init__(self, kind: str, noise: TrainingNoise, generator: np.random.Generator | None = None) -> None:
        self.head, self.optimiser, self.noise, self.number = head(kind), AdamW(1e-4), noise, 0
        self.states, self.labels = batch()
        self.generator = generator

    def __call__(self) -> None:
        """Take a step."""
        generator = self.generator or Noise.named(1, 0, "step", self.number).generator(0)
        gradients = self.head.gradients(self.states, self.labels, self.head.masks(BATCH, generator))
        update = self.noise.update(gradients, BATCH, generator)
        self.number += 1
        self.optimiser.step(self.head.vector, update, self.number)


def torch_step(mode: str) -> Step:
    """Return the same step of bert-base's head in torch. mode: "plain", or opacus' "hooks" or "ghost"."""
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    model: Any = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Dropout(0.1), nn.Linear(WIDTH, CLASSES))
    states, labels = (torch.from_numpy(array) for array in batch())
    loss: Any = nn.CrossEntropyLoss()
    optimiser: Any = torch.optim.AdamW(model.parameters(), lr=1e-4)
    if mode != "plain":
        from opacus import PrivacyEngine

        ghost = {"grad_sample_mode": "ghost", "criterion": loss} if mode == "ghost" else {}
        built = PrivacyEngine().make_private(
            module=model,
            optimizer=optimiser,
            data_loader=DataLoader(TensorDataset(states, labels), batch_size=BATCH),
            noise_multiplier=0.6,
            max_grad_norm=1.0,
            poisson_sampling=False,
            **ghost,
        )
        model, optimiser, loss = built[0], built[1], built[2] if mode == "ghost" else loss

    def step() -> None:
        optimiser.zero_grad()
        loss(model(states), labels).backward()
        optimiser.step()

    return step


def milliseconds(steps: dict[str, Step], rounds: int) -> dict[str, float]:
    """Return the median time of each step; the steps take turns, and the first round is ignored."""
    taken: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(rounds + 1):
        for name, step in steps.items():
            begun = time.process_time()
            step()
            taken[name].append(1e3 * (time.process_time() - begun))
    return {name: statistics.median(times[1:]) for name, times in taken.items()}


def peak(step: Step) -> float:
    """Return the increase of numpy's allocations in the second step, in MiB; AdamW allocates its state in the first."""
    step()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    step()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return (most - before) / MIB


def torch_peak(mode: str) -> float:
    """Return the increase of this process's peak memory in three steps of torch, in MiB."""
    with threadpool_limits(1):
        step = torch_step(mode)
        before = psutil.Process().memory_info().rss
        Path("/proc/self/clear_refs").write_text("5")  # resets the peak (Linux)
        for _ in range(3):
            step()
    status = Path("/proc/self/status").read_text().splitlines()
    most = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    return most / 1024 - before / MIB


@contextmanager
def one_thread() -> Iterator[None]:
    """Run BLAS and torch on one thread."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with threadpool_limits(1):
        yield
    torch.set_num_threads(threads)


def table(kind: str, title: str, others: dict[str, Step]) -> dict[str, float]:
    """Print a row for each step, ours and others, and return their milliseconds."""
    ours: dict[str, Ours] = {name: Ours(kind, noise) for name, noise in NOISES.items()}
    for name in (GAUSSIAN, DIRECTIONAL):
        ours[f"{name}, for a release"] = Ours(kind, NOISES[name], system.generator())
    taken = milliseconds({**ours, **others}, ROUNDS)
    print(f"\n{title:40} {'ms':>8} {'steps/s':>8} {'of plain':>9} {'peak MiB':>9}")
    for name, time_of_one in taken.items():
        if name in ours:
            most = peak(ours[name])
        else:
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                most = pool.apply(torch_peak, (name.split()[-1],))
        print(f"{name:40} {time_of_one:8.2f} {1e3 / time_of_one:8.0f} {time_of_one / taken[PLAIN]:9.2f} {most:9.1f}")
    return taken


def by_transformers(frozen: Frozen, texts: list[str]) -> Step:
    """Return a step that runs the whole network on padded batches, as a trainer does."""
    import torch
    from transformers import AutoModel

    with quiet_loading():
        network = AutoModel.from_pretrained(
            frozen.folder, dtype=torch.float32, trust_remote_code=False, use_safetensors=True
        ).eval()

    def step() -> None:
        for start in range(0, len(texts), PADDED):
            ids = frozen.padded(texts[start : start + PADDED])
            ids = ids[:, : (ids != NONE).sum(axis=1).max()]
            inputs = {"input_ids": np.maximum(ids, 0), "attention_mask": (ids != NONE).astype(np.int64)}
            with torch.inference_mode():
                network(**{name: torch.from_numpy(array) for name, array in inputs.items()})

    return step


def features() -> None:
    """Print how many texts per second frozen networks process."""
    texts = synthetic.generate("reviews", TEXTS, 0)["text"].to_list()
    print(f"\n{'features, texts a second':40} {'ours':>8} {'padded':>8} {'ratio':>9}")
    for name, model in (("MiniLM", ENCODER), ("embedded GPT-2", weights("minilm-paraphraser"))):
        frozen = Frozen(model, LENGTH)
        taken = milliseconds({"ours": partial(frozen.states, texts), "padded": by_transformers(frozen, texts)}, 2)
        ours, padded = (1e3 * TEXTS / taken[way] for way in ("ours", "padded"))
        print(f"{name:40} {ours:8.0f} {padded:8.0f} {ours / padded:9.2f}")


def shadows(block: int = 8) -> None:
    """Print the time of 64 shadow heads of MiniLM on 5,000 texts, estimated from one block, and one by one."""
    texts, width, rng = 5_000, 384, np.random.default_rng(0)
    states = rng.standard_normal((2 * texts, width)).astype(np.float32)
    labels = (states[:, 0] > 0).astype(np.int64)
    vectors = rng.standard_normal((block, (width + 1) * (width + CLASSES))).astype(np.float32) * np.float32(0.02)
    first = BertHead(vectors, width, CLASSES, dropout=0.1)
    chosen = np.stack([np.sort(rng.permutation(2 * texts)[:texts]) for _ in range(block)])
    settings = [Settings(Poisson(texts, BATCH, epochs=10), NoNoise(), 1e-3, seed=seed) for seed in range(block)]
    start = time.process_time()
    train_together(first, states, labels, chosen, settings)
    together = time.process_time() - start
    start = time.process_time()
    train(replace(first, vector=vectors[0]), states[chosen[0]], labels[chosen[0]], settings[0])
    alone = time.process_time() - start
    print(
        f"64 shadows, {texts:,} texts, {settings[0].schedule.steps} steps: {64 * together / block:.0f} s of one core, "
        f"{block / together:.2f} shadows a second; one by one {64 * alone:.0f} s; at most 120 s on 2 cores is the aim"
    )


def main() -> None:
    """Print all tables, ratios with their limits, and times of random directions sampled at once and one by one."""
    others: dict[str, Step] = {"torch, plain": torch_step("plain")}
    try:
        others |= {f"opacus, {mode}": torch_step(mode) for mode in ("hooks", "ghost")}
    except ImportError:
        print("opacus is not installed: its rows are left out")
    with one_thread():
        taken = table("bert", "bert-base: 592,130 parameters", others)
        for name, base, most in LIMITS:
            print(f"{name} is {taken[name] / taken[base]:.2f} times {base}; at most {most} is the aim")
        table("gpt", "gpt2: 3,072 parameters", {})
        gradients = head("bert").gradients(*batch())
        generator = Noise.named(1, "draws").generator(0)
        draws = {
            "draws at once": partial(average, gradients, 1e4, generator),
            "draws one by one": partial(average_of_draws, gradients, 1e4, generator),
        }
        for name, time_of_one in milliseconds(draws, 3).items():
            print(f"{name:40} {time_of_one:8.1f} ms")
        features()
        shadows()


if __name__ == "__main__":
    main()
