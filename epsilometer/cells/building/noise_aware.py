"""An encoder-decoder for DP-BART, trained on public texts to write a text from pruned or noisy states."""

from __future__ import annotations

from pathlib import Path

from epsilometer.cells.params import TextsParams
from epsilometer.cells.public_texts import public_texts
from epsilometer.core import tables
from epsilometer.core.component import build
from epsilometer.mechanisms.latents.shared.noise_aware import NoiseAware, train
from epsilometer.runtime import checksums
from epsilometer.runtime.progress import say


def make(params: TextsParams, name: str) -> None:
    """Write data/noise_aware/<name>, a model's folder with pruning.json and training.json."""
    chosen = params.noise_aware[name]
    how = build(NoiseAware, chosen.training, f"noise_aware.{name}.training")
    out = Path(f"data/noise_aware/{name}")
    record = train(chosen.model, public_texts(params, chosen.corpus), how, out)
    tables.write_json({"model": chosen.model, "corpus": chosen.corpus.model_dump(), **record}, out / "training.json")
    checksums.write(out)  # the folder still has the initial model's checksums
    say(
        f"noise_aware {name}: held-out loss {record['loss_before']:.3f} before training, {record['loss_after']:.3f} "
        "after"
    )
