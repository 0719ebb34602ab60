"""What verbs have in common: the dataset that is meant, and the workers that they start."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from imgrec.cli.progress import Progress
from imgrec.engine.local import LocalEngine
from imgrec.errors import UsageError
from imgrec.options import PackOptions

if TYPE_CHECKING:
    from imgrec.engine import Engine
    from imgrec.engine.spark import SparkEngine

_ENGINES = ("local", "spark")


class Workers(NamedTuple):
    """Who works, and who shows how far it is."""

    engine: Engine
    progress: Progress


def add_dataset(parser: argparse.ArgumentParser) -> None:
    """Add the dataset that is meant, and where it is looked for."""
    parser.add_argument(
        "dataset", metavar="DATASET", help="a name, name:version, or a path at any level"
    )
    parser.add_argument(
        "--data-dir",
        default="",
        metavar="DIR",
        help="where names are looked up; default: TFDS's own",
    )


def add_workers(parser: argparse.ArgumentParser) -> None:
    """Add how many work on it, and what is shown of it."""
    add = parser.add_argument
    add("--workers", type=int, metavar="N", help="processes; default: the CPUs there are")
    add("--json", action="store_true", help="print one JSON object")
    add("--quiet", action="store_true", help="show no progress")


@contextmanager
def working(
    parsed: argparse.Namespace, chosen: LocalEngine | SparkEngine | None = None
) -> Iterator[Workers]:
    """Start the workers that are asked for; raise UsageError if there cannot be so many."""
    with chosen or _local(parsed) as engine, Progress(shown=not parsed.quiet) as progress:
        yield Workers(engine, progress)


def add_engine(parser: argparse.ArgumentParser) -> None:
    """Add where the work is done."""
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
        help="setting of Spark; may be repeated",
    )


def parse_setting(text: str) -> tuple[str, str]:
    """Parse "spark.executor.memory=2g" into key and value."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is no setting; write spark.KEY=VALUE")
    return key, value


def engine_of(parsed: argparse.Namespace) -> LocalEngine | SparkEngine:
    """Return the engine that is asked for; raise UsageError if options do not fit it."""
    if parsed.engine == "spark":
        from imgrec.engine.spark import SparkEngine

        if parsed.workers is not None:
            raise UsageError(
                "--workers means nothing to Spark",
                hint="say it with --spark-master 'local[N]' or --spark-conf spark.executor.cores=N",
            )
        return SparkEngine(master=parsed.spark_master, conf=dict(parsed.spark_conf))
    if parsed.spark_master or parsed.spark_conf:
        raise UsageError(
            "--spark-master and --spark-conf are of no use without Spark",
            hint="pass --engine spark as well",
        )
    return _local(parsed)


def _local(parsed: argparse.Namespace) -> LocalEngine:
    return LocalEngine(PackOptions(workers=parsed.workers).workers)
