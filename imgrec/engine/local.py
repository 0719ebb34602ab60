"""Running tasks in worker processes on this machine.

Not `concurrent.futures.ProcessPoolExecutor`, although it is as fast: where it cannot fork it runs
the caller's script again in each worker, so scripts and notebooks would need an
`if __name__ == "__main__"`; it reports a crashed worker without exit code or message; and its
workers outlive a killed parent.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import sys
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from multiprocessing import current_process, get_context
from multiprocessing.connection import Connection, Pipe, wait
from multiprocessing.process import BaseProcess
from threading import Thread
from typing import IO, TYPE_CHECKING, Any, Self, TypeAlias, TypeVar, cast

from imgrec.engine import Engine, answer
from imgrec.engine.logged import replay
from imgrec.errors import ExecutionError, ImgrecError

if TYPE_CHECKING:
    import subprocess

T = TypeVar("T")
R = TypeVar("R")
Process: TypeAlias = "BaseProcess | subprocess.Popen[bytes]"

_log = logging.getLogger(__name__)

_THREADS = "/proc/self/task"
"""Lists all threads of this process on Linux, those of C libraries included."""
_SPAWNED = "import sys; from imgrec.engine.local import serve; serve(int(sys.argv[1]))"


def usable_cpus() -> int:
    """Count the CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class SerialEngine:
    """Runs tasks in this process, which cannot start workers on Windows."""

    is_local = True

    def run(self, function: Callable[[T], R], tasks: Iterable[T]) -> Generator[R, None, None]:
        """Yield the result of each task, in order."""
        for task in tasks:
            result, error, logged = answer(function, task)
            replay(logged)
            if error is not None:
                raise error
            yield cast("R", result)


@contextmanager
def running(engine: Engine | None, workers: int | None = None) -> Iterator[Engine]:
    """Yield the given engine, or a local one that is stopped afterwards."""
    if engine is not None:
        yield engine
        return
    if not hasattr(select, "poll"):  # Windows
        yield SerialEngine()
        return
    with LocalEngine(workers) as own:
        yield own


class LocalEngine:
    """A few worker processes. They are killed when the context ends."""

    is_local = True

    def __init__(self, workers: int | None = None) -> None:
        self._count = workers or usable_cpus()
        self._workers: list[_Worker] = []

    def __enter__(self) -> Self:
        self._workers = [_Worker() for _ in range(self._count)]
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Kill the workers."""
        for worker in self._workers:
            worker.kill()
        for worker in self._workers:
            worker.close()
        self._workers = []

    def run(self, function: Callable[[T], R], tasks: Iterable[T]) -> Generator[R, None, None]:
        """Start calling `function(task)` for each task; yield the results as they arrive.

        The first error is raised. Each worker has one task at a time. A run that ends early,
        because of an error or because the generator is closed, stops the workers.
        """
        if not self._workers:
            raise ExecutionError("the engine has been stopped")
        results = self._run(function, iter(tasks))
        next(results)  # a generator that has not started cannot be closed
        return results

    def _run(self, function: Callable[[T], R], tasks: Iterator[T]) -> Generator[Any, None, None]:
        """Send the first tasks and yield None once; then yield results."""
        busy: dict[object, _Worker] = {}

        def send_next(worker: _Worker) -> None:
            for task in tasks:
                worker.send(function, task)
                busy[worker.connection] = worker
                return

        try:
            for worker in self._workers:
                send_next(worker)
            yield None
            while busy:
                for connection in wait([worker.connection for worker in busy.values()]):
                    worker = busy.pop(connection)
                    result = worker.receive()
                    send_next(worker)
                    yield result
        except BaseException:
            self.stop()
            raise


class _Worker:
    """One worker process, seen from its parent."""

    def __init__(self) -> None:
        self._output = tempfile.TemporaryFile()  # noqa: SIM115  # closed by close()
        self.connection, theirs = Pipe()
        # Forked workers need not import anything again: 10,000 photos were packed 24 % faster than
        # with a fork server.
        self._process = (_fork if _can_fork() else _spawn)(theirs, self._output)
        theirs.close()

    def send(self, function: Callable[[T], R], task: T) -> None:
        try:
            self.connection.send((function, task))
        except OSError as error:
            raise self._crash() from error

    def receive(self) -> object:
        try:
            result, error, logged = self.connection.recv()
        except (EOFError, OSError) as lost:
            raise self._crash() from lost
        replay(logged)
        if isinstance(error, ImgrecError):
            raise error
        return result

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> None:
        _exit_code(self._process)
        self.connection.close()
        self._output.close()

    def _crash(self) -> ExecutionError:
        """Return the error for a worker that ended by itself."""
        code = _exit_code(self._process)
        self._output.seek(0)
        printed = self._output.read().decode(errors="replace").strip().splitlines()
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        hint = "run it again; if it dies again, please report it"
        if code == -signal.SIGKILL:
            hint = "run it again, with fewer --workers if memory ran out: a pack continues"
        return ExecutionError(
            f"a worker process died {how}" + (f": {printed[-1]}" if printed else ""), hint=hint
        )


def _exit_code(process: Process) -> int:
    """Wait for a process; return its exit code, or the negative number of the signal."""
    if isinstance(process, BaseProcess):
        process.join()
        return process.exitcode or 0
    return process.wait()


def _can_fork() -> bool:
    """Return whether a fork of this process would work.

    A fork copies one thread only, so a lock held by another thread would stay locked for ever.
    """
    try:
        has_one_thread = len(os.listdir(_THREADS)) == 1
    except OSError:
        return False
    has_streams = None not in (sys.__stdin__, sys.__stdout__, sys.__stderr__)
    return has_one_thread and has_streams and not current_process().daemon


def _fork(connection: Connection, output: IO[bytes]) -> Process:
    arguments = (connection.fileno(), output.fileno())
    process = get_context("fork").Process(target=_serve_forked, args=arguments, daemon=True)
    process.start()
    return process


def _serve_forked(connection: int, output: int) -> None:
    for descriptor in (1, 2):
        os.dup2(output, descriptor)
    # Their replacements in notebooks and pytest may write to files that are closed below.
    sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
    # Copies of the parent's connections to other workers would keep those alive without a parent.
    os.closerange(3, connection)
    os.closerange(connection + 1, os.sysconf("SC_OPEN_MAX"))
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    serve(connection)


def _spawn(connection: Connection, output: IO[bytes]) -> Process:
    import subprocess  # most runs can fork

    _log.info("this process has threads or no streams, so a worker is started, not forked")
    return subprocess.Popen(
        [sys.executable, "-P", "-c", _SPAWNED, str(connection.fileno())],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        pass_fds=[connection.fileno()],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            # File names must be decoded as in the parent, even if an option of Python decides how.
            "PYTHONUTF8": str(sys.flags.utf8_mode),
        },
        process_group=0,  # the parent handles Ctrl-C
    )


def serve(descriptor: int) -> None:
    """Run as a worker: answer calls until the parent closes the connection."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    # There is one worker for each CPU. More threads for NumPy would compete with the others, and
    # starting them was measured to take as long as importing NumPy.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    Thread(target=_end_with_parent, args=(descriptor,), daemon=True).start()
    connection = Connection(descriptor)
    while True:
        function, task = connection.recv()
        connection.send(answer(function, task))
        del function, task


def _end_with_parent(descriptor: int) -> None:
    """End this process, even in the middle of a task, when its parent has ended.

    A worker that went on writing a shard would disturb the next run.
    """
    parent = select.poll()
    parent.register(descriptor, 0)  # only hang-up
    parent.poll()
    os._exit(0)
