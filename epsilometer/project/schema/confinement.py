"""Names and paths in params.yaml: names become files and stages, and relative paths stay within the project."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from epsilometer.core.errors import UserError

if TYPE_CHECKING:
    from epsilometer.project.params import Params
    from epsilometer.project.schema.sections import MechanismEntry

NAME = re.compile(r"\w[\w.-]{0,99}")  # of files and of stages
_CELLS = ("mechanisms", "cells", "downstream", "anonymity")
_TRAINING = ("features", "private_training", "references", "membership", "one_run", "sent", "reconstruction")
_OTHERS = ("datasets", "models", "triples", "autoencoders", "noise_aware", "auxiliaries", "rewriters")
_NAMED = (*_OTHERS, *_CELLS, *_TRAINING)


def check_names(params: Params) -> None:
    """Raises UserError for a name of an entry that no file can have."""
    for kind, names in [*((kind, getattr(params, kind)) for kind in _NAMED), ("words.sources", params.words.sources)]:
        for name in names:
            if not NAME.fullmatch(name):
                raise UserError(
                    f"a name in {kind} must be letters, digits, '.', '_' and '-', at most 100, and start with a "
                    f"letter or digit, got {name!r}; files are named after it"
                )


def check_paths(params: Params) -> None:
    """Raises UserError for a relative path that leads out of the project and of the folders under `outside`."""
    for setting, path in data_paths(params):
        if _leaves(path) and not any(_below(path, folder) for folder in params.outside):
            raise UserError(
                f"{setting} must lie in the project or in a folder named under `outside`, got {path!r}; add "
                f"`outside: [{os.path.dirname(path)}]` to read from there, or give an absolute path"
            )
    up = PurePath(os.path.normpath(params.root)).parts.count("..")
    inside = [(setting, path, 0) for setting, path in code_paths(params)]
    inside += [(setting, path, up) for setting, path in read_paths(params)]
    for setting, path, depth in inside:
        if _leaves(path, depth):
            raise UserError(f"{setting} must lie in the project, got {path!r}; move it there, or give an absolute path")


def data_paths(params: Params) -> Iterator[tuple[str, str]]:
    """The files of data and their places in params.yaml, relative to the project."""
    yield from ((f"datasets.{name}.source", dataset.source) for name, dataset in params.datasets.items())
    yield from ((f"models.{name}", source) for name, source in params.models.items())
    yield from ((f"words.sources.{name}", source) for name, source in params.words.sources.items())
    yield "classification.training.model", params.classification.training.model
    for kind in ("triples", "autoencoders", "noise_aware"):
        for name, entry in getattr(params, kind).items():
            yield f"{kind}.{name}.corpus.source", entry.corpus.source
    for name, entry in params.autoencoders.items():
        if entry.vectors is not None:
            yield f"autoencoders.{name}.vectors", entry.vectors
    for name, auxiliaries in params.auxiliaries.items():
        yield f"auxiliaries.{name}.training.model", auxiliaries.training.model
        if auxiliaries.relations is not None:
            yield f"auxiliaries.{name}.relations", auxiliaries.relations


def code_paths(params: Params) -> Iterator[tuple[str, str]]:
    """The files of mechanisms, attacks and metrics that run, relative to the project."""
    yield from ((f"{place}.file", entry.file) for place, entry in _entries(params) if entry.file)
    yield from (("attacks", name) for name in params.attacks)
    yield from (("utility.metrics", name) for name in params.utility.metrics)
    for entry_name, entry in params.membership.items():
        yield from ((f"membership.{entry_name}.attacks", module) for module, _ in entry.modules.values())
    for entry_name, sent in params.reconstruction.items():
        yield from ((f"reconstruction.{entry_name}.attacks", name) for name in sent.attacks)


def read_paths(params: Params) -> Iterator[tuple[str, str]]:
    """The settings that may be paths relative to the run's folder: resources, models, settings of components."""
    for place, entry in _entries(params):
        yield from strings({"resource": entry.resource, "settings": entry.settings}, place)
    yield from strings(params.attacks, "attacks")
    yield from strings(params.utility.metrics, "utility.metrics")
    yield "embedding.model", params.embedding.model
    for name, triples in params.triples.items():
        yield from strings({"encoder": triples.encoder, "tagger": triples.tagger}, f"triples.{name}")
    for kind in ("noise_aware", "rewriters"):
        yield from ((f"{kind}.{name}.model", entry.model) for name, entry in getattr(params, kind).items())
    for kind in ("membership", "reconstruction"):
        for name, attacking in getattr(params, kind).items():
            yield from strings(attacking.attacks, f"{kind}.{name}.attacks")


def _entries(params: Params) -> Iterator[tuple[str, MechanismEntry]]:
    for kind in _CELLS:
        yield from ((f"{kind}.{name}", entry) for name, entry in getattr(params, kind).items())
    yield from ((f"rewriters.{name}.round_trip", entry.round_trip) for name, entry in params.rewriters.items())


def _leaves(path: str, up: int = 0) -> bool:
    """Whether a relative path leads out of the project from a folder that lies `up` folders deep in it."""
    return not os.path.isabs(path) and PurePath(os.path.normpath(path)).parts[: up + 1].count("..") > up


def _below(path: str, folder: str) -> bool:
    return PurePath(os.path.normpath(path)).is_relative_to(os.path.normpath(folder))


def strings(value: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """Every string in settings, with its place."""
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from strings(part, f"{place}.{key}" if place else str(key))
    elif isinstance(value, (list, tuple)):
        for i, part in enumerate(value):
            yield from strings(part, f"{place}[{i}]")
