"""Running tasks in processes on this machine.

Workers are plain processes that speak pickle over pipes. Unlike `multiprocessing`, that needs
no `if __name__ == "__main__"` in the caller's script and works in notebooks; a worker's death is
noticed at once; and a worker whose parent dies, however it dies, ends by itself.
"""

from __future__ import annotations

import fcntl
import os
import pickle
import selectors
import signal
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator, Sized
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import IO, Any, Self, TypeVar

from imgrec.engine import Engine
from imgrec.engine.process import start
from imgrec.engine.worker import REPLY_SIZE_BYTES
from imgrec.errors import ExecutionError, ImgrecError

T = TypeVar("T")
R = TypeVar("R")

_PIPE_BYTES = 1 << 20
"""The widest pipe that Linux lets anyone have."""
_LEAST_PIPE_BYTES = 512
"""What POSIX promises."""


def usable_cpus() -> int:
    """Count the CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _widen(pipe: IO[bytes]) -> int:
    """Make a pipe as wide as it may be, and return how many bytes it holds for sure."""
    if not hasattr(fcntl, "F_SETPIPE_SZ"):
        return _LEAST_PIPE_BYTES
    with suppress(OSError):
        return fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    return fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ)


class LocalEngine:
    """A few worker processes, stopped when the context ends: at once if it must be."""

    is_local = True

    def __init__(self, workers: int | None = None) -> None:
        self._count = workers or usable_cpus()
        self._workers: list[_Worker] = []

    def __enter__(self) -> Self:
        self._workers = [_Worker() for _ in range(self._count)]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for worker in self._workers:
            worker.kill()
        for worker in self._workers:
            worker.stop()
        self._workers = []

    @contextmanager
    def _stopped_unless_finished(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.__exit__(None, None, None)
            raise

    def prepare(self, function: Callable[[T], object], task: T) -> None:
        """Let every worker call `function(task)` while the parent does something else."""
        for worker in self._workers:
            worker.send(pickle.dumps((function, task), pickle.HIGHEST_PROTOCOL))

    def run(self, function: Callable[[T], R], tasks: Iterable[T]) -> Generator[R, None, None]:
        """Have `function(task)` called for each task, from now on; yield what it returns.

        Results are yielded as they come, and the first error is raised. Each worker has at most one
        task at hand and one waiting in its pipe. A run that is broken off, by an error or by
        closing the iterator, stops the workers.
        """
        if not self._workers:
            raise ExecutionError("the engine has been stopped")
        results = self._run(_Calls(function, tasks))
        next(results)  # what has not begun could not be closed
        return results

    def _run(self, calls: _Calls) -> Generator[Any, None, None]:  # what a worker has pickled
        """Hand out the first calls, and yield once; then yield results."""
        with selectors.DefaultSelector() as selector, self._stopped_unless_finished():
            for worker in self._workers:
                worker.settle()
                selector.register(worker.replies, selectors.EVENT_READ, worker)
            self._hand_out(calls)
            yield None
            while any(worker.at_hand for worker in self._workers):
                for key, _ in selector.select():
                    result = key.data.receive()
                    self._hand_out(calls)
                    yield result

    def _hand_out(self, calls: _Calls) -> None:
        """Send calls as long as there are workers to take them."""
        while calls.first is not None:
            worker = min(self._workers, key=lambda worker: worker.at_hand)
            # The last ones wait for whoever is done first.
            is_last = calls.left is not None and calls.left <= len(self._workers)
            if worker.at_hand and (is_last or not worker.takes(calls.first)):
                break
            worker.send(calls.pop())


class _Calls:
    """The calls of a run, of which only the first is made before it is sent."""

    def __init__(self, function: Callable[[T], object], tasks: Iterable[T]) -> None:
        self._calls = (pickle.dumps((function, task), pickle.HIGHEST_PROTOCOL) for task in tasks)
        self.left = len(tasks) if isinstance(tasks, Sized) else None
        """How many there are, if that is known."""
        self.first = next(self._calls, None)

    def pop(self) -> bytes:
        """Take the first one."""
        call, self.first = self.first, next(self._calls, None)
        assert call is not None
        if self.left is not None:
            self.left -= 1
        return call


class _Worker:
    """One worker process."""

    def __init__(self) -> None:
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115  # closed by stop()
        self._process, self._calls, self.replies = start(self._complaints)
        self.at_hand = 0
        """How many calls it has not answered."""
        self._pipe_bytes = _widen(self._calls)

    def takes(self, call: bytes) -> bool:
        """Tell whether a call can be sent to a worker that has something at hand.

        A worker at work has emptied its pipe. What fits into that is taken; waiting for the rest
        to be, while the worker waits for its reply to be read, would never end.
        """
        return self.at_hand == 1 and len(call) <= self._pipe_bytes

    def send(self, call: bytes) -> None:
        self.at_hand += 1
        try:
            self._calls.write(call)
            self._calls.flush()
        except OSError as error:
            raise self._death() from error

    def receive(self) -> object:
        try:
            size = int.from_bytes(self._read(REPLY_SIZE_BYTES), "big")
            result, error = pickle.loads(self._read(size))
        except (EOFError, pickle.UnpicklingError) as cut:
            raise self._death() from cut
        self.at_hand -= 1
        if isinstance(error, ImgrecError):
            raise error
        return result

    def _read(self, size: int) -> bytes:
        # Not buffered: a reply in a buffer would be one that no selector sees.
        pieces = []
        while size:
            pieces.append(os.read(self.replies.fileno(), size))
            if not pieces[-1]:
                raise EOFError
            size -= len(pieces[-1])
        return b"".join(pieces)

    def settle(self) -> None:
        """Wait for the replies that no one is waiting for."""
        while self.at_hand:
            self.receive()

    def kill(self) -> None:
        self._process.kill()

    def stop(self) -> None:
        """Wait for its end, and close what led to it."""
        self._process.wait()
        for file in (self._calls, self.replies, self._complaints):
            with suppress(OSError):  # what was still to be written has no reader any more
                file.close()

    def _death(self) -> ExecutionError:
        code = self._process.wait()
        self._complaints.seek(0)
        last_words = self._complaints.read().decode(errors="replace").strip().splitlines()
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        said = f": {last_words[-1]}" if last_words else ""
        hint = (
            "run it again, with fewer --workers if memory ran out: a pack goes on from there"
            if code == -signal.SIGKILL
            else ""
        )
        return ExecutionError(
            f"a worker process died {how}{said}",
            hint=hint or "run it again; if it dies again, please report it",
        )


@contextmanager
def running(engine: Engine | None, workers: int | None = None) -> Iterator[Engine]:
    """Yield the engine given, or one of our own, which is stopped afterwards."""
    if engine is not None:
        yield engine
        return
    with LocalEngine(workers) as own:
        yield own
