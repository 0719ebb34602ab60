"""Functions for workers to call in tests."""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from pathlib import Path

from imgrec.errors import BadImage


def double(number: int) -> int:
    return 2 * number


def log(number: int) -> int:
    logging.getLogger("imgrec.tests").info("100%% of %d", number)
    return number


def print_something(number: int) -> int:
    print("to standard output", flush=True)
    os.write(1, b"straight to the descriptor")
    return number


def raise_ours(_: int) -> None:
    raise BadImage("what", hint="do", path="where")


def raise_other(_: int) -> None:
    raise KeyError("x")


def kill_itself(number: int) -> int:
    if number == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def leave(_: int) -> None:
    print("farewell", file=sys.stderr, flush=True)
    os._exit(3)


def note_pid_and_sleep(folder: str) -> None:
    (Path(folder) / str(os.getpid())).touch()
    time.sleep(60)
