"""Starting a worker process: a copy of this one where that is safe, else a new interpreter.

A copy has imported already what it needs. But of the threads it has only the one that made it, and
a lock that another held would stay locked in it; so only a process of one thread is copied.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from typing import IO, NamedTuple, NoReturn, Protocol

from imgrec.engine import worker

_START = "from imgrec.engine.worker import main; main()"
_THREADS = "/proc/self/task"
"""A folder of all threads of this process, those of C libraries as well; Linux has it."""


class Process(Protocol):
    """What can be done about a process."""

    def kill(self) -> None:
        """End it at once."""
        ...

    def wait(self) -> int:
        """Wait for its end; return its exit code, or the signal that ended it, negative."""
        ...


class Started(NamedTuple):
    """A worker and the pipes that lead to it."""

    process: Process
    calls: IO[bytes]
    replies: IO[bytes]


def start(complaints: IO[bytes]) -> Started:
    """Start a worker whose error messages go to `complaints`."""
    return _fork(complaints) if _is_single() else _spawn(complaints)


def _is_single() -> bool:
    """Tell whether this process has one thread, and its standard streams are where they belong."""
    try:
        is_single = len(os.listdir(_THREADS)) == 1
    except OSError:
        return False
    return is_single and None not in (sys.__stdin__, sys.__stdout__, sys.__stderr__)


def _spawn(complaints: IO[bytes]) -> Started:
    import subprocess  # here, since a copy does without

    path = os.pathsep.join(filter(None, sys.path))
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", _START],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=complaints,
        # Names of files must mean the same there, also if an option of Python decides that.
        env={**os.environ, "PYTHONPATH": path, "PYTHONUTF8": str(sys.flags.utf8_mode)},
        process_group=0,  # Ctrl-C is the parent's to handle
    )
    assert process.stdin and process.stdout
    return Started(process, process.stdin, process.stdout)


def _fork(complaints: IO[bytes]) -> Started:
    for stream in (sys.stdout, sys.stderr):
        stream.flush()  # or a copy might say it again
    calls, replies = os.pipe(), os.pipe()
    if not (number := os.fork()):
        _work(calls[0], replies[1], complaints.fileno())
    os.close(calls[0])
    os.close(replies[1])
    return Started(_Copy(number), os.fdopen(calls[1], "wb"), os.fdopen(replies[0], "rb"))


def _work(calls: int, replies: int, complaints: int) -> NoReturn:
    """Be the worker: never return, and hold on to nothing of the parent's."""
    try:
        os.setpgid(0, 0)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        for place, descriptor in enumerate((calls, replies, complaints)):
            os.dup2(descriptor, place)
        # Whatever stands in for them (notebooks, pytest) may write to what is closed here.
        sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
        # The pipes of other workers, held open here, would keep those from noticing their end.
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        if sys.modules.get("numpy", worker) is None:
            del sys.modules["numpy"]  # which the command bars for itself: a worker needs it
        worker.main()
    except BaseException:
        sys.excepthook(*sys.exc_info())
        raise
    finally:
        os._exit(1)


class _Copy:
    """A copy of this process."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._code: int | None = None

    def kill(self) -> None:
        if self._code is None:
            with suppress(ProcessLookupError):
                os.kill(self._number, signal.SIGKILL)

    def wait(self) -> int:
        if self._code is None:
            self._code = os.waitstatus_to_exitcode(os.waitpid(self._number, 0)[1])
        return self._code
