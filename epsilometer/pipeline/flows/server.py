"""Prefect's server for this project, on 127.0.0.1, for its own pages and for programs with the project's secret.

usage: python -m epsilometer.pipeline.flows.server PORT SOCKET

SOCKET: the number of the inherited socket that listens at the port. Prefect requires the secret (flows/__init__.py),
except on pages that describe its API; there, this module requires the secret. Two kinds of requests are refused before
Prefect reads them. One kind is from another site's page; browsers mark such requests with the page's origin. The other
kind is for another host name: a site whose name resolves to 127.0.0.1 would otherwise count as the server itself.
"""

from __future__ import annotations

import base64
import hmac
import socket
import sys

import uvicorn
from prefect.server.api.server import create_app
from prefect.settings import PREFECT_SERVER_API_AUTH_STRING
from starlette.datastructures import Headers
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from epsilometer.pipeline.flows.pages import HOSTS


class OwnOrigin:
    """Middleware that refuses requests and web sockets from a page of another origin. Programs send no origin."""

    def __init__(self, app: ASGIApp, port: int) -> None:
        self.app = app
        self.own = {None, *(f"http://{host}:{port}" for host in HOSTS)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on requests of the server's own origin, and refuse others."""
        if scope["type"] == "http" and scope["path"] == "/":
            await RedirectResponse("/deployments")(scope, receive, send)  # shows the flows to start, not the dashboard
        elif scope["type"] == "lifespan" or Headers(scope=scope).get("origin") in self.own:
            await self.app(scope, receive, send)
        elif scope["type"] == "websocket":
            await WebSocketClose()(scope, receive, send)
        else:
            await PlainTextResponse("requests from other sites are refused", 403)(scope, receive, send)


class Described:
    """Middleware that requires the secret for pages that describe Prefect's API. The API also requires the secret."""

    pages = ("docs", "redoc", "openapi.json")

    def __init__(self, app: ASGIApp, secret: str) -> None:
        self.app = app
        self.authorization = f"Basic {base64.b64encode(secret.encode()).decode()}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on requests with the secret, and requests for other pages."""
        allowed = True
        if scope["type"] == "http" and scope["path"].split("/")[1] in self.pages:
            said = Headers(scope=scope).get("authorization", "")
            allowed = hmac.compare_digest(said.encode(), self.authorization.encode())
        if allowed:
            await self.app(scope, receive, send)
        else:
            ask = {"WWW-Authenticate": "Basic"}
            await PlainTextResponse("the project's secret is required", 401, ask)(scope, receive, send)


def app(port: int) -> ASGIApp:
    """Return Prefect's API and pages, behind all checks."""
    secret = PREFECT_SERVER_API_AUTH_STRING.value()
    inner = OwnOrigin(Described(create_app(final=True), secret), port)
    return TrustedHostMiddleware(inner, allowed_hosts=HOSTS, www_redirect=False)


if __name__ == "__main__":
    port, number = map(int, sys.argv[1:])
    with socket.socket(fileno=number) as listening:
        uvicorn.Server(uvicorn.Config(app(port), log_level="warning")).run([listening])
