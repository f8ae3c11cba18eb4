"""The part of params.yaml that cells read: trials, attacks, and the resources of mechanisms."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, PositiveInt, field_validator, model_validator

from epsilometer.auditing.decisions.limits import Limits
from epsilometer.core.errors import UserError, unknown
from epsilometer.core.guarantees import check_epsilons
from epsilometer.models.locate import ENCODER
from epsilometer.project import params
from epsilometer.project.confinement import strings
from epsilometer.project.params import ProjectParams
from epsilometer.project.references import check_cell, check_dataset, check_label
from epsilometer.project.sections import PLAIN, Cell, Match, Named, Number, Precision, Section, Seed


class Embedding(Section):
    """The sentence encoder behind candidate sampling."""

    model: str = Field(
        ENCODER,
        description="The encoder: an embedded one's name, the path of a folder or pin in the project, or a hub id.",
    )
    precision: Precision = Field(
        "float32",
        description="The number format that it computes in; `auto` is bfloat16 where the hardware can multiply it.",
    )


class TrialSettings(Section):
    """Settings of the trials and their candidate sets."""

    count: PositiveInt = Field(1000, description="T, the number of trials of a cell.")
    candidates: Annotated[int, Field(ge=2)] = Field(2, description="k, the number of candidates of a trial.")
    temperature: float = Field(
        -10_000,
        description="lambda of Probabilistic Transition Sampling, which samples the candidates: below 0 dissimilar "
        "texts, above 0 similar ones.",
    )
    match: Match = Field(
        "none", description="`words`: the candidates of a trial have equal numbers of words; `none`: any."
    )


class PublicCorpus(Section):
    """The public texts that a resource is made from."""

    source: str = Field(description="The texts' source, in the form of a data set's `source`.")
    dataset: str | None = Field(
        None,
        description="A data set of this file with the same `source`: its public part is read "
        "([`public_part`](#dataset)). Leave the settings below out.",
    )
    parts: tuple[str, ...] = Field(
        (), description="For a generator, the parts that are read one after the other, `count` texts from each."
    )
    count: PositiveInt | None = Field(
        None, description="The number of texts that a generator writes, or that are read from another source."
    )
    text: str = Field("text", description="The column of the text.")
    seed: Seed = Field(1, description="The seed of a generator, so that its texts differ from the audited ones.")

    @model_validator(mode="after")
    def _one_origin(self) -> PublicCorpus:
        if self.dataset is not None and (idle := sorted(self.model_fields_set - {"source", "dataset"})):
            raise ValueError(f"{idle[0]} has no effect together with dataset, whose own settings apply; leave it out")
        return self


class TriplesEntry(Section):
    """A corpus of triples, which DP-ST reads."""

    corpus: PublicCorpus = Field(description="The public texts that triples are extracted from.")
    clusters: Annotated[tuple[PositiveInt, ...], Field(min_length=1)] = Field(
        description="The numbers of clusters; triples are clustered once for each."
    )
    dimensions: PositiveInt = Field(32, description="How many leading dimensions of an embedding are used.")
    threshold: Annotated[float, Field(gt=0, le=0.95)] = Field(
        0.4, description="The Jaccard similarity from which two triples are near-duplicates."
    )
    encoder: str = Field(ENCODER, description="The sentence encoder of triples.")
    tagger: str = Field("minilm-heads", description="The embedded tagger, or a spaCy pipeline.")


class AutoencoderEntry(Section):
    """An autoencoder, which ADePT reads."""

    corpus: PublicCorpus = Field(description="The public texts that it learns from.")
    shape: Mapping[str, Any] = Field(
        {}, description="Sizes of the network (`Shape` in `epsilometer/mechanisms/latents/shared/autoencoder.py`)."
    )
    training: Mapping[str, Any] = Field(
        {}, description="Settings of its training (`AutoencoderTraining` in the same file)."
    )
    vectors: str | None = Field(None, description="A file of word vectors to start from.")


class NoiseAwareEntry(Section):
    """A pruned model, which DP-BART reads."""

    model: str = Field(description="The model to start from.")
    corpus: PublicCorpus = Field(description="The public texts that it learns from.")
    training: Mapping[str, Any] = Field(
        description="Settings of its training (`NoiseAware` in `epsilometer/mechanisms/latents/shared/noise_aware.py`)."
    )


class ExemplarsEntry(Section):
    """Public exemplars, which `exemplars` reads."""

    corpus: PublicCorpus = Field(description="The public texts that they are chosen among.")
    settings: Mapping[str, Any] = Field(
        {},
        description="Settings of the mechanism that decide which texts are chosen: `m`, `encoder` and `seed`; with "
        "`m: auto` also those of its law, and `target`.",
    )


@dataclass(frozen=True)
class Built:
    """An entry of a section that stage `build` makes from public texts.

    begins_with: the path of the model or vectors that the build starts from; without these, the path of its texts.
    """

    section: str
    name: str
    source: str
    begins_with: str


@dataclass(frozen=True)
class Hiding:
    """A cell whose data set has attributes to hide."""

    dataset: str


OfPublic = TriplesEntry | AutoencoderEntry | NoiseAwareEntry | ExemplarsEntry


class Instrument(Section):
    """The known-loss check: randomised response on two texts, whose loss is its epsilon."""

    epsilons: tuple[Number, ...] = Field(
        (0.5, 1.0, 2.0, 4.0), description="The budgets of randomised response on two texts. Its loss is its budget."
    )
    trials: PositiveInt = Field(100_000, description="The number of trials at each budget.")


class Claims(Section):
    """The check of claims against their worst case."""

    vocabulary: Annotated[int, Field(ge=2)] = Field(
        500, description="How many words of a mechanism's vocabulary are compared, in all pairs."
    )


class Exact(Section):
    """The exact loss of mechanisms whose law is known (`auditing.exact_loss`)."""

    pairs: PositiveInt = Field(
        25,
        description=(
            "The maximum number of pairs of texts with equal numbers of words. Trials are read in order until they "
            "have this many such pairs; their other pairs are measured, too."
        ),
    )
    width: Annotated[float, Field(gt=0)] = Field(
        0.1, description="The largest rounding error of a loss, in nats up or down."
    )
    all_pairs: bool = Field(
        False,
        description=(
            "Whether the relative epsilon covers all comparable pairs of the audited texts, instead of the trials' "
            "pairs alone. Pairs that take only tenths of a second are all covered anyway. Over all pairs it is an "
            "upper bound of every average."
        ),
    )
    draws: PositiveInt = Field(
        200, description="The maximum number of samples for a group of pairs, if the average is by importance sampling."
    )


class Utility(Section):
    """Settings of the comparison of rewrites with their texts."""

    texts: PositiveInt = Field(50, description="How many trials' rewrites are compared with their originals.")
    target: Annotated[float, Field(gt=0)] = Field(1.0, description="The loss in nats at which mechanisms are compared.")
    metrics: Named = Field(
        {},
        description="Metrics in addition to the cosine, which is always measured: modules of `epsilometer.metrics` or "
        "paths of files, and their settings.",
    )

    @field_validator("metrics")
    @classmethod
    def _not_the_cosine(cls, value: Mapping[str, Any]) -> Mapping[str, Any]:
        if "cosine" in value:
            raise ValueError("the cosine is always measured, by the model of `embedding`; leave it out")
        return value


class Decide(Section):
    """Limits on the privacy loss of a mechanism for one published text (`auditing.decisions`)."""

    loss: float = Field(
        1.0,
        description="The largest average loss over the pairs of texts that trials sample, in nats. Pairs have equal "
        "lengths under `match: words`, otherwise any. 1: an adversary who guesses between two such texts is right at "
        "odds of 2.7 to 1, in at most 73.2 of 100 guesses. A person with n texts loses up to n times as much: divide "
        "by n.",
    )
    delta_at_4: float = Field(
        0.01,
        description="The largest delta at 4 nats, on average over the same pairs. 0.01: a mechanism that publishes "
        "one text in a hundred unchanged reaches that. The share of texts guessed at odds of 55 to 1 may be larger.",
    )
    identifiers: float = Field(
        0.01,
        description="The largest share of a kind of identifiers, such as names, that rewrites contain unchanged. 0.01: "
        "one in a hundred. The limit is low because a name that survives needs no guess.",
    )
    attribute: float = Field(
        0.5,
        description="The largest loss of an attribute, in nats, between two of its classes that are equally likely. "
        "0.5: an adversary is right in at most 62.3 of 100 guesses. This limit is lower than that of a text, because "
        "all texts of a person reveal the same attribute.",
    )
    attributes: Mapping[str, Annotated[tuple[str, ...], Field(min_length=1)]] = Field(
        {}, description="For each data set, the labels that are attributes to hide."
    )

    @property
    def limits(self) -> Limits:
        """The limits. Raises UserError for a limit that no audit could show to be kept."""
        return Limits(self.loss, self.delta_at_4, self.identifiers, self.attribute)


class Ablation(Cell):
    """A cell in which factors of the audit are varied, one at a time, at one epsilon."""

    epsilon: Number = Field(description="The budget of all variations.")
    trials: PositiveInt = Field(1000, description="T of each variation.")
    candidates: tuple[Annotated[int, Field(ge=2)], ...] = Field((2, 4, 8, 16), description="Values of k.")
    temperatures: tuple[float, ...] = Field((-10_000, 0, 10_000), description="Values of lambda.")
    seeds: Annotated[int, Field(ge=0)] = Field(
        5, description="How many runs repeat the audit, each with its own trials and noise."
    )
    matches: tuple[Match, ...] = Field(
        (), description="Values of `match`, to compare candidates of equal and of any length."
    )


class Sweep(Cell):
    """A cell in which settings of its mechanism are varied, one at a time, on the same trials and noise."""

    epsilon: Annotated[float, Field(gt=0), PLAIN] = Field(
        description="The budget of all variations, except those of `epsilon`."
    )
    trials: PositiveInt = Field(200, description="T of each value.")
    vary: Annotated[Mapping[str, Annotated[tuple[Number, ...], Field(min_length=1)]], Field(min_length=1)] = Field(
        description="The values to compare, by setting of the mechanism, or by `epsilon`."
    )


class TextsParams(ProjectParams):
    """The sections of params.yaml that cells read."""

    embedding: Embedding = Field(Embedding(), description="The sentence encoder behind candidate sampling.")
    trials: TrialSettings = Field(TrialSettings(), description="How trials are drawn.")
    triples: Mapping[str, TriplesEntry] = Field({}, description="Public corpora of triples, which `dp_st` reads.")
    autoencoders: Mapping[str, AutoencoderEntry] = Field({}, description="Autoencoders, which `adept` reads.")
    noise_aware: Mapping[str, NoiseAwareEntry] = Field({}, description="Pruned models, which `dp_bart` reads.")
    exemplars: Mapping[str, ExemplarsEntry] = Field({}, description="Public exemplars, which `exemplars` reads.")
    cells: Mapping[str, Cell] = Field(
        {},
        description="Pairs of a data set and a mechanism. DVC reruns a cell when its line, its mechanism's file or its "
        "inputs change.",
    )
    attacks: Named = Field(
        {},
        description="The attacks on rewrites and their settings: modules of `epsilometer.attacks.identification` or "
        "paths of files.",
    )
    instrument: Instrument = Field(Instrument(), description="The known-loss check: randomised response on two texts.")
    claims: Claims = Field(Claims(), description="The check of claims against their worst case.")
    exact: Exact = Field(Exact(), description="The exact loss of mechanisms whose law can be computed.")
    decide: Decide = Field(Decide(), description="Limits of loss beyond which a mechanism should not be used.")
    utility: Utility = Field(Utility(), description="How rewrites are compared with their texts.")
    ablations: Mapping[str, Ablation] = Field(
        {}, description="Cells in which factors of the audit are varied, one at a time, at one epsilon."
    )
    sweeps: Mapping[str, Sweep] = Field(
        {},
        description="Cells in which settings of the mechanism are varied, one at a time, on the same trials and noise.",
    )

    @property
    def audited(self) -> frozenset[str]:
        """The data sets whose texts a cell, ablation or sweep rewrites."""
        return frozenset(cell.dataset for some in (self.cells, self.ablations, self.sweeps) for cell in some.values())

    def check(self) -> None:
        """Run `ProjectParams.check`, and check trials, attacks, cells, public texts, epsilons and limits."""
        super().check()
        if self.cells:
            self._check_audit()
        for name, cell in self.cells.items():
            check_cell(self.datasets, cell, "cells", name)
        for place, entry in self.made_of_public():
            self._check_public(entry.corpus, f"{place}.corpus")
        check_epsilons(self.instrument.epsilons, "instrument.epsilons")
        self._check_decide()

    @model_validator(mode="after")
    def _variations_are_of_cells(self) -> TextsParams:
        for name, ablation in self.ablations.items():
            self._check_varied(ablation, "ablations", name)
            check_epsilons([ablation.epsilon], f"ablations.{name}.epsilon")
        for name, sweep in self.sweeps.items():
            self._check_varied(sweep, "sweeps", name)
            check_epsilons(sweep.vary.get("epsilon", (sweep.epsilon,)), f"sweeps.{name}.vary.epsilon")
        return self

    def _check_audit(self) -> None:
        sets = [name for name, entry in self.datasets.items() if entry.sets]
        if sets and self.trials.candidates != 2:
            raise UserError(
                f"trials.candidates must be 2 where trials are of sets (datasets.{sets[0]}.sets), got "
                f"{self.trials.candidates}: ceilings are known only for pairs",
                "EPS-S075",
            )
        if not self.attacks:
            raise UserError(
                "attacks must not be empty: name at least one, as in `attacks: {embedding: {}}`", "EPS-S076"
            )
        least = math.log(2 / self.audit.alpha) / math.log(self.trials.candidates)
        if self.trials.count <= least:
            raise UserError(
                f"trials.count must be at least {math.floor(least) + 1}, got {self.trials.count}: with fewer even an "
                f"adversary who is always right proves nothing (k = {self.trials.candidates}, alpha = "
                f"{self.audit.alpha:g})",
                "EPS-S077",
            )

    def _check_decide(self) -> None:
        """Raise UserError for a limit that no audit can show to be kept, and for an attribute that is not a label."""
        assert self.decide.limits
        for dataset, labels in self.decide.attributes.items():
            check_dataset(self.datasets, dataset, "decide.attributes")
            for label in labels:
                check_label(self.datasets, dataset, label, f"decide.attributes.{dataset}")

    @property
    def hiding(self) -> dict[str, Hiding]:
        """The cells of data sets with attributes to hide. Stages in dvc.yaml read the fields of `Hiding`."""
        return {
            name: Hiding(cell.dataset) for name, cell in self.cells.items() if cell.dataset in self.decide.attributes
        }

    @property
    def built(self) -> dict[str, Built]:
        """The entries that stage `build` makes, by name. dvc.yaml reads their fields, for instance as dependencies."""
        entries = {}
        for place, entry in self.made_of_public():
            section, _, name = place.partition(".")
            begins_with = f"{self.root}/{entry.corpus.source}"
            if isinstance(entry, TriplesEntry):
                begins_with = f"{self.root}/data/embedded/models/minilm-heads"
            elif isinstance(entry, NoiseAwareEntry):
                begins_with = entry.model
            elif isinstance(entry, AutoencoderEntry) and entry.vectors is not None:
                begins_with = f"{self.root}/{entry.vectors}"
            entries[f"{section}-{name}"] = Built(section, name, entry.corpus.source, begins_with)
        return entries

    def made_of_public(self) -> Iterator[tuple[str, OfPublic]]:
        """Yield the resources of mechanisms that are made of public texts, each with its place in params.yaml."""
        for kind in ("triples", "autoencoders", "noise_aware", "exemplars"):
            for name, entry in getattr(self, kind).items():
                yield f"{kind}.{name}", entry

    def _check_public(self, corpus: PublicCorpus, place: str) -> None:
        """Raise UserError if the corpus names a data set that is unknown, has no public part, or has another source.

        DVC reads the source in the corpus, so the corpus must repeat the data set's source.
        """
        if corpus.dataset is None:
            return
        if corpus.dataset not in self.datasets:
            raise unknown(f"data set in {place}.dataset", corpus.dataset, self.datasets)
        dataset = self.datasets[corpus.dataset]
        if dataset.public_part is None:
            raise UserError(
                f"{place}.dataset: {corpus.dataset} has no public part; give it one, as in public_part: 0.2", "EPS-S078"
            )
        if corpus.source != dataset.source:
            raise UserError(
                f"{place}.source must be that of datasets.{corpus.dataset}, {dataset.source!r}, got {corpus.source!r}",
                "EPS-S079",
            )

    def _check_varied(self, entry: Cell, kind: str, name: str) -> None:
        """Raise UserError unless an entry repeats the fields of its cell. DVC cannot look them up in the cell."""
        if name not in self.cells:
            raise unknown(f"cell in {kind}", name, self.cells)
        if self.cells[name].epsilons is None:
            raise UserError(
                f"{kind}.{name} varies a cell at one epsilon, but its mechanism has none; leave it out", "EPS-S080"
            )
        for field in Cell.model_fields:
            here, there = getattr(entry, field), getattr(self.cells[name], field)
            if here != there:
                raise UserError(
                    f"{kind}.{name}.{field} must be that of cells.{name}, {there!r}, got {here!r}; copy the data "
                    "set and `<<` from the cell's line",
                    "EPS-S081",
                )

    def data_paths(self) -> Iterator[tuple[str, str]]:
        """Yield the paths of `ProjectParams.data_paths`, of public texts, and of autoencoders' word vectors."""
        yield from super().data_paths()
        yield from ((f"{place}.corpus.source", entry.corpus.source) for place, entry in self.made_of_public())
        for name, autoencoder in self.autoencoders.items():
            if autoencoder.vectors is not None:
                yield f"autoencoders.{name}.vectors", autoencoder.vectors

    def code_paths(self) -> Iterator[tuple[str, str]]:
        """Yield the paths of `ProjectParams.code_paths`, of attacks and of metrics."""
        yield from super().code_paths()
        yield from (("attacks", name) for name in self.attacks)
        yield from (("utility.metrics", name) for name in self.utility.metrics)

    def read_paths(self) -> Iterator[tuple[str, str]]:
        """Yield the values of `ProjectParams.read_paths`, and other values that may be paths.

        These are the settings of attacks, metrics and exemplars, and the models that encode, tag or start a build.
        """
        yield from super().read_paths()
        yield from strings(self.attacks, "attacks")
        yield from strings(self.utility.metrics, "utility.metrics")
        yield "embedding.model", self.embedding.model
        for name, triples in self.triples.items():
            yield from strings({"encoder": triples.encoder, "tagger": triples.tagger}, f"triples.{name}")
        yield from ((f"noise_aware.{name}.model", entry.model) for name, entry in self.noise_aware.items())
        for name, exemplars in self.exemplars.items():
            yield from strings(exemplars.settings, f"exemplars.{name}.settings")

    def studied(self) -> Iterator[tuple[str, bool]]:
        """Yield the section `cells` and the sections of `ProjectParams.studied`, each with True if it has entries."""
        yield "cells", bool(self.cells)
        yield from super().studied()

    def resources(self) -> Iterator[str]:
        """Yield the outputs of `ProjectParams.resources`, and the resources built from public texts."""
        yield from super().resources()
        for kind in ("triples", "autoencoders", "noise_aware", "exemplars"):
            yield from (f"data/{kind}/{name}" for name in getattr(self, kind))

    def variations(self, name: str) -> Iterator[tuple[str, float, float, Mapping[str, Any]]]:
        """Yield (setting, value, epsilon, the mechanism's settings) for each value of a sweep."""
        sweep = self.sweeps[name]
        for setting, values in sweep.vary.items():
            for value in values:
                if setting == "epsilon":
                    yield setting, value, value, sweep.settings
                else:
                    yield setting, value, sweep.epsilon, {**sweep.settings, setting: value}

    def trial_count(self, dataset: str) -> int:
        """Return the number of trials of a data set."""
        sets = self.datasets[dataset].sets
        return self.trials.count if sets is None else sets.count

    def temperature(self, dataset: str) -> float:
        """Return the temperature for fresh trials. It is 0 for trials of sets, whose pairs are drawn uniformly."""
        return self.trials.temperature if self.datasets[dataset].sets is None else 0.0

    def match(self, dataset: str) -> Match:
        """Return the match of a data set's trials: "words" if candidates have equal numbers of words, else "none"."""
        return self.datasets[dataset].match or self.trials.match


def read(path: Path | str = "params.yaml") -> TextsParams:
    """Return the parameters of this study, as `project.params.read` reads them."""
    return params.read(TextsParams, path)
