"""Leaks of a service when something fails: planted identifiers appear where the service should have removed them.

A service may leak in several ways. Its filter may time out and let the text pass (fail open), or miss an identifier in
a stream. An error may quote the text, a header may contain it, a cache may return it to another client, or the service
may send it to its upstream unchanged.

Each request contains invented identifiers (`identifiers.planting`) in invented sentences, and no other text. If the
service is a chat, every second request asks for a stream. One request in ten is long, and one in ten is malformed: it
has a list in place of the text. Requests that fail are not repeated. Requests that the service sends on are visible if
its upstream is the `sink` of this package.

The rate at a place is a share of the requests that could show an identifier there, with a Clopper-Pearson interval. The
interval assumes independent requests; failures that cluster, as under load, make it too narrow. Only places in the
result are examined, not the service's logs or its other outgoing traffic. A leak may be so rare that none of n requests
shows it. If its rate is `unseen`, this happens with probability alpha.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any

import httpx2
import polars as pl

from epsilometer.auditing.estimation.successes import clopper_pearson
from epsilometer.auditing.identifiers.planting import plant
from epsilometer.core import resource_limits
from epsilometer.core.errors import UserError
from epsilometer.core.tables import Schema
from epsilometer.mechanisms.anonymisers.endpoint import Endpoint
from epsilometer.models.endpoint import CONNECT, Address
from epsilometer.models.endpoint_client import EndpointClient
from epsilometer.models.replies import is_stream
from epsilometer.models.service import request
from epsilometer.runtime.progress import note, track
from epsilometer.studies.deployed.sink import Sink, listening
from epsilometer.studies.deployed.traces import PlantedValues, readings

KINDS = ("name", "e-mail address", "phone number")
REPLY, STREAM, ERROR, HEADER, OTHER, SINK = "reply", "stream", "error", "header", "another's reply", "sink"
_CARRIERS = (
    "The parcel came two days late. The box was open.",
    "I would like to change my order. Can you help me with that?",
    "The heating has not worked since Monday. It is very cold.",
    "Thank you for the quick answer. I have one more question.",
    "The bill is higher than last month. I did not use more.",
    "The room was clean and quiet. Breakfast could start earlier.",
)
_FILLER = " The rest of this message only makes it long."
_LINES = 200  # filler sentences in a long request
_DIGITS = 9  # a value with at least this number of digits does not occur by chance
_SETTLE = 0.5  # seconds to wait for requests that the service may still send to the sink
FAILURES: Schema = {  # a row per place where planted identifiers may appear
    "place": pl.String,
    "requests": pl.Int64,  # requests whose identifiers could appear there
    "shown": pl.Int64,  # requests with at least one identifier that appeared
    "rate": pl.Float64,  # shown / requests
    "low": pl.Float64,  # lower bound on the rate
    "high": pl.Float64,  # upper bound on the rate
    "whole": pl.Int64,  # requests whose identifiers all appeared
    "unseen": pl.Float64,  # rate at which none of the requests would show an identifier, with probability alpha
    "kinds": pl.String,  # kinds of the identifiers that appeared, with counts; null for none
    "shapes": pl.String,  # shapes of the requests whose identifiers appeared, with counts; null for none
}


@dataclass(frozen=True)
class Probe:
    """A request.

    values: the planted value of each kind of identifier.
    shape:  "plain", "long" or "malformed".
    stream: True if the request asks for a stream.
    """

    text: str
    values: Mapping[str, str]
    shape: str
    stream: bool


@dataclass(frozen=True)
class Reply:
    """A reply. status: None if no reply arrived; headers, body: the planted values in the headers and in the body."""

    status: int | None
    stream: bool = False
    headers: frozenset[str] = frozenset()
    body: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Pace:
    """Upper bounds on the number of requests and on the requests per second."""

    requests: int = 500
    rate: float = 5.0

    def __post_init__(self) -> None:
        if self.requests < 1 or not 0 < self.rate <= 1000:
            raise UserError(f"requests must be >= 1, rate in (0, 1000], got {self.requests}, {self.rate}", "EPS-A106")


def probe_failures(
    service: Endpoint,
    host: str,
    kinds: Sequence[str] = KINDS,
    *,
    pace: Pace = Pace(),
    sink: str | None = None,
    seed: int = 0,
    alpha: float = 0.01,
) -> pl.DataFrame:
    """Send planted identifiers to a service, and count the places where they appear.

    host: the service's host name, which confirms that the caller may test it.
    kinds: the kinds of identifiers to plant, which the service should remove.
    pace: bounds on the requests, in addition to the bounds of `service`.
    sink: [HOST:]PORT at which a sink listens as the service's upstream; None for no sink.

    Returns a row per place, with the columns of `FAILURES`.
    Raises UserError, before anything is sent, if `host` is not the service's host name. Raises UserError also if the
    service cannot be reached, or if it answers the first request with a redirect or with status 401, 403 or 404.
    """
    address = Address.of(service.url)
    if host != address.host:
        raise UserError(
            f"invented texts, some of them long or malformed, would be sent to {address.host}; confirm its name to "
            f"allow the test (--confirm-host {address.host})" + (f", got {host!r}" if host else ""),
            "EPS-A107",
        )
    if not 0 < alpha < 1:
        raise UserError(f"alpha must be in (0, 1), got {alpha}", "EPS-A108")
    probes = _probes(kinds, pace.requests, seed, streams=service.resource is None)
    planted = PlantedValues(value for probe in probes for value in probe.values.values())
    send = _Sender(service, address, planted)
    with listening(sink) as upstream:
        replies = _sent(probes, send, pace.rate, service.workers)
        if upstream is not None:
            time.sleep(_SETTLE)
    _say(replies, upstream, sink)
    arrived = None if upstream is None else planted.among(_readings_of(upstream))
    return _table(probes, replies, arrived, alpha)


def _probes(kinds: Sequence[str], count: int, seed: int, *, streams: bool) -> list[Probe]:
    if not kinds or len({*kinds}) < len(kinds):
        raise UserError(f"kinds must list each kind of identifier once, got {', '.join(kinds) or 'none'}", "EPS-A109")
    planted = {kind: plant(_CARRIERS, kind, count, seed) for kind in kinds}
    probes = []
    for i in range(count):
        shape = {4: "long", 9: "malformed"}.get((i // 2 if streams else i) % 10, "plain")
        text = " ".join(planted[kind][i].text for kind in kinds) + _FILLER * (_LINES if shape == "long" else 0)
        probes.append(Probe(text, {kind: planted[kind][i].value for kind in kinds}, shape, streams and i % 2 == 1))
    return probes


class _Sender:
    """A client that sends each probe once."""

    def __init__(self, service: Endpoint, address: Address, planted: PlantedValues) -> None:
        self._planted = planted
        self._url, self._template = service.request
        self._headers = self._template.sent_headers()
        self._host = address.host
        self._client = EndpointClient(
            resource_limits.ENDPOINT_SECONDS.value, CONNECT, spending=service.spending, usage=service.usage
        )

    def __call__(self, probe: Probe) -> Reply:
        """Send a probe and return its reply. Raises UserError when a bound on the service's requests is reached."""
        body = self._template.filled(probe.text, 1.0, listed=probe.shape == "malformed")
        if probe.stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        built = request(self._client, self._url, self._template, headers=self._headers, body=body)
        try:
            response = self._client.send(built)
        except httpx2.TransportError:
            return Reply(None)
        headers = [text for pair in response.headers.items() for text in readings(": ".join(pair))]
        standing = self._planted.among(headers), self._planted.among(readings(response.text))
        return Reply(response.status_code, is_stream(response), *standing)

    def first(self, probe: Probe) -> Reply:
        """Send the first probe and return its reply. Raises UserError if the service refuses or does not answer."""
        reply = self(probe)
        if reply.status is None:
            raise UserError(f"the service at {self._host} does not answer; check its URL, and that it runs", "EPS-A110")
        if 300 <= reply.status < 400 or reply.status in (401, 403, 404):
            raise UserError(
                f"the service at {self._host} answers with status {reply.status}; correct the URL or the key "
                "(redirects are not followed)",
                "EPS-A111",
            )
        return reply


def _sent(probes: Sequence[Probe], send: _Sender, rate: float, workers: int) -> dict[int, Reply]:
    """Send the probes and return the replies by the probe's number.

    Some replies are missing if a bound was reached or the user pressed Ctrl-C.
    """
    begun, stopped = time.monotonic(), threading.Event()

    def later(number: int) -> Reply | None:
        stopped.wait(max(0.0, begun + number / rate - time.monotonic()))
        return None if stopped.is_set() else send(probes[number])

    replies, pool = {0: send.first(probes[0])}, ThreadPoolExecutor(workers)
    numbers = {pool.submit(later, number): number for number in range(1, len(probes))}
    try:
        for done in track(as_completed(numbers), len(numbers), "probe"):
            if (reply := done.result()) is not None:
                replies[numbers[done]] = reply
    except (UserError, KeyboardInterrupt) as error:
        stopped.set()
        why = error if isinstance(error, UserError) else "interrupted"
        note(f"{why}; the requests sent so far are reported")
    finally:
        pool.shutdown(cancel_futures=True)
    replies.update(_late(numbers))
    return dict(sorted(replies.items()))


def _late(numbers: Mapping[Future[Reply | None], int]) -> Iterator[tuple[int, Reply]]:
    """Yield all replies that have arrived, including those to requests that were under way when the run stopped."""
    for future, number in numbers.items():
        if future.done() and not future.cancelled() and future.exception() is None:
            reply = future.result()
            if reply is not None:
                yield number, reply


def _say(replies: Mapping[int, Reply], upstream: Sink | None, sink: str | None) -> None:
    counts = Counter("no answer" if r.status is None else f"status {r.status}" for r in replies.values())
    note(f"{len(replies)} requests: {', '.join(f'{count} {what}' for what, count in sorted(counts.items()))}")
    if upstream is not None and not upstream.arrived:
        note(f"no request reached the sink; set the service's upstream to it (port {str(sink).rpartition(':')[2]})")


def _readings_of(upstream: Sink) -> Iterator[str]:
    for arrived in list(upstream.arrived):
        head, _, body = arrived.partition("\n\n")
        yield from [*readings(head), *readings(body)]


def _table(
    probes: Sequence[Probe], replies: Mapping[int, Reply], arrived: frozenset[str] | None, alpha: float
) -> pl.DataFrame:
    """Return a row of `FAILURES` per place. arrived: the planted values that reached the sink; None without a sink."""
    shown = {place: dict[int, set[str]]() for place in (REPLY, STREAM, ERROR, HEADER, OTHER, SINK)}
    able: Counter[str] = Counter()
    holds: dict[str, list[int]] = {}  # the requests whose replies contain a value
    for number, reply in replies.items():
        for value in reply.body:
            holds.setdefault(value, []).append(number)
    for number, reply in replies.items():
        body = STREAM if probes[number].stream or reply.stream else REPLY
        able.update([body, ERROR, HEADER, OTHER, *([] if arrived is None else [SINK])])
        failed = reply.status is not None and reply.status >= 300
        for kind, value in probes[number].values.items():
            elsewhere = any(other != number for other in holds.get(value, ())) and _tells(value)
            for place, stands in (
                (ERROR if failed else body, value in reply.body),
                (HEADER, value in reply.headers),
                (OTHER, elsewhere),
                (SINK, arrived is not None and value in arrived),
            ):
                if stands:
                    shown[place].setdefault(number, set()).add(kind)
    rows = [_row(place, able[place], shown[place], probes, alpha=alpha) for place in shown if able[place]]
    return pl.DataFrame(rows, schema=dict(FAILURES), orient="row")


def _tells(value: str) -> bool:
    """Return True if a value has too many digits to occur by chance in the reply to another request."""
    return sum(map(str.isdigit, value)) >= _DIGITS


def _row(
    place: str, count: int, shown: Mapping[int, set[str]], probes: Sequence[Probe], *, alpha: float
) -> dict[str, Any]:
    kinds = Counter(kind for each in shown.values() for kind in each)
    shapes = Counter(probes[number].shape for number in shown)
    low, high = clopper_pearson(len(shown), count, alpha)
    return {
        "place": place,
        "requests": count,
        "shown": len(shown),
        "rate": len(shown) / count,
        "low": low,
        "high": high,
        "whole": sum(len(each) == len(probes[number].values) for number, each in shown.items()),
        "unseen": 1 - alpha ** (1 / count),
        "kinds": ", ".join(f"{kind} {times}" for kind, times in sorted(kinds.items())) or None,
        "shapes": ", ".join(f"{shape} {times}" for shape, times in sorted(shapes.items())) or None,
    }
