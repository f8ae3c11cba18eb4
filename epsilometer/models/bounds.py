"""Clip bounds of a model's logits: the range [low, high] that determines the sensitivity of a token mechanism.

Logits are clipped to the range, so any range that was chosen without private texts gives a true claim. It affects
only utility. A narrow range means a low temperature 2 (high - low) / epsilon; a wide one leaves the largest logits
unclipped.
`measure` takes the mean of all logits at public texts as the lower bound, as the papers do (Meisenbacher et al. 2024,
DP-MLM), and the 90 % quantile of a position's largest logit as the upper bound. The papers' mean + 4 standard
deviations assumes logits of a certain spread: for our encoder-decoder it lies below nine in ten of the largest logits,
and at epsilon 100 the likeliest token is then drawn with probability .11 instead of .90. The measurement, its texts and
its weights are stored beside the range, and another model or revision does not inherit it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator

from epsilometer.core.atomic import write_text
from epsilometer.core.errors import UserError
from epsilometer.models.locate import REVISIONS, hub_id, locate, read_pin
from epsilometer.runtime import checksums

# Measured by the mechanisms' authors, each on the weights that `models.REVISIONS` pins. (Their GPT-2 paraphraser,
# [-96.85249956065758, -8.747697966442914], was never published under a name and revision that a pin could hold: users
# with exactly these weights give the range as `clip`.)
PUBLISHED_BOUNDS = {
    "roberta-base": (-3.2093127, 16.304797887802124),
    "answerdotai/ModernBERT-base": (-1.207156, 14.831477403640747),
    "google/flan-t5-base": (-19.22705113016047, 7.48324937989716),
    "google/flan-t5-large": (-11.8514, 14.6465),
    "google/flan-t5-xl": (-9.6643, 18.4873),
}

RULE = "low: mean of all logits; high: 90 % quantile of the largest logit of a position"
_HIGH = 0.9  # the quantile in RULE: clips one position in ten, whatever the spread of small logits
QUANTILES = (0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999)


def _ordered(clip: tuple[float, float]) -> tuple[float, float]:
    if not clip[0] < clip[1]:
        raise ValueError("clip must be [low, high] with low < high")
    return clip


Clip = Annotated[tuple[float, float], AfterValidator(_ordered)]
"""A range of logits from the user."""


def bounds(model: str | Path) -> tuple[float, float]:
    """Return the clip bounds (low, high) of a model's logits.

    They are stored with the weights that they were measured on: in `bounds.json` in the model's folder, in the small
    file that pins a model of the hub, or, for the published models, with the pinned revision. Raises UserError for any
    other model, and where the weights are not those that were measured.
    """
    folder, pin = Path(model), read_pin(model)
    if (folder / "bounds.json").is_file():
        stated = json.loads((folder / "bounds.json").read_text())
        if "weights" in stated and stated["weights"] != weights_hash(folder):
            raise UserError(
                f"model {str(model)!r}: bounds.json was measured on weights that differ from those in the folder; "
                f"measure again: epsilometer bounds {model} --replace",
                "EPS-N006",
            )
        return _range(stated, folder / "bounds.json")
    if pin is not None and "low" in pin:
        return _range(pin, folder)
    named = str(model) if pin is None or "model" not in pin else f"{pin['model']}@{pin.get('revision', '')}"
    name, revision = hub_id(named)
    if not folder.is_dir() and name in PUBLISHED_BOUNDS and revision == REVISIONS[name]:
        return PUBLISHED_BOUNDS[name]
    raise UserError(
        f"model {str(model)!r} has no clip bounds: they must be measured on public text with these very weights, by\n"
        f"  epsilometer bounds {model}\n"
        "or given as clip: [low, high]; those of another model or revision do not carry over",
        "EPS-N007",
    )


def measure(logits: Iterable[NDArray[np.float32]], texts: str) -> dict[str, Any]:
    """Return bounds, with their statistics. logits: parts [positions, outputs]; texts: the texts of the measurement.

    Streams over the parts: moments of all logits, and quantiles over positions of the largest, mean and smallest one.
    """
    shift, total, squares, count = None, 0.0, 0.0, 0
    seen: dict[str, list[NDArray[np.float32]]] = {"largest logit": [], "mean logit": [], "smallest logit": []}
    for part in logits:
        if not part.size:
            continue
        values = part.astype(np.float64)
        shift = values.mean() if shift is None else shift  # near the mean, so that squares lose no digits
        total += (values - shift).sum()
        squares += ((values - shift) ** 2).sum()
        count += values.size
        for name, value in zip(seen, (values.max(1), values.mean(1), values.min(1)), strict=True):
            seen[name].append(value)
    if shift is None or not count:
        raise UserError(
            "bounds cannot be measured, since the texts have no token to predict; give a file of English text",
            "EPS-N008",
        )
    mean = shift + total / count
    deviation = float(np.sqrt(max(0.0, squares / count - (total / count) ** 2)))
    positions = {name: np.concatenate(parts) for name, parts in seen.items()}
    high = float(np.quantile(positions["largest logit"], _HIGH))
    if not (np.isfinite([mean, high]).all() and mean < high):
        raise UserError(
            f"the logits have mean {mean} and largest values of about {high}, so they cannot be clipped; give another "
            "model",
            "EPS-N009",
        )
    return {
        "low": round(float(mean), 4),
        "high": round(high, 4),
        "rule": RULE,
        "measured_on": texts,
        "positions": len(positions["largest logit"]),
        "mean + 4 standard deviations": round(float(mean + 4 * deviation), 4),
        "quantiles": {
            name: {f"{q:g}": round(float(np.quantile(values, q)), 4) for q in QUANTILES}
            for name, values in positions.items()
        },
    }


def store(model: str | Path, measured: Mapping[str, Any], out: Path | None = None, replace: bool = False) -> Path:
    """Write measured bounds to the file that `bounds` reads, and return its path.

    For a folder that is bounds.json in it, with a hash of its weights; for a hub model `out`, a pin of the model with
    its revision (by default named after the model, in the current folder). Raises UserError where the file already
    exists, unless `replace`.
    """
    path = destination(model, out, replace)
    folder = locate(model)
    if Path(model).is_dir():
        stated = {**measured, "weights": weights_hash(folder)}
    else:
        pin = read_pin(model)
        if pin is not None and "package" in pin:  # whose hash is that of the wheel
            stated = pin | {name: measured[name] for name in ("low", "high", "measured_on")}
        else:
            name, revision = hub_id(str(model)) if pin is None else (pin["model"], pin["revision"])
            if revision is None or not re.fullmatch("[0-9a-f]{40}", revision):
                revision = folder.name  # the commit, in the hub's cache
            stated = {"model": name, "revision": revision, **measured}
    write_text(json.dumps(stated, indent=2) + "\n", path)
    checksums.restate(path)
    return path


def destination(model: str | Path, out: Path | None = None, replace: bool = False) -> Path:
    """Return the file that `store` would write. Raises UserError where it exists already, unless `replace`."""
    if Path(model).is_dir():
        if out is not None:
            raise UserError(
                f"--out is for models of the hub, but the bounds of {model} are kept in its folder; leave --out out",
                "EPS-N010",
            )
        path = Path(model) / "bounds.json"
    elif read_pin(model) is not None:
        path = out or Path(model)
        replace = replace or (path == Path(model) and "low" not in (read_pin(model) or {}))
    else:
        path = out or Path(hub_id(str(model))[0].rpartition("/")[2] + ".json")
    if path.exists() and not replace:
        raise UserError(f"{path} already exists; set --replace to measure again", "EPS-N011")
    return path


def weights_hash(folder: Path) -> str:
    """Return SHA-256 over a folder's safetensors files."""
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.safetensors")):
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def _range(stated: Mapping[str, Any], source: Path) -> tuple[float, float]:
    try:
        low, high = float(stated["low"]), float(stated["high"])
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{source} must state the numbers low and high; measure again", "EPS-N012") from error
    if not (np.isfinite([low, high]).all() and low < high):
        raise UserError(f"{source} must state low < high, got {low} and {high}; measure again", "EPS-N013")
    return low, high
