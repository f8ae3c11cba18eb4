"""Stage model@name: a model for mechanisms, as an ordinary model folder.

The source is one of four:

- a folder with the trained part of an embedded model, which is joined with all-MiniLM-L6-v2: delta.safetensors (a
  masked language model's head and upper layers) or decoder.safetensors;
- the folder of a whole model;
- a pin {"model": id, "revision": commit} of a model on the Hugging Face hub, in a .json file;
- a pin {"package": {...}} of a model in a package, in a .json file.

A pin may also contain clip bounds, which `epsilometer bounds` measures.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from epsilometer.core.atomic import write_text
from epsilometer.core.errors import UserError
from epsilometer.models import masked_lm, seq2seq
from epsilometer.models.bounds import PUBLISHED_BOUNDS, bounds
from epsilometer.models.locate import ENCODER, hub_id, locate, read_pin
from epsilometer.pipeline.params import read
from epsilometer.runtime import checksums


def main(name: str) -> None:
    """Write data/models/<name>, with the checksums of its files."""
    params = read()
    source, out = Path(params.path(params.models[name])), Path(f"data/models/{name}")
    if (source / "delta.safetensors").is_file():
        masked_lm.assemble(source, locate(ENCODER), out)
    elif (source / "decoder.safetensors").is_file():
        seq2seq.assemble(source, locate(ENCODER), out)
    elif source.suffix == ".json" or (source / "config.json").is_file():
        shutil.copytree(locate(source), out, dirs_exist_ok=True)
        pin = read_pin(source)
        if pin is not None and ("low" in pin or hub_id(pin.get("model", ""))[0] in PUBLISHED_BOUNDS):
            low, high = bounds(source)  # raises if the bounds were published for another revision
            measured_on = pin.get("measured_on", "published")
            stated = {"low": low, "high": high, "measured_on": measured_on}
            write_text(json.dumps(stated), out / "bounds.json")
    else:
        raise UserError(
            f"models.{name}: {source} is neither a folder with a model, delta.safetensors or decoder.safetensors, nor "
            "a .json pin of a model",
            "EPS-P038",
        )
    checksums.write(out)
