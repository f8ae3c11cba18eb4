"""Write a user's own project with an installed epsilometer, and renew its files after an upgrade.

    python -m epsilometer.pipeline.starting

This command renews the package's parts of the project in the current folder: the stages (dvc.yaml), the link to the
weights (data/embedded), and settings that dvc.yaml reads and params.yaml lacks. The next audit then runs what has
changed.
"""

from __future__ import annotations

import os
import shutil
import string
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from epsilometer.core import atomic
from epsilometer.core.component import EMBEDDED, PACKAGE, find, names, shipped
from epsilometer.core.errors import UserError
from epsilometer.core.extras import installed
from epsilometer.core.imports import beside
from epsilometer.core.mechanism import build_mechanism
from epsilometer.core.own_folder import own_folder
from epsilometer.corpora.files import TABLES, suffix
from epsilometer.corpora.reading import prepare, read
from epsilometer.pipeline import composing, params
from epsilometer.pipeline.profiles import unwritten, with_sections
from epsilometer.project.confinement import NAME
from epsilometer.project.site_cache import keep_private

TEMPLATE = PACKAGE / "pipeline/template"
_HIDDEN = {"dvc", "dvc-site", "dvcignore", "gitignore"}  # names in the template that begin with a dot in a project
_WEIGHTS = Path("data/embedded")
_ROWS = 2000  # default number of rows to read from a user's file, because embedding a million texts takes hours

# Stage outputs that replace default resources of mechanisms, by the function that makes the default resource.
_RESOURCES = {
    "vectors": "data/vectors/minilm.npz",
    "lists": "data/lists.npz",
    "masked_lm": "data/models/minilm-mlm",
    "seq2seq": "data/models/minilm-seq2seq",
    "paraphraser": "data/models/minilm-paraphraser",
}
_EPSILONS = {"tem": [5, 8, 11]}
_SOME_EPSILONS = [1, 10, 100]


class _Audited(NamedTuple):
    """A mechanism to audit: its name, its entry in params.yaml, and the user's file to copy, if any."""

    name: str
    entry: dict[str, Any]
    own: Path | None


def start(folder: Path, texts: Path | None, column: str, mechanism: str) -> None:
    """Write a project into a folder: git and DVC, stages, parameters, an example mechanism and attack, and their test.

    texts: a file or folder of texts; by default generated reviews. A copy is in data/texts, a folder that git
    ignores and other users cannot read. column: the column of the texts. mechanism: the name of a shipped mechanism, or
    a .py file. The .py file is copied together with the files in its folder that it imports. Raises UserError, before
    anything is written, for a folder that is not empty or belongs to another user, and for texts or a mechanism that
    cannot be read.
    """
    _check_new(folder)
    if shutil.which("git") is None:
        raise UserError("git is not installed, but a project stores its records in git; install git", "EPS-P039")
    if not installed("project"):
        raise UserError(
            "a project needs DVC and other packages that are not installed: pip install 'epsilometer[project]'",
            "EPS-P040",
        )
    audited = _audited(mechanism)
    dataset = _dataset(texts, column)
    own_folder(folder, 0o777)
    _check_new(folder)  # another process may have created the folder meanwhile
    (folder / "data").mkdir(mode=0o700)
    for file in sorted(TEMPLATE.rglob("*")):
        place = folder.joinpath(*("." * (part in _HIDDEN) + part for part in file.relative_to(TEMPLATE).parts))
        if file.is_file() and file.suffix != ".pyc" and _wanted(file, texts, audited):
            _copy(file, place)
    if texts is not None:
        _copy(texts, folder / "data/texts" / texts.name)
    if audited.own is not None:
        for helper_file in (audited.own, *_helpers(audited.own)):
            _copy(helper_file, folder / "mechanisms" / helper_file.name)
    written = string.Template((TEMPLATE / "params.yaml").read_text(encoding="utf-8"))
    atomic.write_text(written.substitute(_values(dataset, audited)), folder / "params.yaml")
    renew(folder)
    _set_up(folder)


def _check_new(folder: Path) -> None:
    if folder.exists():
        if not folder.is_dir() or any(folder.iterdir()):
            raise UserError(f"{folder} exists and is not an empty folder; give the path of a new one", "EPS-P041")
        own_folder(folder)


def renew(folder: Path) -> None:
    """Update the package's parts of a project to the running package. Files that are up to date are not touched."""
    file = folder / "params.yaml"
    if absent := unwritten(params.read(file)):
        atomic.write_text(with_sections(file.read_text(encoding="utf-8"), absent, "Settings at their defaults:"), file)
    composing.write(params.read(file), folder)
    link, weights = folder / _WEIGHTS, EMBEDDED.parent.resolve()
    if link.resolve() != weights:
        if link.exists() and not link.is_symlink():
            raise UserError(
                f"{link} must be a link to the weights of the package, {weights}; move the present content away",
                "EPS-P042",
            )
        link.unlink(missing_ok=True)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(weights)


def _set_up(folder: Path) -> None:
    """Make a folder a repository of git and DVC, and add everything but the data to git's index."""
    keep_private(folder)
    for command in (["git", "init", "--quiet"], ["git", "add", "--all"]):
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        if done.returncode:
            raise UserError(f"`{' '.join(command)}` failed in {folder}:\n{done.stdout}{done.stderr}", "EPS-P043")


def _audited(mechanism: str) -> _Audited:
    """Return the mechanism to audit.

    Raises UserError if the mechanism does not exist, or if no stage of a new project makes its resource.
    """
    definition = find("mechanisms", mechanism, "rewrite")
    entry: dict[str, Any] = {"mechanism": mechanism}
    own = Path(mechanism) if mechanism.endswith(".py") else None
    if own is not None:
        if not NAME.fullmatch(own.stem) or (TEMPLATE / "attacks" / own.name).exists():
            raise UserError(
                f"a mechanism cannot be called {own.stem!r} in a project; rename the file {mechanism}", "EPS-P044"
            )
        entry = {"mechanism": own.stem, "file": f"mechanisms/{own.name}"}
    elif getattr(definition, "among_texts", False):
        entry["resource"] = "data/prepared/mine.parquet"
    elif (default := getattr(definition, "default_resource", None)) is not None:
        if default.__name__ not in _RESOURCES:
            raise UserError(
                f"{mechanism} needs a resource that is made from your public texts; start with another of "
                f"{', '.join(names('mechanisms'))}, then add it to params.yaml",
                "EPS-P045",
            )
        entry["resource"] = _RESOURCES[default.__name__]
    code = str(own or shipped("mechanisms")[mechanism])
    built = build_mechanism(code, {}, entry.get("resource"), f"the settings of {mechanism}")
    if getattr(built, "has_budget", True):
        entry["epsilons"] = _EPSILONS.get(mechanism, _SOME_EPSILONS)
    return _Audited(entry["mechanism"], entry, own)


def _dataset(texts: Path | None, column: str) -> dict[str, Any]:
    """Return the entry of the texts in params.yaml. Raises UserError for unreadable texts, or fewer than two texts."""
    read_by_stages = {"use": "train", "match": "none"}  # DVC cannot read defaults
    if texts is None:
        return {"source": "texts/reviews.py", "part": "reviews", "count": 400, **read_by_stages, "public": True}
    if not texts.exists():
        raise UserError(f"{str(texts)!r} does not exist; check the path", "EPS-P046")
    if texts.is_file() and texts.suffix in (".py", ".json"):
        raise UserError(
            f"{texts} is not a file of texts; give one of {', '.join(TABLES)}, .txt, or a folder of .txt", "EPS-P047"
        )
    if (count := len(prepare(read(texts, text=column, rows=_ROWS)).table)) < 2:
        raise UserError(
            f"{texts} has {count} distinct texts, and trials need at least 2; give a file with more", "EPS-P048"
        )
    entry: dict[str, Any] = {"source": f"data/texts/{texts.name}", "rows": _ROWS}
    if texts.is_file() and suffix(texts) in TABLES:
        entry["text"] = column
    return entry | {"split": None, **read_by_stages, "public": False}


def _values(dataset: dict[str, Any], audited: _Audited) -> dict[str, str]:
    """Return the values for the placeholders of the template of params.yaml."""
    control = audited.name == "identity"
    model = Path(audited.entry.get("resource", "")).name
    used = {model: f"{_WEIGHTS}/models/{model}"} if model.startswith("minilm-") else {}
    example = "  # mine-mine: {dataset: mine, mechanism: mine, file: mechanisms/mine.py, epsilons: [1, 4]}"
    cells = [] if control else [f"  mine-{audited.name}: {{dataset: mine, <<: *audited}}"]
    return {
        "title": f"How much privacy {audited.name} gives",
        "dataset": _flow(dataset),
        "models": _flow(used),
        "mechanisms": "" if control else f"  {audited.name}: &audited {_flow(audited.entry)}",
        "cells": "\n".join([*cells, *([] if audited.own else [example])]),
    }


def _flow(value: Any) -> str:
    """Return a value as one line of YAML."""
    return yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10**6, allow_unicode=True).strip()


def _wanted(file: Path, texts: Path | None, audited: _Audited) -> bool:
    """Return True if a file of the template belongs in a project; a user's own files replace the examples."""
    kind = file.relative_to(TEMPLATE).parts[0]
    unwanted = {"params.yaml"}
    unwanted |= {"texts"} if texts is not None else set()
    unwanted |= {"mechanisms"} if audited.own is not None else set()
    return kind not in unwanted


def _helpers(file: Path) -> list[Path]:
    """Return the files and packages that a file imports from its own folder."""
    return [path if (path := file.parent / name).is_dir() else path.with_suffix(".py") for name in beside(file)]


def _copy(source: Path, place: Path) -> None:
    """Copy a file or a folder. A copy is readable by no more users than its source."""
    place.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, place)
        return
    mode = source.stat().st_mode & 0o666 | 0o600
    with source.open("rb") as content, open(place, "xb", opener=partial(os.open, mode=mode)) as copy:
        shutil.copyfileobj(content, copy)


if __name__ == "__main__":
    try:
        renew(Path(os.curdir))
    except UserError as error:
        sys.exit(f"error: {error}")
