"""Stage model@name: a model that mechanisms read, as an ordinary model folder.

The source is either the trained part of an embedded model (a folder with delta.safetensors, put on all-MiniLM-L6-v2)
or a small tracked file {"model": id, "revision": commit} that pins a model of the Hugging Face hub.

usage: python -m tasks.model NAME
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from epsilometer.errors import UserError
from epsilometer.language.masked_lm import PUBLISHED_BOUNDS, assemble, bounds
from epsilometer.language.models import locate
from epsilometer.params import read
from tasks.entry import run


def main(name: str) -> None:
    """Write data/models/<name>."""
    params = read()
    source, out = Path(params.path(params.models[name])), Path(f"data/models/{name}")
    if (source / "delta.safetensors").is_file():
        assemble(source, locate("all-MiniLM-L6-v2"), out)
    elif source.suffix == ".json":
        pin = json.loads(source.read_text())
        shutil.copytree(locate(f"{pin['model']}@{pin['revision']}"), out, dirs_exist_ok=True)
        if pin["model"] in PUBLISHED_BOUNDS:  # refused at another revision than theirs
            low, high = bounds(f"{pin['model']}@{pin['revision']}")
            (out / "bounds.json").write_text(json.dumps({"low": low, "high": high, "measured_on": "published"}))
    else:
        raise UserError(
            f"models.{name}: {source} is neither a folder with delta.safetensors nor a .json pin of a model"
        )


if __name__ == "__main__":
    run(main)
