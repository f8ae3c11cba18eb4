"""The sections of params.yaml, each a frozen data class; `project.params` puts them together."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PositiveInt,
    field_validator,
    model_validator,
)

from epsilometer.core.guarantees import NO_BUDGET
from epsilometer.models.locate import ENCODER
from epsilometer.runtime.scaling import Engine

Probability = Annotated[float, Field(gt=0, lt=1)]
LARGEST_SEED = 2**53 - 1


def _seed(value: int) -> int:
    if not 0 <= value <= LARGEST_SEED:
        raise ValueError(f"must be from 0 to {LARGEST_SEED} (2^53 - 1): JSON and figures hold no larger whole numbers")
    return value


Class = Annotated[str, BeforeValidator(str)]  # of a label, be it a number in the file
Seed = Annotated[int, AfterValidator(_seed)]
Match = Literal["words", "none"]
Precision = Literal["float32", "bfloat16", "auto"]


class Section(BaseModel):
    """A part of params.yaml: frozen, unknown keys refused."""

    # Built with the whole or at first use; building each part alone took a third of the time to load them all.
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


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


class Resplit(Section):
    """The shares of the splits that are drawn."""

    validation: Annotated[float, Field(ge=0, lt=1)] = 0.1
    test: Annotated[float, Field(gt=0, lt=1)] = 0.2

    @model_validator(mode="after")
    def _leaves_some(self) -> Resplit:
        if self.validation + self.test >= 1:
            raise ValueError(
                f"validation + test must be below 1, got {self.validation + self.test:g}: nothing would be left to "
                "train on"
            )
        return self


class Dataset(Section):
    """A data set to audit.

    source: a file, a folder or a generator (its suffix says which), from the project's folder; part: its corpus.

    text, labels, split: columns, of texts one or several; rows: only the first so many; layout: of the file; use: the
    split that is audited; match: as trials.match unless given; public: whether
    examples may be shown in the report.

    group: the columns that together name an author or a pair, whose rows stay together when parts are drawn; resplit:
    draws the splits anew, by group, the rest being "train". merge: of some labels the classes that are made of others,
    as in rating: {good: [4, 5], bad: [1, 2]}; a text of none of these has no such label. classes: of some labels those
    that count; a text of a class that is too rare to be learnt then has no such label.
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
    group: tuple[str, ...] = ()
    resplit: Resplit | None = None
    merge: Mapping[str, Mapping[str, Annotated[tuple[Class, ...], Field(min_length=1)]]] = {}
    classes: Mapping[str, Annotated[tuple[str, ...], Field(min_length=2)]] = {}

    @field_validator("merge")
    @classmethod
    def _apart(cls, value: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Mapping[str, Any]]:
        for label, merged in value.items():
            every = [one for parts in merged.values() for one in parts]
            if twice := sorted({one for one in every if every.count(one) > 1}):
                raise ValueError(f"{label}: class {twice[0]!r} is in two classes; name it once")
        return value

    @field_validator("group", mode="before")
    @classmethod
    def _columns(cls, value: Any) -> Any:
        """One column may be written as its bare name."""
        return (value,) if isinstance(value, str) else value


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


class AutoencoderEntry(Section):
    """An autoencoder, which ADePT reads.

    shape, training: as in `latents/shared/autoencoder.py`; vectors: a file of word vectors.
    """

    corpus: PublicCorpus
    shape: Mapping[str, Any] = {}
    training: Mapping[str, Any] = {}
    vectors: str | None = None


Kind = Literal["transformer", "linear", "encoder"]
Attacker = Literal["static", "relabelled", "adaptive", "augmented", "author", "detector"]


class FineTuning(Section):
    """Settings of `models.classifier.FineTuning`; model: a folder or pin from the project's folder, or a hub id."""

    model: str = "data/embedded/models/deberta"
    rate: Annotated[float, Field(gt=0)] = 5e-4
    batch: PositiveInt = 8
    longest: Annotated[int, Field(ge=8)] = 128
    precision: Precision = "float32"
    epochs: PositiveInt = 1
    decay: Annotated[float, Field(ge=0)] = 0.01


class Labels(Section):
    """Which labels of a data set are tasks to be done, and which are private attributes to be inferred."""

    tasks: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()


class AuxiliariesEntry(Labels):
    """Classifiers, vectors and word relations that anonymisers read.

    dataset: whose training texts they see, `share` of these; attributes: labels to hide; tasks: labels to keep; kinds:
    of classifier, one each a label. vectors: a name in words.sources; relations: a file with the columns a, b,
    relation, from the project's folder.
    """

    dataset: str
    attributes: Annotated[tuple[str, ...], Field(min_length=1)]
    share: Probability = 0.5
    kinds: Annotated[tuple[Kind, ...], Field(min_length=1)] = ("transformer",)
    vectors: str
    relations: str | None = None
    training: FineTuning = FineTuning()


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


class RewriterEntry(Section):
    """An encoder-decoder, which adversarial_back_translation reads, trained on the auxiliaries' texts of a data set.

    count: the first so many of them, all by default; attribute: the label that its states are not to show; model: to
    start from, data/models/NAME; round_trip: the mechanism that makes the texts that it learns to write; training: of
    `anonymisers/shared/adversarial_rewriter.py`.
    """

    dataset: str
    count: PositiveInt | None = None
    attribute: str
    model: str
    round_trip: MechanismEntry
    training: Mapping[str, Any] = {}

    @property
    def cell(self) -> Cell:
        """The round trip as a cell."""
        return Cell(dataset=self.dataset, **dict(self.round_trip))


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


class TextCounts(Section):
    """How many texts classifiers are trained and tested on, and thresholds chosen on, at most.

    rewritten: in stage `anonymize`, how many of the training texts are rewritten, from which attackers learn; all of
    them by default. With fewer, victims still train on all of them.
    """

    train: PositiveInt = 1000
    test: PositiveInt = 1000
    validation: PositiveInt = 1000
    rewritten: PositiveInt | None = None

    @property
    def sizes(self) -> dict[str, int]:
        """Of the splits that classifiers are trained and tested on."""
        return {"train": self.train, "test": self.test}

    @property
    def anonymized(self) -> dict[str, int]:
        """Of the splits whose rewrites stage `anonymity` measures."""
        return {"train": min(self.train, self.rewritten or self.train), "test": self.test}


class Training(FineTuning):
    """Training with several seeds, of which each gives a classifier of its own."""

    seeds: PositiveInt = 5


class Classification(Section):
    """Classifiers of texts, clean and rewritten.

    labels: by data set, of every data set that has cells in `downstream` or `anonymity`; kinds: of the classifiers of
    clean texts, which are victims and static attackers. `downstream` trains transformers alone.
    """

    labels: Mapping[str, Labels] = {}
    kinds: Annotated[tuple[Kind, ...], Field(min_length=1)] = ("transformer",)
    texts: TextCounts = TextCounts()
    training: Training = Training()


class AnonymityCell(Cell):
    """A cell whose rewrites are measured by what classifiers still infer from them.

    part: whose texts are rewritten. "test": those that everything is measured on, and those that victims are trained
    on, for attackers who have seen rewrites; "validation": those that settings are chosen on, alone.
    """

    part: Literal["test", "validation"] = "test"


class Attackers(Section):
    """Who infers attributes from a cell's rewrites (`utility.attackers`).

    names: of the attackers; kinds: of their classifiers, among classification.kinds, all of them by default; seeds: how
    many of each kind at most; authors: how many texts of one author are read together. llm: language models that are
    asked, by their names in tables, with the settings of `utility.llm_inference`.
    """

    names: tuple[Attacker, ...] = ("static", "relabelled", "adaptive", "augmented", "author", "detector")
    kinds: tuple[Kind, ...] | None = None
    seeds: PositiveInt = 1
    authors: tuple[PositiveInt, ...] = (1, 5, 20)
    llm: Mapping[str, Mapping[str, Any]] = {}


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
