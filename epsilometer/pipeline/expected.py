"""The expected memory and time of an audit's models on this machine.

memory      4 bytes per parameter of a model, or 2 in bfloat16. The memory of a batch is extra.
operations  2 P n for n tokens through P parameters (Kaplan et al. 2020, "Scaling laws for neural language models",
            section 2.1): a product and a sum for each weight and token. A pass of training takes 3 times as many
            operations, or fewer if some weights are frozen.
time        operations divided by `SHARE` times the rate of a matrix product, which is measured at run time.

The share, and the numbers of tokens of a text and of a judge's prompt, are assumptions, shown with each estimate. The
estimate leaves out reading from disk and beam search. It includes training only for networks under `private_training`.
"""

from __future__ import annotations

import json
import math
import struct
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from epsilometer.cells.adversaries import attacks
from epsilometer.core.study import studies
from epsilometer.models import locate
from epsilometer.pipeline.params import Params
from epsilometer.runtime import hub
from epsilometer.runtime.progress import span

SHARE = 0.3  # assumed share of the rate of a matrix product
TEXT, PROMPT = 64, 512  # assumed numbers of tokens: of a text, read and written, and of a judge's prompt
ASSUMED = (
    f"assumed: {SHARE:.0%} of the measured rate of matrix products, {TEXT} tokens per text unless a length is set, "
    f"{PROMPT} tokens per judge's prompt; not included: other training, beam search, and the memory of batches"
)

# For models that are not on disk: the number of parameters of published architectures, and the bytes of a parameter in
# their files.
PUBLISHED = {
    "roberta-base": (124_697_433, 4),
    "google/flan-t5-base": (247_577_856, 4),
    "facebook/bart-base": (139_420_416, 4),
    "sentence-transformers/all-mpnet-base-v2": (109_486_464, 4),
    "Qwen/Qwen3-8B": (8_190_735_360, 2),
    "meta-llama/Llama-3.2-1B-Instruct": (1_235_814_400, 2),
    "google-bert/bert-base-uncased": (109_514_298, 4),
    "openai-community/gpt2": (124_439_808, 4),
}


@dataclass(frozen=True)
class Expected:
    """The cost of one use of a model: `weights` and available `memory` in bytes, and `seconds`."""

    what: str
    model: str
    device: str
    weights: int
    memory: int
    seconds: float

    def __str__(self) -> str:
        fits = "" if self.weights < self.memory else " (too large)"
        duration = f"{self.seconds / 3600:,.0f} h" if self.seconds >= 36_000 else span(self.seconds)
        return (
            f"{self.what}: {self.model.partition('@')[0]} on {self.device}, weights take "
            f"{hub.amount(self.weights)} of {hub.amount(self.memory)} of memory{fits}, about {duration}"
        )


def expected(params: Params) -> list[Expected]:
    """Return the cost of each use of a model whose number of parameters is known."""
    uses = [use for use in _uses(params) if _parameters(use.model) is not None]
    if not uses:
        return []
    from epsilometer.models.devices import resolved

    machine = _Machine.of(resolved(params.device))
    return [use.on(machine, _parameters(use.model) or 0) for use in uses]


def parameters(folder: Path) -> int:
    """Return the number of parameters of a model in a folder, from the headers of its safetensors files."""
    total = 0
    for path in sorted(folder.glob("*.safetensors")):
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            head = json.loads(file.read(length))
        total += sum(math.prod(tensor["shape"]) for name, tensor in head.items() if name != "__metadata__")
    return total


@dataclass(frozen=True)
class _Use:
    what: str
    model: str
    settings: Any
    tokens: int

    def on(self, machine: _Machine, count: int) -> Expected:
        half = getattr(self.settings, "precision", "float32") in machine.half
        seconds = 2 * count * self.tokens / (SHARE * machine.rate)
        weights = (2 if half else 4) * count
        return Expected(self.what, self.model, machine.device, weights=weights, memory=machine.memory, seconds=seconds)


@dataclass(frozen=True)
class _Machine:
    """A device: memory in bytes, rate in operations per second, and the values of `precision` that mean bfloat16."""

    device: str
    memory: int
    rate: float
    half: tuple[str, ...]

    @classmethod
    def of(cls, device: str) -> _Machine:
        import torch

        if device == "cpu":
            return cls(device, psutil.virtual_memory().available, _rate(device, 1024), ("bfloat16",))
        return cls(device, torch.cuda.get_device_properties(0).total_memory, _rate(device, 8192), ("bfloat16", "auto"))


def _rate(device: str, size: int) -> float:
    """Return the operations per second of a matrix product of this size, by the fastest of several runs."""
    import torch

    kind = torch.float32 if device == "cpu" else torch.bfloat16
    matrix = torch.ones((size, size), dtype=kind, device=device)
    seconds = []
    for _ in range(4):
        start = time.perf_counter()
        float((matrix @ matrix)[0, 0])  # waits for the device
        seconds.append(time.perf_counter() - start)
    return 2.0 * size**3 / min(seconds)


def _uses(params: Params) -> Iterator[_Use]:
    """Yield the uses of models: by cells, by studies, and by attacks on all rewrites."""
    from epsilometer.project import cells

    sources: Mapping[str, str] = {f"data/models/{name}": params.path(source) for name, source in params.models.items()}
    for name, cell in params.cells.items():
        if cell.resource is not None and cell.resource in sources:
            rewrites = params.trial_count(cell.dataset) * len(cell.budgets)
            yield _Use(name, _id(sources[cell.resource]), cells.build(params, cell), rewrites * TEXT)
    for study in studies():
        for use in study.uses(params):
            yield _Use(use.what, _id(sources.get(use.model, use.model)), None, use.tokens)
    rewrites = sum(params.trial_count(cell.dataset) * len(cell.budgets) for cell in params.cells.values())
    for name, attack in attacks(params).items():
        model = getattr(attack, "model", None)
        if model and not getattr(attack, "endpoint", False):
            each = PROMPT if getattr(attack, "large", False) else TEXT
            yield _Use(f"attack {name}", _id(sources.get(model, model)), attack, rewrites * each)


def _id(source: str) -> str:
    """Return the id in a pin, or the source itself."""
    pin = locate.read_pin(source)
    return source if pin is None else "@".join(pin[key] for key in ("model", "revision") if key in pin)


def _parameters(model: str) -> int | None:
    """Return the number of parameters of a model that is on disk or published; None for unknown models."""
    folder = Path(model) if Path(model).is_dir() else None
    if folder is None and model != locate.ENCODER:
        repository = locate.repository(model)
        folder = hub.snapshot(repository)
        if folder is None or locate.is_missing(repository):
            return PUBLISHED.get(repository.name, (None, 0))[0]
    return parameters(folder) if folder is not None and (folder / "config.json").is_file() else None
