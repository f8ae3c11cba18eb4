"""The HTTP client that carries texts to an endpoint, and to no other host.

No redirect is followed: it would carry the text to a host that the user never named. A request has a bound on its whole
time, not on each pause alone, and an answer one on its size; compressed answers are not requested, and refused.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from concurrent.futures import Future
from typing import Any

import httpx2

from epsilometer.core import resource_limits
from epsilometer.core.errors import UserError
from epsilometer.models.replies import status
from epsilometer.models.spending import Spending

Usage = Callable[[httpx2.Response], tuple[int, int] | None]  # the tokens read and written that an answer states


class EndpointClient(httpx2.Client):
    """A client with bounds on the time and the cost of requests.

    seconds: for a whole request; connect: of these, to connect.

    spending: counts each attempt, and refuses those that exceed its bounds; usage: reads the cost from an answer.
    headers: names in lower case of the headers to send; None for all.
    """

    def __init__(
        self,
        seconds: float,
        connect: float,
        *,
        spending: Spending | None = None,
        usage: Usage = lambda response: None,
        headers: Collection[str] | None = None,
    ) -> None:
        super().__init__(
            timeout=httpx2.Timeout(seconds, connect=connect),
            follow_redirects=False,
            headers={"Accept-Encoding": "identity"},
            limits=httpx2.Limits(),  # the number of workers is the bound
        )
        self._seconds, self._spending, self._usage, self._sent = seconds, spending, usage, headers

    def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Return the whole response. Raises httpx2.ReadTimeout when time is up, UserError for a refused response."""
        if self._sent is not None:
            request.headers = httpx2.Headers([pair for pair in request.headers.items() if pair[0] in self._sent])
        if self._spending is None:
            return self._in_time(request, **options)
        with self._spending.attempt(len(request.content)) as bill:
            response = self._in_time(request, **options)
            bill.used(self._usage(response), response.status_code)
        return response

    def _in_time(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send in a separate thread, because a server that sends a byte now and then keeps every read waiting.

        When time is up, that thread is left running, and ends with the next byte, or with the process.
        """
        answer: Future[httpx2.Response] = Future()
        late = threading.Event()

        def fetch() -> None:
            try:
                answer.set_result(self._whole(request, late, **options))
            except BaseException as error:  # raised again in the calling thread
                answer.set_exception(error)

        threading.Thread(target=fetch, name="request", daemon=True).start()
        try:
            return answer.result(self._seconds)
        except TimeoutError:
            late.set()
            raise httpx2.ReadTimeout("no complete answer in time", request=request) from None

    def _whole(self, request: httpx2.Request, late: threading.Event, **options: Any) -> httpx2.Response:
        response = super().send(request, **options | {"stream": True, "follow_redirects": False})
        largest, body = resource_limits.ENDPOINT_BYTES.value, bytearray()
        try:
            if response.headers.get("Content-Encoding", "identity").lower() != "identity":
                raise UserError(
                    f"the endpoint at {request.url.host} compresses its answers although the request excludes it; turn "
                    "compression off at the endpoint or its proxy",
                    "EPS-N036",
                )
            for piece in response.iter_raw():
                body += piece
                if len(body) > largest:
                    raise UserError(
                        f"the endpoint at {request.url.host} sent an answer of more than {largest} bytes; "
                        f"{resource_limits.ENDPOINT_BYTES.remedy}",
                        "EPS-N037",
                    )
                if late.is_set():
                    break
        finally:
            response.close()
        whole = httpx2.Response(response.status_code, headers=response.headers, content=bytes(body), request=request)
        whole.status_code = status(whole)
        return whole
