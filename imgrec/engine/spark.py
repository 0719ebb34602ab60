"""Running tasks on the executors of a Spark cluster.

Tasks go out in waves, each a Spark job of a few tasks for each core of the cluster; two waves are
under way at once, so that none waits for the slowest task of another. An error of a task travels
as a value, so it is raised here as it was there, without a retry that would meet it again. What
Spark does retry (a lost executor), or runs twice (speculation), writes the same bytes again under
the same name, at once.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from itertools import islice
from queue import SimpleQueue
from time import monotonic, sleep
from types import TracebackType
from typing import TYPE_CHECKING, Generic, Self, TypeAlias, TypeVar

from imgrec.engine import answer
from imgrec.engine.shipping import ship
from imgrec.errors import ExecutionError, ImgrecError, UsageError
from imgrec.extras import needed
from imgrec.options.parsing import parse_several, parse_text, refusal

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

T = TypeVar("T")
R = TypeVar("R")
Answers: TypeAlias = list[tuple[R | None, ImgrecError | None]]

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # The work is done in Python; optimizing the JVM of a short run costs more than it saves.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
}
_WAVES, _TASKS_PER_CORE = 2, 2
_WAITS_S = 10.0
"""How long tasks that were cancelled may take to end."""


def active_session() -> SparkSession | None:
    """Return the session that this process has already; raise MissingExtra without PySpark."""
    sql = needed("pyspark.sql", extra="spark", what="the Spark engine")
    session: SparkSession | None = sql.SparkSession.getActiveSession()
    return session


class SparkEngine:
    """The executors of a Spark session: the one given, else the active one, else one of our own.

    One of our own is started when the context is entered, and stopped when it ends; no other is.
    Sources and `--data-dir` must be on a disk that all executors see under the same path.
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
        self._master, self._conf = parse_text("master", master), read_settings(conf)
        if self._session is not None and (master or conf):
            raise UsageError(
                "a Spark session runs already, so that its master and settings cannot be chosen",
                hint="leave them out, or stop the session",
            )

    def __enter__(self) -> Self:
        if self._session is None:
            self._session = self._owned = _start(self._master, self._conf)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._owned is not None:
            self._owned.stop()
            self._session = self._owned = None

    def run(self, function: Callable[[T], R], tasks: Iterable[T]) -> Generator[R, None, None]:
        """Yield `function(task)` for each task, wave by wave; raise the first error.

        A run that is broken off, by an error or by closing the iterator, cancels its jobs.
        """
        if self._session is None:
            raise ExecutionError(
                "no Spark session is running",
                hint="use `with SparkEngine(...) as engine`, or give it a session",
            )
        context = context_of(self._session)
        ship(context)
        with cancelling(context) as group:
            waves = _Waves(context, group, function, iter(tasks))
            while answers := waves.finish_one():
                for result, error in answers:
                    if error is not None:
                        raise error
                    yield result  # type: ignore[misc]  # it is one if there is no error


def read_settings(conf: object) -> dict[str, str]:
    """Read settings of Spark: a dict of them, or text such as "spark.executor.memory=2g"."""
    if isinstance(conf, Mapping):
        return {parse_text("conf", key): _setting(value) for key, value in conf.items()}
    texts = () if conf is None else parse_several(parse_text, "conf", conf)
    for text in texts:
        if "=" not in text:
            raise refusal("conf", text, "write it as spark.KEY=VALUE")
    return {key: value for key, _, value in (text.partition("=") for text in texts)}


def _setting(value: object) -> str:
    """Write a value as Spark reads it."""
    if isinstance(value, bool | int | float):
        return str(value).lower()
    return parse_text("conf", value)


def context_of(session: SparkSession) -> SparkContext:
    """Return what runs the tasks of a session; raise UsageError if they cannot be ours."""
    try:
        return session.sparkContext
    except Exception as error:
        raise UsageError(
            "a Spark Connect session runs no tasks of ours",
            hint="give a classic session, such as SparkSession.builder.master(...).getOrCreate()",
        ) from error


def _start(master: str, conf: Mapping[str, str]) -> SparkSession:
    sql = needed("pyspark.sql", extra="spark", what="the Spark engine")
    builder = sql.SparkSession.builder.appName("imgrec")
    # Names of files must mean the same on all machines, whatever the locale there.
    utf8 = {"spark.executorEnv.PYTHONUTF8": "1"} if sys.getfilesystemencoding() == "utf-8" else {}
    for key, value in {**_SETTINGS, **utf8, **conf}.items():
        builder = builder.config(key, value)
    # What spark-submit has started knows its master.
    default = "" if "PYSPARK_GATEWAY_PORT" in os.environ else "local[*]"
    where = master or conf.get("spark.master") or default
    if where.startswith("local"):
        # Spark would take the first python3 on the path, which need not have our packages.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    try:
        session: SparkSession = (builder.master(where) if where else builder).getOrCreate()
    except Exception as error:
        raise ExecutionError(
            f"Spark does not start on {where or 'its master'}: {reason_of(error)}",
            hint="check --spark-master, that Java 17 or newer is installed, and JAVA_HOME",
        ) from error
    session.sparkContext.setLogLevel("OFF")  # what must be said, our errors say
    return session


@dataclass(frozen=True)
class _Answering(Generic[T, R]):
    """Answers tasks where they run."""

    function: Callable[[T], R]
    encoding: str
    """With which the driver reads the names of files."""

    def __call__(self, task: T) -> tuple[R | None, ImgrecError | None]:
        if (own := sys.getfilesystemencoding()) != self.encoding:
            return None, ExecutionError(
                f"an executor reads the names of files as {own}, and the driver as {self.encoding}",
                hint="set spark.executorEnv.PYTHONUTF8 to 1, and PYTHONUTF8=1 for the driver",
            )
        found = answer(self.function, task)
        _spare_modules(len(sys.modules))
        return found


@cache
def _spare_modules(_count: int) -> None:
    """Let no collection of garbage look at what was imported, once for each number of modules.

    Spark collects after every task, which takes longer than a small task does.
    """
    gc.collect()
    gc.freeze()


class _Waves(Generic[T, R]):
    """The jobs of a run, a few of them under way at once."""

    def __init__(
        self, context: SparkContext, group: str, function: Callable[[T], R], tasks: Iterator[T]
    ) -> None:
        self._context, self._group, self._tasks = context, group, tasks
        self._answering = _Answering(function, sys.getfilesystemencoding())
        self._done: SimpleQueue[Answers[R] | Exception] = SimpleQueue()
        self._at_work = 0

    def finish_one(self) -> Answers[R]:
        """Wait for a job, and return its answers; nothing if all are done."""
        while self._at_work < _WAVES and self._start():
            self._at_work += 1
        if not self._at_work:
            return []
        done = self._done.get()
        self._at_work -= 1
        if isinstance(done, Exception):
            raise ExecutionError(
                f"Spark could not run a task: {reason_of(done)}",
                hint="look at the logs of the executors; what was finished is kept",
            ) from done
        return done

    def _start(self) -> bool:
        from pyspark import InheritableThread

        # Executors come and go, so this is asked each time.
        wave = list(islice(self._tasks, _TASKS_PER_CORE * self._context.defaultParallelism))
        if wave:
            InheritableThread(target=self._run, args=(wave,), daemon=True).start()
        return bool(wave)

    def _run(self, wave: Sequence[T]) -> None:
        try:
            self._context.setJobGroup(self._group, "imgrec", interruptOnCancel=False)
            tasks = self._context.parallelize(wave, len(wave))
            self._done.put(tasks.map(self._answering).collect())
        except Exception as error:  # noqa: BLE001  # it is raised by whoever waits
            self._done.put(error)


@contextmanager
def cancelling(context: SparkContext) -> Iterator[str]:
    """Yield a name for a group of jobs, which are cancelled, and have ended, if this fails."""
    group = f"imgrec-{os.urandom(6).hex()}"
    try:
        yield group
    except BaseException:
        with suppress(Exception):  # a session that is gone has no jobs
            context.cancelJobGroup(group)
            _wait_for_end(context, group)
        raise


def _wait_for_end(context: SparkContext, group: str) -> None:
    """Wait until no task of a group runs, which might still write somewhere."""
    tracker = context.statusTracker()
    end = monotonic() + _WAITS_S
    jobs = filter(None, map(tracker.getJobInfo, tracker.getJobIdsForGroup(group)))
    stages = [stage for job in jobs for stage in job.stageIds]
    while monotonic() < end and any(
        (info := tracker.getStageInfo(stage)) and info.numActiveTasks for stage in stages
    ):
        sleep(0.05)


def reason_of(error: Exception) -> str:
    """Return the line of an error of Spark's that says what happened."""
    java = getattr(error, "java_exception", None)
    said = java.getMessage() if java is not None else str(error)
    lines = [line.strip() for line in (said or type(error).__name__).splitlines() if line.strip()]
    python = [line for line in lines if line.partition(":")[0].endswith("Error")]
    return (python[-1] if python else lines[0].rpartition("most recent failure: ")[2])[:500]
