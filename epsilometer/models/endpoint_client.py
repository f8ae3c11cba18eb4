"""The HTTP client that carries texts to an endpoint, and to nobody else.

No redirect is followed: it would carry the text to a host that nobody named. A request has a bound on its whole time,
not on each pause alone, and an answer one on its size; compressed answers are not asked for, and refused.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Any

import httpx2

from epsilometer.core import limits
from epsilometer.core.errors import UserError


class EndpointClient(httpx2.Client):
    """seconds: for a request, all in all; connect: of these, to connect in."""

    def __init__(self, seconds: float, connect: float) -> None:
        super().__init__(
            timeout=httpx2.Timeout(seconds, connect=connect),
            follow_redirects=False,
            headers={"Accept-Encoding": "identity"},
            limits=httpx2.Limits(),  # the number of workers is the bound
        )
        self._seconds = seconds

    def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """The whole response. Raises httpx2.ReadTimeout when time is up, UserError for an answer that is refused.

        In a thread of its own, because a server that sends a byte now and then keeps every read waiting: when time is
        up, that thread is left behind, and ends with the next byte, or with the process.
        """
        answer: Future[httpx2.Response] = Future()
        late = threading.Event()

        def fetch() -> None:
            try:
                answer.set_result(self._whole(request, late, **options))
            except BaseException as error:  # raised again where it was asked for
                answer.set_exception(error)

        threading.Thread(target=fetch, name="request", daemon=True).start()
        try:
            return answer.result(self._seconds)
        except TimeoutError:
            late.set()
            raise httpx2.ReadTimeout("no whole answer in time", request=request) from None

    def _whole(self, request: httpx2.Request, late: threading.Event, **options: Any) -> httpx2.Response:
        response = super().send(request, **options | {"stream": True, "follow_redirects": False})
        largest, body = limits.ENDPOINT_BYTES.value, bytearray()
        try:
            if response.headers.get("Content-Encoding", "identity").lower() != "identity":
                raise UserError(
                    f"the endpoint at {request.url.host} compresses its answers, though it was asked not to; have it, "
                    "or the proxy before it, send them as they are"
                )
            for piece in response.iter_raw():
                body += piece
                if len(body) > largest:
                    raise UserError(
                        f"the endpoint at {request.url.host} sent an answer of more than {largest} bytes; "
                        f"{limits.ENDPOINT_BYTES.remedy}"
                    )
                if late.is_set():
                    break
        finally:
            response.close()
        return httpx2.Response(response.status_code, headers=response.headers, content=bytes(body), request=request)
