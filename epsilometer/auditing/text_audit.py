"""The audit of a mechanism on texts in one call, for notebooks and the command line."""

from __future__ import annotations

import inspect
import sys
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epsilometer.auditing.claims.judging import judged, worst_cases
from epsilometer.auditing.claims.law_fit import law_fit
from epsilometer.auditing.claims.stated import stated
from epsilometer.auditing.claims.verdicts import check_distances, refuse_public, trial_claims
from epsilometer.auditing.estimation.betting import interval
from epsilometer.auditing.estimation.posteriors import DEPARTS
from epsilometer.auditing.estimation.successes import Rates, below_chance, loss_at
from epsilometer.auditing.results.diagnostics import CHOSEN, STRONGEST, STRONGEST_INSIDE
from epsilometer.auditing.results.distinct_texts import noticed
from epsilometer.auditing.results.estimates import Attacked, estimates
from epsilometer.auditing.results.losses import Losses
from epsilometer.auditing.schemas import AUDIT, BY_RATES, BY_TEXT
from epsilometer.auditing.trials.answers import Tally
from epsilometer.auditing.trials.design import STANDARD, Design, as_installed, check_trials
from epsilometer.auditing.trials.memory import Memory
from epsilometer.auditing.trials.rewriting import Job, rewrite_all
from epsilometer.auditing.trials.sampling import Trials, is_shared, of_all, sample, variety
from epsilometer.auditing.trials.unread import MECHANISM, say, say_language, unread
from epsilometer.core.attack import (
    SEES,
    Attack,
    Embedded,
    Guesses,
    Queries,
    applies,
    is_validated,
)
from epsilometer.core.attack import sees as seen_by
from epsilometer.core.component import IDENTIFICATION, build, by_name, described, find, names
from epsilometer.core.errors import UserError
from epsilometer.core.extras import installed
from epsilometer.core.guarantees import check_epsilons, restored, stored
from epsilometer.core.likelihood import computed
from epsilometer.core.mechanism import (
    TEXT,
    FunctionMechanism,
    Mechanism,
    Repeated,
    RewriteFunction,
    Rewrites,
    budgets,
    build_mechanism,
    check_guarantees,
    check_has_guarantee,
    releases,
)
from epsilometer.core.randomness import Noise
from epsilometer.corpora.reading import note_composed
from epsilometer.game.play import Knowledge, asking, play, with_queries
from epsilometer.mechanisms.words.shared.embedded import over_words
from epsilometer.models.locate import ENCODER
from epsilometer.models.spending import Spends
from epsilometer.runtime.progress import note
from epsilometer.text.vectors import WordVectors
from epsilometer.text.words import words

VIEWS = ("text", "released", "inside")  # views of an adversary
_USUAL = (0.5, 2.0)  # usual range of the mean length of word vectors; no note is printed within it

Named = str | Path | Mechanism | RewriteFunction  # a mechanism: a name, a path, an object or a function
Attacks = Sequence[str | Path | Attack] | Mapping[str, Mapping[str, Any]]  # a mapping gives settings to each attack


@dataclass(frozen=True)
class Pool:
    """A pool of n texts from which candidate sets are drawn.

    embedded: embeddings of the texts, None if not computed. groups: [n], a property that all texts of a candidate set
    must share, such as their number of words; None if a set may contain any texts.
    """

    texts: Sequence[str]
    embedded: Embedded | None = None
    groups: NDArray[np.integer] | None = None


def audit(
    texts: Sequence[str],
    mechanism: Named,
    epsilons: Sequence[float] | None = None,
    attacks: Attacks | None = None,
    trials: int = 2000,
    settings: Mapping[str, Any] | None = None,
    design: Design = STANDARD,
) -> pl.DataFrame:
    """Measure the empirical privacy loss of a mechanism on texts (TeDA, arXiv:2603.22968, Algorithm 1).

    texts: the audited texts; equal texts count once. mechanism: the name of a shipped mechanism or the path of a file,
    with its `settings`; a Mechanism object; or any function `rewrite(text, epsilon, rng) -> str`. epsilons: omitted for
    a mechanism without a privacy budget, such as a function `rewrite(text, rng) -> str`. attacks: names in
    `epsilometer.attacks.identification`, paths of files, objects, or a mapping from names and paths to settings, as in
    `{"embedding": {"model": "..."}, "lexical": {}}`; by default all installed attacks without a large model. trials:
    the number of trials at each epsilon. design: the settings for drawing and judging trials. Returns a row per epsilon
    and attack, with the columns of `AUDIT`. Among them are the attack's view and successes, `loss` (in nats, the lower
    bound at confidence 1 - alpha/2), the claim and its verdict, the shares of truncated texts and out-of-vocabulary
    words, and the number of distractors. The table prints only the six columns in `losses.SHORT`; `table.columns` lists
    all columns. Notes and skipped attacks are printed on standard error. If the mechanism has laws, its claim is also
    checked in the worst case (`claims.judging`). `verdict` judges the claim by the row's guesses. `overall` judges the
    claim by all guesses and the worst-case check together; `overall_by` names the source of this verdict. The row
    `strongest` is about the best of several attacks that see the released view (Bonferroni). If some attacks see more
    than that view, the row `strongest_inside` is about the best of all attacks. All attacks share the same trials.
    Raises UserError for values outside their range, before any model loads.
    """
    texts, design = distinct(texts), as_installed(design)
    if epsilons is not None:
        check_epsilons(epsilons)
    chosen, made_by = chosen_attacks(attacks), as_mechanism(mechanism, settings, texts)
    epsilons = [float(epsilon) for epsilon in budgets(made_by, epsilons)]  # 5 and 5.0 must name the same stream
    say_what_is_left_out(chosen, made_by, explicit=attacks is not None)
    check_guarantees(made_by, epsilons)
    check_distances(made_by, epsilons, texts)
    worst = worst_cases(made_by, epsilons)
    sampled, embedded = draw(texts, trials, design)
    say(unread(made_by, texts))
    say_language(texts, {**chosen, MECHANISM: made_by})
    if design.temperature and design.candidates != "all":
        said = variety(sampled.candidates)
        note(
            f"{said['distinct']} of {len(texts)} texts are used as distractors, and the five most used fill "
            f"{said['five_commonest']:.0%} of the slots; at temperature 0 all are used equally often"
        )
    say_queries(chosen, made_by, sampled, texts)
    streams = [Noise.named(trials, design.seed, "rewrite", epsilon) for epsilon in epsilons]
    with with_queries(chosen, made_by, texts, _numbers(sampled.candidates), epsilons=epsilons):
        rewrites = rewrite_all(made_by, Job(texts, sampled.source, epsilons, streams), paced=True)
    by_epsilon, pool = dict(zip(epsilons, rewrites, strict=True)), Pool(texts, embedded)
    losses = attacked(pool, sampled, by_epsilon, chosen, mechanism=made_by, design=design, worst=worst)
    if not isinstance(made_by, Spends):  # a service has neither batches nor noise, and each request costs money
        knowledge = Knowledge(texts, sampled.candidates, made_by, embedded=embedded, prior=design.prior)
        at = epsilons[-1]
        note(noticed(knowledge, sampled, at, applicable(chosen, made_by), guesses=losses.guesses[at]).said())
    return losses


def distinct(texts: Iterable[str]) -> list[str]:
    """Return the distinct texts, in order. Raises UserError if there are none, or if some are not strings.

    Of texts that differ only in the Unicode composition of their characters (NFC, NFD), only the first is returned.
    """
    if isinstance(texts, str):
        raise UserError("texts must be a list of strings, got one string; pass [text, ...]", "EPS-A156")
    if not isinstance(texts, Iterable):
        raise UserError(f"texts must be a list of strings, got {described(texts)}; pass [text, ...]", "EPS-A157")
    texts = list(texts)  # a generator can be read only once
    wrong = next((i for i, text in enumerate(texts) if not isinstance(text, str)), None)
    if wrong is not None:
        kind = type(texts[wrong]).__name__
        raise UserError(
            f"text {wrong + 1:,} of {len(texts):,} is {kind}, not a string; leave it out, or give its text",
            "EPS-A158",
        )
    first: dict[str, str] = {}
    for text in texts:
        first.setdefault(unicodedata.normalize("NFC", text), text)
    unique = list(first.values())
    note_composed(len({*texts}) - len(unique))
    if not unique:
        raise UserError("no texts are left to audit; give at least as many as a candidate set needs", "EPS-A159")
    return unique


def as_mechanism(
    named: Named, settings: Mapping[str, Any] | None = None, texts: Sequence[str] | None = None
) -> Mechanism:
    """Return a mechanism from a name or path with settings, from an object (unchanged), or from a plain function.

    texts: the audited texts; a mechanism with `among_texts` and no other resource takes them as its public list. Raises
    UserError if some audited texts are among the mechanism's own `public_texts`.
    """
    built = _as_mechanism(named, settings, texts)
    refuse_public(built, texts or ())
    return built


def _as_mechanism(named: Named, settings: Mapping[str, Any] | None, texts: Sequence[str] | None) -> Mechanism:
    if isinstance(named, (str, Path)):
        return mechanism(str(named), settings, texts)
    if settings:
        raise UserError("settings are for a mechanism given by name or path; build the object with them", "EPS-A160")
    if callable(getattr(named, "rewrite", None)) and not inspect.isclass(named):
        check_has_guarantee(named, type(named).__name__)
        return cast(Mechanism, named)
    if callable(named) and not inspect.isclass(named):
        return FunctionMechanism(named)
    raise UserError(
        "mechanism must be a name, the path of a file, a function rewrite(text, epsilon, rng), or an object with "
        f"rewrite(texts, epsilon, noise), got {described(named)}; shipped: {', '.join(names('mechanisms'))}",
        "EPS-A161",
    )


def label(named: Named) -> str:
    """Return a mechanism's name in tables: its name or path; for an object, `shown_as`, `__name__` or its class."""
    if isinstance(named, (str, Path)):
        return str(named)
    return str(getattr(named, "shown_as", None) or getattr(named, "__name__", type(named).__name__))


def mechanism(name: str, settings: Mapping[str, Any] | None = None, texts: Sequence[str] | None = None) -> Mechanism:
    """Return a shipped mechanism by module name, or a mechanism from the path of a user's file, with these settings.

    Without a `resource` among the settings, a shipped mechanism reads its embedded resource, which is built in the
    user's cache on first use. A mechanism with `among_texts` chooses among `texts` instead.
    """
    values = dict(settings or {})
    definition = find("mechanisms", name, "rewrite")
    if "resource" not in values:
        if hasattr(definition, "default_resource"):
            values["resource"] = definition.default_resource()
        elif getattr(definition, "among_texts", False):
            if texts is None:
                raise UserError(
                    f"{name} needs the list of public texts that it chooses among; give a Parquet file with a column "
                    "`text` as its setting `resource` (--set resource=FILE)",
                    "EPS-A162",
                )
            values["resource"] = tuple(texts)
    return build_mechanism(name, values, None, f"the settings of {name}")


def on_vectors(name: str, settings: Mapping[str, Any], source: Path, folder: Path) -> dict[str, Any]:
    """Return the settings with which a shipped mechanism on words reads these word vectors.

    The mechanism's resource is written to `folder`. Raises UserError for a mechanism that does not read word vectors,
    and for a file without them.
    """
    mechanism = find("mechanisms", name, "rewrite")
    default = getattr(mechanism, "default_resource", None)
    if "resource" in settings or (resource := over_words(default, source, sys.maxsize, folder)) is None:
        raise UserError(f"--vectors is for mechanisms on word vectors; {name} takes --set resource=...", "EPS-A163")
    if not settings.get("normalise", getattr(mechanism, "normalise", False)):
        _note_norms(source)
    return {**settings, "resource": resource}


def _note_norms(source: Path) -> None:
    """Note on standard error if word vectors have an unusual mean length: the same epsilon then means another loss."""
    length = float(np.linalg.norm(WordVectors.load(source).vectors, axis=1).mean())
    if not _USUAL[0] <= length <= _USUAL[1]:
        note(
            f"the word vectors of {source.name} are not normalised: their mean length is {length:.2g}, that of the "
            "bundled ones 1.1; epsilon is per unit of distance, so the same epsilon means another loss"
        )


def on_public(name: str, settings: Mapping[str, Any], source: Path) -> dict[str, Any]:
    """Return settings of a mechanism that chooses among public texts, with this file or folder as its public texts.

    Raises UserError for a mechanism that does not choose among public texts, and for a missing file.
    """
    if "resource" in settings or not hasattr(find("mechanisms", name, "rewrite"), "public_texts"):
        raise UserError(
            f"--public is for mechanisms that choose among public texts; {name} takes --set resource=...", "EPS-A164"
        )
    if not source.exists():
        raise UserError(f"the file of public texts {str(source)!r} does not exist; check the path", "EPS-A165")
    return {**settings, "resource": source}


def draw(texts: Sequence[str], trials: int, design: Design = STANDARD) -> tuple[Trials, Embedded | None]:
    """Draw trials among the texts; return the trials and, only if the temperature is not 0, the texts' embeddings."""
    check_trials(trials)
    embedded = None
    if design.candidates == "all":
        return of_all(len(texts), trials, design.seed), None
    # If no set can be drawn, `sample` raises before the encoder loads.
    if design.temperature and design.candidates <= len(texts):
        embedded = embed(texts)
    vectors = np.zeros((len(texts), 1), np.float32) if embedded is None else embedded.vectors
    sampled = sample(vectors, trials, design.candidates, design.temperature, seed=design.seed)
    return sampled if design.prior is None else sampled.by_prior(design.prior, design.seed), embedded


def embed(texts: Sequence[str]) -> Embedded:
    """Return the texts' sentence embeddings by the default encoder."""
    from epsilometer.models.encoder import Encoder, say_cut

    encoder = Encoder(ENCODER)
    vectors = encoder.encode(texts)
    say_cut(encoder, encoder.cut, len(texts))
    return Embedded(ENCODER, "float32", vectors)


def chosen_attacks(attacks: Attacks | None) -> dict[str, Attack]:
    """Return the attacks by name (objects by their class); for None, all installed attacks without a large model."""
    if attacks is None:
        attacks = [name for name in names(IDENTIFICATION) if not _large(name) and _installed(name)]
    return by_name(
        IDENTIFICATION,
        attacks,
        lambda name, settings: build(find(IDENTIFICATION, name, "guess"), settings, f"attacks.{name}"),
        method="guess",
    )


def applicable(attacks: Mapping[str, Attack], mechanism: Mechanism | None) -> dict[str, Attack]:
    """Return the attacks that apply to this mechanism. Raises UserError if there are none."""
    applied = {name: attack for name, attack in attacks.items() if applies(attack, mechanism)}
    if not applied:
        raise UserError(
            f"no attack of {', '.join(attacks)} applies to this mechanism; length and lexical apply to every mechanism",
            "EPS-A166",
        )
    return applied


def seeing(attacks: Mapping[str, Attack], mechanism: Mechanism | None, view: str) -> dict[str, Attack]:
    """Return the attacks that see no more than a view: the "text", the "released" view, or everything ("inside")."""
    if view not in VIEWS:
        raise UserError(f"sees must be one of {', '.join(VIEWS)}, got {view!r}", "EPS-A167")
    allowed = dict(zip(VIEWS, (frozenset({TEXT}), releases(mechanism) | {TEXT}, frozenset(SEES)), strict=True))[view]
    chosen = {name: attack for name, attack in attacks.items() if seen_by(attack, mechanism) in allowed}
    if not chosen:
        raise UserError(
            f"{', '.join(attacks)} see more than {view!r} of this mechanism; set sees to inside, or use the attack "
            "length",
            "EPS-A168",
        )
    return chosen


def say_what_is_left_out(attacks: Mapping[str, Attack], mechanism: Mechanism | None, explicit: bool) -> None:
    """Note on standard error which attacks do not run, and why. explicit: True if the user chose the attacks."""
    idle = [name for name in attacks if name not in applicable(attacks, mechanism)]
    if idle:
        verb = "do" if len(idle) > 1 else "does"
        note(f"skipped: {', '.join(idle)}, which {verb} not apply to this mechanism")
    if not explicit:
        large = ", ".join(name for name in names(IDENTIFICATION) if _large(name))
        note(f"skipped (needs a language model): {large}; name them among the attacks to include them")
        if absent := [name for name in names(IDENTIFICATION) if not (_large(name) or _installed(name))]:
            note(f"skipped: {', '.join(absent)}, which needs pip install 'epsilometer[models]'")


def say_queries(attacks: Mapping[str, Attack], mechanism: Mechanism, trials: Trials, texts: Sequence[str]) -> None:
    """Note how many rewrites each attack with query access asks for, or that no attack has such access."""
    for name, attack in asking(attacks, mechanism).items():
        count = len(attack.queries(texts, _numbers(trials.candidates)))
        note(
            f"{name} asks for {count:,} rewrites of the candidates at each epsilon, in addition to "
            f"{len(trials.target):,} of the trials; to leave it out, name the other attacks"
        )
    if not any(isinstance(attack, Queries) for attack in attacks.values()):
        note(
            "no adversary with query access: leaks that only repeated rewriting of a text reveals are not tested; add "
            "shadow to the attacks"
        )


def _numbers(candidates: NDArray[np.integer]) -> NDArray[np.integer]:
    """Return the indices of the candidates [n, k]; if all trials share one set, only that set [1, k]."""
    return candidates[:1] if is_shared(candidates) else candidates


def _large(name: str) -> bool:
    return getattr(find(IDENTIFICATION, name, "guess"), "large", False)


def _installed(name: str) -> bool:
    extra = getattr(find(IDENTIFICATION, name, "guess"), "extra", None)
    return extra is None or installed(extra)


def attacked(
    pool: Pool,
    trials: Trials,
    rewrites: Mapping[float, Rewrites],
    attacks: Mapping[str, Attack],
    mechanism: Mechanism | None = None,
    design: Design = STANDARD,
    worst: pl.DataFrame | None = None,
) -> Losses:
    """Return the audit's table for existing rewrites: one row per epsilon and attack that applies to the mechanism.

    rewrites: the rewrites of all trials, by epsilon. mechanism: the mechanism of these rewrites, None if unknown.
    design: only alpha, seed, fpr and prior are used. worst: the result of `worst_cases`; its verdicts count in
    `overall`. If several attacks apply, the table has a row `strongest`. It also has a row `strongest_inside` if some
    of these attacks see more than the released view.
    """
    texts, candidates = pool.texts, trials.candidates
    applied = {name: attack for name, attack in attacks.items() if applies(attack, mechanism)}
    counts, left = np.array([len(words(text)) for text in texts]), unread(mechanism, texts)
    (tally := Tally.of(rewrites, Repeated(texts, trials.source))).say()
    tally.say_memory()
    fits = law_fit(mechanism, texts, trials.source, list(rewrites.values()), epsilons=list(rewrites))
    guesses = _guesses(pool, trials, rewrites, applied, mechanism=mechanism, design=design)
    rows = estimates(
        (
            Attacked(
                of={},
                epsilon=epsilon,
                stated=stated(mechanism, epsilon, left, fit_p),
                trials=trials,
                words=counts,
                claims=None if mechanism is None else trial_claims(mechanism, epsilon, texts, candidates),
                guesses=by_attack,
                sees={name: seen_by(attack, mechanism) for name, attack in applied.items()},
                validated={name: is_validated(attack, candidates.shape[1]) for name, attack in applied.items()},
                fpr=design.fpr,
            )
            for (epsilon, by_attack), fit_p in zip(guesses.items(), fits, strict=True)
        ),
        design.alpha,
        design.prior,
    )
    _note_rows(rows)
    seen = {row["attack"]: row["released"] for row in rows if row["attack"] not in CHOSEN}
    repeated = CHOSEN if len(seen) == 1 else (STRONGEST_INSIDE,) if all(seen.values()) else ()
    shown = [row for row in rows if row["attack"] not in repeated]
    on_texts = {"unknown_words": left.unknown_share, "cut_texts": left.cut_share, **variety(candidates)}
    among = {STRONGEST: [name for name in seen if seen[name]], STRONGEST_INSIDE: list(seen)}
    on_answers = _on_answers(tally, guesses, among, trials=trials, alpha=design.alpha)
    every = [row | on_texts | on_answers(restored(row["epsilon"]), row["attack"]) for row in shown]
    table = pl.DataFrame(every, schema=dict(AUDIT), orient="row")
    worst = worst_cases(None, []) if worst is None else worst
    losses = Losses(judged(table.sort("epsilon", maintain_order=True), worst))
    losses.guesses = guesses
    losses.by_text = _by_text(guesses, trials)
    losses.by_rates = _by_rates(guesses, trials, design.alpha)
    return losses


def _by_text(guesses: Mapping[float, Mapping[str, Guesses]], trials: Trials) -> pl.DataFrame:
    """Return the number of trials and right guesses of each rewritten text, by epsilon and attack."""
    texts, doubled = int(trials.source.max()) + 1, 2 * trials.source.astype(np.intp)
    rows = []
    for epsilon, by_attack in guesses.items():
        for name, guess in by_attack.items():
            by_outcome = np.bincount(doubled + (guess.slots == trials.target), minlength=2 * texts).reshape(-1, 2)
            shown = by_outcome.sum(axis=1)
            numbers = np.flatnonzero(shown)
            counts = (counted[numbers].tolist() for counted in (shown, by_outcome[:, 1]))
            rows += [
                (number, stored(epsilon), name, count, named)
                for number, count, named in zip(numbers.tolist(), *counts, strict=True)
            ]
    return pl.DataFrame(rows, schema=dict(BY_TEXT), orient="row")


def _by_rates(guesses: Mapping[float, Mapping[str, Guesses]], trials: Trials, alpha: float) -> pl.DataFrame:
    """Return the loss by true and false positive rates and its plug-in value, by epsilon and attack."""
    rows = []
    for epsilon, by_attack in guesses.items():
        for name, guess in by_attack.items():
            rates = Rates.of_first_slot(guess.slots, trials.target)
            rows.append((stored(epsilon), name, rates.loss(alpha), rates.point))
    return pl.DataFrame(rows, schema=dict(BY_RATES), orient="row")


def _guesses(
    pool: Pool,
    trials: Trials,
    rewrites: Mapping[float, Rewrites],
    attacks: Mapping[str, Attack],
    *,
    mechanism: Mechanism | None,
    design: Design,
) -> dict[float, dict[str, Guesses]]:
    """Return the guesses by epsilon and attack, with posteriors if the law is known."""
    likelihoods = None
    if design.prior is None:  # posteriors assume that all candidates are equally likely
        each = list(rewrites.values())
        likelihoods = computed(mechanism, pool.texts, trials.candidates, each, epsilons=list(rewrites))
    knowledge = Knowledge(
        pool.texts,
        trials.candidates,
        mechanism,
        embedded=pool.embedded,
        likelihoods=likelihoods,
        prior=design.prior,
    )
    count = len(trials.target)
    return play(
        knowledge, rewrites, attacks, lambda attack, epsilon: Noise.named(count, design.seed, "attack", attack, epsilon)
    )


def _on_answers(
    tally: Tally,
    guesses: Mapping[float, Mapping[str, Guesses]],
    among: Mapping[str, Sequence[str]],
    trials: Trials,
    alpha: float,
) -> Callable[[float, str], dict[str, Any]]:
    """Return a function from epsilon and attack to the tally's columns.

    among: for a row about several attacks, the names of these attacks, which share alpha.
    """
    by_stored = {stored(epsilon): by_attack for epsilon, by_attack in guesses.items()}

    def columns(epsilon: float, attack: str) -> dict[str, Any]:
        sharing = [by_stored[stored(epsilon)][name] for name in among.get(attack, [attack])]
        return tally.at(epsilon).columns | _of_memory(tally.memory(epsilon), sharing, trials, alpha)

    return columns


def _of_memory(
    memory: Memory | None, among: Sequence[Guesses], trials: Trials, alpha: float
) -> dict[str, str | float | None]:
    """Return the columns `memory` and `loss_of_law`. among: the guesses of the attacks that share alpha."""
    if memory is None or not memory.by_text:
        return {"memory": None if memory is None else memory.kind, "loss_of_law": None}
    k, level = trials.candidates.shape[1], alpha / len(among)
    losses = [loss_of_law(each.slots == trials.target, trials.source, k, level) for each in among]
    return {"memory": memory.kind, "loss_of_law": max(losses)}


def _note_rows(rows: Sequence[Mapping[str, Any]]) -> None:
    """Note warnings about the rows on standard error."""
    _note_departures(rows)
    _note_length(rows)
    _note_turned(rows)


def _note_departures(rows: Sequence[Mapping[str, Any]]) -> None:
    """Note on standard error the epsilons at which a sampler departs from its law."""
    departing = sorted({row["epsilon"] for row in rows if row["departs"]}, key=str)
    if departing:
        at = ", ".join("any" if epsilon is None else f"{epsilon:g}" for epsilon in departing)
        note(f"{DEPARTS} at epsilon {at}: the loss by posteriors is omitted, and figures by that law are in doubt")


def _note_turned(rows: Sequence[Mapping[str, Any]]) -> None:
    """Note on standard error which attacks are right less often than by chance."""
    for row in rows:
        if row["attack"] not in CHOSEN and below_chance(row["successes"], row["trials"], row["candidates"]):
            note(
                f"{row['attack']} is right in {row['successes']:,} of {row['trials']:,} trials, less often than by "
                "chance: it distinguishes the candidates but names the wrong one, so its loss of 0 does not show "
                "privacy; if its score is a distance, change its sign"
            )


def _note_length(rows: Sequence[Mapping[str, Any]]) -> None:
    """Note on standard error the loss that attack `length` proves among texts with equally many words."""
    proved = [row["equal_loss"] for row in rows if row["attack"] == "length" and row["equal_loss"]]
    if proved:
        note(
            f"length alone proves up to {max(proved):.2g} nats even between texts of equally many words "
            "(equal_loss), by their characters, white space or punctuation"
        )


def loss_of_law(right: NDArray[np.bool_], source: NDArray[np.integer], candidates: int, alpha: float) -> float:
    """Return the lower bound on the loss under the mechanism's law, in nats, at confidence 1 - alpha / 2.

    right: [n], True for a right guess. source: [n], the index of the rewritten text. If each text has one permanent
    answer, trials of one text are not independent, since all show the same answer. But the shares of right guesses of
    different texts are independent, and betting (`betting`) bounds their mean over the population of texts.
    """
    _, number = np.unique(source, return_inverse=True)
    share = np.bincount(number, right) / np.bincount(number)
    return loss_at(interval(share, alpha, fixed=True)[0], candidates)
