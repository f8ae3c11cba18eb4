"""`epsilometer audit --endpoint URL --probe-failures`: what a service lets through when something fails."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated

import typer

from epsilometer.cli.options import EndpointOptions, kinds_of
from epsilometer.cli.output import show, tell
from epsilometer.core.errors import UserError
from epsilometer.runtime.ending import was_interrupted
from epsilometer.runtime.withholding import withheld

_REQUESTS = 500


@dataclass(frozen=True)
class Probing:
    """Whether to send planted texts that try a service's handling of failures, and within which bounds."""

    probe_failures: Annotated[
        bool,
        typer.Option(
            "--probe-failures",
            help="Send planted identifiers alone, some long or malformed, and count where they show: replies, streams, "
            "errors, headers, others' replies, the service's upstream. --max-requests (500), --identifiers.",
        ),
    ] = False
    confirm_host: Annotated[
        str | None, typer.Option(help="With --probe-failures: the endpoint's host, which you may test.")
    ] = None
    rate: Annotated[float, typer.Option(help="With --probe-failures: the most requests a second.")] = 5.0
    sink: Annotated[
        str | None,
        typer.Option(help="With --probe-failures: [HOST:]PORT where to listen as the service's upstream."),
    ] = None

    def check_unused(self) -> None:
        """Refuse what has no effect without a probe."""
        if any(getattr(self, part.name) != part.default for part in fields(self)):
            raise UserError("--confirm-host, --rate and --sink are for --probe-failures; give it, or leave them out")


def audit_failures(
    probing: Probing,
    service: EndpointOptions,
    settings: list[str],
    identifiers: str | None,
    *,
    seed: int,
    alpha: float,
    as_json: bool,
) -> None:
    """Print a row a place where planted identifiers may show, after Ctrl-C of what was sent until then.

    Raises UserError for what is missing, and KeyboardInterrupt at the end where Ctrl-C came.
    """
    from epsilometer.auditing.failures.probing import KINDS, Pace, probe_failures
    from epsilometer.auditing.identifiers import planting

    if service.endpoint is None:
        raise UserError("--probe-failures tries a service; give its URL (--endpoint)")
    if service.private_texts or service.stream:
        raise UserError("--probe-failures sends planted texts alone; leave out --private-texts and --stream")
    kinds = planting.KINDS if identifiers == "all" else kinds_of(identifiers) or KINDS
    built, requests = service.mechanism(settings, private=False), service.max_requests or _REQUESTS
    if service.dry:
        tell(
            f"nothing was sent: at most {requests:,} requests to {probing.confirm_host or 'a host that you confirm'}, "
            f"at most {probing.rate:g} a second, with planted identifiers ({', '.join(kinds)}) and no other text",
        )
        return
    with withheld():
        table = probe_failures(
            built,
            probing.confirm_host or "",
            kinds,
            pace=Pace(requests, probing.rate),
            sink=probing.sink,
            seed=seed,
            alpha=alpha,
        )
    rows = table.to_dicts()
    show(rows if as_json else [row | {name: row[name] or "-" for name in ("kinds", "shapes")} for row in rows], as_json)
    if not as_json:
        for row in rows:
            if not row["shown"]:
                tell(
                    f"{row['place']}: nothing in {row['requests']:,} requests; what shows in fewer than "
                    f"{row['unseen']:.2%} of them may have stayed unseen (probability {alpha:g} or more)",
                )
    if was_interrupted():
        raise KeyboardInterrupt
