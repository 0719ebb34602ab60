"""Packing a DataFrame: check its columns, then scan, plan and publish its rows.

The driver never holds a list of all samples.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from imgrec import layout
from imgrec.engine.spark import context_of, ship
from imgrec.errors import UsageError
from imgrec.options import ColumnOption, NearDups, PackOptions, SourceOptions
from imgrec.options.packing import OutputKeywords
from imgrec.options.parsing import parse_text
from imgrec.options.source import parse_columns
from imgrec.outcome import Packed
from imgrec.read.documents import read_info, read_report
from imgrec.read.files import find_dataset
from imgrec.request import options_from, pack_options
from imgrec.spark.existing import refuse_outdated, scratch
from imgrec.spark.frame import Request, frame_of
from imgrec.spark.job import Earlier, Job, Place
from imgrec.spark.near_rows import are_compared, refuse_many
from imgrec.spark.plan import plan_rows
from imgrec.spark.scan import scan
from imgrec.spark.shards import publish
from imgrec.storage.paths import refuse_unwritable, to_path
from imgrec.storage.staging import Stage, is_taken, open_staging

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_REFUSED = {
    "split_file": "join its splits to the DataFrame, and pass split=",
    "workers": "leave it out: Spark decides how many tasks run",
}
"""Options that do not apply, and what to do instead."""
_DEFAULTS = PackOptions()
_RUN = "run", b""
"""The note about a run, which only another of a DataFrame can continue."""


def pack_dataframe(
    df: DataFrame,
    name: str,
    *,
    image: str = "content",
    label: str = "label",
    filename: str = "",
    split: str = "",
    group: str = "",
    columns: str | ColumnOption | Sequence[str | ColumnOption] = (),
    root: str = "",
    label_sep: str = "",
    options: PackOptions | Mapping[str, object] | None = None,
    **keywords: Unpack[OutputKeywords],
) -> Packed:
    """Pack a DataFrame with one image per row into a dataset called `name`.

    `image` is a column of bytes, of paths that all executors see, or of Spark's `image` source.
    `filename` is the column of unique file names; the default is the column of paths, `filename`
    or `path`. `root` is removed from the front of the names. `split` and `group` work like
    `--split-col` and `--group-col`, and `columns` like `--column`. Rows have several labels if
    `label` is a column of arrays, or with `label_sep`. The output is the same as that of a local
    pack of these images with the same options; only `near_dups` is off unless it is given. A
    dataset that exists is compared, and returned if it is what the rows would give. A run that was
    killed is continued. Other options of `imgrec.pack` are given by name, or as `options`.

    Example: `pack_dataframe(spark.read.format("binaryFile").load(...), "flowers", label="dir")`.
    """
    if not hasattr(df, "sparkSession"):
        raise UsageError(
            f"pack_dataframe takes a DataFrame of Spark, not a {type(df).__name__} of "
            f"{type(df).__module__.partition('.')[0]}",
            hint="make one with spark.createDataFrame(...)",
        )
    asked = options_from(keywords, pack_options(options))
    _refuse_unfit(asked)
    request = Request(
        image=image,
        label=label,
        filename=filename,
        split=split,
        group=group,
        columns=parse_columns("columns", columns),
        root=root,
        label_sep=parse_text("label_sep", label_sep) or asked.source.label_sep,
    )
    asked = replace(
        asked,
        name=layout.checked_name(name),
        near_dups=asked.near_dups if are_compared(asked) else NearDups.OFF,
        source=replace(
            asked.source, group_col=group, column=request.columns, label_sep=request.label_sep
        ),
    )
    started_ns = time.time_ns()
    target = _target(asked)
    is_new = asked.overwrite or not is_taken(target)
    earlier = _earlier(asked)
    frame = frame_of(df, request)
    if callable(asked.embeddings) and not frame.is_path:
        raise UsageError(
            "a function as embeddings needs images that are files",
            hint="give a column of paths, or embeddings as a file",
        )
    if are_compared(asked):
        refuse_many(frame.rows)
    ship(context_of(df.sparkSession))
    kept = 0
    with _staging(target, is_new=is_new) as (staging, place):
        job = Job(session=df.sparkSession, place=place, options=asked, earlier=earlier)
        hashes_files = bool(asked.split_from) or not is_new
        with job.running():
            scanned = scan(frame, request, job, hashes_files=hashes_files)
            planned = plan_rows(scanned, job)
            if staging:
                kept = publish(planned, scanned, job, staging)
            else:
                refuse_outdated(planned, scanned, job, target)
    return Packed(
        info=read_info(target),
        report=read_report(target),
        seconds=(time.time_ns() - started_ns) / 1e9,
        is_new=is_new,
        kept_shards=kept,
    )


@contextmanager
def _staging(target: Path, *, is_new: bool) -> Iterator[tuple[Stage | None, Place]]:
    """Yield where a new dataset grows, and where tasks leave their results."""
    if not is_new:
        with scratch(target) as place:
            yield None, place
        return
    with open_staging(target) as staging:
        staging.note(*_RUN)
        yield staging, Place(staging.results, staging.spool)


def _target(options: PackOptions) -> Path:
    root = options.data_dir or layout.default_data_dir()
    refuse_unwritable(root)
    return layout.dataset_dir(to_path(root).absolute(), options.name, options.version)


def _earlier(options: PackOptions) -> Earlier:
    """Return the dataset whose splits and labels are kept."""
    if not options.split_from:
        return Earlier()
    folder = find_dataset(options.split_from, options.data_dir).absolute()
    return Earlier(str(folder), read_info(folder).classes)


def _refuse_unfit(options: PackOptions) -> None:
    """Raise UsageError for options that do not apply to a DataFrame."""
    for name, hint in _REFUSED.items():
        if getattr(options, name) != getattr(_DEFAULTS, name):
            raise UsageError(f"pack_dataframe does not support {name}", hint=hint)
    if replace(options.source, fold_case=False, keep_case=False, label_sep="") != SourceOptions():
        raise UsageError(
            "pack_dataframe does not support options for reading sources",
            hint="select and change rows and columns with Spark first",
        )
