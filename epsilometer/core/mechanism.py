"""The interface of mechanisms: texts in, texts out, and optional capabilities.

A user's own mechanism is a Python file with a class or a plain function. The class has `rewrite(texts, epsilon, noise)`
and `guarantee(epsilon)`. The function is `rewrite(text, epsilon, rng) -> str`, and has no claim. If a mechanism has no
privacy budget, its class sets `has_budget = False`, or its function is `rewrite(text, rng) -> str`.
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

# Views that an adversary may have of a rewrite. `releases` lists the views that a mechanism publishes.
TEXT = "text"  # the rewritten text
UNITS = "units"  # the privatised units behind the rewritten text
LATENTS = "latents"  # the noisy vector that the rewritten text was decoded from
PROVIDER = "provider"  # what a provider sees during rewriting, besides the text


@dataclass(frozen=True)
class Latents:
    """Latent vectors before and after noise, one per text, float32 [n, d] each.

    before:  the encoded texts, clipped.
    after:   the same vectors with noise; everything else that is released is computed from `after`.
    """

    before: NDArray[np.float32]
    after: NDArray[np.float32]


@dataclass(frozen=True)
class Repeated(Sequence[str]):
    """A sequence of texts stored as distinct texts plus an index [n]."""

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
        """Return the texts at these places [m], in the order of the places."""
        return Repeated(self.texts, self.numbers[rows])


@dataclass(frozen=True)
class Rewrites:
    """The output of a mechanism for n texts.

    texts:   n rewritten texts.
    units:   the privatised units of each text, as output numbers of the mechanism's law; None if there are none.
    latents: the vectors behind each text; None if the mechanism has none.
    outcomes: an anonymiser's outcome for each text; None for other mechanisms.
    flaws:   uint8 [n], the `Flaw` of the service's answer for each text; None without a service.
    """

    texts: Sequence[str]
    units: Ragged | None = None
    latents: Latents | None = None
    outcomes: Outcomes | None = None
    flaws: NDArray[np.uint8] | None = None

    def take(self, rows: NDArray[np.integer]) -> Rewrites:
        """Return the rewrites with these row numbers [m], in this order."""
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
    """Counts of truncated texts, out-of-vocabulary words and texts far from public ones. Two counts can be added.

    cut, texts:      truncated texts (longer than the mechanism reads or writes), and all texts. texts is 0 if the
                     mechanism has no limit on length.
    unknown, words:  out-of-vocabulary words, and all words. words is 0 if the mechanism has no vocabulary.
    far, compared:   texts unlike every public text that the mechanism chooses among, and all texts compared with public
                     texts. compared is 0 if the mechanism does not choose among public texts.
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
        """The share of truncated texts; None if the mechanism has no limit on length."""
        return self.cut / self.texts if self.texts else None

    @property
    def unknown_share(self) -> float | None:
        """The share of out-of-vocabulary words; None without a vocabulary."""
        return self.unknown / self.words if self.words else None


class Mechanism(Protocol):
    """A text privatization mechanism. Models are loaded once, at first use."""

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        """Privatise n texts. The randomness for text i comes only from stream i of `noise`."""
        ...

    def guarantee(self, epsilon: float) -> Guarantee | None:
        """Return the claim at this privacy budget (nats); the claim depends on no private text. None: no claim."""
        ...


@runtime_checkable
class HasDistance(Protocol):
    """A mechanism whose claim for two texts is epsilon times a distance between them."""

    def distance(self, texts: Sequence[str], pairs: NDArray[np.integer], epsilon: float) -> NDArray[np.float64]:
        """Return [n] distances of text pairs [n, 2]; infinite for a pair that the claim does not cover.

        epsilon: the budget of the claim, since a distance may be capped at a value that depends on it.
        """
        ...


@runtime_checkable
class HasLaws(Protocol):
    """A mechanism whose output law can be computed: an exact distribution for each unit of a text."""

    def laws(self, texts: Sequence[str]) -> Laws:
        """Return the laws of the units of these texts."""
        ...


@runtime_checkable
class HasReadings(Protocol):
    """A mechanism whose forward pass does not depend on epsilon, and is cached since it takes most of the time.

    Rewriting, attacks and the exact loss run in separate processes, which share the cache.
    """

    def read(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the network's output for these texts, [rows, width]; 0 rows if the network is not available."""
        ...

    def recall(self, texts: Sequence[str], readings: NDArray[np.float32]) -> None:
        """Use `readings` as the cached result of `read` on these texts. Results must not change."""
        ...


@runtime_checkable
class HasLikelihood(Protocol):
    """A mechanism that computes the likelihood of its whole output, since its units are not independent draws."""

    def log_likelihoods(
        self,
        texts: Sequence[str],
        candidates: NDArray[np.integer],
        rewrites: Sequence[Rewrites],
        epsilons: Sequence[float],
    ) -> list[NDArray[np.float64]]:
        """Return log-likelihoods [n, k] for each epsilon. candidates: [n, k] text numbers; rewrites: n per epsilon.

        The output is the units, or the latents after the noise. A term that is the same for all candidates may be
        missing.
        """
        ...


@runtime_checkable
class DrawsBetween(Protocol):
    """A mechanism with a likelihood and an importance sampler for the losses of pairs of texts (`core/between.py`)."""

    def draws_between(self, texts: Sequence[str], pairs: NDArray[np.integer], epsilon: float, noise: Noise) -> Between:
        """Return one draw for each pair of text numbers [n, 2], each from its own stream of `noise`."""
        ...


@runtime_checkable
class Writes(Protocol):
    """A mechanism whose text may reveal more of its source than the units do, such as layout or unchanged words.

    `text_is_units` is true if the settings rule out such a leak: the text is then a function of the units alone.
    """

    def write(self, texts: Sequence[str], units: Ragged) -> list[str]:
        """Return the released text for each of n source texts. It depends only on the source text and its units."""
        ...


@runtime_checkable
class HasLatents(Protocol):
    """A mechanism that encodes each text as one vector and adds noise to the vector."""

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the latents before the noise, [n, d]."""
        ...


@runtime_checkable
class HasLatentNoise(HasLatents, Protocol):
    """A mechanism whose latents get independent noise of a known law on every coordinate."""

    def law(self, epsilon: float) -> Any:
        """Return a `Gaussian` or a `Laplace` of `epsilometer.mechanisms.latents.shared.noise`."""
        ...


@runtime_checkable
class HasFirstTokens(Protocol):
    """A mechanism that writes token by token."""

    def first_tokens(self, text: str, epsilons: Sequence[float], count: int) -> list[list[tuple[str, float]]]:
        """Return for each epsilon the `count` most likely first tokens of the text's rewrite, with probabilities."""
        ...


@runtime_checkable
class HasTokens(Protocol):
    """A mechanism whose claim counts units of a text."""

    def tokens(self, text: str) -> list[str]:
        """Return the units (words, subwords or triples) into which the mechanism splits the text."""
        ...


@runtime_checkable
class HasUnread(Protocol):
    """A mechanism with a vocabulary, or with a limit on the length of its input or output."""

    def unread(self, texts: Sequence[str]) -> Unread:
        """Return the counts of out-of-vocabulary words and of truncated texts."""
        ...


@runtime_checkable
class HasInputs(Protocol):
    """A mechanism whose inputs of one unit can be listed, for exhaustive checks."""

    @property
    def inputs(self) -> Sequence[str]:
        """Return texts of one unit each."""
        ...

    @property
    def output_texts(self) -> Sequence[str]:
        """Return the outputs of one unit, in the order in which the law numbers them."""
        ...


@runtime_checkable
class HasPublicTexts(Protocol):
    """A mechanism whose claim does not protect certain public texts."""

    @property
    def public_texts(self) -> Sequence[str]:
        """Return the texts that the mechanism was built from and treats as public."""
        ...


@runtime_checkable
class MovesVectors(Protocol):
    """A mechanism that adds continuous noise to the vector of each unit, and computes its output from the noisy points.

    Let the noise z have a density proportional to e^(-epsilon ||z||). Then the densities of the noisy points of two
    vectors x and x' differ by a factor of at most e^(epsilon ||x - x'||) everywhere. So the probability of an output
    also differs by at most this factor, which proves a claim of epsilon times the Euclidean distance.
    """

    def moved(
        self, texts: Sequence[str], epsilon: float, noise: Noise
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """For n texts of one unit, return the vectors [n, d] and the noisy points, which determine the rewrites.

        The claim's distance is Euclidean in these coordinates. None if the output depends on more than the noisy point.
        """
        ...


@dataclass(frozen=True)
class Directions:
    """The directions of units, and the concentrations of the von Mises-Fisher draws around them.

    rows: for each unit of each text, its row in `units`. units: float64 [W, d], directions of length 1. concentrations:
    [W], the kappa of each direction.
    """

    rows: Ragged
    units: NDArray[np.float64]
    concentrations: NDArray[np.float64]


@runtime_checkable
class TurnsVectors(Protocol):
    """A mechanism that draws a direction around each unit's direction, and computes its output from the draws.

    The draws are independent and follow von Mises-Fisher laws (`core/von_mises_fisher.py`). The losses of the drawn
    directions are upper bounds on the losses of the text.
    """

    def directions(self, texts: Sequence[str], epsilon: float) -> Directions:
        """Return the directions of the texts' units at this privacy budget."""
        ...

    def turned(self, texts: Sequence[str], epsilon: float, noise: Noise) -> NDArray[np.float64]:
        """For n texts of one unit, return the directions [n, d] that `rewrite` draws."""
        ...


@runtime_checkable
class HasBound(Protocol):
    """A mechanism whose law gives an upper bound on the loss minus the claimed loss, without enumerating outputs."""

    def excess_bound(self, epsilon: float) -> float | None:
        """Return the bound in nats over all inputs and outputs; at most 0 if the claim is true. None: no bound."""
        ...


@runtime_checkable
class RewritesGrid(Protocol):
    """A mechanism that shares work between privacy budgets."""

    def rewrite_grid(self, texts: Sequence[str], epsilons: Sequence[float], noises: Sequence[Noise]) -> list[Rewrites]:
        """Return the results of `rewrite` for several epsilons and their streams, in one pass."""
        ...


class OneOfGrid(ABC):
    """Base class of a mechanism whose `rewrite` is `rewrite_grid` at one epsilon."""

    @abstractmethod
    def rewrite_grid(self, texts: Sequence[str], epsilons: Sequence[float], noises: Sequence[Noise]) -> list[Rewrites]:
        """Rewrite the texts at several epsilons, as in `RewritesGrid`."""

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        """Return one rewrite per text, as in `Mechanism`."""
        return self.rewrite_grid(texts, [epsilon], [noise])[0]


@runtime_checkable
class TakesRepeated(Protocol):
    """A mechanism that takes `Repeated` texts: it is so fast that copying repeated texts would take longer."""

    takes_repeated: bool


Truths = Mapping[str, Mapping[str, str]]  # true classes, by text and label


@runtime_checkable
class TakesTruths(Protocol):
    """A mechanism that uses a text's true classes if they are known, and else its classifiers' predictions."""

    def with_truths(self, truths: Truths) -> Mechanism:
        """Return the mechanism with the true classes of texts. Raises UserError for an unknown class."""
        ...


def wants_all(mechanism: Mechanism) -> bool:
    """Return whether a mechanism takes all texts in one call, because every call is expensive (starts a program)."""
    return bool(getattr(mechanism, "wants_all", False))


def releases(mechanism: Mechanism | None) -> frozenset[str]:
    """Return the views that a mechanism publishes (its `releases`); the text alone by default.

    The units are among these views if the released text determines the units.
    """
    return getattr(mechanism, "releases", frozenset({TEXT}))


def law_of(mechanism: Mechanism | None) -> str:
    """Return the view that a mechanism's law or likelihood describes (its `law_of`); the units by default."""
    return getattr(mechanism, "law_of", UNITS)


def is_control(mechanism: Mechanism | None) -> bool:
    """Return whether a mechanism is a control (`control = True`): it checks the audit, and is not for use."""
    return bool(getattr(mechanism, "control", False))


def has_budget(mechanism: Mechanism) -> bool:
    """Return whether a mechanism takes a privacy budget (its `has_budget`); True by default."""
    return bool(getattr(mechanism, "has_budget", True))


def budgets(mechanism: Mechanism, epsilons: Sequence[float] | None, setting: str = "epsilons") -> Sequence[float]:
    """Return the budgets to rewrite at: `epsilons`, or only NO_BUDGET for a mechanism without a privacy budget.

    Raises UserError with the `setting` for an epsilon out of range, and for missing epsilons. Epsilons for a mechanism
    without a budget are also an error, since a table would show a budget that has no effect.
    """
    if epsilons is not None:
        check_epsilons(epsilons, setting)
        if not has_budget(mechanism):
            raise UserError(
                f"{setting} is {', '.join(f'{e:g}' for e in epsilons)}, but this mechanism takes no privacy budget; "
                "leave it out, or pass the budget on: {epsilon} in a program's command, or a function rewrite(text, "
                "epsilon, rng)",
                "EPS-C048",
            )
        return epsilons
    if has_budget(mechanism):
        raise UserError(
            f"{setting} is not set, but this mechanism takes a privacy budget; set it, or declare that there is none: "
            "`has_budget = False`, or a function rewrite(text, rng)",
            "EPS-C049",
        )
    return [NO_BUDGET]


def check_has_guarantee(mechanism: object, name: str) -> None:
    """Raise UserError if the mechanism of this name lacks the method that states its claim."""
    if not callable(getattr(mechanism, "guarantee", None)):
        raise UserError(
            f"{name} has no method guarantee; add guarantee(epsilon), which returns a Guarantee, or None without a "
            "claim (docs/how-to/your-own-mechanism.md)",
            "EPS-C050",
        )


def check_guarantees(mechanism: Mechanism, epsilons: Sequence[float]) -> None:
    """Raise UserError if a mechanism's claim at one of these budgets is neither a Guarantee nor None."""
    for epsilon in epsilons:
        claim: object = mechanism.guarantee(epsilon)
        if not isinstance(claim, Guarantee | None):
            raise UserError(
                f"guarantee returns {described(claim)}{at_budget(epsilon)}; return a Guarantee, or None "
                "without a claim",
                "EPS-C051",
            )


class FunctionMechanism:
    """A plain function as a mechanism without a claim: `rewrite(text, epsilon, rng) -> str`, or `rewrite(text, rng)`.

    has_budget: True if the function takes an epsilon.
    """

    def __init__(self, function: RewriteFunction) -> None:
        self.function: Callable[..., str] = function
        self.has_budget = not _takes(function, 2)
        if self.has_budget and not _takes(function, 3):
            raise UserError(
                f"a function must be rewrite(text, epsilon, rng) or rewrite(text, rng), got {_signature(function)}; "
                "write `lambda text, epsilon, rng: ...`, even if it does not use each argument",
                "EPS-C052",
            )
        if not self.has_budget and _second(function) in ("epsilon", "eps", "budget", "privacy_budget"):
            raise UserError(
                f"a function that takes an epsilon must be rewrite(text, epsilon, rng), got {_signature(function)}, "
                "whose second argument would be a random generator; add a third argument, rng, without a default",
                "EPS-C053",
            )

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        """Call the function once per text, each time with its own generator."""
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
        """Return None: nothing is claimed."""
        return None


def _takes(function: Callable[..., str], arguments: int) -> bool:
    """Return whether a function takes this many positional arguments. An unknown signature counts as three."""
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
    """Return the name of a function's second argument; None if its signature is not known."""
    try:
        return [*inspect.signature(function).parameters][1]
    except (TypeError, ValueError, IndexError):
        return None


def _signature(function: Callable[..., str]) -> str:
    return f"{getattr(function, '__name__', type(function).__name__)}{inspect.signature(function)}"


def build_mechanism(name: str, settings: Mapping[str, Any], resource: str | None, setting: str) -> Mechanism:
    """Build a mechanism by its name or the path of its file. This is fast, since models are loaded at first use.

    resource: the file that the mechanism reads, passed to a class with a setting `resource`. setting: the name of
    `settings` in errors.
    """
    definition = find("mechanisms", name, "rewrite")
    if inspect.isfunction(definition):
        if settings:
            raise UserError(f"{setting} must be empty, since a function has no settings; leave it out", "EPS-C054")
        return FunctionMechanism(definition)
    reads = resource is not None and "resource" in inspect.signature(definition).parameters
    mechanism: Mechanism = build(definition, {"resource": resource, **settings} if reads else settings, setting)
    check_has_guarantee(mechanism, name)
    return mechanism
