"""The main loop of a worker process: calls on standard input, replies on standard output."""

from __future__ import annotations

import gc
import os
import pickle
import select
import signal
from collections.abc import Callable
from threading import Thread
from typing import BinaryIO, TypeVar

from imgrec.errors import ExecutionError, ImgrecError

T = TypeVar("T")
R = TypeVar("R")

REPLY_SIZE_BYTES = 8
"""How many bytes tell the size of a reply, before it."""


def main() -> None:
    """Answer calls until there are no more, or no one to answer."""
    # Ctrl-C reaches the whole terminal; the parent decides what it means for us.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # There is a worker for each CPU. More threads of NumPy's would only turn in circles, which was
    # measured to cost as much as importing it.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.disable()  # a task makes many small values and no cycles worth looking for
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints must not mix with the replies
    Thread(target=_end_with_parent, args=(replies.fileno(),), daemon=True).start()
    try:
        serve(os.fdopen(0, "rb"), replies)
    except (EOFError, BrokenPipeError):
        # The parent is done or gone; there is nothing to flush to anybody.
        os._exit(0)


def _end_with_parent(replies: int) -> None:
    """End this process as soon as no one is there to read its replies.

    Not only when there is one: a worker that went on to write a shard after its parent was killed
    would be in the way of the run that continues it.
    """
    reader = select.poll()
    reader.register(replies, 0)  # nothing but its going away
    reader.poll()
    os._exit(0)


def serve(calls: BinaryIO, replies: BinaryIO) -> None:
    """Answer each call `(function, task)` with `(result, None)` or `(None, error)`."""
    while True:
        function, task = pickle.load(calls)
        reply = answer(function, task)
        data = pickle.dumps(reply, pickle.HIGHEST_PROTOCOL)
        replies.write(len(data).to_bytes(REPLY_SIZE_BYTES, "big") + data)
        replies.flush()
        del function, task, reply, data
        gc.collect(0)


def answer(function: Callable[[T], R], task: T) -> tuple[R | None, ImgrecError | None]:
    """Call a function, and return its result or what it raised, for whoever asked to raise."""
    try:
        return function(task), None
    except ImgrecError as error:
        return None, error
    except Exception as error:  # noqa: BLE001  # it is the caller's to raise
        return None, _unexpected(error)


def _unexpected(error: Exception) -> ExecutionError:
    import traceback

    where = traceback.extract_tb(error.__traceback__)[-1]
    return ExecutionError(
        f"a worker failed with {type(error).__name__}: {error} ({where.filename}:{where.lineno})",
        hint="this should not happen: please report it with this message",
    )
