"""What a mechanism is: texts in, texts out, and the optional powers that some have.

A user's own mechanism is a Python file with either a class that has `rewrite(texts, epsilon, noise)` and
`guarantee(epsilon)`, or a plain function `rewrite(text, epsilon, rng) -> str` (then without a claim). A mechanism
without a privacy budget says `has_budget = False`, or is a function `rewrite(text, rng) -> str`.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, overload, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.between import Between
from epsilometer.core.component import build, described, find
from epsilometer.core.errors import UserError, raised_on
from epsilometer.core.guarantees import NO_BUDGET, Guarantee, at_budget, check_epsilons
from epsilometer.core.laws import Laws
from epsilometer.core.outcomes import Outcomes
from epsilometer.core.ragged import Ragged
from epsilometer.core.randomness import Noise

RewriteFunction = Callable[[str, float, np.random.Generator], str] | Callable[[str, np.random.Generator], str]

# What an adversary may see of a rewrite. Which of them a mechanism gives out is said by its `releases`.
TEXT = "text"  # the rewritten text
UNITS = "units"  # the privatised units behind it
LATENTS = "latents"  # the noisy vector that it was decoded from
PROVIDER = "provider"  # what a provider is shown on the way to it, besides the text


@dataclass(frozen=True)
class Latents:
    """What a mechanism that adds noise to one vector a text computed on its way, float32 [n, d] each.

    before:  the encoded texts, clipped.
    after:   these with noise; everything else that is released is computed from it.
    """

    before: NDArray[np.float32]
    after: NDArray[np.float32]


@dataclass(frozen=True)
class Repeated(Sequence[str]):
    """Many texts of which few differ: those that do, and of each place [n] which one stands there."""

    texts: Sequence[str]
    numbers: NDArray[np.integer]

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> Repeated: ...
    def __getitem__(self, place: int | slice) -> str | Repeated:
        if isinstance(place, slice):
            return Repeated(self.texts, self.numbers[place])
        return self.texts[self.numbers[place]]

    def __iter__(self) -> Iterator[str]:
        return map(self.texts.__getitem__, self.numbers.tolist())

    def take(self, rows: NDArray[np.integer]) -> Repeated:
        """Returns those of these places [m], in their order."""
        return Repeated(self.texts, self.numbers[rows])


@dataclass(frozen=True)
class Rewrites:
    """What a mechanism made of n texts.

    texts:   n rewritten texts.
    units:   the privatised units behind each text, numbered as the mechanism's law numbers its outputs; None where
             the mechanism has no units.
    latents: the vectors behind each text; None where the mechanism has none.
    outcomes: what an anonymiser says of each text; None for other mechanisms.
    flaws:   uint8 [n], the `Flaw` of each answer of a service; None where no service answers.
    """

    texts: Sequence[str]
    units: Ragged | None = None
    latents: Latents | None = None
    outcomes: Outcomes | None = None
    flaws: NDArray[np.uint8] | None = None

    def take(self, rows: NDArray[np.integer]) -> Rewrites:
        """Returns those of these rows [m], in their order."""
        return Rewrites(
            self.texts.take(rows)
            if isinstance(self.texts, Repeated)
            else list(map(self.texts.__getitem__, rows.tolist())),
            None if self.units is None else self.units.take(rows),
            None if self.latents is None else Latents(self.latents.before[rows], self.latents.after[rows]),
            None if self.outcomes is None else self.outcomes.take(rows),
            flaws=None if self.flaws is None else self.flaws[rows],
        )


@dataclass(frozen=True)
class Unread:
    """How much of some texts a mechanism does not take in; counts add up.

    cut, texts:      how many of the texts are longer than what it reads or writes.
    unknown, words:  how many of their words are outside its vocabulary; no words: it has none.
    far, compared:   how many of the texts are like none of the public texts among which it chooses; none compared: it
                     chooses among none.
    """

    cut: int = 0
    texts: int = 0
    unknown: int = 0
    words: int = 0
    far: int = 0
    compared: int = 0

    def __add__(self, other: Unread) -> Unread:
        return Unread(
            self.cut + other.cut,
            self.texts + other.texts,
            self.unknown + other.unknown,
            self.words + other.words,
            far=self.far + other.far,
            compared=self.compared + other.compared,
        )

    @property
    def cut_share(self) -> float | None:
        """Of the texts; None where there is no limit."""
        return self.cut / self.texts if self.texts else None

    @property
    def unknown_share(self) -> float | None:
        """Of the words; None where there is no vocabulary."""
        return self.unknown / self.words if self.words else None


class Mechanism(Protocol):
    """A text privatization mechanism. Models are loaded once, at first use."""

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        """Privatise n texts, text i with stream i of `noise` and nothing else."""
        ...

    def guarantee(self, epsilon: float) -> Guarantee | None:
        """What is claimed at this privacy budget (nats); never depends on a private text. None: no claim."""
        ...


@runtime_checkable
class HasDistance(Protocol):
    """A mechanism whose claim for two texts is epsilon times a distance between them."""

    def distance(self, texts: Sequence[str], pairs: NDArray[np.integer], epsilon: float) -> NDArray[np.float64]:
        """pairs: [n, 2] text numbers -> [n] distances, infinite where the claim does not cover the pair.

        epsilon: the budget of the claim, since a distance may be cut off where the budget says.
        """
        ...


@runtime_checkable
class HasLaws(Protocol):
    """A mechanism whose output law can be computed: one exact distribution for each unit of a text."""

    def laws(self, texts: Sequence[str]) -> Laws:
        """The laws of the units of these texts."""
        ...


@runtime_checkable
class HasReadings(Protocol):
    """A mechanism whose network reads texts whatever the budget, which takes longer than all that follows from it.

    So that rewriting, attacking and the exact loss, each a process, need not do it three times.
    """

    def read(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Returns [rows, width]: what the network makes of these texts, without rows where that cannot be had."""
        ...

    def recall(self, texts: Sequence[str], readings: NDArray[np.float32]) -> None:
        """Take these for what `read` returns of the texts, which are then not read again. No figure may change."""
        ...


@runtime_checkable
class HasLikelihood(Protocol):
    """A mechanism that can say how likely its output is, where units are not independent draws as in `HasLaws`."""

    def log_likelihoods(
        self,
        texts: Sequence[str],
        candidates: NDArray[np.integer],
        rewrites: Sequence[Rewrites],
        epsilons: Sequence[float],
    ) -> list[NDArray[np.float64]]:
        """candidates: [n, k] text numbers; rewrites: n an epsilon -> for each epsilon [n, k] log-likelihoods.

        Of the units, or of the latents after the noise; up to a term that is the same for all texts.
        """
        ...


@runtime_checkable
class DrawsBetween(Protocol):
    """A mechanism with a likelihood that can be drawn from a law between those of two texts."""

    def draws_between(self, texts: Sequence[str], pairs: NDArray[np.integer], epsilon: float, noise: Noise) -> Between:
        """pairs: [n, 2] text numbers -> one draw for each, with its own stream: of what `log_likelihoods` is about."""
        ...


@runtime_checkable
class Writes(Protocol):
    """A mechanism whose text may show more of its source than the units: its layout, or words that are let through.

    Where settings rule that out, `text_is_units` may say so (true): the text then is a function of the units alone.
    """

    def write(self, texts: Sequence[str], units: Ragged) -> list[str]:
        """The text that is released for each of n texts when its units are these: a function of both alone."""
        ...


@runtime_checkable
class HasLatents(Protocol):
    """A mechanism that encodes each text as one vector and adds noise to that."""

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Returns [n, d]: the latents before the noise."""
        ...


@runtime_checkable
class HasLatentNoise(HasLatents, Protocol):
    """A mechanism whose latents get independent noise of a known law on every coordinate."""

    def law(self, epsilon: float) -> Any:
        """A `Gaussian` or a `Laplace` of `epsilometer.mechanisms.latents.shared.noise`."""
        ...


@runtime_checkable
class HasFirstTokens(Protocol):
    """A mechanism that writes token by token."""

    def first_tokens(self, text: str, epsilons: Sequence[float], count: int) -> list[list[tuple[str, float]]]:
        """For each epsilon the `count` likeliest first tokens of the text's rewrite, with their probabilities."""
        ...


@runtime_checkable
class HasTokens(Protocol):
    """A mechanism whose claim counts parts of a text."""

    def tokens(self, text: str) -> list[str]:
        """The parts that the text falls into: words, subwords or triples, as the mechanism cuts it."""
        ...


@runtime_checkable
class HasUnread(Protocol):
    """A mechanism with a vocabulary, or with a limit to the length of what it reads or writes."""

    def unread(self, texts: Sequence[str]) -> Unread:
        """How many of the words are unknown to it, and how many of the texts it cuts."""
        ...


@runtime_checkable
class HasInputs(Protocol):
    """A mechanism whose inputs of one unit can be listed, for checks that go through all of them."""

    @property
    def inputs(self) -> Sequence[str]:
        """Texts of one unit each."""
        ...

    @property
    def output_texts(self) -> Sequence[str]:
        """The outputs of one unit, in the order in which the law numbers them."""
        ...


@runtime_checkable
class HasPublicTexts(Protocol):
    """A mechanism whose claim holds for texts that are not among certain public ones."""

    @property
    def public_texts(self) -> Sequence[str]:
        """The texts that it was made from, and counts as public."""
        ...


@runtime_checkable
class MovesVectors(Protocol):
    """A mechanism that adds continuous noise to the vector of each unit, and computes the rest from where that lands.

    Where the noise z has the density ~ e^(-epsilon ||z||), two vectors x, x' give any point densities whose ratio is at
    most e^(epsilon ||x - x'||), and so any output: the claim, if its epsilon and its distance are these.
    """

    def moved(
        self, texts: Sequence[str], epsilon: float, noise: Noise
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """The vectors [n, d] of texts of one unit, and where they land with the noise that `rewrite` adds.

        In coordinates in which the claim's distance is Euclidean. None where more than that point decides the output.
        """
        ...


@runtime_checkable
class HasBound(Protocol):
    """A mechanism whose law bounds by how much any loss can exceed its claim, without going through all outputs."""

    def excess_bound(self, epsilon: float) -> float | None:
        """In nats, over all pairs of inputs and all outputs; at most 0 where the claim is true. None: no bound."""
        ...


@runtime_checkable
class RewritesGrid(Protocol):
    """A mechanism that shares work between privacy budgets."""

    def rewrite_grid(self, texts: Sequence[str], epsilons: Sequence[float], noises: Sequence[Noise]) -> list[Rewrites]:
        """As `rewrite`, for several epsilons and their streams in one pass; equal to rewriting one by one."""
        ...


class OneOfGrid(ABC):
    """For a mechanism whose `rewrite` is one epsilon of its `rewrite_grid`."""

    @abstractmethod
    def rewrite_grid(self, texts: Sequence[str], epsilons: Sequence[float], noises: Sequence[Noise]) -> list[Rewrites]:
        """As `RewritesGrid` has it."""

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        """One rewrite a text, as `Mechanism` has it."""
        return self.rewrite_grid(texts, [epsilon], [noise])[0]


@runtime_checkable
class TakesRepeated(Protocol):
    """A mechanism whose work on a trial is less than handling its text: it is given `Repeated` texts."""

    takes_repeated: bool


Truths = Mapping[str, Mapping[str, str]]  # of texts, the true class of each label that is known


@runtime_checkable
class TakesTruths(Protocol):
    """A mechanism that takes its classifiers' word for a text's classes only where it is not told the true ones."""

    def with_truths(self, truths: Truths) -> Mechanism:
        """Returns the mechanism, told the true classes of texts. Raises UserError for a class that it does not know."""
        ...


def wants_all(mechanism: Mechanism) -> bool:
    """Returns whether it is given all texts at once, since every call costs much, such as the start of a program."""
    return bool(getattr(mechanism, "wants_all", False))


def releases(mechanism: Mechanism | None) -> frozenset[str]:
    """What a mechanism gives out: its `releases`; the text alone where it says nothing.

    Units belong to it where the released text determines them, so that an adversary who has the text has them as well.
    """
    return getattr(mechanism, "releases", frozenset({TEXT}))


def law_of(mechanism: Mechanism | None) -> str:
    """What a mechanism's law or likelihood describes: its `law_of`; the units where it says nothing."""
    return getattr(mechanism, "law_of", UNITS)


def is_control(mechanism: Mechanism | None) -> bool:
    """Whether a mechanism is there to check the audit and not to be used (`control = True`)."""
    return bool(getattr(mechanism, "control", False))


def has_budget(mechanism: Mechanism) -> bool:
    """Whether a mechanism takes a privacy budget: its `has_budget`; it does where it says nothing."""
    return bool(getattr(mechanism, "has_budget", True))


def budgets(mechanism: Mechanism, epsilons: Sequence[float] | None, setting: str = "epsilons") -> Sequence[float]:
    """Returns the budgets to rewrite at: `epsilons`, or NO_BUDGET alone where there are none and none is needed.

    Raises UserError, naming the `setting`, for epsilons out of range, for some where the mechanism takes none, so that
    no table says a budget that had no effect, and for none where it takes one.
    """
    if epsilons is not None:
        check_epsilons(epsilons, setting)
        if not has_budget(mechanism):
            raise UserError(
                f"{setting} must be left out, got {', '.join(f'{e:g}' for e in epsilons)}, since this mechanism takes "
                "no privacy budget; a program takes one by {epsilon} in its command, a function as "
                "rewrite(text, epsilon, rng)"
            )
        return epsilons
    if has_budget(mechanism):
        raise UserError(
            f"{setting} must be given, since this mechanism takes a privacy budget; only a mechanism that says "
            "`has_budget = False`, or is a function rewrite(text, rng), takes none"
        )
    return [NO_BUDGET]


def check_has_guarantee(mechanism: object, name: str) -> None:
    """Raises UserError where a mechanism of this name lacks the method that says what it claims."""
    if not callable(getattr(mechanism, "guarantee", None)):
        raise UserError(
            f"{name} has no method guarantee; give it one, guarantee(epsilon), that returns a Guarantee, or None "
            "without a claim (docs/your-own-mechanism.md)"
        )


def check_guarantees(mechanism: Mechanism, epsilons: Sequence[float]) -> None:
    """Raises UserError where what a mechanism claims at one of these budgets is neither a Guarantee nor None."""
    for epsilon in epsilons:
        claim: object = mechanism.guarantee(epsilon)
        if not isinstance(claim, Guarantee | None):
            raise UserError(
                f"guarantee returns {described(claim)}{at_budget(epsilon)}; return a Guarantee, or None without a claim"
            )


class FunctionMechanism:
    """A plain function as a mechanism without a claim: `rewrite(text, epsilon, rng) -> str`, or `rewrite(text, rng)`.

    has_budget: whether the function takes an epsilon.
    """

    def __init__(self, function: RewriteFunction) -> None:
        self.function: Callable[..., str] = function
        self.has_budget = not _takes(function, 2)
        if self.has_budget and not _takes(function, 3):
            raise UserError(
                f"a function must be rewrite(text, epsilon, rng) or rewrite(text, rng), got {_signature(function)}; "
                "write `lambda text, epsilon, rng: ...`, which need not use them all"
            )
        if not self.has_budget and _second(function) in ("epsilon", "eps", "budget", "privacy_budget"):
            raise UserError(
                f"a function that takes an epsilon must be rewrite(text, epsilon, rng), got {_signature(function)}, "
                "whose second argument would be a random generator; give it a third, rng, without a default"
            )

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        """One call a text, each with a generator of its own."""
        budget = [epsilon] if self.has_budget else []
        rewrites = []
        for i, text in enumerate(texts):
            try:
                rewrites.append(self.function(text, *budget, noise.generator(i)))
            except Exception as error:
                raised_on(error, i)
                raise
        return Rewrites(rewrites)

    def guarantee(self, epsilon: float) -> Guarantee | None:
        """Nothing is claimed."""
        return None


def _takes(function: Callable[..., str], arguments: int) -> bool:
    """Whether a function can be called with so many arguments by position; with three where it does not tell."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return arguments == 3
    try:
        signature.bind(*[None] * arguments)
    except TypeError:
        return False
    return True


def _second(function: Callable[..., str]) -> str | None:
    """The name of a function's second argument; None where it does not tell."""
    try:
        return [*inspect.signature(function).parameters][1]
    except (TypeError, ValueError, IndexError):
        return None


def _signature(function: Callable[..., str]) -> str:
    return f"{getattr(function, '__name__', type(function).__name__)}{inspect.signature(function)}"


def build_mechanism(name: str, settings: Mapping[str, Any], resource: str | None, setting: str) -> Mechanism:
    """A mechanism by module name or path of its file; cheap, since models load at first use.

    resource: what it reads, given to the classes that have such a setting. setting: the name of `settings` in errors.
    """
    definition = find("mechanisms", name, "rewrite")
    if inspect.isfunction(definition):
        if settings:
            raise UserError(f"{setting} must be empty: a plain function has no settings")
        return FunctionMechanism(definition)
    reads = resource is not None and "resource" in inspect.signature(definition).parameters
    mechanism: Mechanism = build(definition, {"resource": resource, **settings} if reads else settings, setting)
    check_has_guarantee(mechanism, name)
    return mechanism
