"""One call from texts to calibrated losses, for notebooks and the command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epsilometer.attack import Attack, Context, Embedded, Selective, guess_all
from epsilometer.calibration import Calibrated, Watch, unwatched
from epsilometer.calibration import calibrate as search
from epsilometer.component import build, find
from epsilometer.diagnostics import STRONGEST
from epsilometer.errors import UserError
from epsilometer.estimation import Estimate, estimate, strongest
from epsilometer.guarantees import check_epsilons
from epsilometer.mechanism import FunctionMechanism, Mechanism, RewriteFunction, Rewrites, build_mechanism
from epsilometer.randomness import Noise
from epsilometer.resources import cached
from epsilometer.rewriting import Job, rewrite_all
from epsilometer.trials import Trials, sample
from epsilometer.utility.similarity import CHEAP, Metric, measure, metric

ENCODER = "all-MiniLM-L6-v2"


def audit(
    texts: Sequence[str],
    mechanism: Mechanism | RewriteFunction,
    epsilons: Sequence[float],
    attacks: Sequence[str | Attack] = ("embedding",),
    trials: int = 2000,
    candidates: int = 2,
    temperature: float = -10_000,
    alpha: float = 0.01,
    seed: int = 0,
) -> pl.DataFrame:
    """Measure the empirical privacy loss of a mechanism on texts (TeDA, arXiv:2603.22968, Algorithm 1).

    texts: the audited texts; equal ones count once. mechanism: a Mechanism, or any function
    `rewrite(text, epsilon, rng) -> str`. attacks: modules of `epsilometer.attacks`, paths of files, or objects.
    Returns one row per epsilon and attack, and one for the `strongest` of several (Bonferroni): epsilon, attack,
    trials, candidates, successes, success_rate, loss (lower bound at confidence 1 - alpha/2), point, upper, ceiling;
    losses in nats. The adversaries share the same trials.
    Raises UserError for values outside their range, before any model loads.
    """
    texts = distinct(texts)
    check_epsilons(epsilons)
    if not 0 < alpha < 1:
        raise UserError(f"alpha must be in (0, 1), got {alpha}")
    chosen = chosen_attacks(attacks)
    made_by = as_mechanism(mechanism)
    drawn, embedded = draw(texts, trials, candidates, temperature, seed)
    streams = [Noise.named(trials, seed, "rewrite", epsilon) for epsilon in epsilons]
    rewrites = rewrite_all(made_by, Job(texts, drawn.source, epsilons, streams))
    return attacked(texts, drawn, epsilons, rewrites, chosen, made_by, embedded, alpha, seed)


def calibrate(
    texts: Sequence[str],
    mechanism: Mechanism | RewriteFunction,
    target: float,
    low: float,
    high: float,
    attacks: Sequence[str | Attack] = ("embedding",),
    candidates: int = 2,
    temperature: float = -10_000,
    width: float = 1.25,
    alpha: float = 0.01,
    seed: int = 0,
    budget: int = 50_000,
    embedded: Embedded | None = None,
    groups: NDArray[np.integer] | None = None,
    journal: MutableMapping[tuple[str, float, int, int], int] | None = None,
    watch: Watch = unwatched,
) -> Calibrated:
    """The nominal epsilon between `low` and `high` at which the strongest of the attacks meets the `target` loss.

    Every batch has fresh candidate sets, targets and noise. texts, mechanism, attacks, candidates, temperature: as in
    `audit`. width, alpha, budget, watch: as in `calibration.calibrate`, and so is the result. embedded, groups: the
    texts' embeddings and what the candidates of a trial agree in, where they are known already. journal: successes by
    attack, epsilon, first trial and count, of calls with the same texts, mechanism, attacks and seed; gets the new.
    """
    texts = distinct(texts)
    chosen, made_by = chosen_attacks(attacks), as_mechanism(mechanism)
    applied = [(n, a) for n, a in chosen.items() if not isinstance(a, Selective) or a.applies(made_by)]
    if not applied:
        raise UserError(f"no attack of {', '.join(chosen)} applies to this mechanism")
    if embedded is None:
        _, embedded = draw(texts, 1, candidates, temperature, seed)
    vectors = np.zeros((len(texts), 1), np.float32) if embedded is None else embedded.vectors

    known = {} if journal is None else journal

    def measure(epsilon: float, first: int, count: int, asked: Sequence[int]) -> list[int]:
        keys = [(applied[i][0], epsilon, first, count) for i in asked]
        new = [i for i, key in zip(asked, keys, strict=True) if key not in known]
        if new:
            successes = fresh(epsilon, first, count, new)
            known.update({(applied[i][0], epsilon, first, count): s for i, s in zip(new, successes, strict=True)})
        return [known[key] for key in keys]

    def fresh(epsilon: float, first: int, count: int, asked: Sequence[int]) -> list[int]:
        name = (seed, "calibrate", epsilon, first)
        drawn = sample(vectors, count, candidates, temperature, "/".join(map(str, name)), groups)
        job = Job(texts, drawn.source, [epsilon], [Noise.named(count, *name, "rewrite")])
        rewrites = rewrite_all(made_by, job)
        guessed = [
            guess_all(
                attack,
                rewrites,
                drawn.candidates,
                [Context(texts, made_by, epsilon, Noise.named(count, *name, "attack", label), embedded)],
            )[0]
            for label, attack in (applied[i] for i in asked)
        ]
        return [int((guess == drawn.target).sum()) for guess in guessed]

    return search(measure, target, low, high, len(applied), candidates, width, alpha, budget=budget, watch=watch)


def similarity(
    originals: Sequence[str], rewrites: Sequence[str], metrics: Sequence[str | Metric] = ("cosine", *CHEAP)
) -> pl.DataFrame:
    """How much of each original its rewrite keeps: one row a pair, one column a metric, null where it has no number.

    metrics: modules of `epsilometer.metrics` (`epsilometer.utility.similarity` lists them with their scales), paths of
    files, or objects, such as `epsilometer.metrics.grammaticality.Grammaticality(model=...)`. Those beyond the default
    load models. Raises UserError for texts that are not as many strings on both sides, and for unknown metrics.
    """
    return measure(originals, rewrites, _by_name("metric", metrics, lambda name: metric(name, {})))


def distinct(texts: Sequence[str]) -> list[str]:
    """The texts without repeats, in order; refused when empty or not strings."""
    if isinstance(texts, str):
        raise UserError("texts must be a list of strings, got one string; pass [text, ...]")
    wrong = next((t for t in texts if not isinstance(t, str)), None)
    if wrong is not None or None in texts:
        raise UserError(f"every text must be a string, got {type(wrong).__name__}")
    found = list(dict.fromkeys(texts))
    if not found:
        raise UserError("there are no texts; give at least as many as a candidate set needs")
    return found


def as_mechanism(mechanism: Mechanism | RewriteFunction) -> Mechanism:
    """The mechanism itself, or a plain function as one."""
    if hasattr(mechanism, "rewrite"):
        return cast(Mechanism, mechanism)
    if callable(mechanism):
        return FunctionMechanism(mechanism)
    raise UserError(
        f"mechanism must have rewrite(texts, epsilon, noise) or be a function rewrite(text, epsilon, rng), "
        f"got {type(mechanism).__name__}"
    )


def mechanism(name: str, settings: Mapping[str, Any] | None = None) -> Mechanism:
    """A shipped mechanism by module name, or one from the path of a user's file, with these settings.

    A shipped one without a `resource` reads the embedded one, which is made in the user's cache on first use.
    """
    given = dict(settings or {})
    found = find("mechanisms", name, "rewrite")
    if hasattr(found, "embedded") and "resource" not in given:
        given["resource"] = cached(found.embedded)
    return build_mechanism(name, given, None, f"the settings of {name}")


def draw(
    texts: Sequence[str], trials: int, candidates: int, temperature: float, seed: int
) -> tuple[Trials, Embedded | None]:
    """Trials among the texts; embeddings are only computed where the temperature makes them matter."""
    if temperature == 0:
        return sample(np.zeros((len(texts), 1), np.float32), trials, candidates, temperature, seed), None
    if trials < 1 or not 2 <= candidates <= len(texts):  # refused before the encoder loads
        sample(np.zeros((len(texts), 1), np.float32), trials, candidates, temperature, seed)
    from epsilometer.language.encoder import Encoder

    embedded = Embedded(ENCODER, "float32", Encoder(ENCODER).encode(texts))
    return sample(embedded.vectors, trials, candidates, temperature, seed), embedded


def chosen_attacks(attacks: Sequence[str | Attack]) -> dict[str, Attack]:
    """The attacks by name: modules of `epsilometer.attacks` and paths of files as given, objects by their class."""
    return _by_name("attack", attacks, lambda name: build(find("attacks", name, "guess"), {}, f"attacks.{name}"))


def attacked(
    texts: Sequence[str],
    drawn: Trials,
    epsilons: Sequence[float],
    rewrites: Sequence[Rewrites],
    attacks: Mapping[str, Attack],
    made_by: Mechanism | None,
    embedded: Embedded | None,
    alpha: float,
    seed: int,
) -> pl.DataFrame:
    """The audit's table for rewrites that exist: one row per epsilon and attack that applies to the mechanism.

    Where several do, a row `strongest` follows: the best of them at its corrected level.
    """
    found: dict[float, dict[str, Estimate]] = {epsilon: {} for epsilon in epsilons}
    for name, attack in attacks.items():
        if isinstance(attack, Selective) and not attack.applies(made_by):
            continue
        contexts = [
            Context(texts, made_by, epsilon, Noise.named(len(drawn.target), seed, "attack", name, epsilon), embedded)
            for epsilon in epsilons
        ]
        for epsilon, guess in zip(epsilons, guess_all(attack, rewrites, drawn.candidates, contexts), strict=True):
            count, candidates = drawn.candidates.shape
            found[epsilon][name] = estimate(int((guess == drawn.target).sum()), count, candidates, alpha)
    rows = []
    for epsilon, by_attack in found.items():
        if len(by_attack) > 1:
            by_attack[STRONGEST] = strongest(list(by_attack.values()))
        rows += [_row(epsilon, name, one) for name, one in by_attack.items()]
    return pl.DataFrame(rows, orient="row").sort("epsilon", maintain_order=True) if rows else pl.DataFrame(rows)


def _row(epsilon: float, attack: str, found: Estimate) -> dict[str, Any]:
    return {
        "epsilon": float(epsilon),
        "attack": attack,
        "trials": found.trials,
        "candidates": found.candidates,
        "successes": found.successes,
        "success_rate": found.success_rate,
        "loss": found.loss,
        "point": found.point,
        "upper": found.upper,
        "ceiling": found.ceiling,
    }


def _by_name(kind: str, given: Sequence[str | Any], make: Callable[[str], Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for one in given:
        name = one if isinstance(one, str) else type(one).__name__
        if name in found:
            raise UserError(f"two {kind}s are named {name!r}; leave one out, or ask for it in a call of its own")
        found[name] = make(one) if isinstance(one, str) else one
    return found
