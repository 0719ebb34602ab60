"""Running tasks on the executors of a Spark cluster.

Tasks run in waves. A wave is a Spark job with a few tasks per core. Two waves run at once, so that
neither waits for the slowest task of the other. A task returns its error as a value, so that Spark
does not retry it. A task that Spark repeats after losing an executor, or runs twice (speculation),
writes the same bytes under the same name, atomically. Executors that lack imgrec, or have another
version of it, get ours.
"""

from __future__ import annotations

import gc
import hashlib
import io
import os
import sys
import zipfile
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from itertools import islice
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from types import TracebackType
from typing import TYPE_CHECKING, Generic, Self, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

from imgrec.engine import Answer, answer
from imgrec.engine.logged import replay
from imgrec.errors import ExecutionError, UsageError, import_extra
from imgrec.options.parsing import parse_several, parse_text, refusal

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession


T = TypeVar("T")
R = TypeVar("R")
Answers: TypeAlias = list[Answer[R]]

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # The work is done in Python; optimizing the JVM of a short run costs more than it saves.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
}
_WAVES, _TASKS_PER_CORE = 2, 2
_WAITS_S = 10.0
"""How long to wait for cancelled tasks to end."""


def active_session() -> SparkSession | None:
    """Return the active session of this process; raise MissingExtra without PySpark."""
    sql = import_extra("pyspark.sql", extra="spark", what="the Spark engine")
    session: SparkSession | None = sql.SparkSession.getActiveSession()
    return session


class SparkEngine:
    """The executors of a Spark session: the given one, the active one, or a new one.

    A new session starts in a `with` block, when the first task does, and stops when the block ends.
    Other sessions are not stopped. All executors must see the source and `--data-dir` under the
    same path or URL.
    """

    is_local = False

    def __init__(
        self,
        session: SparkSession | None = None,
        *,
        master: str = "",
        conf: Mapping[str, str] | str | Sequence[str] | None = None,
    ) -> None:
        self._session = session or active_session()
        self._owned: SparkSession | None = None
        self._is_entered = False
        self._master, self._conf = parse_text("master", master), read_settings(conf)
        if self._session is not None and (master or conf):
            raise UsageError(
                "cannot choose a master or settings: a Spark session is already running",
                hint="leave them out, or stop the session",
            )

    def __enter__(self) -> Self:
        self._is_entered = True
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_entered = False
        if self._owned is not None:
            self._owned.stop()
            self._session = self._owned = None

    def run(self, function: Callable[[T], R], tasks: Iterable[T]) -> Generator[R, None, None]:
        """Yield `function(task)` for each task, wave by wave; raise the first error.

        An error, or closing the iterator, cancels the jobs.
        """
        if self._session is None and not self._is_entered:
            raise ExecutionError(
                "no Spark session is running",
                hint="use `with SparkEngine(...) as engine`, or give it a session",
            )
        if self._session is None:  # not before: a JVM takes seconds, and many errors come first
            self._session = self._owned = _start(self._master, self._conf)
        context = context_of(self._session)
        ship(context)
        with cancelling(context) as group:
            waves = _Waves(context, group, function, iter(tasks))
            while answers := waves.finish_one():
                for result, error, logged in answers:
                    replay(logged)
                    if error is not None:
                        raise error
                    yield result  # type: ignore[misc]  # a result, as there is no error


def read_settings(conf: object) -> dict[str, str]:
    """Parse Spark settings: a dict, or texts such as "spark.executor.memory=2g"."""
    if isinstance(conf, Mapping):
        return {parse_text("conf", key): _setting(value) for key, value in conf.items()}
    texts = () if conf is None else parse_several(parse_text, "conf", conf)
    for text in texts:
        if "=" not in text:
            raise refusal("conf", text, "write it as spark.KEY=VALUE")
    return {key: value for key, _, value in (text.partition("=") for text in texts)}


def _setting(value: object) -> str:
    """Format a value for Spark."""
    if isinstance(value, bool | int | float):
        return str(value).lower()
    return parse_text("conf", value)


def context_of(session: SparkSession) -> SparkContext:
    """Return the context of a session; raise UsageError for a Spark Connect session."""
    try:
        return session.sparkContext
    except Exception as error:
        raise UsageError(
            "a Spark Connect session cannot run imgrec's tasks",
            hint="use a classic session, such as SparkSession.builder.master(...).getOrCreate()",
        ) from error


def _start(master: str, conf: Mapping[str, str]) -> SparkSession:
    sql = import_extra("pyspark.sql", extra="spark", what="the Spark engine")
    builder = sql.SparkSession.builder.appName("imgrec")
    # File names must be decoded the same way on all machines, whatever their locale.
    utf8 = {"spark.executorEnv.PYTHONUTF8": "1"} if sys.getfilesystemencoding() == "utf-8" else {}
    for key, value in {**_SETTINGS, **utf8, **conf}.items():
        builder = builder.config(key, value)
    # spark-submit has already chosen the master.
    default = "" if "PYSPARK_GATEWAY_PORT" in os.environ else "local[*]"
    where = master or conf.get("spark.master") or default
    if where.startswith("local"):
        # Spark takes the first python3 on PATH, which may lack our packages.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    try:
        session: SparkSession = (builder.master(where) if where else builder).getOrCreate()
    except Exception as error:
        raise ExecutionError(
            f"cannot start Spark on {where or 'its master'}: {reason_of(error)}",
            hint="check --spark-master, that Java 17 or newer is installed, and JAVA_HOME",
        ) from error
    session.sparkContext.setLogLevel("OFF")  # our own errors say what went wrong
    return session


@dataclass(frozen=True)
class _Answering(Generic[T, R]):
    """Runs a task on an executor, and returns its result or its error."""

    function: Callable[[T], R]
    encoding: str
    """The driver's encoding of file names."""

    def __call__(self, task: T) -> Answer[R]:
        if (own := sys.getfilesystemencoding()) != self.encoding:
            error = ExecutionError(
                f"an executor decodes file names as {own}, but the driver as {self.encoding}",
                hint="set spark.executorEnv.PYTHONUTF8 to 1, and PYTHONUTF8=1 for the driver",
            )
            return Answer(None, error, [])
        found = answer(self.function, task)
        _spare_modules(len(sys.modules))
        return found


@cache
def _spare_modules(_count: int) -> None:
    """Exempt imported modules from garbage collection, once per number of modules.

    Spark collects garbage after every task. That takes longer than a small task.
    """
    gc.collect()
    gc.freeze()


class _Waves(Generic[T, R]):
    """The jobs of a run, two at once."""

    def __init__(
        self, context: SparkContext, group: str, function: Callable[[T], R], tasks: Iterator[T]
    ) -> None:
        self._context, self._group, self._tasks = context, group, tasks
        self._answering = _Answering(function, sys.getfilesystemencoding())
        self._done: SimpleQueue[Answers[R] | Exception] = SimpleQueue()
        self._at_work = 0

    def finish_one(self) -> Answers[R]:
        """Wait for a job and return its answers; return nothing when all are done."""
        while self._at_work < _WAVES and self._start():
            self._at_work += 1
        if not self._at_work:
            return []
        done = self._done.get()
        self._at_work -= 1
        if isinstance(done, Exception):
            raise ExecutionError(
                f"Spark could not run a task: {reason_of(done)}",
                hint="look at the logs of the executors; finished shards are kept",
            ) from done
        return done

    def _start(self) -> bool:
        from pyspark import InheritableThread

        # Executors come and go, so ask each time.
        wave = list(islice(self._tasks, _TASKS_PER_CORE * self._context.defaultParallelism))
        if wave:
            InheritableThread(target=self._run, args=(wave,), daemon=True).start()
        return bool(wave)

    def _run(self, wave: Sequence[T]) -> None:
        try:
            self._context.setJobGroup(self._group, "imgrec", interruptOnCancel=False)
            tasks = self._context.parallelize(wave, len(wave))
            self._done.put(tasks.map(self._answering).collect())
        except Exception as error:  # noqa: BLE001  # finish_one raises it
            self._done.put(error)


@contextmanager
def cancelling(context: SparkContext) -> Iterator[str]:
    """Yield the name of a job group; cancel its jobs and wait for their end on an error."""
    group = f"imgrec-{os.urandom(6).hex()}"
    try:
        yield group
    except BaseException:
        with suppress(Exception):  # a stopped session has no jobs
            context.cancelJobGroup(group)
            _wait_for_end(context, group)
        raise


def _wait_for_end(context: SparkContext, group: str) -> None:
    """Wait until no task of a group runs: it might still be writing."""
    tracker = context.statusTracker()
    end = monotonic() + _WAITS_S
    jobs = filter(None, map(tracker.getJobInfo, tracker.getJobIdsForGroup(group)))
    stages = [stage for job in jobs for stage in job.stageIds]
    while monotonic() < end and any(
        (info := tracker.getStageInfo(stage)) and info.numActiveTasks for stage in stages
    ):
        sleep(0.05)


def reason_of(error: Exception) -> str:
    """Return the line of a Spark error that names the cause."""
    java = getattr(error, "java_exception", None)
    said = java.getMessage() if java is not None else str(error)
    lines = [line.strip() for line in (said or type(error).__name__).splitlines() if line.strip()]
    python = [line for line in lines if line.partition(":")[0].endswith("Error")]
    return (python[-1] if python else lines[0].rpartition("most recent failure: ")[2])[:500]


# Sending imgrec to executors.


_MOST_ASKED = 64
_shipped: WeakKeyDictionary[SparkContext, TemporaryDirectory[str]] = WeakKeyDictionary()
"""The folder of the zip for each context: executors fetch it when their first task runs."""


def ship(context: SparkContext) -> None:
    """Make executors import the same imgrec as this process; check that they have what it needs."""
    if context in _shipped:
        return
    count = min(context.defaultParallelism, _MOST_ASKED)
    found = context.parallelize(range(count), count).map(_asking()).collect()
    if missing := sorted({name for _, names in found for name in names}):
        raise ExecutionError(
            f"executors cannot import {', '.join(missing)}",
            hint="set PYSPARK_PYTHON to a Python that has them, or ship an environment with "
            "spark.archives",
        )
    folder = TemporaryDirectory(prefix="imgrec-")
    if any(digest != own_digest() for digest, _ in found):
        path = os.path.join(folder.name, "imgrec.zip")
        with open(path, "wb") as file:
            file.write(zipped())
        context.addPyFile(path)
    _shipped[context] = folder


def _asking() -> Callable[[int], tuple[str, list[str]]]:
    """Return a function that is pickled by value, as executors may have no imgrec."""

    def ask(_: int) -> tuple[str, list[str]]:
        import hashlib
        import os
        from importlib.util import find_spec

        needed = ("PIL", "google_crc32c", "simplejpeg", "xxhash")
        missing = [name for name in needed if find_spec(name) is None]
        spec = find_spec("imgrec")  # not imported: ours may have to replace it
        places = list(spec.submodule_search_locations or ()) if spec else []
        digest = hashlib.sha256()
        for folder, folders, names in os.walk(places[0]) if places else ():
            folders.sort()
            for name in sorted(names):
                if name.endswith(".py"):
                    with open(os.path.join(folder, name), "rb") as file:
                        digest.update(file.read())
        return digest.hexdigest(), missing

    return ask


def own_digest() -> str:
    """Return the digest of the imgrec of this process, computed as in `ask`."""
    digest = hashlib.sha256()
    for _, data in _sources(".py"):
        digest.update(data)
    return digest.hexdigest()


def zipped() -> bytes:
    """Return this imgrec as an importable zip."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in _sources(".py", ".txt", ".typed"):
            archive.writestr(zipfile.ZipInfo(name), data)
    return out.getvalue()


def _sources(*endings: str) -> Iterator[tuple[str, bytes]]:
    """Yield the path and bytes of each file of this package, in sorted `os.walk` order."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for folder, folders, names in os.walk(root):
        folders.sort()
        for name in sorted(names):
            if name.endswith(endings):
                with open(os.path.join(folder, name), "rb") as file:
                    yield os.path.relpath(file.name, os.path.dirname(root)), file.read()
