"""HTTP client that sends texts to an endpoint, and to no other host.

The client follows no redirect, which could send the text to a host that the user did not choose. It limits the total
time of a request and the size of an answer. Compressed answers are refused.
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

Usage = Callable[[httpx2.Response], tuple[int, int] | None]  # returns the numbers of tokens read and written


class EndpointClient(httpx2.Client):
    """A client with limits on the time and cost of requests.

    seconds:  most seconds for a whole request.
    connect:  most seconds to connect.
    spending: counts each attempt, and refuses attempts beyond its limits; None: nothing is counted.
    usage:    returns the token counts of an answer.
    headers:  lower-case names of the headers to send; None: all.
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
            limits=httpx2.Limits(),  # no limits here: the number of workers limits connections
        )
        self._seconds, self._spending, self._usage, self._sent = seconds, spending, usage, headers

    def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request and return the whole response.

        Raises httpx2.ReadTimeout when the time is up, and UserError for a compressed or too large response.
        """
        if self._sent is not None:
            request.headers = httpx2.Headers([pair for pair in request.headers.items() if pair[0] in self._sent])
        if self._spending is None:
            return self._in_time(request, **options)
        with self._spending.attempt(len(request.content)) as bill:
            response = self._in_time(request, **options)
            bill.used(self._usage(response), response.status_code)
        return response

    def _in_time(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request in a separate thread, and stop waiting when the time is up.

        The client library's read time-out does not suffice, since a server could send one byte at a time. After a
        time-out, the thread ends at the next byte that it receives, or with the process.
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
                    f"the endpoint at {request.url.host} sent a compressed answer, although the request forbids that; "
                    "turn compression off at the endpoint or its proxy",
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
