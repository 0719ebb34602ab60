"""A server that tells when it can be asked, and by then ends in good order when interrupted."""

from __future__ import annotations

import socket
from collections.abc import Callable

import uvicorn

from imgrec.inspection.viewing.guard import Guard

_PATIENCE_S = 1
"""How long answers may go on when the server is stopped."""


class TellingServer(uvicorn.Server):
    """Serves an app without a word in any log."""

    def __init__(self, app: Guard, on_started: Callable[[], None]) -> None:
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            server_header=False,
            timeout_graceful_shutdown=_PATIENCE_S,
        )
        super().__init__(config)
        self._on_started = on_started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to serve; signals are waited for already."""
        await super().startup(sockets=sockets)
        self._on_started()
