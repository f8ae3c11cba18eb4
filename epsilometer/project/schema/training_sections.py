"""The sections of params.yaml on training: what is trained, what it claims, and who attacks it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Discriminator, Field, PositiveInt, Tag, field_validator, model_validator

from epsilometer.core.guarantees import budget_name
from epsilometer.project.schema.sections import Probability, Section

NoiseName = Literal["gaussian", "vmf", "scaled", "none"]
Level = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Levels = Annotated[tuple[Level, ...], Field(min_length=1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class FeaturesEntry(Section):
    """What trainings see of the texts of a data set.

    model: data/models/NAME; length: in tokens, of which the rest is cut off. what: `states` of the frozen model, one a
    text, on which heads are trained; or token ids, `tokens`, for cells that train more of the model.
    """

    dataset: str
    model: str
    length: Annotated[int, Field(ge=3)] = 128
    what: Literal["states", "tokens"] = "states"


class LoraEntry(Section):
    """Low-rank adapters (`training.adapters`). targets: what the names of the adapted layers end in, query say."""

    rank: PositiveInt
    targets: Annotated[tuple[str, ...], Field(min_length=1)]


class Adapters(Section):
    """Adapters of the named kind, and the classifier."""

    lora: LoraEntry


class NoiseEntry(Section):
    """The noise of a training; `gaussian` alone stands for {kind: gaussian}.

    kind: `gaussian` on the sum of clipped gradients, `vmf` on the direction of each, `scaled` as gaussian but with
    gradients scaled to length norm / (norm + gamma), `none`. clip: the largest length of a gradient; with `none` null
    leaves them as they are. parts: of vmf, a draw for each tensor instead of one for all.
    """

    OWN: ClassVar[Mapping[str, frozenset[str]]] = {
        "gaussian": frozenset({"clip"}),
        "vmf": frozenset({"parts"}),
        "scaled": frozenset({"gamma"}),
        "none": frozenset({"clip"}),
    }

    kind: NoiseName
    clip: Positive | None = None
    gamma: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    parts: bool = False

    @model_validator(mode="after")
    def _only_its_own(self) -> NoiseEntry:
        own = self.OWN[self.kind]
        if strange := sorted(self.model_fields_set - own - {"kind"}):
            raise ValueError(f"{strange[0]} is no setting of {self.kind!r}, which has {', '.join(sorted(own))}")
        return self


class Noised(Section):
    """What has noise at several levels. levels: sigma of gaussian and scaled, kappa of vmf; left out for `none`."""

    noise: NoiseEntry
    levels: Levels | None = None

    @field_validator("noise", mode="before")
    @classmethod
    def _by_name(cls, value: Any) -> Any:
        """A noise without settings may be written as its bare name."""
        return {"kind": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _levels_that_fit(self) -> Noised:
        kind = self.noise.kind
        if (kind == "none") != (self.levels is None):
            what = "has no level; leave `levels` out" if kind == "none" else "needs `levels`, one or more numbers"
            raise ValueError(f"noise {kind!r} {what}")
        least = {"vmf": "kappa", "gaussian": "sigma"}.get(kind)
        if least and 0 in (self.levels or ()):
            remedy = "{kind: none, clip: 1} clips without noise" if kind == "gaussian" else "0 leaves nothing to learn"
            raise ValueError(f"a level of {kind!r} ({least}) must be > 0, got 0; {remedy}")
        if self.levels and len({budget_name(level) for level in self.levels}) < len(self.levels):
            raise ValueError(f"levels must differ in six digits, as files are named after them, got {[*self.levels]}")
        return self

    @property
    def steps(self) -> tuple[float | None, ...]:
        """The levels; None alone where there are none."""
        return self.levels or (None,)

    @property
    def from_least_noise(self) -> tuple[float | None, ...]:
        """The levels, from the least noise to the most: kappa concentrates, so that its largest is the least."""
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
    """A head, or more of a network, trained on features at every level of a noise.

    It is what DVC reruns as a whole, and the stage level by level. trains: `head`, in closed form; or the beginnings of
    names of parameters, or {lora: {rank, targets}}, by gradients text by text, on features that are token ids. label:
    of the data set, with two or more classes; texts: of the train split at most so many, all by default; balance: as
    many of each class; test: the split that is tested on; rate: of learning; sampling: independent coins (poisson) or
    fixed disjoint batches (shuffled); seeds: how many trainings a level; overfit: times the epochs, to train too long
    on purpose.
    """

    features: str
    label: str
    trains: Trains = HEAD
    texts: PositiveInt | None = None
    balance: bool = False
    test: str = "test"
    batch: PositiveInt = 128
    epochs: PositiveInt = 10
    rate: Positive = 1e-3
    optimizer: Literal["adamw", "sgd"] = "adamw"
    sampling: Literal["poisson", "shuffled"] = "poisson"
    seeds: PositiveInt = 1
    overfit: PositiveInt = 1

    @field_validator("trains")
    @classmethod
    def _something(cls, value: Trains) -> Trains:
        if value == ():
            raise ValueError("nothing is trainable: name parameters, or write `head`")
        return value

    @property
    def passes(self) -> int:
        """Over the training texts: the epochs, times `overfit`."""
        return self.epochs * self.overfit


class ReferencesEntry(Section):
    """Models like those of a training, on texts of their own, that membership attacks compare with.

    training: the cell that they imitate; features: those of that cell; level: of their noise, null for training without
    privacy; count: of models. split: "overlapping", each on half of the texts that are asked about, or "disjoint", on
    texts that no other model sees (`training.splits`).
    """

    training: str
    features: str
    level: Level | None = None
    count: Annotated[int, Field(ge=2)] = 64
    split: Literal["overlapping", "disjoint"] = "overlapping"


class MembershipEntry(Section):
    """Who was in a training set: attacks on a cell of `private_training`.

    features: those of that cell; references: an entry of `references`, which names the texts that are asked about;
    attacks: modules of `epsilometer.attacks.membership` or paths of files, and their settings. One under another name
    says `attack: MODULE` among these, so that one module may attack twice. fprs: the false positive rates at which the
    true positive rate is measured.
    """

    training: str
    features: str
    references: str
    attacks: Annotated[Mapping[str, Mapping[str, Any]], Field(min_length=1)]
    fprs: Annotated[tuple[Annotated[float, Field(gt=0, lt=1)], ...], Field(min_length=1)] = (0.1, 0.01, 0.001)

    @field_validator("attacks", mode="before")
    @classmethod
    def _settings(cls, value: Any) -> Any:
        """An attack without settings may be written as a bare key."""
        return {k: v or {} for k, v in value.items()} if isinstance(value, dict) else value

    @property
    def modules(self) -> dict[str, tuple[str, dict[str, Any]]]:
        """The module or path of each attack and its settings, by name."""
        every = {name: dict(settings) for name, settings in self.attacks.items()}
        return {name: (str(settings.pop("attack", name)), settings) for name, settings in every.items()}


class OneRunEntry(Noised):
    """An audit of a training by canaries, each planted by a fair coin, in one run a level.

    training: the cell whose schedule, head and optimiser are used; features: its features. kind: of canary: `gradient`,
    seen by a white-box adversary in updates that no model takes; `mislabelled` texts, or texts of `random` tokens, seen
    by the losses of a head that is trained with them. canaries: how many; guesses: the share of them that is guessed,
    null for the best of several shares, which is paid for; delta: of the losses, null for one over the texts.
    """

    training: str
    features: str
    kind: Literal["gradient", "mislabelled", "random"] = "gradient"
    canaries: Annotated[int, Field(ge=2)] = 1000
    guesses: Annotated[float, Field(gt=0, le=1)] | None = 0.2
    delta: Probability | None = None


class SentNoise(NoiseEntry):
    """The noise on what is sent: that of a training, or `published`, as the attacks' own authors noise.

    published: on the mean of gradients that are not clipped; law: `gaussian` (LAMP's defence) or `laplace`
    (breaching's default). A level is then the deviation or scale of the noise on every number.
    """

    kind: Literal["gaussian", "vmf", "scaled", "none", "published"]  # type: ignore[assignment]
    law: Literal["gaussian", "laplace"] = "gaussian"

    OWN: ClassVar[Mapping[str, frozenset[str]]] = {**NoiseEntry.OWN, "published": frozenset({"law"})}


class SentEntry(Noised):
    """What a client sends: the noisy gradient of one batch of texts.

    sizes: of the batches; tensors: whose gradients are sent; length: of a text in tokens, the rest being cut off;
    texts: how many are attacked, at every size; public: how many others the server knows; pool: how many texts of one
    label are candidates of the attack `candidates`, 0 for none.
    """

    noise: SentNoise
    dataset: str
    model: str
    label: str
    sizes: Annotated[tuple[PositiveInt, ...], Field(min_length=1)] = (1,)
    tensors: Literal["all", "without_embeddings", "head"] = "without_embeddings"
    length: Annotated[int, Field(ge=3)] = 128
    texts: PositiveInt = 32
    public: PositiveInt = 1000
    pool: Annotated[int, Field(ge=0)] = 0

    @model_validator(mode="after")
    def _whole_batches(self) -> SentEntry:
        if most := next((size for size in self.sizes if size > self.texts), None):
            raise ValueError(f"sizes: a batch of {most} needs as many texts, got texts: {self.texts}")
        if self.pool == 1:
            raise ValueError("pool must be 0, or the 2 texts and more that candidates are, got 1")
        if self.pool and self.noise.parts and self.tensors != "head":
            raise ValueError("candidates of draws by parts need tensors: head, whose parts' products are closed forms")
        return self


class ReconstructionEntry(Section):
    """Attacks that read texts off what is sent: modules of `epsilometer.attacks.reconstruction`, and their settings.

    They run in this order: one that goes on from what others found begins with those before it.
    """

    sent: str
    attacks: Annotated[Mapping[str, Mapping[str, Any]], Field(min_length=1)]

    @field_validator("attacks", mode="before")
    @classmethod
    def _settings(cls, value: Any) -> Any:
        """An attack without settings may be written as a bare key."""
        return {k: v or {} for k, v in value.items()} if isinstance(value, dict) else value
