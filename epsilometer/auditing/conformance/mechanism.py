"""The rules that a mechanism must follow."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import chi2, ncx2

from epsilometer.auditing.conformance.rules import FALSE_ALARM, TEXTS, Check, Holds, Rule, checked, lacks, refuses
from epsilometer.auditing.trials.memory import Recollection
from epsilometer.auditing.trials.rewriting import Job
from epsilometer.core import mechanism as powers
from epsilometer.core.errors import UserError
from epsilometer.core.guarantees import WHOLE, Granularity, Guarantee
from epsilometer.core.mechanism import (
    HasDistance,
    HasInputs,
    HasLaws,
    Mechanism,
    Repeated,
    Rewrites,
    RewritesGrid,
    TakesRepeated,
    Writes,
    budgets,
    has_budget,
)
from epsilometer.core.randomness import Noise

_DRAWS = 4000  # rewrites of a text in a test of their distribution
_BUDGETS = (1.0, 2.0, 4.0)  # multiples of epsilon at which draws are compared with the law
_POWER = 0.9  # probability of detecting the smallest departure that a remark reports
_INPUTS = 5  # number of a mechanism's listed inputs to use, spread over the list
_BATCHES = 60  # batches of distinct texts, in the test of a publication
_FEW = 16  # rewrites to inspect before drawing _DRAWS rewrites
_TRIALS = 300  # rewrites of one text, which must not all be equal
_AGAIN = 20  # rewrites of each text; some outputs then repeat
_BINS = 20  # largest number of groups of outputs compared with a law
_OUT = (0.0, -1.0, math.nan, math.inf)  # invalid privacy budgets
_SPELLED = 1.1  # largest allowed ratio of distinct unit sequences to distinct texts; tokens may be spelled alike
_COLUMNS = 1024  # largest number of latent dimensions compared with each other
_ALIKE = 0.99  # correlation of shared noise: independent noise reaches it with probability < 1e-50


def check_mechanism(mechanism: Mechanism, epsilon: float | None, texts: Sequence[str] = TEXTS) -> list[Check]:
    """Return the checks of a mechanism at an epsilon (None for a mechanism without a privacy budget).

    texts: texts that the mechanism can read; at least one must have more than one word. If the mechanism lists
    `inputs`, some of these are used as well. Raises UserError if a required epsilon is missing, or if the mechanism
    takes none.
    """
    (budget,) = budgets(mechanism, None if epsilon is None else [epsilon])
    return checked(_Checks(mechanism, budget, list(dict.fromkeys(texts))).rules())


@dataclass(frozen=True)
class _Checks:
    """A mechanism under test, at an epsilon, on texts."""

    mechanism: Mechanism
    epsilon: float
    texts: list[str]

    def rules(self) -> Iterator[Rule]:
        yield "rewrite and guarantee exist and return Rewrites, and a Guarantee or None", self._interface
        yield "equal noise gives equal rewrites", self._reproducible
        yield "each rewrite depends on its own text and noise alone, not on the rest of the batch", self._alone
        yield "noise differs between trials, and between seeds", self._fresh
        yield "rewrite works with the noise of a publication", self._publication
        yield (
            "a publication's batches of distinct texts have the distribution of repeated texts under a seed",
            self._batches,
        )
        if isinstance(self.mechanism, RewritesGrid):
            yield "rewrite_grid equals rewrite at each epsilon", self._grid
        if isinstance(self.mechanism, TakesRepeated):
            yield "`Repeated` texts are rewritten like lists of texts", self._repeated
        if isinstance(self.mechanism, Writes):
            yield "write returns the released text of given units", self._writes
        if has_budget(self.mechanism):
            yield "guarantee rejects invalid budgets, and does not fall as epsilon grows", self._budgets
        yield "a claim for parts of a text has a distance between texts", self._granularity
        if isinstance(self.mechanism, HasDistance):
            yield "distance is symmetric, at least 0, and 0 between equal texts", self._distance
            yield "distance does not scale a claim between any two texts", self._any_texts
        if isinstance(self.mechanism, HasLaws):
            yield "laws are probabilities that sum to one", self._normalised
            yield "rewrite draws from laws", self._by_laws
            if {powers.TEXT, powers.UNITS} <= powers.releases(self.mechanism):
                yield "the released text and its units determine each other", self._shown
        if isinstance(self.mechanism, HasInputs):
            yield "inputs have one unit each, and output_texts match the law's outputs", self._listed
        yield "each part of a text has separate noise", self._own_noise

    def _rewrite(self, texts: Sequence[str], noise: Noise) -> Rewrites:
        rows = np.arange(len(texts))
        (rewrites,) = Job(texts, rows, [self.epsilon], [noise]).run(self.mechanism, rows).rewrites
        return rewrites

    @property
    def _read(self) -> list[str]:
        """The texts, and some inputs if the mechanism lists them."""
        if not isinstance(self.mechanism, HasInputs):
            return self.texts
        inputs = self.mechanism.inputs
        spread = {int(place) for place in np.linspace(0, len(inputs) - 1, _INPUTS)} if len(inputs) else set()
        return list(dict.fromkeys([*self.texts, *(inputs[i] for i in sorted(spread))]))

    def _interface(self) -> str | None:
        for name, arguments in (("rewrite", 3), ("guarantee", 1)):
            if problem := lacks(self.mechanism, name, arguments, "docs/how-to/your-own-mechanism.md"):
                return problem
        for name, arguments in _methods(self.mechanism):
            if problem := refuses(self.mechanism, name, arguments):
                return problem
        claim: object = self.mechanism.guarantee(self.epsilon)
        if not isinstance(claim, Guarantee | None):
            return f"guarantee returns {type(claim).__name__}; return a Guarantee, or None without a claim"
        self._rewrite(self.texts, _noise(self.texts))
        return None

    def _reproducible(self) -> str | None:
        texts = self._read * 4
        first, second = (self._rewrite(texts, _noise(texts)) for _ in range(2))
        if _equal(first, second):
            return None
        return "two calls with the same noise differ; draw from `noise` alone, not from numpy, torch or random"

    def _alone(self) -> str | None:
        texts = self._read * 4
        noise, whole = _noise(texts), self._rewrite(texts, _noise(texts))
        order = np.random.default_rng(0).permutation(len(texts))
        for rows, what in ((order, "in another order"), (order[::3], "with fewer others"), (order[:1], "alone")):
            part = self._rewrite([texts[i] for i in rows], noise[rows])
            if not _equal(part, whole.take(rows)):
                return f"a rewrite changes {what}; draw text i from stream i of `noise`, and keep no state"
        return None

    def _fresh(self) -> str | None:
        if self.mechanism.guarantee(self.epsilon) is None:
            return self._remembered()  # a mechanism without a claim may be deterministic
        outputs = set()
        for text in self._read:
            rewrites = self._rewrite([text] * _TRIALS, _noise([text] * _TRIALS))
            if len(set(_each(rewrites))) > 1:
                again = self._rewrite([text] * _TRIALS, Noise.named(_TRIALS, "conformance", "another seed"))
                if not _equal(again, rewrites):
                    return None
                return "another seed gives the same rewrites; draw from `noise`, not from a generator with a fixed seed"
            outputs.add(rewrites.texts[0])
        if len(outputs) == 1:
            return None  # a constant output reveals nothing
        return (
            f"{_TRIALS} rewrites of a text are equal, and differ from those of another text: without noise no claim "
            "holds; use stream i of `noise` for text i"
        )

    def _remembered(self) -> str | None:
        """Return a remark if the mechanism repeats its answers to repeated texts, else None."""
        texts, recollection = self.texts * _AGAIN, Recollection()
        recollection.add(texts, self._rewrite(texts, _noise(texts)).texts)
        memory = recollection.memory
        return Holds(memory.said()) if memory is not None and memory.repeated else None

    def _publication(self) -> str | None:
        self._rewrite(self.texts, Noise.operating_system(len(self.texts)))
        return None

    def _batches(self) -> str | None:
        """Run a chi-square test of the rewrites of each text, at FALSE_ALARM over all tests."""
        texts, count = self.texts, len(self.texts)
        released = [list(self._rewrite(texts, Noise.operating_system(count)).texts) for _ in range(_BATCHES)]
        repeated = list(self._rewrite(texts * _BATCHES, _noise(texts * _BATCHES)).texts)
        pairs = [([batch[i] for batch in released], repeated[i::count]) for i in range(count)]
        if any(_alike(*pair) * count < FALSE_ALARM for pair in pairs):
            return (
                f"{_BATCHES} batches of distinct texts under the operating system's noise are rewritten differently "
                "from the same texts repeated under a seed, so an audit does not test what is released; treat both "
                "alike"
            )
        least = _least_departure(1, _BATCHES / 2, FALSE_ALARM / count)
        if least >= 1:
            return None
        return Holds(
            f"for outputs that repeat, a difference of {least:.2f} in their share is detected with probability "
            f"{_POWER:g}; dependence on the date, or on earlier rewrites, is not tested"
        )

    def _grid(self) -> str | None:
        assert isinstance(self.mechanism, RewritesGrid)
        epsilons = [self.epsilon, 2 * self.epsilon]
        noises = [Noise.named(len(self.texts), "conformance", epsilon) for epsilon in epsilons]
        together = self.mechanism.rewrite_grid(self.texts, epsilons, noises)
        for epsilon, noise, rewrites in zip(epsilons, noises, together, strict=True):
            if not _equal(self.mechanism.rewrite(self.texts, epsilon, noise), rewrites):
                return (
                    f"rewrite_grid and rewrite differ at epsilon {epsilon:g}; use the noise of each epsilon for that "
                    "epsilon alone"
                )
        return None

    def _repeated(self) -> str | None:
        numbers = np.arange(3 * len(self.texts)) % len(self.texts)
        repeated = Repeated(self.texts, numbers)
        plain = self.mechanism.rewrite(list(repeated), self.epsilon, _noise(numbers))
        if _equal(plain, self.mechanism.rewrite(repeated, self.epsilon, _noise(numbers))):
            return None
        return (
            "`Repeated` texts and a list of the same texts are rewritten differently; use stream i of `noise` for "
            "text i, repeated or not"
        )

    def _writes(self) -> str | None:
        assert isinstance(self.mechanism, Writes)
        rewrites = self._rewrite(self.texts, _noise(self.texts))
        if rewrites.units is None:
            return "rewrite returns no units; return the units that write takes"
        if self.mechanism.write(self.texts, rewrites.units) != list(rewrites.texts):
            return "write and rewrite return different texts for the same units; make them equal"
        if not getattr(self.mechanism, "text_is_units", False):
            return None
        others = [*self.texts[1:], self.texts[0]]
        if self.mechanism.write(others, rewrites.units) == list(rewrites.texts):
            return None
        return "write returns different texts for the same units of different sources; correct it, or `text_is_units`"

    def _budgets(self) -> str | None:
        if self.mechanism.guarantee(self.epsilon) is None:
            return None
        for wrong in _OUT:
            try:
                claim = self.mechanism.guarantee(wrong)
            except ValueError:
                continue
            if claim is not None:
                return f"guarantee({wrong:g}) returns a claim; raise a ValueError, as Guarantee(epsilon, ...) does"
        grid = [self.epsilon * factor for factor in (0.25, 0.5, 1, 2, 4)]
        claims = [claim.size for claim in map(self.mechanism.guarantee, grid) if claim is not None]
        if claims != sorted(claims):
            return (
                f"the claim falls between two of the budgets {', '.join(f'{e:g}' for e in grid)}; claim more at a "
                "larger budget"
            )
        return None

    def _granularity(self) -> str | None:
        claim = self.mechanism.guarantee(self.epsilon)
        whole = claim is None or claim.granularity in WHOLE
        if claim is None or (whole and claim.metric is None) or isinstance(self.mechanism, HasDistance):
            return None
        unit = claim.metric or claim.granularity.value
        return (
            f"the claim is per {unit}, but the number of {unit}s between two texts is not stated, so no audit can test "
            "it; add a method `distance(texts, pairs, epsilon)`"
        )

    def _distance(self) -> str | None:
        assert isinstance(self.mechanism, HasDistance)
        texts = self._read
        pairs = np.array([(i, j) for i in range(len(texts)) for j in range(len(texts))])
        there = np.asarray(self.mechanism.distance(texts, pairs, self.epsilon), np.float64)
        back = np.asarray(self.mechanism.distance(texts, pairs[:, ::-1], self.epsilon), np.float64)
        if there.shape != (len(pairs),):
            return f"distance returns the shape {there.shape} for {len(pairs)} pairs; return one distance per pair"
        if not (there >= 0).all():
            return (
                "the distance of a pair is negative or NaN; return numbers >= 0, and infinity for pairs without a claim"
            )
        if not np.allclose(there, back, rtol=1e-9, atol=1e-12):
            return "the distance of a pair differs from that of the reversed pair; return the same number for both"
        if (there[pairs[:, 0] == pairs[:, 1]] > 1e-9).any():
            return "the distance of a text to itself is above 0; return 0"
        return None

    def _any_texts(self) -> str | None:
        """Check that `distance` does not scale a claim that states one epsilon for all pairs (without a metric)."""
        assert isinstance(self.mechanism, HasDistance)
        claim = self.mechanism.guarantee(self.epsilon)
        if claim is None or not claim.of_any_texts:
            return None
        texts = self._read
        pairs = np.array([(i, j) for i in range(len(texts)) for j in range(i) if texts[i] != texts[j]])
        apart = np.asarray(self.mechanism.distance(texts, pairs, self.epsilon), np.float64)
        scaled = apart[(apart != 0) & (apart != 1)]
        if not len(scaled):
            return None
        return (
            "guarantee claims the same epsilon between any two texts, but distance multiplies it by up to "
            f"{scaled.max():g}; return 1 for different texts, or name the distance as `metric` of the Guarantee"
        )

    def _normalised(self) -> str | None:
        assert isinstance(self.mechanism, HasLaws)
        laws = self.mechanism.laws(self._read)
        rows = np.unique(laws.rows.values)[: laws.chunk()]
        try:
            list(laws.log_probabilities(rows, [self.epsilon]))
        except UserError as error:
            return str(error)
        return None

    def _by_laws(self) -> str | None:
        """Run a chi-square test of the outputs at each place of each text and budget, at FALSE_ALARM over all tests."""
        assert isinstance(self.mechanism, HasLaws)
        budgets_tested = (
            [self.epsilon * factor for factor in _BUDGETS] if has_budget(self.mechanism) else [self.epsilon]
        )
        level, least = FALSE_ALARM / len(budgets_tested), 0.0
        for budget in budgets_tested:
            of = replace(self, epsilon=budget)
            problem, missed = of._by_law(level)
            if problem is not None:
                return problem
            least = max(least, missed)
        at = ", ".join(f"{budget:g}" for budget in budgets_tested)
        return Holds(
            f"at epsilon {at}, a departure of {least:.3f} or more in total variation, over up to {_BINS} groups of "
            f"outputs, is detected with probability {_POWER:g}; smaller departures, and those within a group, may "
            "remain"
        )

    def _by_law(self, level: float) -> tuple[str | None, float]:
        """Return the problem at this epsilon or None, and the smallest departure from the law that the tests detect."""
        assert isinstance(self.mechanism, HasLaws)
        texts = self._read
        laws, places = self.mechanism.laws(texts), []
        for number, text in enumerate(texts):
            units = self._rewrite([text] * _DRAWS, _noise([text] * _DRAWS)).units
            if units is None:
                return "rewrite returns no units; return them, numbered like the law's outputs", 1.0
            rows = laws.rows.take(np.array([number])).values
            if (units.lengths != len(rows)).any():
                problem = (
                    f"a text has {len(rows)} rows in the law for {int(units.lengths[0])} units; return one row per unit"
                )
                return problem, 1.0
            table = units.values.reshape(_DRAWS, len(rows))
            places += [(row, table[:, place]) for place, row in enumerate(rows.tolist())]
        missed = 0.0
        for row, outputs in places:
            (law,) = laws.log_probabilities(np.array([row]), [self.epsilon])
            p_value, groups = _chi_square(np.exp(law[0]), outputs)
            if p_value * len(places) < level:
                problem = (
                    f"at epsilon {self.epsilon:g}, {_DRAWS} rewrites do not have the distribution of the law (p < "
                    f"{FALSE_ALARM:g}); check that law and sampling use the same epsilon and input"
                )
                return problem, 1.0
            missed = max(missed, _least_departure(groups - 1, _DRAWS, level / len(places)))
        return None, missed

    def _shown(self) -> str | None:
        texts = self._read + (list(self.mechanism.inputs[:50]) if isinstance(self.mechanism, HasInputs) else [])
        rewrites = self._rewrite(texts * _AGAIN, _noise(texts * _AGAIN))
        if rewrites.units is None:
            return None  # another rule reports this
        each = [(text, tuple(rewrites.units.row(i).tolist())) for i, text in enumerate(rewrites.texts)]
        if len(set(each)) > _SPELLED * len({text for text, _ in each}):
            return (
                "different units have the same released text, so it does not reveal them; leave units out of `releases`"
            )
        if not isinstance(self.mechanism, Writes) and len(set(each)) > len({units for _, units in each}):
            return (
                "equal units have different released texts, so the text reveals more than the law covers; add `write`"
            )
        return None

    def _listed(self) -> str | None:
        assert isinstance(self.mechanism, HasInputs)
        if not isinstance(self.mechanism, HasLaws):
            return None
        some = list(self.mechanism.inputs[:50])
        laws = self.mechanism.laws(some)
        if len(set(laws.rows.lengths.tolist())) > 1:
            return "inputs have different numbers of units; list texts of one unit each"
        if len(self.mechanism.output_texts) != laws.outputs:
            return (
                f"{len(self.mechanism.output_texts)} output_texts are listed for {laws.outputs} outputs of the law; "
                "list all of them"
            )
        return None

    def _own_noise(self) -> str | None:
        """Check that equal words of a text have independent noise, and that the dimensions of a latent do too.

        The check of words is only for claims per word, under which words are randomised one by one.
        """
        claim = self.mechanism.guarantee(self.epsilon)
        if claim is not None and claim.granularity == Granularity.WORD:
            for text in self._read:
                twice = " ".join([text.split()[0]] * 2)
                streams = _noise([twice] * _DRAWS)
                if any(
                    len(text.split()) != 2 for text in self._rewrite([twice] * _FEW, streams[np.arange(_FEW)]).texts
                ):
                    continue  # generated text is costly, and its words do not correspond to input words
                rewrites = [text.split() for text in self._rewrite([twice] * _DRAWS, streams).texts]
                pairs = [(split[0], split[1]) for split in rewrites if len(split) == 2]
                if len(pairs) == _DRAWS and _dependence(pairs) * len(self._read) < FALSE_ALARM:
                    return (
                        f"the rewrites of two equal words of a text are dependent (p < {FALSE_ALARM:g}): they share "
                        "their noise, which reveals that the words are equal; draw separate noise for each word"
                    )
        latents = self._rewrite([self.texts[0]] * 64, _noise([self.texts[0]] * 64)).latents
        if latents is not None:
            noise = np.asarray(latents.after, np.float64) - np.asarray(latents.before, np.float64)
            some = noise[:, :_COLUMNS][:, noise[:, :_COLUMNS].std(axis=0) > 0]
            if some.shape[1] > 1:
                alike = np.abs(np.corrcoef(some.T)) - np.eye(some.shape[1])
                if alike.max() > _ALIKE:
                    return (
                        "two numbers of a latent share their noise, so their difference is released without noise; "
                        "draw one number per dimension of the latent"
                    )
        return None


def _noise(rows: Sequence[object] | NDArray[np.integer]) -> Noise:
    return Noise.named(len(rows), "conformance")


def _methods(mechanism: Mechanism) -> Iterator[tuple[str, int]]:
    """Yield the optional methods that a mechanism has, and the number of arguments of each."""
    for power in vars(powers).values():
        if inspect.isclass(power) and getattr(power, "_is_runtime_protocol", False) and isinstance(mechanism, power):
            for name, method in vars(power).items():
                if inspect.isfunction(method) and not name.startswith("_"):
                    yield name, len(inspect.signature(method).parameters) - 1


def _each(rewrites: Rewrites) -> list[tuple[object, ...]]:
    """Return the views of each rewrite: the text, the units and the noisy latent, if there are any."""
    units = rewrites.units
    parts: list[Sequence[object]] = [list(rewrites.texts)]
    if units is not None:
        parts.append([units.values[a:b].tobytes() for a, b in zip(units.offsets, units.offsets[1:], strict=False)])
    if rewrites.latents is not None:
        parts.append([np.ascontiguousarray(row).tobytes() for row in rewrites.latents.after])
    return list(zip(*parts, strict=True))


def _equal(left: Rewrites, right: Rewrites) -> bool:
    """Return True if texts, units, latents and outcomes are equal."""
    first, second = (None if of.outcomes is None else of.outcomes.table().rows() for of in (left, right))
    return _each(left) == _each(right) and first == second


def _least_departure(degrees: int, draws: float, level: float) -> float:
    """Return the smallest total variation over groups of outputs that Pearson's test detects with probability _POWER.

    degrees: degrees of freedom. If the probability p_i of group i is wrong by d_i, the statistic has noncentrality n
    times the sum of d_i^2 / p_i. Among departures of total variation t, the smallest noncentrality is 4 n t^2. It is
    attained if groups of total probability 1/2 are all scaled by one factor. Returns 1 if no departure could be
    detected.
    """
    if degrees < 1:
        return 1.0
    limit = float(chi2.isf(level, degrees))
    noncentrality = brentq(lambda x: ncx2.sf(limit, degrees, x) - _POWER, 1e-9, 10 * limit + 100)
    return min(1.0, math.sqrt(noncentrality / (4 * draws)))


def _alike(first: Sequence[str], second: Sequence[str]) -> float:
    """Return Pearson's p-value of the hypothesis that two equally long lists of texts have the same distribution.

    The three most frequent texts are counted one by one, and all other texts together.
    """
    values, counts = np.unique([*first, *second], return_counts=True)
    common = values[np.argsort(-counts, kind="stable")[:3]].tolist()
    table = np.array([[*(part.count(text) for text in common), 0] for part in (first, second)])
    table[:, -1] = len(first) - table.sum(axis=1)
    table = table[:, table.sum(axis=0) >= 10]
    if table.shape[1] < 2:
        return 1.0
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    return float(chi2.sf(((table - expected) ** 2 / expected).sum(), table.shape[1] - 1))


def _chi_square(law: NDArray[np.float64], outputs: NDArray[np.integer]) -> tuple[float, int]:
    """Return Pearson's p-value of outputs under a law, counted in at most _BINS groups, and the number of groups."""
    if not (law[outputs] > 0).all():
        return 0.0, 1
    order = np.argsort(-law, kind="stable")
    bins = np.empty(len(law), np.int64)
    bins[order] = np.minimum((np.cumsum(law[order]) - law[order] / 2) * _BINS, _BINS - 1).astype(np.int64)
    used, groups = np.unique(bins, return_inverse=True)
    expected = len(outputs) * np.bincount(groups, law, minlength=len(used))
    seen = np.bincount(groups[outputs], minlength=len(used))
    enough = expected >= 5
    expected = np.append(expected[enough], expected[~enough].sum())
    seen = np.append(seen[enough], seen[~enough].sum())
    seen, expected = seen[expected > 0], expected[expected > 0]
    if len(seen) < 2:
        return 1.0, len(seen)
    return float(chi2.sf(((seen - expected) ** 2 / expected).sum(), len(seen) - 1)), len(seen)


def _dependence(pairs: Sequence[tuple[str, str]]) -> float:
    """Return Pearson's p-value of the hypothesis that the two parts of a pair are independent.

    The three most frequent parts are counted one by one, and all other parts together.
    """
    values, counts = np.unique([part for pair in pairs for part in pair], return_counts=True)
    common = values[np.argsort(-counts, kind="stable")[:3]].tolist()
    number = {value: i for i, value in enumerate(common)}
    table = np.zeros((len(common) + 1, len(common) + 1))
    for left, right in pairs:
        table[number.get(left, len(common)), number.get(right, len(common))] += 1
    table = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0]
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / len(pairs)
    if min(table.shape) < 2 or expected.min() < 5:
        return 1.0
    degrees = (table.shape[0] - 1) * (table.shape[1] - 1)
    return float(chi2.sf(((table - expected) ** 2 / expected).sum(), degrees))
