"""params.yaml, typed: the only reader of it. Everything is checked before the first model loads."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from typing import Annotated, Any, Literal

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PositiveInt,
    ValidationError,
    field_validator,
    model_validator,
)

from epsilometer.core.component import describe, shipped
from epsilometer.core.errors import UserError, unknown
from epsilometer.core.guarantees import NO_BUDGET, check_epsilons
from epsilometer.models.locate import ENCODER
from epsilometer.runtime.scaling import Engine

Probability = Annotated[float, Field(gt=0, lt=1)]
LARGEST_SEED = 2**53 - 1


def _seed(value: int) -> int:
    if not 0 <= value <= LARGEST_SEED:
        raise ValueError(f"must be from 0 to {LARGEST_SEED} (2^53 - 1): JSON and figures hold no larger whole numbers")
    return value


Seed = Annotated[int, AfterValidator(_seed)]
Match = Literal["words", "none"]
Precision = Literal["float32", "bfloat16", "auto"]


_NAME = re.compile(r"\w[\w.-]{0,99}")  # names become names of files and of stages
_NAMED = ("datasets", "models", "triples", "autoencoders", "noise_aware", "mechanisms", "cells", "downstream")


# Shown with a mistake in such an entry.
_EXAMPLE = """an entry of your own looks like this:
mechanisms:
  mine: &mine {mechanism: mine, file: mine.py, epsilons: [1, 10]}
cells:
  queries-mine: {dataset: queries, <<: *mine}"""


NO_PROJECT = (
    "this needs a project, a folder with params.yaml, dvc.yaml and the code of the stages: run it in a clone of "
    "epsilometer. On a file of texts audit, calibrate, compare and rewrite work anywhere, as do claims and mechanisms"
)


class Section(BaseModel):
    """A part of params.yaml: frozen, unknown keys refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Audit(Section):
    """seed names every random stream; round asks for fresh noise; alpha is the error of each interval."""

    seed: Seed
    round: Seed = 0
    alpha: Probability = 0.01


class Layout(Section):
    """The layout of a file of texts, as in `epsilometer.corpora.files.Layout`."""

    separator: str | None = None
    quotes: bool = True
    header: bool = True
    encoding: str = "utf-8"


class Dataset(Section):
    """A data set to audit.

    source: a file, a folder or a generator (its suffix says which), from the project's folder; part: its corpus.

    text, labels, split: columns, of texts one or several; rows: only the first so many; layout: of the file; use: the
    split that is audited; match: as trials.match unless given; public: whether
    examples may be shown in the report.
    """

    source: str
    part: str | None = None
    count: PositiveInt | None = None
    text: str | tuple[str, ...] = "text"
    labels: tuple[str, ...] = ()
    split: str | None = "split"
    rows: PositiveInt | None = None
    layout: Layout = Layout()
    use: str = "train"
    match: Match | None = None
    public: bool = False


class Embedding(Section):
    """The sentence encoder behind candidate sampling."""

    model: str = ENCODER
    precision: Precision = "float32"


class TrialSettings(Section):
    """How trials are drawn.

    count: T; candidates: k; temperature: lambda of Probabilistic Transition Sampling.

    match: candidates of equal length in words, or any; a data set may say otherwise for itself.
    """

    count: PositiveInt
    candidates: Annotated[int, Field(ge=2)] = 2
    temperature: float = -10_000
    match: Match = "none"


class Words(Section):
    """The word vectors and lists that are built.

    sources: files of word vectors by name; lists: how many 1-D lists are built from each.
    """

    sources: Annotated[Mapping[str, str], Field(min_length=1)]
    lists: PositiveInt = 1


class PublicCorpus(Section):
    """Public texts to build on: source and text as a data set's; parts: of a generator, one after the other, of `count`
    texts each. seed: of a generator, so that its texts are others than the audited ones.
    """

    source: str
    parts: tuple[str, ...] = ()
    count: PositiveInt | None = None
    text: str = "text"
    seed: Seed = 1


class TriplesEntry(Section):
    """A corpus of triples, which DP-ST reads.

    clusters: the sizes of the clusterings; dimensions: how many of an embedding's are kept; threshold: the similarity
    of near-duplicates; tagger: the embedded one, or a spaCy pipeline.
    """

    corpus: PublicCorpus
    clusters: Annotated[tuple[PositiveInt, ...], Field(min_length=1)]
    dimensions: PositiveInt = 32
    threshold: Annotated[float, Field(gt=0, le=0.95)] = 0.4
    encoder: str = ENCODER
    tagger: str = "minilm-heads"
    device: Literal["cpu", "cuda"] = "cpu"


class AutoencoderEntry(Section):
    """An autoencoder, which ADePT reads.

    shape, training: as in `latents/shared/autoencoder.py`; vectors: a file of word vectors.
    """

    corpus: PublicCorpus
    shape: Mapping[str, Any] = {}
    training: Mapping[str, Any] = {}
    vectors: str | None = None


class NoiseAwareEntry(Section):
    """A pruned model, which DP-BART reads: the model to start from; training as in `latents/shared/noise_aware.py`."""

    model: str
    corpus: PublicCorpus
    training: Mapping[str, Any]


class MechanismEntry(Section):
    """A mechanism to audit: a shipped one by its name, or a file of one's own; the resource that it reads, if any.

    epsilons: left out for a mechanism that takes none (`core.mechanism.has_budget`).
    """

    mechanism: str
    file: str | None = None
    resource: str | None = None
    epsilons: tuple[float, ...] | None = None
    settings: Mapping[str, Any] = {}

    @property
    def budgets(self) -> tuple[float, ...]:
        """The epsilons; NO_BUDGET alone where there are none."""
        return (NO_BUDGET,) if self.epsilons is None else self.epsilons


class Cell(MechanismEntry):
    """A mechanism on a data set: what DVC reruns as a whole."""

    dataset: str


class Instrument(Section):
    """The known-loss check: randomised response on two texts, whose loss is its epsilon."""

    epsilons: tuple[float, ...] = (0.5, 1.0, 2.0, 4.0)
    trials: PositiveInt = 100_000


class Claims(Section):
    """The check of claims against their worst case: over how many words of a mechanism's vocabulary."""

    vocabulary: Annotated[int, Field(ge=2)] = 500


class Exact(Section):
    """The exact loss of mechanisms whose law is known (`auditing.exact_loss`).

    pairs: of texts of equally many words, at most: those of the first trials, and all others of these trials. width:
    what the rounding of a loss may come to, in nats each way. all_pairs: whether the relative epsilon is that over all
    pairs of the audited texts where these can be compared, and not over the pairs of the trials alone. draws: at most,
    for each group of pairs, where the average comes from importance sampling.
    """

    pairs: PositiveInt = 25
    width: Annotated[float, Field(gt=0)] = 0.1
    all_pairs: bool = False
    draws: PositiveInt = 200


class Utility(Section):
    """How rewrites are compared with their texts.

    texts: how many trials' rewrites are compared with their originals; target: the loss at which to choose.

    metrics: by what they are compared beside the cosine, which is always measured, by the model of `embedding`: modules
    of `epsilometer.metrics` or paths of files, and their settings.
    """

    texts: PositiveInt = 50
    target: Annotated[float, Field(gt=0)] = 1.0
    metrics: Mapping[str, Mapping[str, Any]] = {}

    @field_validator("metrics", mode="before")
    @classmethod
    def _settings(cls, value: Any) -> Any:
        """A metric without settings may be written as a bare key."""
        return {k: v or {} for k, v in value.items()} if isinstance(value, dict) else value

    @field_validator("metrics")
    @classmethod
    def _not_the_cosine(cls, value: Mapping[str, Any]) -> Mapping[str, Any]:
        if "cosine" in value:
            raise ValueError("the cosine is always measured, by the model of `embedding`; leave it out")
        return value


class Labels(Section):
    """Which labels of a data set are tasks to be done, and which are private attributes to be inferred."""

    tasks: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()


class TextCounts(Section):
    """How many texts classifiers are trained and tested on, at most."""

    train: PositiveInt = 1000
    test: PositiveInt = 1000


class Training(Section):
    """Settings of `epsilometer.utility.downstream`; model: a folder or pin from the project's folder, or a hub id."""

    model: str = "data/embedded/models/deberta"
    seeds: PositiveInt = 5
    rate: Annotated[float, Field(gt=0)] = 5e-4
    batch: PositiveInt = 8
    longest: Annotated[int, Field(ge=8)] = 128
    precision: Precision = "float32"
    device: Literal["cpu", "cuda"] = "cpu"


class Classification(Section):
    """Classifiers trained on rewritten texts; labels: by data set, of every data set that has cells in `downstream`."""

    labels: Mapping[str, Labels] = {}
    texts: TextCounts = TextCounts()
    training: Training = Training()


class Ablation(Cell):
    """A cell in which factors of the audit are varied, one at a time, at one epsilon.

    trials: T of each variation; candidates: values of k; temperatures: of lambda; seeds: how many runs with trials and
    noise of their own.
    """

    epsilon: float
    trials: PositiveInt = 1000
    candidates: tuple[Annotated[int, Field(ge=2)], ...] = (2, 4, 8, 16)
    temperatures: tuple[float, ...] = (-10_000, 0, 10_000)
    seeds: Annotated[int, Field(ge=0)] = 5


class Sweep(Cell):
    """A cell in which settings of its mechanism are varied, one at a time, on the same trials and noise.

    epsilon: of all variations but its own; trials: T of each value; vary: the values of settings of the mechanism by
    name, and of `epsilon`.
    """

    epsilon: Annotated[float, Field(gt=0)]
    trials: PositiveInt = 200
    vary: Annotated[Mapping[str, Annotated[tuple[float, ...], Field(min_length=1)]], Field(min_length=1)]


class Runtime(Section):
    """Settings that cannot change a result: trials a slice, workers, and where these run (`runtime/scaling.py`)."""

    block: PositiveInt = 1 << 16
    workers: PositiveInt = 1
    ray: str | None = None
    gpus: Annotated[float, Field(ge=0)] = 0

    @field_validator("ray")
    @classmethod
    def _address(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"auto|[^\s:/]+:\d{1,5}", value):
            raise ValueError("must be null, auto or the HOST:PORT of a Ray cluster")
        return value

    @model_validator(mode="after")
    def _share(self) -> Runtime:
        if self.gpus > 1 and self.gpus != int(self.gpus):
            raise ValueError(f"gpus must be a share of one GPU or a whole number, got {self.gpus:g}")
        if self.gpus and self.ray is None:
            raise ValueError(f"gpus ({self.gpus:g}) are shared out by Ray alone; set ray, or leave gpus out")
        return self

    @property
    def engine(self) -> Engine:
        """The engine that runs slices."""
        return Engine(self.workers, self.ray, self.gpus)


class Params(Section):
    """The whole file. Paths of sources and mechanisms are relative to the project, resources to the run's folder.

    A relative path stays within the project. outside: folders beside it, relative to the project, that data may be read
    from all the same; an absolute path is always allowed.
    """

    root: str = "."
    outside: tuple[str, ...] = ()
    title: str = "Privacy calibration"
    audit: Audit
    datasets: Mapping[str, Dataset]
    embedding: Embedding = Embedding()
    trials: TrialSettings
    words: Words
    models: Mapping[str, str] = {}
    triples: Mapping[str, TriplesEntry] = {}
    autoencoders: Mapping[str, AutoencoderEntry] = {}
    noise_aware: Mapping[str, NoiseAwareEntry] = {}
    mechanisms: Mapping[str, MechanismEntry]
    cells: Mapping[str, Cell]
    attacks: Mapping[str, Mapping[str, Any]]
    instrument: Instrument = Instrument()
    claims: Claims = Claims()
    exact: Exact = Exact()
    utility: Utility = Utility()
    classification: Classification = Classification()
    downstream: Mapping[str, Cell] = {}
    ablations: Mapping[str, Ablation] = {}
    sweeps: Mapping[str, Sweep] = {}
    runtime: Runtime = Runtime()
    notes: tuple[str, ...] = ()

    @field_validator("datasets", "cells", "attacks")
    @classmethod
    def _not_empty(cls, value: Mapping[str, Any]) -> Mapping[str, Any]:
        if not value:
            raise ValueError("must not be empty")
        return value

    @field_validator("attacks", mode="before")
    @classmethod
    def _settings(cls, value: Any) -> Any:
        """An attack without settings may be written as a bare key."""
        return {k: v or {} for k, v in value.items()} if isinstance(value, dict) else value

    @model_validator(mode="after")
    def _enough_trials(self) -> Params:
        least = math.log(2 / self.audit.alpha) / math.log(self.trials.candidates)
        if self.trials.count <= least:
            raise UserError(
                f"trials.count must be at least {math.floor(least) + 1}, got {self.trials.count}: with fewer even an "
                f"adversary who is always right proves nothing (k = {self.trials.candidates}, alpha = "
                f"{self.audit.alpha:g})"
            )
        return self

    @model_validator(mode="after")
    def _references(self) -> Params:
        for name, entry in self.mechanisms.items():
            _check_entry(entry, f"mechanisms.{name}")
        for kind, cells in (("cells", self.cells), ("downstream", self.downstream)):
            for name, cell in cells.items():
                _check_entry(cell, f"{kind}.{name}")
                if cell.dataset not in self.datasets:
                    raise unknown(f"data set in {kind}.{name}.dataset", cell.dataset, self.datasets)
                if name != f"{cell.dataset}-{cell.mechanism}":
                    raise UserError(
                        f"{kind}.{name} must be named {cell.dataset}-{cell.mechanism}, data set and mechanism"
                    )
        for name, cell in self.downstream.items():
            if cell.dataset not in self.classification.labels:
                raise UserError(
                    f"downstream.{name}: say which labels of {cell.dataset} are tasks and which are attributes, under "
                    f"classification.labels.{cell.dataset}"
                )
        for name, labels in self.classification.labels.items():
            self._check_labels(name, labels)
        check_epsilons(self.instrument.epsilons, "instrument.epsilons")
        return self

    def _check_varied(self, entry: Cell, kind: str, name: str) -> None:
        """Refuse an entry that differs from its cell, which it repeats because DVC cannot look it up."""
        if name not in self.cells:
            raise unknown(f"cell in {kind}", name, self.cells)
        if self.cells[name].epsilons is None:
            raise UserError(f"{kind}.{name} varies a cell at one epsilon, but its mechanism has none; leave it out")
        for field in Cell.model_fields:
            here, there = getattr(entry, field), getattr(self.cells[name], field)
            if here != there:
                raise UserError(
                    f"{kind}.{name}.{field} must be that of cells.{name}, {there!r}, got {here!r}; an entry begins as "
                    "its cell's line does, with the same data set and `<<`"
                )

    def _check_labels(self, dataset: str, labels: Labels) -> None:
        setting = f"classification.labels.{dataset}"
        if dataset not in self.datasets:
            raise unknown("data set in classification.labels", dataset, self.datasets)
        for label in (every := (*labels.tasks, *labels.attributes)):
            if label not in self.datasets[dataset].labels:
                raise unknown(f"label in {setting}", label, self.datasets[dataset].labels)
            if every.count(label) > 1:
                raise UserError(f"{setting}: {label!r} is named twice; a label is a task or an attribute")
        if not every:
            raise UserError(f"{setting} must name at least one label under tasks or attributes")

    @model_validator(mode="after")
    def _confined(self) -> Params:
        for kind, names in [*((kind, getattr(self, kind)) for kind in _NAMED), ("words.sources", self.words.sources)]:
            for name in names:
                if not _NAME.fullmatch(name):
                    raise UserError(
                        f"a name in {kind} must be letters, digits, '.', '_' and '-', at most 100, and start with a "
                        f"letter or digit, got {name!r}; files are named after it"
                    )
        for setting, path in self.data_paths():
            if _leaves(path) and not any(_below(path, folder) for folder in self.outside):
                raise UserError(
                    f"{setting} must lie in the project or in a folder named under `outside`, got {path!r}; add "
                    f"`outside: [{os.path.dirname(path)}]` to read from there, or give an absolute path"
                )
        for setting, path in self.code_paths():
            if _leaves(path):
                raise UserError(
                    f"{setting} must lie in the project, got {path!r}; move it there, or give an absolute path"
                )
        up = PurePath(os.path.normpath(self.root)).parts.count("..")
        for setting, path in _texts(self.read_paths(), ""):
            if _leaves(path, up):
                raise UserError(
                    f"{setting} must lie in the project, got {path!r}; move it there, or give an absolute path"
                )
        return self

    @model_validator(mode="after")
    def _varied(self) -> Params:
        for name, ablation in self.ablations.items():
            self._check_varied(ablation, "ablations", name)
            check_epsilons([ablation.epsilon], f"ablations.{name}.epsilon")
        for name, sweep in self.sweeps.items():
            self._check_varied(sweep, "sweeps", name)
            check_epsilons(sweep.vary.get("epsilon", (sweep.epsilon,)), f"sweeps.{name}.vary.epsilon")
        return self

    def data_paths(self) -> Iterator[tuple[str, str]]:
        """The files of data and their places in this file, relative to the project."""
        yield from ((f"datasets.{name}.source", dataset.source) for name, dataset in self.datasets.items())
        yield from ((f"models.{name}", source) for name, source in self.models.items())
        yield from ((f"words.sources.{name}", source) for name, source in self.words.sources.items())
        yield "classification.training.model", self.classification.training.model
        for kind in ("triples", "autoencoders", "noise_aware"):
            for name, entry in getattr(self, kind).items():
                yield f"{kind}.{name}.corpus.source", entry.corpus.source
        for name, entry in self.autoencoders.items():
            if entry.vectors is not None:
                yield f"autoencoders.{name}.vectors", entry.vectors

    def code_paths(self) -> Iterator[tuple[str, str]]:
        """The files of mechanisms, attacks and metrics that run, relative to the project."""
        for kind, entries in (("mechanisms", self.mechanisms), ("cells", self.cells), ("downstream", self.downstream)):
            yield from ((f"{kind}.{name}.file", entry.file) for name, entry in entries.items() if entry.file)
        yield from (("attacks", name) for name in self.attacks)
        yield from (("utility.metrics", name) for name in self.utility.metrics)

    def read_paths(self) -> Mapping[str, Any]:
        """The settings that may hold paths relative to the run's folder: resources, models, settings of components."""
        entries = {"mechanisms": self.mechanisms, "cells": self.cells, "downstream": self.downstream}
        return {
            **{
                kind: {
                    name: {"resource": entry.resource, "settings": entry.settings}
                    for name, entry in named_entries.items()
                }
                for kind, named_entries in entries.items()
            },
            "attacks": self.attacks,
            "utility": {"metrics": self.utility.metrics},
            "embedding": {"model": self.embedding.model},
            "triples": {n: {"encoder": entry.encoder, "tagger": entry.tagger} for n, entry in self.triples.items()},
            "noise_aware": {name: {"model": entry.model} for name, entry in self.noise_aware.items()},
        }

    def variations(self, name: str) -> Iterator[tuple[str, float, float, Mapping[str, Any]]]:
        """Yield (setting, value, epsilon, the mechanism's settings) for each value of a sweep."""
        sweep = self.sweeps[name]
        for setting, values in sweep.vary.items():
            for value in values:
                if setting == "epsilon":
                    yield setting, value, value, sweep.settings
                else:
                    yield setting, value, sweep.epsilon, {**sweep.settings, setting: value}

    def match(self, dataset: str) -> Match:
        """Whether the candidates of a data set's trials have equally many words ("words") or not ("none")."""
        return self.datasets[dataset].match or self.trials.match

    def path(self, of: str) -> str:
        """The path of a source or mechanism file, from the run's folder."""
        return str(Path(self.root) / of)

    def code(self, entry: MechanismEntry) -> Path:
        """Returns the Python file of a mechanism, from the run's folder."""
        return Path(self.root, entry.file) if entry.file else shipped("mechanisms")[entry.mechanism]


def _check_entry(entry: MechanismEntry, place: str) -> None:
    """Refuse epsilons out of range, a path for a name, and a name for a path."""
    if entry.epsilons is not None:
        check_epsilons(entry.epsilons, f"{place}.epsilons")
    if not _NAME.fullmatch(entry.mechanism) or entry.mechanism.endswith(".py"):
        raise UserError(
            f"{place}.mechanism must be a name for tables and files, got {entry.mechanism!r}; write the path under "
            f"`file`\n{_EXAMPLE}"
        )
    if entry.file is None and entry.mechanism not in shipped("mechanisms"):
        message = unknown(f"mechanism in {place}", entry.mechanism, sorted(shipped("mechanisms")))
        raise UserError(f"{message}; one of your own needs `file`\n{_EXAMPLE}")
    if entry.file is not None and not entry.file.endswith(".py"):
        raise UserError(f"{place}.file must be the path of a .py file, got {entry.file!r}\n{_EXAMPLE}")


def _leaves(path: str, up: int = 0) -> bool:
    """Whether a relative path leads out of the project from a folder that lies `up` folders deep in it."""
    return not os.path.isabs(path) and PurePath(os.path.normpath(path)).parts[: up + 1].count("..") > up


def _below(path: str, folder: str) -> bool:
    return PurePath(os.path.normpath(path)).is_relative_to(os.path.normpath(folder))


def _texts(value: Any, place: str) -> Iterator[tuple[str, str]]:
    """Every string in settings, with its place."""
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from _texts(part, f"{place}.{key}" if place else str(key))
    elif isinstance(value, (list, tuple)):
        for i, part in enumerate(value):
            yield from _texts(part, f"{place}[{i}]")


def read(path: Path | str = "params.yaml") -> Params:
    """Read and validate a parameter file; raises UserError naming the field, the rule and the value."""
    try:
        raw = yaml.load(Path(path).read_text(encoding="utf-8"), _Loader)
    except FileNotFoundError:
        raise UserError(f"{path} does not exist; give another parameter file, or note that {NO_PROJECT}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not readable YAML: {error}") from error
    if not isinstance(raw, dict):
        raise UserError(f"{path} must hold settings, got {type(raw).__name__}")
    for setting, text in _texts(raw, ""):
        if re.search("[\ud800-\udfff]", text):
            raise UserError(
                f"{path}: {setting} holds half of a character ({text!a}), which no file can hold; write the whole "
                "character, or both halves as one escape (\\U0001F600)"
            )
    try:
        return Params.model_validate(raw)
    except ValidationError as error:
        entries = {"mechanisms", "cells"} & {item["loc"][0] for item in error.errors() if item["loc"]}
        example = f"\n{_EXAMPLE}" if entries else ""
        raise UserError(f"{path}: {_nearest(error) or describe(error, '')}{example}") from error


class _Loader(yaml.SafeLoader):
    """Refuses a key that a mapping has twice, of which YAML would silently take the last."""

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Also merges `<<`; an own key may then stand in place of a merged one."""
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in seen:
                    raise yaml.MarkedYAMLError(
                        problem=f"the key {key.value!r} stands twice in one mapping; leave one out",
                        problem_mark=key.start_mark,
                    )
                seen.add(key.value)
        super().flatten_mapping(node)


def _nearest(error: ValidationError) -> str | None:
    """For a key that does not exist: the nearest one that does."""
    for item in error.errors():
        if item["type"] == "extra_forbidden":
            *place, key = item["loc"]
            section: Any = Params
            for part in place:
                annotation = (
                    section.model_fields[part].annotation if part in getattr(section, "model_fields", {}) else None
                )
                arguments = getattr(annotation, "__args__", ())
                section = arguments[-1] if arguments else annotation or section
            place_name = ".".join(str(part) for part in place) or "the top level"
            return str(unknown(f"key in {place_name}", key, getattr(section, "model_fields", {})))
    return None
