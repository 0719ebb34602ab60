"""Who may ask: only those who were told the address, and only under the names of this machine.

Any page of the web can make a browser send requests to this machine. None of them knows the token
that all addresses begin with, none can read an answer, and one that has its own name point here
(DNS rebinding) is given away by the Host header.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from secrets import compare_digest
from urllib.parse import quote

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HOSTS = frozenset({"127.0.0.1", "localhost"})
"""Whatever the port: who tunnels through SSH may have another."""
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_PORT = re.compile(r":\d{1,5}\Z")
_METHODS = frozenset({"GET", "HEAD"})


class Guard:
    """Lets requests through that know the token, and closes all doors on the way back."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or have it answered."""

        async def send_closed(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        # "GET *" and "CONNECT host:1" have no path at all, and so no token either.
        _, token, *rest = ("/" + scope["path"].removeprefix("/")).split("/", 2)
        refusal = self._refusal(Headers(scope=scope).getlist("host"), scope["method"], token)
        if refusal is None and not rest:
            refusal = RedirectResponse(f"/{quote(self._token)}/")
        if refusal is not None:
            await refusal(scope, receive, send_closed)
            return
        inside = {**scope, "path": "/" + rest[0], "root_path": ""}
        await self._app(inside, receive, send_closed)

    def _refusal(self, hosts: Iterable[str], method: str, token: str) -> Response | None:
        names = [_PORT.sub("", host.lower()) for host in hosts]
        if len(names) != 1 or names[0] not in HOSTS:
            return PlainTextResponse("This address is not one of imgrec view.\n", 403)
        if not compare_digest(token.encode(), self._token.encode()):
            return PlainTextResponse("Open the address that `imgrec view` printed.\n", 403)
        if method not in _METHODS:
            return PlainTextResponse("There is nothing to change here.\n", 405)
        return None
