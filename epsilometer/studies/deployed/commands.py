"""`epsilometer probe`: planted identifiers that a service lets through when something fails."""

from __future__ import annotations

from typing import Annotated

import typer

from epsilometer.cli.options import Alpha, EndpointOptions, Json, Seed, Settings
from epsilometer.cli.output import show, tell
from epsilometer.core.errors import UserError
from epsilometer.runtime.ending import was_interrupted
from epsilometer.runtime.withholding import withheld

_REQUESTS = 500


def probe(
    service: EndpointOptions,
    settings: Settings = [],  # noqa: B006
    confirm_host: Annotated[
        str | None, typer.Option(help="Host of the endpoint, which confirms that you may test it.")
    ] = None,
    identifiers: Annotated[
        str | None,
        typer.Option(
            help="Kinds of planted identifiers, separated by commas, or all: name, address, e-mail address, phone "
            "number, date, order number."
        ),
    ] = None,
    rate: Annotated[float, typer.Option(help="Maximum number of requests per second.")] = 5.0,
    sink: Annotated[str | None, typer.Option(help="Listen on [HOST:]PORT as the service's upstream.")] = None,
    alpha: Alpha = 0.01,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Count identifiers that a failing service lets through.

    Sends invented identifiers in invented sentences to an --endpoint, by default in 500 requests (--max-requests).
    Some requests are long or malformed. Prints how often an identifier came back at each place: replies, streams,
    errors, headers, replies to other requests, and the service's upstream.
    """
    from epsilometer.auditing.identifiers import planting
    from epsilometer.studies.deployed.probing import KINDS, Pace, probe_failures

    if service.endpoint is None:
        raise UserError("probe tests a service; give its URL (--endpoint)", "EPS-U038")
    built = service.mechanism(settings, private=False)
    if built.private_texts or built.stream:
        raise UserError("probe sends only invented texts; leave out --private-texts and stream=true", "EPS-U039")
    kinds = planting.KINDS if identifiers == "all" else _kinds(identifiers) or KINDS
    requests = service.max_requests or _REQUESTS
    if service.dry:
        tell(
            f"nothing was sent: at most {requests:,} requests to {confirm_host or 'a host that you confirm'}, "
            f"at most {rate:g} a second, with invented identifiers ({', '.join(kinds)}) in invented sentences",
        )
        return
    pace = Pace(requests, rate)
    with withheld():
        table = probe_failures(built, confirm_host or "", kinds, pace=pace, sink=sink, seed=seed, alpha=alpha)
    rows = table.to_dicts()
    show(rows if as_json else [row | {name: row[name] or "-" for name in ("kinds", "shapes")} for row in rows], as_json)
    if not as_json:
        for row in rows:
            if not row["shown"]:
                tell(
                    f"{row['place']}: no identifier in {row['requests']:,} requests; a leak in {row['unseen']:.2%} "
                    f"of requests or fewer shows in none of them with probability {alpha:g} or more",
                )
    if was_interrupted():
        raise KeyboardInterrupt


def _kinds(identifiers: str | None) -> list[str] | None:
    return None if identifiers is None else [kind.strip() for kind in identifiers.split(",")]
