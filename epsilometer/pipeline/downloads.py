"""Models and data sets of the hub and of packages that an audit needs, with sizes and local state."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from epsilometer.auditing.worth.similarity import metric
from epsilometer.cells.adversaries import attacks
from epsilometer.core.component import EMBEDDED, find
from epsilometer.core.errors import UserError
from epsilometer.core.mechanism import build_mechanism
from epsilometer.core.study import studies
from epsilometer.corpora import annotated, conversations
from epsilometer.corpora import hub as data_sets
from epsilometer.models import locate
from epsilometer.models.locate import ENCODER
from epsilometer.pipeline.expected import PUBLISHED
from epsilometer.pipeline.params import Params
from epsilometer.runtime import hub, packages
from epsilometer.runtime.hub import Repository, State
from epsilometer.runtime.progress import say

# Bytes of data sets according to their cards, shown until the hub has been asked.
CARDS = {"Skylion007/openwebtext": 24_000_000_000, "HuggingFaceFW/fineweb": 27_600_000_000}  # sample-10BT of fineweb


@dataclass(frozen=True)
class Download:
    """A repository and its local state.

    here: True if nothing is missing. size: total bytes, None if unknown. about: True if the size is an estimate from a
    published number of parameters or a data set's card, because the hub was not asked yet.
    """

    repository: Repository
    state: State
    here: bool
    size: int | None
    about: bool


@runtime_checkable
class _ReadsPackages(Protocol):
    """A mechanism that reads folders of packages that params.yaml does not name."""

    @property
    def pins(self) -> Sequence[packages.Pin]:
        """The packages."""
        ...


@dataclass(frozen=True)
class Packaged:
    """A file of a package on the Python index.

    content: the file's state in the cache, None if missing; whole: True if all files in the file's folder are read.
    """

    pin: packages.Pin
    content: packages.Content | None
    whole: bool = False

    @property
    def licence(self) -> str | None:
        """The licence in the package's metadata, and the author to credit, if any; None if the file is not cached."""
        if self.content is None or self.content.licence is None or self.pin.author is None:
            return None if self.content is None else self.content.licence
        return f"{self.content.licence}; weights by {self.pin.author}"

    @property
    def size(self) -> int | None:
        """The bytes of the cached file, or of the download if nothing is cached; None if the pin states no size."""
        if self.content is not None:
            return self.pin.unpacked if self.whole else self.content.size
        stated = self.pin.size, self.pin.unpacked
        return None if None in stated else sum(size or 0 for size in stated)


def downloads(params: Params) -> list[Download]:
    """Return each repository of the hub that the parameters need, present or not. Needs neither models nor network."""
    listed = []
    for repository in repositories(params):
        state = hub.state(repository)
        missing = data_sets.is_missing if repository.kind == "dataset" else locate.is_missing
        size = state.size if state.size is not None else CARDS.get(repository.name)
        if size is None and repository.name in PUBLISHED:
            size = math.prod(PUBLISHED[repository.name])
        listed.append(Download(repository, state, here=not missing(repository), size=size, about=state.size is None))
    return listed


def packaged(params: Params) -> list[Packaged]:
    """Return each package file that data sets, models, vectors and mechanisms need, whether or not it is cached.

    Needs no network. Raises UserError for a package under special terms that its pin does not accept.
    """
    own = (Path(params.path(source)) for source in (*params.models.values(), *params.words.sources.values()))
    named = (pin for path in (*_json_files(params), *own) if (pin := packages.read_pin(path)) is not None)
    every = [Packaged(pin, packages.content(pin)) for pin in dict.fromkeys(named)]
    every += [Packaged(pin, packages.content(pin), whole=True) for pin in dict.fromkeys(_of_mechanisms(params))]
    for each in every:
        packages.check_terms(each.pin, None if each.content is None else each.content.licence)
    return every


def _of_mechanisms(params: Params) -> Iterator[packages.Pin]:
    """Yield the packages that mechanisms read by themselves (`pins`)."""
    for place, entry in params.cells_by_place():
        code = str(params.code(entry))
        if hasattr(find("mechanisms", code, "rewrite"), "pins"):
            built = build_mechanism(code, entry.settings, entry.resource, f"{place}.settings")
            assert isinstance(built, _ReadsPackages)
            yield from built.pins


def fetch(params: Params) -> None:
    """Download missing files, one repository or package after the other.

    A failure does not stop the other downloads. At the end, raises UserError with the reason of each failure.
    """
    problems = []
    for each in packaged(params):
        say(f"{each.pin}")
        try:
            packages.folder(each.pin) if each.whole else packages.file(each.pin)
        except UserError as error:
            say(f"  {error}")
            problems.append(str(error))
    for repository in repositories(params):
        say(f"{repository}")
        try:
            (data_sets.fetch if repository.kind == "dataset" else locate.fetch)(repository)
        except UserError as error:
            say(f"  {error}")
            problems.append(str(error))
    if problems:
        raise UserError("\n".join(problems), "EPS-P021")


def repositories(params: Params) -> list[Repository]:
    """Return the repositories, data sets first, each once."""
    models = [*models_of_stages(params), *_of_attacks(params), *_of_metrics(params)]
    models += [model for study in studies() for model in study.models(params)]
    named = [locate.repository(model) for model in models if locate.local(model) is None]
    return list(dict.fromkeys([*(pin.repository for pin in pins(params) if not Path(pin.dataset).is_dir()), *named]))


def pins(params: Params) -> Iterator[data_sets.Pin]:
    """Yield the data sets of the hub that are audited, or that stages build from."""
    for path in _json_files(params):
        if packages.read_pin(path) is None and not (annotated.holds(path) or conversations.holds(path)):
            yield data_sets.read_pin(path)


def _json_files(params: Params) -> Iterator[Path]:
    """Yield the sources of texts that are .json files, which are pins or contain texts."""
    corpora = [entry.corpus.source for _, entry in params.made_of_public()]
    for source in (*(dataset.source for dataset in params.datasets.values()), *corpora):
        path = Path(params.path(source))
        if path.suffix == ".json" and path.exists():
            yield path


def models_of_stages(params: Params) -> list[str]:
    """Return the models that stages read or train: names on the hub, or folders."""
    models = [params.embedding.model]
    for name, source in params.models.items():
        models += pinned(params.path(source), f"models.{name}")
    for name, source in params.words.sources.items():
        models += pinned(params.path(source), f"words.sources.{name}")
    models += [entry.encoder for entry in params.triples.values()]
    models += [str(entry.settings.get("encoder", ENCODER)) for entry in params.exemplars.values()]
    return models


def _of_attacks(params: Params) -> list[str]:
    models = []
    for attack in attacks(params).values():
        model = getattr(attack, "model", None)
        models += [model] if model and not getattr(attack, "endpoint", False) else []
    return _not_of_stages(params, models)


def _of_metrics(params: Params) -> list[str]:
    used = (getattr(metric(name, settings), "model", None) for name, settings in params.utility.metrics.items())
    return [model for model in used if model and not (EMBEDDED / model).is_dir()]


def _not_of_stages(params: Params, models: list[str]) -> list[str]:
    """Return the models except those that a stage makes, which may not exist yet."""
    return [model for model in models if model not in {f"data/models/{stage}" for stage in params.models}]


def pinned(source: str, place: str) -> list[str]:
    """Return the model in a pin {"model": id, "revision": commit}; empty for other sources."""
    path = Path(source)
    if path.suffix != ".json" or not path.exists() or packages.read_pin(path) is not None:
        return []
    try:
        pin = json.loads(path.read_bytes())
        return ["@".join(pin[key] for key in ("model", "revision") if key in pin)]
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f'{place}: {source} must be {{"model": id, "revision": commit}}', "EPS-P022") from error
