"""Prefect's server for this project: on 127.0.0.1, for whoever knows the project's secret, and for its own pages alone.

usage: python -m epsilometer.pipeline.flows.server PORT

Prefect asks for the secret (flows/__init__.py). Refused here, before Prefect sees them: requests that a browser sends
for another site's page, which name that page as their origin; and requests for another host, since a site whose name
resolves to 127.0.0.1 would otherwise count as the server's own.
"""

from __future__ import annotations

import sys

import uvicorn
from prefect.server.api.server import create_app
from starlette.datastructures import Headers
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from epsilometer.pipeline.flows.pages import HOSTS


class OwnOrigin:
    """Refuses requests and sockets that a page of another origin opens; programs name no origin."""

    def __init__(self, app: ASGIApp, port: int) -> None:
        self.app = app
        self.own = {None, *(f"http://{host}:{port}" for host in HOSTS)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on requests of the own origin, and refuse others."""
        if scope["type"] == "lifespan" or Headers(scope=scope).get("origin") in self.own:
            await self.app(scope, receive, send)
        elif scope["type"] == "websocket":
            await WebSocketClose()(scope, receive, send)
        else:
            await PlainTextResponse("requests of other sites are refused", 403)(scope, receive, send)


def app(port: int) -> ASGIApp:
    """Prefect's API and pages, behind both checks."""
    return TrustedHostMiddleware(OwnOrigin(create_app(final=True), port), allowed_hosts=HOSTS, www_redirect=False)


if __name__ == "__main__":
    uvicorn.run(app(int(sys.argv[1])), host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
