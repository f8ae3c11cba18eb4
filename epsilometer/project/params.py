"""params.yaml, typed: the only reader of it. Everything is checked before the first model loads."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import Field, ValidationError, field_validator, model_validator

from epsilometer.core import yaml_text
from epsilometer.core.component import describe, shipped
from epsilometer.core.device import Device, choose
from epsilometer.core.errors import UserError, unknown
from epsilometer.project.schema import confinement, references, training_references
from epsilometer.project.schema.sections import (
    Ablation,
    AnonymityCell,
    Attackers,
    Audit,
    AutoencoderEntry,
    AuxiliariesEntry,
    Cell,
    Claims,
    Classification,
    Dataset,
    Embedding,
    Exact,
    Instrument,
    Match,
    MechanismEntry,
    NoiseAwareEntry,
    RewriterEntry,
    Runtime,
    Section,
    Sweep,
    TrialSettings,
    TriplesEntry,
    Utility,
    Words,
)
from epsilometer.project.schema.training_sections import (
    FeaturesEntry,
    MembershipEntry,
    OneRunEntry,
    ReconstructionEntry,
    ReferencesEntry,
    SentEntry,
    TrainingCell,
)

NO_PROJECT = (
    "this needs a project, a folder with params.yaml and dvc.yaml: a clone of epsilometer is one, and `epsilometer "
    "init FOLDER` writes one. On a file of texts audit, calibrate, compare and rewrite work anywhere, as do claims and "
    "mechanisms"
)


class Params(Section):
    """The whole file. Paths of sources and mechanisms are relative to the project, resources to the run's folder."""

    root: str = Field(".", description="The project's folder as seen from this file's.")
    outside: tuple[str, ...] = Field(
        (),
        description="Folders beside the project, relative to it, from which data may be read; an absolute path is "
        "always allowed.",
    )
    title: str = Field("Privacy calibration", description="The title of the report.")
    audit: Audit = Field(description="Seed, round and error probability.")
    datasets: Mapping[str, Dataset] = Field(description="The data sets, by name.")
    device: Device = Field(
        "cpu",
        description="Where networks compute: `cpu`, `cuda`, or `auto`, which is cuda where there is one. Can change a "
        "result.",
    )
    embedding: Embedding = Field(Embedding(), description="The sentence encoder behind candidate sampling.")
    trials: TrialSettings = Field(description="How trials are drawn.")
    words: Words = Field(description="The word vectors and lists that are built.")
    models: Mapping[str, str] = Field(
        {}, description="Language models that mechanisms read: folders, pins or hub ids, by name."
    )
    triples: Mapping[str, TriplesEntry] = Field({}, description="Public corpora of triples, which `dp_st` reads.")
    autoencoders: Mapping[str, AutoencoderEntry] = Field({}, description="Autoencoders, which `adept` reads.")
    noise_aware: Mapping[str, NoiseAwareEntry] = Field({}, description="Pruned models, which `dp_bart` reads.")
    auxiliaries: Mapping[str, AuxiliariesEntry] = Field(
        {}, description="Classifiers, word vectors and word relations, which anonymisers read."
    )
    rewriters: Mapping[str, RewriterEntry] = Field(
        {}, description="Encoder-decoders, which `adversarial_back_translation` reads."
    )
    mechanisms: Mapping[str, MechanismEntry] = Field(description="The mechanisms to audit, by name.")
    cells: Mapping[str, Cell] = Field(
        description="Which mechanism on which data set. DVC reruns a cell when its line, its file or what it reads "
        "changes."
    )
    attacks: Mapping[str, Mapping[str, Any]] = Field(
        description="The attacks on rewrites and their settings: modules of `epsilometer.attacks.identification` or "
        "paths of files."
    )
    instrument: Instrument = Field(Instrument(), description="The known-loss check: randomised response on two texts.")
    claims: Claims = Field(Claims(), description="The check of claims against their worst case.")
    exact: Exact = Field(Exact(), description="The exact loss of mechanisms whose law can be computed.")
    utility: Utility = Field(Utility(), description="How rewrites are compared with their texts.")
    classification: Classification = Field(Classification(), description="Classifiers of texts, clean and rewritten.")
    downstream: Mapping[str, Cell] = Field({}, description="Cells whose rewrites train classifiers.")
    anonymity: Mapping[str, AnonymityCell] = Field(
        {}, description="Cells from whose rewrites attackers infer attributes."
    )
    attackers: Attackers = Field(Attackers(), description="Who infers attributes.")
    ablations: Mapping[str, Ablation] = Field(
        {}, description="Cells in which factors of the audit are varied, one at a time, at one epsilon."
    )
    sweeps: Mapping[str, Sweep] = Field(
        {},
        description="Cells in which settings of the mechanism are varied, one at a time, on the same trials and noise.",
    )
    features: Mapping[str, FeaturesEntry] = Field({}, description="What trainings see of the texts of a data set.")
    private_training: Mapping[str, TrainingCell] = Field(
        {}, description="Heads, or more of a network, trained on features at every level of a noise."
    )
    references: Mapping[str, ReferencesEntry] = Field(
        {}, description="Models like those of a training, on texts of their own, which membership attacks compare with."
    )
    membership: Mapping[str, MembershipEntry] = Field({}, description="Attacks that tell who was in a training set.")
    one_run: Mapping[str, OneRunEntry] = Field(
        {}, description="Audits of a training by canaries, in one run at each level."
    )
    sent: Mapping[str, SentEntry] = Field({}, description="The noisy gradients that a client sends.")
    reconstruction: Mapping[str, ReconstructionEntry] = Field(
        {}, description="Attacks that read texts off what is sent."
    )
    runtime: Runtime = Field(Runtime(), description="Settings that cannot change a result.")
    notes: tuple[str, ...] = Field((), description="Sentences that the report shows.")

    @property
    def audited(self) -> frozenset[str]:
        """The data sets of which cells, ablations or sweeps rewrite texts."""
        return frozenset(one.dataset for some in (self.cells, self.ablations, self.sweeps) for one in some.values())

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
    def _pairs_of_sets(self) -> Params:
        sets = [name for name, entry in self.datasets.items() if entry.sets]
        if sets and self.trials.candidates != 2:
            raise UserError(
                f"trials.candidates must be 2 where trials are of sets (datasets.{sets[0]}.sets), got "
                f"{self.trials.candidates}: ceilings are known for pairs"
            )
        return self

    @model_validator(mode="after")
    def _checked(self) -> Params:
        references.check_entries(self)
        confinement.check_names(self)
        confinement.check_paths(self)
        references.check_variations(self)
        training_references.check_trainings(self)
        return self

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

    def trial_count(self, dataset: str) -> int:
        """How many trials a data set has."""
        sets = self.datasets[dataset].sets
        return self.trials.count if sets is None else sets.count

    def temperature(self, dataset: str) -> float:
        """The temperature at which fresh trials are like a data set's own: 0 for those of sets, which are uniform."""
        return self.trials.temperature if self.datasets[dataset].sets is None else 0.0

    def path(self, of: str) -> str:
        """The path of a source or mechanism file, from the run's folder."""
        return str(Path(self.root) / of)

    def code(self, entry: MechanismEntry) -> Path:
        """Returns the Python file of a mechanism, from the run's folder."""
        return Path(self.root, entry.file) if entry.file else shipped("mechanisms")[entry.mechanism]


def read(path: Path | str = "params.yaml") -> Params:
    """Read and validate a parameter file; this process then computes on its device (`core.device`).

    Raises UserError naming the field, the rule and the value.
    """
    try:
        raw = yaml_text.load(Path(path).read_text(encoding="utf-8"), _Loader)
    except FileNotFoundError:
        raise UserError(f"{path} does not exist; give another parameter file, or note that {NO_PROJECT}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not readable YAML: {error}") from error
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    if not isinstance(raw, dict):
        raise UserError(f"{path} must hold settings, got {type(raw).__name__}")
    for setting, text in confinement.strings(raw):
        if re.search("[\ud800-\udfff]", text):
            raise UserError(
                f"{path}: {setting} holds half of a character ({text!a}), which no file can hold; write the whole "
                "character, or both halves as one escape (\\U0001F600)"
            )
    try:
        params = Params.model_validate(raw)
    except ValidationError as error:
        entries = {"mechanisms", "cells"} & {item["loc"][0] for item in error.errors() if item["loc"]}
        example = f"\n{references.EXAMPLE}" if entries else ""
        raise UserError(f"{path}: {_nearest(error) or describe(error, '')}{example}") from error
    choose(params.device)
    return params


class _Loader(yaml.SafeLoader):
    """Refuses a key that a mapping has twice, of which YAML would silently take the last."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:  # a name or None, which its stubs deny
        """The node as written, before `<<` is merged: an own key may stand in place of a merged one."""
        node = super().compose_mapping_node(anchor)
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in seen:
                    raise yaml.MarkedYAMLError(
                        problem=f"the key {key.value!r} stands twice in one mapping; leave one out",
                        problem_mark=key.start_mark,
                    )
                seen.add(key.value)
        return node


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
            if key == "device":
                return (
                    f"{place_name}.device: one switch sets the device of all that computes, `device` at the top level"
                )
            return str(unknown(f"key in {place_name}", key, getattr(section, "model_fields", {})))
    return None
