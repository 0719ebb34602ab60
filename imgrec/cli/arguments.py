"""Arguments that verbs share, and what they choose: options, workers and progress bars."""

from __future__ import annotations

import argparse
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NoReturn, TypedDict

from imgrec.cli.parser import Argument, argument, switch
from imgrec.errors import UsageError
from imgrec.options import PackOptions, SourceOptions
from imgrec.options.declaration import Option, declared_options
from imgrec.options.packing import ABOUT, IMAGES, OUTPUT, SHARDS
from imgrec.options.source import DATASET, MANIFESTS, PART, SOURCE, SPLITS
from imgrec.text import visible

if TYPE_CHECKING:
    from tqdm import tqdm

    from imgrec.engine import Engine

_OPTIONS: Mapping[str, Option] = {
    name: one
    for kind in (PackOptions, SourceOptions)
    for name, one in declared_options(kind).items()
    if one.group
}
_STAGES = {
    "scan": "scanning",
    "pack": "packing",
    "verify": "verifying",
    "compare": "comparing",
    "look": "looking",
    "list": "reading names",
    "unpack": "unpacking",
    "export": "exporting",
}
_ENGINES = ("local", "spark")


def whole(text: str) -> int:
    """Parse a whole number."""
    try:
        return int(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from error


def decimal(text: str) -> float:
    """Parse a number."""
    try:
        return float(text)
    except ValueError as error:
        percent = text.strip().removesuffix("%")
        is_percentage = percent != text.strip() and percent.replace(".", "", 1).isdecimal()
        hint = f"; write {float(percent) / 100:g}" if is_percentage else ""
        raise argparse.ArgumentTypeError(f"{text!r} is not a number{hint}") from error


def declared(name: str) -> Argument:
    """Return the argument of a declared option; its value is None unless it is given."""
    one = _OPTIONS[name]
    flag = flag_of(name)
    settings: dict[str, Any] = {"dest": name, "default": None, "help": one.help.replace("%", "%%")}
    if one.type is bool:
        settings["action"] = "store_false" if one.default else "store_true"
        if one.default:
            flag = flag.replace("--", "--no-", 1)
            settings["help"] = one.help.partition("False: ")[2]
    elif isinstance(one.type, type) and issubclass(one.type, StrEnum):
        choices = list(map(str, one.type))
        settings |= {"choices": choices, "metavar": "|".join(choices)}
        settings["help"] += f"; default: {one.default}" if one.default else ""
    else:
        from_text = one.from_text or {int: whole, float: decimal}.get(one.type, str)
        settings |= {"metavar": one.metavar, "type": from_text}
    if one.is_list and one.metavar != "FILE":
        settings["action"] = "extend" if one.from_text else "append"
    return Argument(flag, settings, one.group)


def flag_of(name: str) -> str:
    """Return the flag of an option."""
    return f"--{name.replace('_', '-')}"


def _in_groups(*groups: str) -> list[Argument]:
    return [
        declared(name) for group in groups for name, one in _OPTIONS.items() if one.group == group
    ]


def data_dir(what: str = "where to look up names; default: where TFDS looks") -> Argument:
    """Return the argument for the data directory."""
    return argument("--data-dir", "DIR", what)


QUIET = switch("--quiet", "show no progress")
WORKERS = (replace(declared("workers"), group=""), QUIET)
DATASET_ARGUMENTS = (
    argument("dataset", "DATASET", "a name, name:version, or a path at any level"),
    data_dir(),
)
SUBJECT_ARGUMENTS = (
    argument(
        "source",
        "DATASET|SOURCE",
        "the name, name:version or path of a dataset; or a source",
        nargs="?",
    ),
    data_dir(),
    *_in_groups(SOURCE, MANIFESTS),
)
PACK_ARGUMENTS = (
    argument(
        "source",
        "SOURCE",
        "folder, archive, manifest, CIFAR or IDX files; imgrec detects which",
        nargs="?",
    ),
    *_in_groups(DATASET, SOURCE, MANIFESTS, PART, SPLITS, IMAGES, SHARDS, OUTPUT, ABOUT),
    QUIET,
)


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not a setting; write spark.KEY=VALUE")
    return key, value


ENGINE_ARGUMENTS = tuple(
    replace(one, group="engine")
    for one in (
        argument(
            "--engine",
            "|".join(_ENGINES),
            "processes on this machine, or the executors of a Spark cluster; default: local",
            choices=_ENGINES,
            default="local",
        ),
        argument("--spark-master", "URL", "default: the master of spark-submit, else local[*]"),
        argument(
            "--spark-conf",
            "K=V",
            "a Spark setting; may be repeated",
            action="append",
            type=_setting,
            default=[],
        ),
    )
)


def pack_options(parsed: Namespace) -> PackOptions:
    """Return the options of a pack."""
    return _options(parsed, _OPTIONS)


def _options(parsed: Namespace, names: Mapping[str, object]) -> PackOptions:
    from imgrec.request import options_from

    return options_from({name: getattr(parsed, name, None) for name in names}, spell=flag_of)


class Progress:
    """A bar for each stage on standard error, if that is a terminal and `shown` is true."""

    def __init__(self, *, shown: bool) -> None:
        self._shown = shown and sys.stderr is not None and sys.stderr.isatty()
        self._stage = ""
        self._bar: tqdm[NoReturn] | None = None

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        """Advance the bar of a stage."""
        if not self._shown:
            return
        if self._bar is None or stage != self._stage:
            from tqdm import tqdm

            self.close()
            self._stage, title = stage, _STAGES[stage]
            self._bar = tqdm(desc=title, total=total, unit="img", file=sys.stderr, leave=False)
        self._bar.update(done)

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.close()


class Workers(TypedDict):
    """Arguments of api functions that run in worker processes."""

    engine: Engine
    on_progress: Progress


class Reading(Workers):
    """Arguments of api functions that also read a dataset or a source."""

    data_dir: str
    source: SourceOptions


def progress_bars(parsed: Namespace) -> closing[Progress]:
    """Return the progress bars of a verb."""
    return closing(Progress(shown=not parsed.quiet))


@contextmanager
def working(parsed: Namespace) -> Iterator[Workers]:
    """Start as many worker processes as the command line says, with progress bars."""
    from imgrec.engine.local import running

    count = PackOptions(workers=parsed.workers).workers
    with running(None, count) as engine, progress_bars(parsed) as progress:
        yield {"engine": engine, "on_progress": progress}


@contextmanager
def inspecting(parsed: Namespace) -> Iterator[Reading]:
    """Start workers to inspect a dataset or a source; warn if a dataset hides a folder."""
    from imgrec.inspect.subject import shadowing

    options = _options(parsed, declared_options(SourceOptions)).source
    what: str = parsed.source
    if root := what and shadowing(what, options, parsed.data_dir):
        note = f"{what}: the dataset in {root}; for the folder here, write ./{what}"
        print(visible(note), file=sys.stderr)
    with working(parsed) as workers:
        yield {**workers, "data_dir": parsed.data_dir, "source": options}


def spark_engine(parsed: Namespace) -> AbstractContextManager[Engine | None]:
    """Return the Spark engine that the command line chooses; None for local processes."""
    if parsed.engine == "local":
        if parsed.spark_master or parsed.spark_conf:
            hint = "pass --engine spark too"
            raise UsageError("--spark-master and --spark-conf need --engine spark", hint=hint)
        return nullcontext()
    if parsed.workers is not None:
        raise UsageError(
            "--workers cannot be combined with --engine spark",
            hint="pass --spark-master 'local[N]' or --spark-conf spark.executor.cores=N",
        )
    from imgrec.engine.spark import SparkEngine

    return SparkEngine(master=parsed.spark_master, conf=dict(parsed.spark_conf))
