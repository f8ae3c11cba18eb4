"""`epsilometer training account`: the epsilon that a private training may claim, and the noise for a target."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from epsilometer.cli.options import Json, numbers
from epsilometer.cli.output import show, tell
from epsilometer.core.errors import UserError, unknown
from epsilometer.runtime.progress import note

if TYPE_CHECKING:
    from epsilometer.accounting.releases import Release
    from epsilometer.accounting.schedule import Schedule
    from epsilometer.core.guarantees import Neighbours

_NOISES = {"gaussian": "sigma", "vmf": "kappa"}


def account(
    texts: Annotated[int, typer.Option(help="Number of training examples, which is public.")],
    batch: Annotated[int, typer.Option(help="Nominal batch size.")],
    epochs: Annotated[int, typer.Option(help="Number of epochs.")],
    noise: Annotated[
        str, typer.Option(help="gaussian: on the sum of clipped gradients; vmf: on the direction of each gradient.")
    ] = "gaussian",
    sigma: Annotated[float | None, typer.Option(help="Noise multiplier of gaussian noise.")] = None,
    kappa: Annotated[float | None, typer.Option(help="Concentration of vmf.")] = None,
    dimensions: Annotated[
        str | None, typer.Option(help="For vmf: dimension of the gradient (592130), or of each part (590592,1538).")
    ] = None,
    sampling: Annotated[
        str, typer.Option(help="poisson: a coin for each example and step; shuffled: fixed disjoint batches.")
    ] = "poisson",
    delta: Annotated[float | None, typer.Option(help="Default: 1/n; choose a smaller delta for a guarantee.")] = None,
    neighbours: Annotated[str | None, typer.Option(help="Neighbours: added or removed, replaced, zeroed.")] = None,
    target: Annotated[float | None, typer.Option(help="Target epsilon; also prints the noise that reaches it.")] = None,
    as_json: Json = False,
) -> None:
    """Count the epsilon that a private training may claim.

    Nothing is trained. Prints a row for each accountant: the bracket of the exact epsilon, the epsilon from Renyi
    orders, and the published epsilon. A row has the accountant, neighbours, sampling, delta, and a lower and an upper
    bound on epsilon in nats; `-` means that the accountant gives no lower bound. The row `approximation` is not proved.
    With --target, also prints the sigma or kappa that meets it.
    """
    if noise not in _NOISES:
        raise unknown("--noise", noise, _NOISES)
    from epsilometer.accounting import statement
    from epsilometer.accounting.releases import VonMisesFisher

    schedule = _schedule(sampling, texts, batch, epochs)
    relation = _neighbours(neighbours)
    parts = _parts(dimensions, noise)
    release = _release(noise, sigma, kappa, parts)
    if release is None and target is None:
        raise UserError(f"{noise} noise needs --{_NOISES[noise]}, or --target, which finds it", "EPS-U001")
    said: dict[str, Any] = {}
    if target is not None:
        said["for_target"] = {"target": target, **_for_target(parts, schedule, (target, delta, relation))}
        if release is None:
            release = _release(noise, said["for_target"].get("sigma"), said["for_target"].get("kappa"), parts)
    assert release is not None
    rows = [_row(claim) for claim in statement.account(release, schedule, delta, relation)]
    if caution := statement.caveat(schedule, statement.checked_delta(release, schedule, delta)):
        note(caution)
    if isinstance(release, VonMisesFisher):
        said["effective_noise"] = statement.effective_noise(release, schedule)
    if as_json:
        show({"statements": rows, **said}, True)
        return
    show(rows, False)
    if parts:
        equal = f"{said['effective_noise']:.4g} on the sum of gradients of length 1"
        note(f"the average gradient of a step is as noisy as under Gaussian noise with sigma {equal}")
    if target is not None:
        name, of = _NOISES[noise], said["for_target"]
        tell(f"{name} {of[name]:.6g} for epsilon {target:g}, {of['neighbours']}, {sampling}")


def _schedule(sampling: str, texts: int, batch: int, epochs: int) -> Schedule:
    from epsilometer.accounting.schedule import Poisson, Shuffled

    kinds = {kind.sampling: kind for kind in (Poisson, Shuffled)}
    if sampling not in kinds:
        raise unknown("--sampling", sampling, kinds)
    return kinds[sampling](texts, batch, epochs)


def _neighbours(name: str | None) -> Neighbours | None:
    from epsilometer.accounting.steps import OF_TRAINING

    if name is None:
        return None
    relations = {relation.value: relation for relation in OF_TRAINING}
    if name not in relations:
        raise unknown("--neighbours", name, relations)
    return relations[name]


def _parts(dimensions: str | None, noise: str) -> tuple[int, ...]:
    rule = "--dimensions must be whole numbers separated by commas"
    if (dimensions is None) == (noise == "vmf"):
        raise UserError(
            "--noise vmf needs --dimensions, and gaussian noise takes none; give the dimension of the gradient, such "
            "as 592130, or of each part",
            "EPS-U002",
        )
    values = numbers(dimensions, rule) or []
    if not all(value.is_integer() for value in values):
        raise UserError(f"{rule}, got {dimensions!r}", "EPS-U003")
    return tuple(int(value) for value in values)


def _release(noise: str, sigma: float | None, kappa: float | None, parts: tuple[int, ...]) -> Release | None:
    from epsilometer.accounting.releases import Gaussian, VonMisesFisher

    if (noise == "gaussian" and kappa is not None) or (noise == "vmf" and sigma is not None):
        raise UserError(f"{noise} noise takes only --{_NOISES[noise]}; leave the other level out", "EPS-U004")
    if noise == "gaussian":
        return None if sigma is None else Gaussian(sigma)
    return None if kappa is None else VonMisesFisher(kappa, parts)


def _for_target(
    parts: tuple[int, ...], schedule: Schedule, question: tuple[float, float | None, Neighbours | None]
) -> dict[str, Any]:
    """Return the sigma or kappa that meets a target, and the neighbours. question: epsilon, delta and neighbours."""
    from epsilometer.accounting.budget import directional_for, gaussian_for
    from epsilometer.core.guarantees import Neighbours

    target, delta, relation = question
    if parts:
        relation = relation or Neighbours.REPLACED
        draws = directional_for(target, parts, schedule, delta, neighbours=relation)
        return {"kappa": draws.kappa, "neighbours": relation.value}
    relation = relation or Neighbours.ADDED_OR_REMOVED
    return {"sigma": gaussian_for(target, schedule, delta, relation).sigma, "neighbours": relation.value}


def _row(claim: Any) -> dict[str, Any]:
    return {
        "accountant": claim.accountant,
        "neighbours": claim.between,
        "sampling": claim.sampling,
        "delta": claim.delta,
        "lower": claim.lower,
        "upper": claim.upper,
    }
