"""What verbs have in common: the dataset that is meant, and the workers that they start."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from imgrec.cli.progress import Progress
from imgrec.engine.local import LocalEngine
from imgrec.options import PackOptions


class Workers(NamedTuple):
    """Who works, and who shows how far it is."""

    engine: LocalEngine
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
def working(parsed: argparse.Namespace) -> Iterator[Workers]:
    """Start the workers that are asked for; raise UsageError if there cannot be so many."""
    workers = PackOptions(workers=parsed.workers).workers
    with LocalEngine(workers) as engine, Progress(shown=not parsed.quiet) as progress:
        yield Workers(engine, progress)
