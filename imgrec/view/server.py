"""Serve the page on this machine only, until it is stopped."""

from __future__ import annotations

import errno
import secrets
import socket
from collections.abc import Callable
from contextlib import closing, suppress
from typing import TYPE_CHECKING, NamedTuple

from imgrec.errors import ExecutionError, UsageError, import_extra
from imgrec.outcome import DatasetInfo
from imgrec.read.files import find_dataset

if TYPE_CHECKING:
    import uvicorn

    from imgrec.view.records import ViewedDataset

_ADDRESS = "127.0.0.1"
_TOKEN_BYTES = 16
_SHUTDOWN_S = 1
"""How long running answers may take when the server stops."""


class Serving(NamedTuple):
    """A page that can be opened now."""

    url: str
    """Contains the token, without which nothing is answered."""
    info: DatasetInfo
    corrections: str
    """The file that keeps decisions; "" if none can be made."""


def view(
    dataset: str,
    on_ready: Callable[[Serving], None],
    *,
    data_dir: str = "",
    port: int = 0,
    corrections: str = "",
) -> None:
    """Serve a page to browse a packed dataset, on this machine only, until SIGINT.

    `on_ready` gets the address as soon as it can be opened. Port 0 means any free port. Decisions
    are kept in the file `corrections`; "" for one in the working folder. Raises MissingExtra,
    DatasetError, SourceError for a file that is not of corrections, or ExecutionError if the port
    is not available.
    """
    for package in ("uvicorn", "starlette"):
        import_extra(package, extra="view", what="imgrec view")
    from imgrec.view.records import ViewedDataset

    with listen(port) as listener:
        folder = find_dataset(dataset, data_dir)
        viewed = ViewedDataset(folder, corrections)
        with closing(viewed), suppress(KeyboardInterrupt):  # the usual end
            make_server(viewed, listener, on_ready).run(sockets=[listener])


def listen(port: int) -> socket.socket:
    """Open a port for this machine only; raise UsageError or ExecutionError."""
    if not 0 <= port <= 65535:
        raise UsageError(f"--port {port} is not a port", hint="use a number from 1 to 65535")
    try:
        listener = socket.create_server((_ADDRESS, port))
    except OSError as error:
        is_taken = error.errno == errno.EADDRINUSE
        why = "another program uses it" if is_taken else error.strerror
        raise ExecutionError(
            f"cannot listen on port {port}: {why}",
            hint="use another --port, or none to get a free one",
        ) from error
    # Connections inherit this. Without it, each answer waits 40 ms for an acknowledgement.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def make_server(
    viewed: ViewedDataset, listener: socket.socket, on_ready: Callable[[Serving], None]
) -> uvicorn.Server:
    """Return a server without logs; it calls `on_ready` once signals can stop it."""
    import uvicorn

    from imgrec.view.app import make_app

    token = secrets.token_urlsafe(_TOKEN_BYTES)
    url = f"http://{_ADDRESS}:{listener.getsockname()[1]}/{token}/"

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets=sockets)
            path = viewed.decisions.path if viewed.decisions else ""
            on_ready(Serving(url, viewed.dataset.info, path))

    config = uvicorn.Config(
        make_app(viewed, token),
        log_config=None,
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,
        timeout_graceful_shutdown=_SHUTDOWN_S,
    )
    return Server(config)
