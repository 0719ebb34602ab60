"""Packing a DataFrame: check its columns, then scan, plan and publish its rows.

The driver never holds a list of all samples.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from imgrec import layout
from imgrec.engine.spark import context_of, ship
from imgrec.errors import DatasetExists, UsageError
from imgrec.options import ColumnOption, NearDups, PackOptions, SourceOptions
from imgrec.options.packing import OutputKeywords
from imgrec.options.parsing import parse_text
from imgrec.options.source import parse_columns
from imgrec.outcome import Packed
from imgrec.read.documents import read_info, read_report
from imgrec.read.files import find_dataset
from imgrec.request import options_from, pack_options
from imgrec.spark.frame import Request, frame_of
from imgrec.spark.job import Earlier, Job
from imgrec.spark.plan import plan_rows
from imgrec.spark.scan import scan
from imgrec.spark.shards import publish
from imgrec.storage.paths import refuse_unwritable, to_path
from imgrec.storage.staging import is_taken, open_staging

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_REFUSED = {
    "split_file": "join its splits to the DataFrame, and pass split=",
    "workers": "leave it out: Spark decides how many tasks run",
    "near_dups": "leave it out, or write images to files and use imgrec.pack with SparkEngine()",
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
    pack of these images with `near_dups="off"`. The dataset must not exist yet, unless `overwrite`
    is set. A run that was killed is continued. Other options of `imgrec.pack` are given by name, or
    as `options`.

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
        near_dups=NearDups.OFF,
        source=replace(
            asked.source, group_col=group, column=request.columns, label_sep=request.label_sep
        ),
    )
    started_ns = time.time_ns()
    target = _target(asked)
    if is_taken(target) and not asked.overwrite:
        raise DatasetExists(
            f"{target} exists already",
            hint="pack under another version or name, or pass overwrite=True",
            path=str(target),
        )
    earlier = _earlier(asked)
    frame = frame_of(df, request)
    ship(context_of(df.sparkSession))
    with open_staging(target) as staging:
        staging.note(*_RUN)
        job = Job(session=df.sparkSession, staging=staging, options=asked, earlier=earlier)
        with job.running():
            scanned = scan(frame, request, job)
            kept = publish(plan_rows(scanned, job), scanned, job)
    return Packed(
        info=read_info(target),
        report=read_report(target),
        seconds=(time.time_ns() - started_ns) / 1e9,
        is_new=True,
        kept_shards=kept,
    )


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
    if options.near_dups is NearDups.OFF:
        options = replace(options, near_dups=NearDups.AUTO)
    for name, hint in _REFUSED.items():
        if getattr(options, name) != getattr(_DEFAULTS, name):
            raise UsageError(f"pack_dataframe does not support {name}", hint=hint)
    if replace(options.source, fold_case=False, keep_case=False, label_sep="") != SourceOptions():
        raise UsageError(
            "pack_dataframe does not support options for reading sources",
            hint="select and change rows and columns with Spark first",
        )
