"""Workers of a verb, the options that choose them, and their progress bars."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, NoReturn, Self

from imgrec.engine.local import LocalEngine
from imgrec.errors import UsageError
from imgrec.options import PackOptions

if TYPE_CHECKING:
    from tqdm import tqdm

    from imgrec.engine import Engine
    from imgrec.engine.spark import SparkEngine

_ENGINES = ("local", "spark")
_TITLES = {
    "scan": "scanning",
    "pack": "packing",
    "verify": "verifying",
    "compare": "comparing",
    "look": "looking",
    "list": "reading names",
    "unpack": "unpacking",
}


class Progress:
    """A bar for each stage on standard error, if that is a terminal and `shown` is true."""

    def __init__(self, *, shown: bool) -> None:
        self._shown = shown and sys.stderr is not None and sys.stderr.isatty()
        self._stage = ""
        self._bar: tqdm[NoReturn] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.close()

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        """Advance the bar of a stage."""
        if not self._shown:
            return
        if stage != self._stage:
            from tqdm import tqdm

            if self._bar is not None:
                self._bar.close()
            self._stage = stage
            self._bar = tqdm(
                desc=_TITLES[stage], total=total, unit="img", file=sys.stderr, leave=False
            )
        if self._bar is not None:
            self._bar.update(done)


class Workers(NamedTuple):
    """An engine, and the progress bars that show its work."""

    engine: Engine
    progress: Progress


@contextmanager
def working(
    parsed: argparse.Namespace, chosen: LocalEngine | SparkEngine | None = None
) -> Iterator[Workers]:
    """Start the chosen workers; raise UsageError for an impossible number."""
    with chosen or _local(parsed) as engine, Progress(shown=not parsed.quiet) as progress:
        yield Workers(engine, progress)


def add_engine(parser: argparse.ArgumentParser) -> None:
    """Add the options of the engine."""
    add = parser.add_argument_group("engine").add_argument
    add(
        "--engine",
        choices=_ENGINES,
        default="local",
        metavar="|".join(_ENGINES),
        help="processes on this machine, or the executors of a Spark cluster; default: local",
    )
    add("--spark-master", default="", metavar="URL", help="default: spark-submit's, else local[*]")
    add(
        "--spark-conf",
        action="append",
        type=parse_setting,
        default=[],
        metavar="K=V",
        help="a Spark setting; may be repeated",
    )


def parse_setting(text: str) -> tuple[str, str]:
    """Parse "spark.executor.memory=2g" into key and value."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not a setting; write spark.KEY=VALUE")
    return key, value


def engine_of(parsed: argparse.Namespace) -> LocalEngine | SparkEngine:
    """Return the chosen engine; raise UsageError for options of the other one."""
    if parsed.engine == "spark":
        from imgrec.engine.spark import SparkEngine

        if parsed.workers is not None:
            raise UsageError(
                "--workers cannot be combined with --engine spark",
                hint="pass --spark-master 'local[N]' or --spark-conf spark.executor.cores=N",
            )
        return SparkEngine(master=parsed.spark_master, conf=dict(parsed.spark_conf))
    if parsed.spark_master or parsed.spark_conf:
        raise UsageError(
            "--spark-master and --spark-conf need --engine spark", hint="pass --engine spark too"
        )
    return _local(parsed)


def _local(parsed: argparse.Namespace) -> LocalEngine:
    return LocalEngine(PackOptions(workers=parsed.workers).workers)
