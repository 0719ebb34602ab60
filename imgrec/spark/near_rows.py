"""The near-duplicates of a DataFrame, found with the functions of a local pack.

What images look like is compared in one place, the driver; executors decode them and compare pairs.
So the number of images is limited.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from imgrec.engine.spark import SparkEngine
from imgrec.errors import ExecutionError, UsageError
from imgrec.model import Catalog, Samples
from imgrec.options import NearDups, PackOptions
from imgrec.source.near_images import refine_near_dups
from imgrec.source.probe import ImageBatch, contents
from imgrec.spark.images import UNSTABLE, with_files
from imgrec.spark.job import PROBED, Form, Job, batches_of, columns_of, picked, together
from imgrec.spark.scan import Scanned, labels_in
from imgrec.text import path_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

MOST_COMPARED = 100_000
"""The most rows of a DataFrame that are compared. The driver holds up to 14 KB for each: measured
with 2,000 and 10,000 images of 32x32, nearly all of which had a candidate to be looked at closely.
"""
_BESIDE = {"pin": "string", "near": "string"}
"""Columns of rows beside those of `PROBED`."""
_ANSWER = {"answer": "binary"}


def are_compared(options: PackOptions) -> bool:
    """Return whether near-duplicates are looked for. They are not unless asked for."""
    return options.near_dups not in (NearDups.AUTO, NearDups.OFF)


def refuse_many(rows: DataFrame) -> None:
    """Raise UsageError if a DataFrame has too many rows to look for near-duplicates."""
    count = rows.count()
    if count > MOST_COMPARED:
        raise UsageError(
            f"near_dups compares at most {MOST_COMPARED:,} rows of a DataFrame, not {count:,}",
            hint="leave it out, or write images to files and use imgrec.pack with SparkEngine()",
        )


def with_near(scanned: Scanned, job: Job) -> Scanned:
    """Find near-duplicates, and group or drop them; the group is a new column, `near`.

    The rows have the column `pin`.
    """
    from pyspark.sql import functions as f

    if not are_compared(job.options):
        return replace(scanned, rows=scanned.rows.withColumn("near", f.lit("")))
    run = _Runner(job, scanned)
    catalog = _catalog(scanned, job, run)
    names = catalog.samples.filenames
    found = refine_near_dups(catalog, set(names), job.options, run, lambda _done, _of: None)
    kept = found.samples
    marking = _Marking(
        near={name: near for name, near in zip(kept.filenames, kept.near, strict=False) if near},
        dropped=frozenset(names).difference(kept.filenames),
        form=scanned.frame.form,
    )
    left = kept.count_classes()
    images = {name: left[name] for name in scanned.labels.images}
    return replace(
        scanned,
        rows=job.map_batches(scanned.rows, marking, marking.fields),
        good=len(kept),
        notes=(*scanned.notes, *found.notes),
        labels=scanned.labels._replace(images=images),
        near=found.near,
        has_near=bool(marking.near),
    )


def _catalog(scanned: Scanned, job: Job, run: _Runner) -> Catalog:
    """Return all good rows as a scan of files lists them."""
    form, class_of = scanned.frame.form, scanned.labels.class_of
    columns = ["filename", "class_name", "split", "size", "key", "digest", "blob", "pin"]
    rows = scanned.rows.where("fault is null").select(*columns).orderBy("filename").collect()
    names, words, splits, sizes, keys, digests, blobs, pins = (
        zip(*rows, strict=True) if rows else ((),) * len(columns)
    )
    own = [tuple(class_of[word] for word in labels_in(name, form) if word) for name in words]
    blobs = tuple(path_of(blob) for blob in blobs)
    in_files = scanned.images is None
    return Catalog(
        name=job.options.name,
        layout=scanned.frame.layout,
        samples=Samples(
            filenames=names,
            class_names=("",) * len(names)
            if form.is_multilabel
            else tuple("".join(one) for one in own),
            class_sets=tuple(own) if form.is_multilabel else (),
            splits=splits,
            sizes=sizes,
            contents=tuple(
                contents(names, blobs, sizes, list(map(bytes, keys)), run)
                if in_files
                else map(bytes, digests)
            ),
            blobs=blobs,
            pinned=pins,
        ),
        class_folders={},
    )


@dataclass(frozen=True, slots=True)
class _Runner:
    """Runs functions on the executors; those of images also if the DataFrame holds the images."""

    job: Job
    scanned: Scanned

    def __call__(self, function: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Any]:
        tasks = iter(tasks)
        first = list(islice(tasks, 1))
        if self.scanned.images is None or not isinstance([*first, None][0], ImageBatch):
            yield from SparkEngine(self.job.session).run(function, chain(first, tasks))
        else:
            yield from self._on_images(function, [*first, *tasks])

    def _on_images(
        self, function: Callable[[ImageBatch], Any], tasks: Sequence[ImageBatch]
    ) -> Iterator[Any]:
        """Run a function on images in the DataFrame: each task gets those with its names."""
        assert self.scanned.images is not None
        places = [
            (name, number, place)
            for number, task in enumerate(tasks)
            for place, name in enumerate(task.names)
        ]
        wanted = self.job.session.createDataFrame(places, "filename string, task int, place int")
        known = self.scanned.rows.select("filename", "size", "digest", "blob")
        rows = wanted.join(known, "filename").join(self.scanned.images, "filename")
        calling = _Calling(function, [(task.start, len(task.names)) for task in tasks])
        with self.job.small_batches():
            ordered = together(rows, "task", len(tasks), "place")
            answers = self.job.persist(self.job.map_batches(ordered, calling, _ANSWER))
            answered = answers.count()
        if answered != len(tasks):
            raise ExecutionError("the DataFrame has lost rows between two reads", hint=UNSTABLE)
        for row in answers.toLocalIterator():
            yield pickle.loads(row["answer"])


@dataclass(frozen=True, slots=True)
class _Calling:
    """Calls a function with images, and pickles what it returns."""

    function: Callable[[ImageBatch], Any]
    tasks: Sequence[tuple[int, int]]
    """The start and the number of images of each."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number, rows, blobs in with_files(batches, "task"):
            start, count = self.tasks[number]
            if len(blobs) != count:
                raise ExecutionError(
                    f"{count} images of the DataFrame were asked for, but it gave {len(blobs)}",
                    hint=UNSTABLE,
                )
            images = ImageBatch(start, rows["filename"], blobs, rows["size"])
            yield from batches_of({"answer": [pickle.dumps(self.function(images))]}, _ANSWER)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Marking:
    """Adds the group of near-duplicates to rows, and leaves out those that are dropped."""

    near: Mapping[str, str]
    """By name, of the images that are in a group."""
    dropped: frozenset[str]
    form: Form

    @property
    def fields(self) -> dict[str, str]:
        """The columns of the rows that it returns."""
        return {**self.form.fields(PROBED), **_BESIDE}

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = columns_of(batch)
            rows["near"] = [self.near.get(name, "") for name in rows["filename"]]
            kept = [at for at, name in enumerate(rows["filename"]) if name not in self.dropped]
            yield from batches_of(picked(rows, kept), self.fields)
