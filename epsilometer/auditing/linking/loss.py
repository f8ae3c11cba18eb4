"""The linkage attack, which uses side information to match people to their rewrites, and the loss that it proves.

The facts about a person are statements about the author or subject of a text, or all other texts of its author (Xin et
al., "A False Sense of Privacy", arXiv:2504.21035). A **set** consists of N people drawn uniformly. One text of each
person is freshly rewritten, and the rewrites are shuffled. For each person an attack names the rewrite that fits the
person's facts best. The value h of a set is the share of its N people who are linked to the right rewrite. Sets are
independent, so h_1, ..., h_S are independent numbers in [0, 1] whose mean is the success rate. Betting gives an exact
interval of the mean (`estimation/betting.py`), however the links within a set depend on each other. An interval over
single links would be too narrow.

**The loss** is that of guessing among N equally likely rewrites with success rate p: ln((N - 1) p / (1 - p))
(TeDA eq. 10). The loss by linking is not a lower bound on the loss of one text, because exchanging two people's
rewrites changes two texts. If the pure loss between any two texts is at most c, the loss by linking is at most 2 c. The
reason: if the rewrites of two people are exchanged in the shuffled order, two rewrites exchange their sources. The
likelihood of all rewrites then changes by a factor of at most e^(2c). An average loss gives no such bound. The measured
loss is about people drawn from the given people, of whom similar facts are known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epsilometer.auditing.estimation.betting import interval
from epsilometer.auditing.estimation.successes import loss_at
from epsilometer.auditing.linking.people import People, draw
from epsilometer.auditing.results.diagnostics import STRONGEST
from epsilometer.auditing.schemas import LINKS
from epsilometer.auditing.text_audit import Attacks, Named, as_mechanism
from epsilometer.auditing.trials.answers import Tally
from epsilometer.auditing.trials.design import check_trials
from epsilometer.auditing.trials.rewriting import Job, rewrite_all
from epsilometer.core.attack import choose
from epsilometer.core.component import LINKING, build, by_name, find, names
from epsilometer.core.errors import UserError
from epsilometer.core.extras import installed
from epsilometer.core.guarantees import NO_BUDGET, at_budget, check_epsilons, stored
from epsilometer.core.linking import LinkingAttack
from epsilometer.core.mechanism import Mechanism, budgets
from epsilometer.core.randomness import Noise
from epsilometer.core.values import check_number, check_whole
from epsilometer.corpora.reading import layout_free
from epsilometer.runtime.progress import track


@dataclass(frozen=True)
class LinkingDesign:
    """Settings of the linkage attack. Raises UserError for values outside their range.

    among: the number of rewrites in a set. sets: the number of sets. alpha: the error of each interval. seed: the seed
    of all random choices.
    """

    among: int = 10
    sets: int = 100
    alpha: float = 0.01
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("among", "sets", "seed"):
            check_whole(getattr(self, name), name)
        check_number(self.alpha, "alpha")
        check_trials(self.sets)
        if not 0 < self.alpha < 1:
            raise UserError(f"alpha must be in (0, 1), got {self.alpha}", "EPS-A127")


STANDARD = LinkingDesign()


def chosen_attacks(attacks: Attacks | None) -> dict[str, LinkingAttack]:
    """Return linkage attacks by name (like `text_audit.chosen_attacks`); for None, all installed linkage attacks."""
    if attacks is None:
        attacks = [name for name in names(LINKING) if _installed(name)]

    def built(name: str, settings: Mapping[str, Any]) -> LinkingAttack:
        attack: LinkingAttack = build(find(LINKING, name, "link"), settings, f"attacks.{name}")
        return attack

    return by_name(LINKING, attacks, built, method="link")


def linked(
    people: People, sets: NDArray[np.int64], rewrites: Sequence[str], attacks: Mapping[str, LinkingAttack], seed: int
) -> dict[str, NDArray[np.bool_]]:
    """Return, for each attack, an array [sets, people] that is True for each person linked to the right rewrite.

    rewrites: the rewrites of the texts of all sets, concatenated; attacks see each set shuffled. Ties are broken at
    random.
    """
    size, shuffle = sets.shape[1], Noise.named(len(sets), seed, "linking", "shuffle")
    outcomes = {}
    for name, attack in attacks.items():
        noise = Noise.named(sets.size, seed, "linking", "ties", name)
        right = np.empty(sets.shape, bool)
        for row in track(range(len(sets)), len(sets), f"link by {name}"):
            order = shuffle.generator(row).permutation(size)
            shuffled = [rewrites[row * size + i] for i in order]
            scores = np.asarray(attack.link([people.facts[i] for i in sets[row]], shuffled), np.float64)
            right[row] = order[choose(scores, noise[row * size : (row + 1) * size])] == np.arange(size)
        outcomes[name] = right
    return outcomes


def rewritten(
    mechanism: Mechanism, people: People, sets: NDArray[np.int64], epsilons: Sequence[float], *, seed: int, tally: Tally
) -> list[list[str]]:
    """Return fresh rewrites of the texts of all sets, concatenated, at each epsilon. tally: counts the rewrites."""
    streams = [Noise.named(sets.size, seed, "linking", "rewrite", epsilon) for epsilon in epsilons]
    job = Job(people.texts, sets.ravel(), epsilons, streams, tally=tally)
    return [list(output.texts) for output in rewrite_all(mechanism, job, paced=True)]


def linking_loss(
    people: People,
    mechanism: Named,
    epsilons: Sequence[float] | None = None,
    attacks: Attacks | None = None,
    settings: Mapping[str, Any] | None = None,
    design: LinkingDesign = STANDARD,
) -> pl.DataFrame:
    """Measure how well linkage attacks match people to their rewrites using side information.

    people: the facts about each person (`People.by_claims`, `People.by_author`). mechanism, epsilons, settings: as in
    `epsilometer.audit`; attacks: names in `epsilometer.attacks.linking`, paths or objects; all by default.
    Returns a row per epsilon and attack, with the columns of `LINKS`. With several attacks, the row `strongest` reports
    the best attack, with a level corrected for the choice. Raises UserError for values outside their range, before any
    model loads.
    """
    if epsilons is not None:
        check_epsilons(epsilons)
    sets = draw(people, design.sets, design.among, design.seed)
    chosen, built = chosen_attacks(attacks), as_mechanism(mechanism, settings, people.texts)
    at = [float(epsilon) for epsilon in budgets(built, epsilons)]
    tables, tally = [], Tally()
    by_epsilon = rewritten(built, people, sets, at, seed=design.seed, tally=tally)
    tally.say()
    for epsilon, rewrites in zip(at, by_epsilon, strict=True):
        outcomes = linked(people, sets, rewrites, chosen, seed=design.seed)
        tables.append(_rows(epsilon, people, outcomes, design.alpha))
    return pl.concat(tables)


def recorded_linking_loss(
    people: People, rewrites: pl.DataFrame, attacks: Attacks | None = None, design: LinkingDesign = STANDARD
) -> pl.DataFrame:
    """Measure the linkage attack on recorded rewrites.

    rewrites: columns original, rewrite and, if there are several budgets, epsilon (`external.recorded`). Each
    person is in at most one set, with one of their rewrites, so the number of people limits the number of sets (at most
    `design.sets`). People are assumed to be independent. Returns the same as `linking_loss`. Raises UserError if too
    few people have recorded rewrites for one set, before any model loads.
    """
    people.check(design.among)
    chosen = chosen_attacks(attacks)
    if "epsilon" not in rewrites.columns:
        rewrites = rewrites.with_columns(epsilon=pl.lit(NO_BUDGET))
    texts = pl.DataFrame({"text": people.texts, "person": people.person}).with_row_index("number")
    of_people = rewrites.select("rewrite", "epsilon", key=layout_free("original")).join(
        texts.select("number", "person", key=layout_free("text")), on="key", maintain_order="left_right"
    )
    of_sets = []
    for epsilon in rewrites["epsilon"].unique().sort().to_list():
        here = of_people.filter(epsilon=epsilon)
        order = Noise.named(len(here), design.seed, "linking", "recorded", epsilon).uniforms()[:, 0].argsort()
        once = here[order].unique("person", keep="first", maintain_order=True)
        count = min(design.sets, len(once) // design.among)
        if not count:
            raise UserError(
                f"rewrites of {len(once)} people with facts are recorded{at_budget(epsilon)}, and a set takes "
                f"{design.among}; give rewrites of more texts, or a smaller number of rewrites per set (among)",
                "EPS-A128",
            )
        of_sets.append((epsilon, once[: count * design.among]))
    tables = []
    for epsilon, once in of_sets:
        sets = once["number"].to_numpy().astype(np.int64).reshape(-1, design.among)
        outcomes = linked(people, sets, once["rewrite"].to_list(), chosen, seed=design.seed)
        tables.append(_rows(epsilon, people, outcomes, design.alpha))
    return pl.concat(tables)


def _rows(epsilon: float, people: People, outcomes: Mapping[str, NDArray[np.bool_]], of_each: float) -> pl.DataFrame:
    """Return a row per attack, and `strongest` for several attacks. of_each: the error of each attack's interval."""
    shown: list[tuple[str, str | None, NDArray[np.bool_], float]]
    shown = [(name, None, right, of_each) for name, right in outcomes.items()]
    if len(outcomes) > 1:
        best = max(outcomes, key=lambda name: outcomes[name].sum())
        shown.append((STRONGEST, best, outcomes[best], of_each / len(outcomes)))
    rows = [
        (stored(epsilon), name, best_attack, people.count, *_loss(right, alpha))
        for name, best_attack, right, alpha in shown
    ]
    return pl.DataFrame(rows, schema=dict(LINKS), orient="row")


def _loss(right: NDArray[np.bool_], alpha: float) -> tuple[float, ...]:
    """Return sets, rewrites per set, right links, their share with its interval, and the losses at these rates."""
    sets, size = right.shape
    shares = right.mean(axis=1)
    low, high = interval(shares, alpha, fixed=True)
    best, _ = interval(np.ones(sets), alpha, fixed=True)
    rate = float(shares.mean())
    losses = (loss_at(p, size) for p in (low, rate, high, best))
    return sets, size, int(right.sum()), rate, low, high, *losses


def _installed(name: str) -> bool:
    extra = getattr(find(LINKING, name, "link"), "extra", None)
    return extra is None or installed(extra)
