"""Serving the page on this machine, and to nobody else, until it is stopped."""

from __future__ import annotations

import errno
import os
import secrets
import socket
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from typing import NamedTuple

from imgrec.errors import ExecutionError, UsageError
from imgrec.extras import needed
from imgrec.outcome import DatasetInfo
from imgrec.read.locate import find_dataset
from imgrec.storage.paths import refuse_remote

ADDRESS = "127.0.0.1"
_TOKEN_BYTES = 16


class Serving(NamedTuple):
    """A page that can be opened now."""

    url: str
    """With the token, without which nothing is answered."""
    info: DatasetInfo


def view(
    dataset: str, on_ready: Callable[[Serving], None], *, data_dir: str = "", port: int = 0
) -> None:
    """Serve a page to browse a packed dataset, on this machine only, until SIGINT.

    `on_ready` is told the address as soon as it can be opened. Port 0 is any that is free. Raises
    MissingExtra, DatasetError, or ExecutionError if the port cannot be had.
    """
    for package in ("uvicorn", "starlette"):
        needed(package, extra="view", what="imgrec view")
    from imgrec.inspection.viewing.guard import Guard
    from imgrec.inspection.viewing.opened import Opened
    from imgrec.inspection.viewing.pages import routes_of
    from imgrec.inspection.viewing.telling import TellingServer
    from imgrec.inspection.viewing.thumbnails import Thumbnails

    for place in (dataset, data_dir):
        refuse_remote(place, "imgrec view")
    with ExitStack() as stack:
        listener = stack.enter_context(_listening(port))
        folder = find_dataset(dataset, data_dir)
        refuse_remote(os.fspath(folder), "imgrec view")
        opened = stack.enter_context(closing(Opened(folder)))
        thumbnails = stack.enter_context(closing(Thumbnails(opened.dataset)))
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        url = f"http://{ADDRESS}:{listener.getsockname()[1]}/{token}/"
        guard = Guard(routes_of(opened, thumbnails), token)
        server = TellingServer(guard, lambda: on_ready(Serving(url, opened.dataset.info)))
        with suppress(KeyboardInterrupt):  # which is how it ends
            server.run(sockets=[listener])


def _listening(port: int) -> socket.socket:
    if not 0 <= port <= 65535:
        raise UsageError(f"--port {port} is not a port", hint="give a number from 1 to 65535")
    try:
        listener = socket.create_server((ADDRESS, port))
    except OSError as error:
        is_taken = error.errno == errno.EADDRINUSE
        why = "another program has it" if is_taken else error.strerror
        raise ExecutionError(
            f"cannot listen on port {port}: {why}",
            hint="give another --port, or none to get one that is free",
        ) from error
    # Connections inherit this. Without it, each answer waits 40 ms for a receipt of its beginning.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener
