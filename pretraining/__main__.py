"""Training of the embedded models. This is not a DVC stage: it takes long, and git tracks the results.

Training continues from data/pretraining/<name>.safetensors, which is written every few minutes, so that it may be
killed at any time. Without this file it continues from the weights in data/embedded/models/<name>; without these it
starts from scratch. The result is written to data/embedded/models/<name>. Training runs on a GPU if there is one,
otherwise on one core at low priority.

usage: python -m pretraining --corpus FILE --pairs FILE [--only NAME] [--minutes M]
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from importlib import import_module
from pathlib import Path

from epsilometer.core.errors import UserError
from epsilometer.runtime import checksums
from epsilometer.runtime.progress import say
from pretraining.training import Progress, Recipe, train

MODELS = {  # name: (module, class)
    "minilm-seq2seq": ("seq2seq", "Seq2Seq"),
    "judge": ("judge", "Judge"),
    "minilm-paraphraser": ("paraphraser", "Paraphraser"),
    "deberta": ("deberta", "Deberta"),
}
SEED = 0
TOKENS = {"cpu": 1000, "cuda": 32_000}  # in a batch
WORK, OUT = Path("data/pretraining"), Path("data/embedded/models")


def main(*words: str) -> None:
    """Train every model, or the one named by --only, each for --minutes."""
    parser = argparse.ArgumentParser("python -m pretraining", description=__doc__.partition("\n")[0])
    parser.add_argument("--corpus", type=Path, required=True, help="one UTF-8 text on each line (.txt or .txt.xz)")
    parser.add_argument(
        "--pairs", type=Path, required=True, help="source, tab, paraphrase on each line (.tsv or .tsv.xz)"
    )
    parser.add_argument("--only", metavar="NAME", help=f"one of {', '.join(MODELS)}")
    parser.add_argument("--minutes", type=float, default=10.0, help="training time of each model (default 10)")
    options = parser.parse_args(words)
    if options.only is not None and options.only not in MODELS:
        raise UserError(f"--only must be one of {', '.join(MODELS)}, got {options.only!r}")
    if not options.minutes > 0:
        raise UserError(f"--minutes must be > 0, got {options.minutes:g}")
    for name in [options.only] if options.only else MODELS:
        _train(name, options.corpus, options.pairs, options.minutes)


def _train(name: str, corpus: Path, pairs: Path, minutes: float) -> None:
    device, hardware = _device()
    out, checkpoint = OUT / name, WORK / f"{name}.safetensors"
    record = json.loads((out / "training.json").read_text()) if (out / "training.json").is_file() else {}
    begun = Progress(record.get("steps", 0), record.get("tokens", 0), 60 * sum(record.get("minutes", {}).values()))
    module, kind = MODELS[name]
    recipe: Recipe = getattr(import_module(f"pretraining.{module}"), kind)(
        corpus, pairs, WORK, out if record else None, device, TOKENS[device]
    )
    end = time.monotonic() + 60 * minutes
    done = train(recipe, checkpoint, name, SEED, begun=begun, enough=lambda _: time.monotonic() >= end)
    spent = dict(record.get("minutes", {}))
    spent[hardware] = round(spent.get(hardware, 0.0) + (done.seconds / 60 - sum(spent.values())), 1)
    out.mkdir(parents=True, exist_ok=True)
    recipe.save(out)
    held_out = {figure: round(value, 4) for figure, value in recipe.quality().items()}
    record |= {"steps": done.steps, "tokens": done.tokens, "minutes": spent, "seed": SEED, "held_out": held_out}
    (out / "training.json").write_text(json.dumps(record, indent=1) + "\n")
    checksums.write(OUT)
    say(f"{name}: {held_out}")


def _device() -> tuple[str, str]:
    """Return the device to train on, and the name of the hardware for the record."""
    import torch

    if torch.cuda.is_available():
        return "cuda", torch.cuda.get_device_name()
    torch.set_num_threads(1)  # on two cores, two processes with two threads each are ten times slower
    os.environ["RAYON_NUM_THREADS"] = "1"
    os.nice(19)
    return "cpu", "one CPU core"


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except UserError as error:
        sys.exit(f"error: {error}")
