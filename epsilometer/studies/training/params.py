"""The sections of params.yaml on training: the trainings, and the attacks on them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Discriminator, Field, PositiveInt, Tag, field_validator, model_validator

from epsilometer.accounting.releases import MOST_CONCENTRATED
from epsilometer.core.errors import UserError, unknown
from epsilometer.core.guarantees import budget_name
from epsilometer.project import params
from epsilometer.project.confinement import strings
from epsilometer.project.params import ProjectParams
from epsilometer.project.references import check_dataset, check_label, check_model
from epsilometer.project.sections import Named, Probability, Section

NoiseName = Literal["gaussian", "vmf", "scaled", "none"]
Level = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Levels = Annotated[tuple[Level, ...], Field(min_length=1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class FeaturesEntry(Section):
    """The features of a data set's texts, on which trainings run."""

    dataset: str = Field(description="The data set whose texts are read.")
    model: str = Field(description="The frozen model, `data/models/NAME`.")
    length: Annotated[int, Field(ge=3)] = Field(128, description="The length in tokens at which texts are truncated.")
    what: Literal["states", "tokens"] = Field(
        "states",
        description="`states`: one hidden state per text, for training a head; `tokens`: token ids, for training more "
        "of the model.",
    )


class LoraEntry(Section):
    """Low-rank adapters (`runs.adapters`)."""

    rank: PositiveInt = Field(description="The rank of the adapters.")
    targets: Annotated[tuple[str, ...], Field(min_length=1)] = Field(
        description="The last part of the names of the adapted layers, such as `query`."
    )


class Adapters(Section):
    """Trainable adapters, by kind. The classifier is trained, too."""

    lora: LoraEntry = Field(description="Low-rank adapters.")


class NoiseEntry(Section):
    """The noise of a training. The word `gaussian` is short for {kind: gaussian}."""

    OWN: ClassVar[Mapping[str, frozenset[str]]] = {
        "gaussian": frozenset({"clip"}),
        "vmf": frozenset({"parts"}),
        "scaled": frozenset({"gamma"}),
        "none": frozenset({"clip"}),
    }

    kind: NoiseName = Field(
        description="`gaussian`: on the sum of clipped gradients; `vmf`: on the direction of each gradient; `scaled`: "
        "Gaussian noise on gradients scaled to length norm / (norm + gamma); `none`: no noise."
    )
    clip: Positive | None = Field(
        None,
        description="The length to which longer gradients are clipped; null is 1, or no clipping for `none`.",
    )
    gamma: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(
        0.0, description="For `scaled`: gradients are divided by their length plus gamma."
    )
    parts: bool = Field(False, description="For `vmf`: one draw for each tensor instead of one for the whole gradient.")

    @model_validator(mode="after")
    def _only_its_own(self) -> NoiseEntry:
        own = self.OWN[self.kind]
        if strange := sorted(self.model_fields_set - own - {"kind"}):
            raise ValueError(
                f"{strange[0]} is not a setting of {self.kind!r}; its settings are {', '.join(sorted(own))}"
            )
        return self


class Noised(Section):
    """A section with noise at several levels."""

    noise: NoiseEntry = Field(description="The noise; a kind alone is short for `{kind: KIND}`.")
    levels: Levels | None = Field(
        None, description="Levels of the noise: sigma of `gaussian` and `scaled`, kappa of `vmf`; left out for `none`."
    )

    @field_validator("noise", mode="before")
    @classmethod
    def _by_name(cls, value: Any) -> Any:
        """Accept the name of a kind in place of a mapping."""
        return {"kind": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _levels_that_fit(self) -> Noised:
        kind = self.noise.kind
        if (kind == "none") != (self.levels is None):
            what = "has no level; leave `levels` out" if kind == "none" else "needs `levels`, one or more numbers"
            raise ValueError(f"noise {kind!r} {what}")
        least = {"vmf": "kappa", "gaussian": "sigma"}.get(kind)
        if least and 0 in (self.levels or ()):
            remedy = (
                "use {kind: none, clip: 1} to clip without noise"
                if kind == "gaussian"
                else "with kappa 0, gradients consist of noise alone"
            )
            raise ValueError(f"a level of {kind!r} ({least}) must be > 0, got 0; {remedy}")
        if kind == "vmf" and (most := max(self.levels or ())) > MOST_CONCENTRATED:
            raise ValueError(
                f"a level of 'vmf' (kappa) must be at most {MOST_CONCENTRATED:g}, got {most}; set a lower level, or "
                "{kind: none} to train without privacy"
            )
        if self.levels and len({budget_name(level) for level in self.levels}) < len(self.levels):
            raise ValueError(
                f"levels must differ in their first six digits, which are used in file names, got {[*self.levels]}; "
                "remove one of two close levels"
            )
        return self

    @property
    def steps(self) -> tuple[float | None, ...]:
        """The levels; (None,) if there are none."""
        return self.levels or (None,)

    @property
    def from_least_noise(self) -> tuple[float | None, ...]:
        """The levels, from the least noise to the most. A larger kappa means less noise."""
        return (*sorted(self.levels or (), reverse=self.noise.kind == "vmf"),) or (None,)


HEAD: Literal["head"] = "head"


def _form(value: Any) -> str:
    if isinstance(value, Mapping | Adapters):
        return "adapters"
    return HEAD if isinstance(value, str) else "parameters"


Trains = Annotated[
    Annotated[Literal["head"], Tag(HEAD)]
    | Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Tag("parameters")]
    | Annotated[Adapters, Tag("adapters")],
    Discriminator(_form),
]


class TrainingCell(Noised):
    """A head, or more of a network, trained on features at every level of a noise. DVC reruns each level separately."""

    features: str = Field(description="An entry of `features`.")
    label: str = Field(description="A label of the data set with two or more classes.")
    trains: Trains = Field(
        HEAD,
        description="`head` for features that are states. For token ids, the beginnings of the names of parameters, "
        "or `{lora: {rank, targets}}`.",
    )
    texts: PositiveInt | None = Field(None, description="The maximum number of training texts; null is all.")
    balance: bool = Field(False, description="Whether every class has as many training texts as the rarest class.")
    test: str = Field("test", description="The split of the test texts.")
    batch: PositiveInt = Field(128, description="Texts per step: on average for `poisson`, exactly for `shuffled`.")
    epochs: PositiveInt = Field(10, description="Passes over the training texts.")
    rate: Positive = Field(1e-3, description="The learning rate.")
    optimizer: Literal["adamw", "sgd"] = Field("adamw", description="The optimiser.")
    sampling: Literal["poisson", "shuffled"] = Field(
        "poisson",
        description="`poisson`: an independent coin decides whether a text is in a batch; `shuffled`: fixed disjoint "
        "batches.",
    )
    seeds: PositiveInt = Field(1, description="The number of trainings at each level.")
    overfit: PositiveInt = Field(1, description="The number of epochs is multiplied by this, to overfit on purpose.")

    @field_validator("trains")
    @classmethod
    def _something(cls, value: Trains) -> Trains:
        if value == ():
            raise ValueError("no parameter is trainable; list parameters, or set `head`")
        return value

    @property
    def passes(self) -> int:
        """The number of passes over the training texts: the epochs, times `overfit`."""
        return self.epochs * self.overfit


class ReferencesEntry(Section):
    """Reference models for membership attacks, trained like a cell's models but on other texts (`runs.splits`)."""

    training: str = Field(description="The entry of `private_training` that they imitate.")
    features: str = Field(description="The features of that entry.")
    level: Level | None = Field(None, description="The level of their noise; null trains without privacy.")
    count: Annotated[int, Field(ge=2)] = Field(64, description="The number of models.")
    split: Literal["overlapping", "disjoint"] = Field(
        "overlapping",
        description="`overlapping`: each model learns from half of the texts in question; `disjoint`: each model "
        "learns from texts that no other model sees.",
    )


class MembershipEntry(Section):
    """Membership attacks on a cell of `private_training`."""

    training: str = Field(description="The entry of `private_training` that is attacked.")
    features: str = Field(description="The features of that entry.")
    references: str = Field(description="An entry of `references`, which determines the texts in question.")
    attacks: Annotated[Named, Field(min_length=1)] = Field(
        description="Modules of `epsilometer.studies.training.attacks.membership` or paths of files, and their "
        "settings. With a setting `attack: MODULE`, one module can attack twice under two names."
    )
    fprs: Annotated[tuple[Annotated[float, Field(gt=0, lt=1)], ...], Field(min_length=1)] = Field(
        (0.1, 0.01, 0.001), description="The false positive rates at which true positive rates are measured."
    )

    @property
    def modules(self) -> dict[str, tuple[str, dict[str, Any]]]:
        """The module or path of each attack and its settings, by the attack's name."""
        every = {name: dict(settings) for name, settings in self.attacks.items()}
        return {name: (str(settings.pop("attack", name)), settings) for name, settings in every.items()}


class OneRunEntry(Noised):
    """An audit of a training by canaries, with one run per level. A fair coin decides whether a canary is planted."""

    training: str = Field(description="The entry of `private_training` whose schedule, head and optimiser are used.")
    features: str = Field(description="The features of that entry.")
    kind: Literal["gradient", "mislabelled", "random"] = Field(
        "gradient",
        description="`gradient`: gradients as canaries, in updates without a model, which the adversary sees. "
        "`mislabelled`: texts with a wrong label; `random`: texts of random tokens. For these two, the adversary sees "
        "the losses of the trained head.",
    )
    canaries: Annotated[int, Field(ge=2)] = Field(
        1000, description="The number of canaries, each planted by a fair coin."
    )
    guesses: Annotated[float, Field(gt=0, le=1)] | None = Field(
        0.2,
        description="The share of canaries that the adversary guesses; null tries several shares, and "
        "corrects for the choice.",
    )
    delta: Probability | None = Field(None, description="The delta of bounds; null is one over the number of texts.")


class SentNoise(NoiseEntry):
    """The noise on a sent gradient: one of a training's kinds, or `published`, the noise of the attacks' authors."""

    kind: Literal["gaussian", "vmf", "scaled", "none", "published"] = Field(
        description="A kind of noise of a training, or `published`: noise on the mean of gradients that are not "
        "clipped, as the attacks' authors use it."
    )  # type: ignore[assignment]
    law: Literal["gaussian", "laplace"] = Field(
        "gaussian",
        description="For `published`: `gaussian` (LAMP's defence), with the level as standard deviation, or `laplace` "
        "(the default of breaching), with the level as scale.",
    )

    OWN: ClassVar[Mapping[str, frozenset[str]]] = {**NoiseEntry.OWN, "published": frozenset({"law"})}


class SentEntry(Noised):
    """The noisy gradients of batches of texts that clients send."""

    noise: SentNoise = Field(description="The noise; a kind alone is short for `{kind: KIND}`.")
    dataset: str = Field(description="The data set of the clients' texts.")
    model: str = Field(description="The model whose gradients are sent.")
    label: str = Field(description="The label that the model learns.")
    sizes: Annotated[tuple[PositiveInt, ...], Field(min_length=1)] = Field(
        (1,), description="The sizes of the batches."
    )
    tensors: Literal["all", "without_embeddings", "head"] = Field(
        "without_embeddings", description="The tensors whose gradients are sent."
    )
    length: Annotated[int, Field(ge=3)] = Field(128, description="The length in tokens at which texts are truncated.")
    texts: PositiveInt = Field(32, description="The number of attacked texts for every batch size.")
    public: PositiveInt = Field(1000, description="The number of public texts that the server has.")
    pool: Annotated[int, Field(ge=0)] = Field(
        0, description="The number of texts, all of one label, for the attack `candidates`; 0 for none."
    )

    @model_validator(mode="after")
    def _whole_batches(self) -> SentEntry:
        if most := next((size for size in self.sizes if size > self.texts), None):
            raise ValueError(
                f"sizes must be at most the number of texts, {self.texts}, got {most}; set smaller sizes or more texts"
            )
        if self.pool == 1:
            raise ValueError("pool must be 0, or at least 2 (candidates), got 1")
        if self.pool and self.noise.parts and self.tensors != "head":
            raise ValueError(
                "candidates with draws by parts are available only for the head's gradients; set tensors: head"
            )
        return self

    @property
    def texts_and_model(self) -> dict[str, Any]:
        """The settings that determine the gradients of single texts, before noise is added."""
        return self.model_dump(mode="json", exclude={"levels", "noise", "sizes"}) | {"parts": self.noise.parts}


class ReconstructionEntry(Section):
    """Attacks that reconstruct texts from sent gradients."""

    sent: str = Field(description="The entry of `sent` that is attacked.")
    attacks: Annotated[Named, Field(min_length=1)] = Field(
        description="Modules of `epsilometer.studies.training.attacks.reconstruction` and their settings. They run in "
        "this order; list an attack that starts from others' results after these."
    )


@dataclass(frozen=True)
class TrainingAt:
    """The unit of training that DVC reruns: a cell at one noise level, with all seeds. place: path in data/trained."""

    cell: str
    level: float | None
    features: str
    place: str


@dataclass(frozen=True)
class SentTexts:
    """An entry of `sent` and its model, by name."""

    sent: str
    model: str


@dataclass(frozen=True)
class SearchAt(SentTexts):
    """The part of a `reconstruction` entry that DVC reruns: one batch size and level. place: path in data/searched."""

    entry: str
    size: int
    level: float | None
    place: str


# The kinds of this study's attacks, each given by its folder in the package (`core.component`).
MEMBERSHIP, RECONSTRUCTION = "studies/training/attacks/membership", "studies/training/attacks/reconstruction"
CANDIDATES = "candidates"  # the attack that does not search for a text but chooses among candidates


class TrainingParams(ProjectParams):
    """The params.yaml of the study of training."""

    features: Mapping[str, FeaturesEntry] = Field({}, description="Features of data sets' texts, for trainings.")
    private_training: Mapping[str, TrainingCell] = Field(
        {}, description="Heads, or more of a network, trained on features at every level of a noise."
    )
    references: Mapping[str, ReferencesEntry] = Field(
        {}, description="Reference models for membership attacks, trained like those of a cell on other texts."
    )
    membership: Mapping[str, MembershipEntry] = Field({}, description="Attacks that infer who was in a training set.")
    one_run: Mapping[str, OneRunEntry] = Field(
        {}, description="Audits of a training by canaries, in one run at each level."
    )
    sent: Mapping[str, SentEntry] = Field({}, description="The noisy gradients that clients send.")
    reconstruction: Mapping[str, ReconstructionEntry] = Field(
        {}, description="Attacks that reconstruct texts from sent gradients."
    )

    @model_validator(mode="after")
    def _entries_fit(self) -> TrainingParams:
        _check_entries(self)
        return self

    @property
    def trainings(self) -> dict[str, TrainingAt]:
        """Every cell of `private_training` at every level."""
        return {
            f"{name}-{budget_name(level)}": TrainingAt(name, level, cell.features, f"{name}/{budget_name(level)}")
            for name, cell in self.private_training.items()
            for level in cell.steps
        }

    @property
    def searching(self) -> dict[str, SentTexts]:
        """The entries of `reconstruction` with an attack that searches for texts."""
        return {
            name: self._attacked(name) for name, entry in self.reconstruction.items() if {*entry.attacks} - {CANDIDATES}
        }

    @property
    def choosing(self) -> dict[str, SentTexts]:
        """The entries of `reconstruction` with the attack that chooses among candidates."""
        return {
            name: self._attacked(name) for name, entry in self.reconstruction.items() if CANDIDATES in entry.attacks
        }

    @property
    def searches(self) -> dict[str, SearchAt]:
        """Every entry of `searching` at every batch size and level."""
        return {
            f"{name}-{size}-{budget_name(level)}": SearchAt(
                of.sent, of.model, entry=name, size=size, level=level, place=f"{name}/{size}-{budget_name(level)}"
            )
            for name, of in self.searching.items()
            for size in self.sent[of.sent].sizes
            for level in self.sent[of.sent].steps
        }

    def _attacked(self, name: str) -> SentTexts:
        sent = self.reconstruction[name].sent
        return SentTexts(sent, self.sent[sent].model)

    def studied(self) -> Iterator[tuple[str, bool]]:
        """Yield this study's sections, then those of `ProjectParams.studied`."""
        yield "private_training", bool(self.private_training)
        yield "sent", bool(self.sent)
        yield from super().studied()

    def datasets_studied(self) -> Iterator[str]:
        """Yield the data sets of `ProjectParams.datasets_studied`, then those of trainings and sent gradients."""
        yield from super().datasets_studied()
        yield from (self.features[cell.features].dataset for cell in self.private_training.values())
        yield from (sent.dataset for sent in self.sent.values())

    def excerpts(self) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Yield the excerpts of `ProjectParams.excerpts`, then cells and entries of `sent` without their levels."""
        yield from super().excerpts()
        for name, cell in self.private_training.items():
            for record, apart in (("private_training", {"levels"}), ("recipes", {"levels", "seeds", "test"})):
                yield f"{record}/{name}", f"private_training.{name}", cell.model_dump(mode="json", exclude=apart)
        for name, sent in self.sent.items():
            yield f"sent/{name}", f"sent.{name}", sent.texts_and_model

    def code_paths(self) -> Iterator[tuple[str, str]]:
        """Yield the paths of `ProjectParams.code_paths`, then the attacks on trainings and on gradients."""
        yield from super().code_paths()
        for name, entry in self.membership.items():
            yield from ((f"membership.{name}.attacks", module) for module, _ in entry.modules.values())
        for name, sent in self.reconstruction.items():
            yield from ((f"reconstruction.{name}.attacks", attack) for attack in sent.attacks)

    def read_paths(self) -> Iterator[tuple[str, str]]:
        """Yield the paths of `ProjectParams.read_paths`, then all strings in the settings of attacks."""
        yield from super().read_paths()
        for kind in ("membership", "reconstruction"):
            for name, entry in getattr(self, kind).items():
                yield from strings(entry.attacks, f"{kind}.{name}.attacks")


def read(path: Path | str = "params.yaml") -> TrainingParams:
    """Read the parameters of this study from a file with `project.params.read`."""
    return params.read(TrainingParams, path)


def _check_entries(params: TrainingParams) -> None:
    """Raise UserError if an entry refers to something that does not exist or does not fit."""
    for name, entry in params.features.items():
        check_dataset(params.datasets, entry.dataset, f"features.{name}")
        check_model(params.models, entry.model, f"features.{name}.model")
    for name, cell in params.private_training.items():
        _check_named(params, "features", cell.features, f"private_training.{name}.features")
        check_label(
            params.datasets, params.features[cell.features].dataset, cell.label, f"private_training.{name}.label"
        )
        wanted = "states" if cell.trains == HEAD else "tokens"
        if (what := params.features[cell.features].what) != wanted:
            trained = "a head" if cell.trains == HEAD else "more than a head"
            raise UserError(
                f"private_training.{name}: {trained} is trained on features of {wanted}, but {cell.features!r} has "
                f"{what}; give features with what: {wanted}",
                "EPS-S096",
            )
    for name, reference in params.references.items():
        _check_named(params, "private_training", reference.training, f"references.{name}.training")
        _check_head(params, reference.training, f"references.{name}.training")
        levels = params.private_training[reference.training].steps
        if reference.level is not None and reference.level not in levels:
            raise unknown(f"level in references.{name}.level", reference.level, map(str, levels))
        _check_same_features(params, reference.training, reference.features, f"references.{name}")
    for name, membership in params.membership.items():
        _check_named(params, "private_training", membership.training, f"membership.{name}.training")
        _check_head(params, membership.training, f"membership.{name}.training")
        _check_named(params, "references", membership.references, f"membership.{name}.references")
        _check_same_features(params, membership.training, membership.features, f"membership.{name}")
        _check_same_texts(params, membership.training, params.references[membership.references].training, name)
    for name, run in params.one_run.items():
        _check_named(params, "private_training", run.training, f"one_run.{name}.training")
        _check_head(params, run.training, f"one_run.{name}.training")
        if run.features != (own := params.private_training[run.training].features):
            raise UserError(
                f"one_run.{name}.features must be those of {run.training}, {own!r}, got {run.features!r}", "EPS-S097"
            )
        if run.noise.parts and run.kind == "gradient":
            raise UserError(
                f"one_run.{name}: gradient canaries lie along axes of one tensor, but the noise is drawn per tensor; "
                "set kind: mislabelled",
                "EPS-S098",
            )
    for name, sent in params.sent.items():
        check_dataset(params.datasets, sent.dataset, f"sent.{name}")
        check_label(params.datasets, sent.dataset, sent.label, f"sent.{name}.label")
        check_model(params.models, sent.model, f"sent.{name}.model")
    for name, reconstruction in params.reconstruction.items():
        _check_named(params, "sent", reconstruction.sent, f"reconstruction.{name}.sent")


def _check_named(params: TrainingParams, section: str, name: str, place: str) -> None:
    if name not in getattr(params, section):
        raise unknown(f"entry of {section} in {place}", name, getattr(params, section))


def _check_head(params: TrainingParams, cell: str, place: str) -> None:
    """Raise UserError if a cell trains more than a head: references and audits by canaries train heads only."""
    if params.private_training[cell].trains != HEAD:
        raise UserError(
            f"{place} must be a cell with trains: head, got {cell!r}, which trains more; give another cell", "EPS-S099"
        )


def _check_same_features(params: TrainingParams, cell: str, features: str, place: str) -> None:
    """Raise UserError for features other than the cell's. An entry repeats them because DVC reads only the entry."""
    own = params.private_training[cell].features
    if features != own:
        raise UserError(f"{place}.features must be those of {cell}, {own!r}, got {features!r}", "EPS-S100")


def _check_same_texts(params: TrainingParams, target: str, imitated: str, name: str) -> None:
    """Raise UserError if the references imitate a cell with other training texts than the target's."""
    target_cell, other = params.private_training[target], params.private_training[imitated]
    for field in ("features", "label", "texts", "balance"):
        if getattr(target_cell, field) != getattr(other, field):
            raise UserError(
                f"membership.{name}.references imitate {imitated}, whose {field} is {getattr(other, field)!r}, but "
                f"{target} has {getattr(target_cell, field)!r}; give references of a cell with the same training texts",
                "EPS-S101",
            )
