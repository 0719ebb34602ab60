"""Scan a DataFrame: probe each row on its executor, and check all rows."""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from xxhash import xxh3_128_digest

from imgrec.codec.sniff import HEAD_BYTES, describe, format_of
from imgrec.errors import BadImage, SourceError
from imgrec.model import TEST, Samples
from imgrec.near.clusters import NearPairs
from imgrec.notes import Note, NoteKind, Notes, warnings_of
from imgrec.options import ColumnKind, SourceOptions
from imgrec.options.source import ColumnValue
from imgrec.planning.split import ranks_of, refuse_unfit
from imgrec.source.cells import label_fault, missing_cells, parse_labels, read_labels
from imgrec.source.image_pass import hash_images
from imgrec.source.probe import KEY_BYTES, content_key
from imgrec.source.tables import cell_of, cell_text
from imgrec.source.words import read_splits, split_word
from imgrec.spark.frame import Frame, Request
from imgrec.spark.job import (
    PROBED,
    Columns,
    Form,
    Job,
    batches_of,
    columns_of,
)
from imgrec.storage.blobs import read_file_head
from imgrec.storage.read_errors import image_fault
from imgrec.storage.urls import is_url
from imgrec.text import path_of, printable

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_LABEL_END = "\n"
"""Ends each label but the last of a row: no label contains a line break."""
_FILE = re.compile(r"file:(//)?(?=/)")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]+:", re.I)
_MAX_FLOAT32, _MAX_INT64 = 3.4028235e38, 1 << 63
_SHOWN = 5
_MOST_WORDS = 1000


def local_path(path: str) -> str:
    """Turn a file: URL into a path; return other paths unchanged.

    >>> local_path("file:/data/a.jpg"), local_path("file:///data/a.jpg"), local_path("a.jpg")
    ('/data/a.jpg', '/data/a.jpg', 'a.jpg')
    """
    return _FILE.sub("", path)


class _Image(NamedTuple):
    """What a probe finds out about one image."""

    size: int
    key: bytes
    whole: bytes | None
    fault: str


class _FarImage(NamedTuple):
    """The size and the beginning of an object on a store, or why there is none."""

    size: int
    head: bytes | OSError

    def read(self) -> tuple[int, bytes]:
        """Return size and beginning; raise OSError if the object cannot be read."""
        if isinstance(self.head, OSError):
            raise self.head
        return self.size, self.head


def _far_images(cells: Sequence[str | None]) -> dict[int, _FarImage]:
    """Read the beginnings of the objects among some paths, many at once, by place."""
    urls = {place: cell for place, cell in enumerate(cells) if cell and is_url(local_path(cell))}
    if not urls:
        return {}
    from imgrec.storage.remote.read import read_heads, stat_objects

    stats = stat_objects([*urls.values()])
    sizes = [0 if isinstance(stat, OSError) else stat.size for stat in stats]
    heads = read_heads([*urls.values()], [min(size, HEAD_BYTES) for size in sizes])
    faults = [stat if isinstance(stat, OSError) else None for stat in stats]
    return {
        place: _FarImage(size, fault or head)
        for place, size, fault, head in zip(urls, sizes, faults, heads, strict=True)
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """Turns rows of a `Frame` into rows of `PROBED`."""

    is_path: bool
    form: Form
    seed: int
    root: str
    has_splits: bool
    label_sep: str = ""
    hashes_files: bool = False
    """Whether to read whole files, to know them again."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Probe some rows."""
        fields = self.form.fields(PROBED)
        for batch in batches:
            yield from batches_of(self._probe(columns_of(batch)), fields)

    def _probe(self, rows: Columns) -> Columns:
        names = [self.name(name) for name in rows["filename"]]
        splits = [split_word(split or "") for split in rows["split"]]
        labels = [parse_labels(cell_of(cell), self.label_sep) for cell in rows["label"]]
        far = _far_images(rows["image"]) if self.is_path else {}
        images = [
            self._image(cell, name, far.get(row))
            for row, (cell, name) in enumerate(zip(rows["image"], names, strict=True))
        ]
        faults = [
            "; ".join(filter(None, (image.fault, *self._row_faults(rows, row, splits, labels))))
            for row, image in enumerate(images)
        ]
        ranks = ranks_of([image.key for image in images], self.seed)
        return {
            "filename": names,
            "class_name": [
                "" if any(map(label_fault, own)) else _LABEL_END.join(own) for own in labels
            ],
            "split": splits,
            "grp": [(group or "").strip() for group in rows["grp"]],
            "size": [image.size for image in images],
            "rank": [rank - (rank >> 63 << 64) for rank in ranks],
            "key": [image.key for image in images],
            "whole": [image.whole for image in images],
            "digest": self._digests(rows["image"], images),
            "blob": [local_path(path or "") for path in rows["image"]]
            if self.is_path
            else [""] * len(images),
            "fault": [fault or None for fault in faults],
            **{
                f"c{at}": [_extra_cell(cell, kind) for cell in rows[f"c{at}"]]
                for at, (_, kind) in enumerate(self.form.extras)
            },
        }

    def _digests(self, cells: Sequence[Any], images: Sequence[_Image]) -> list[bytes]:
        """Return a hash of all bytes of each image; b"" for a file, unless it is needed."""
        if not self.is_path:
            return [digest_of(cell or b"") for cell in cells]
        if not self.hashes_files:
            return [b""] * len(cells)
        samples = Samples(
            filenames=("",) * len(cells),
            blobs=tuple(path_of(local_path(cell or "")) for cell in cells),
            sizes=tuple(image.size for image in images),
        )
        return hash_images(samples, lambda each, tasks: map(each, tasks))

    def name(self, name: str | None) -> str:
        """Return an image's name in the dataset."""
        path, root = local_path(name or ""), local_path(self.root).rstrip("/") + "/"
        return path[len(root) :] if self.root and path.startswith(root) else path

    def _image(self, cell: bytes | str | None, name: str, far: _FarImage | None) -> _Image:
        if cell is None or not name:
            return _bad("no image" if name else "no name")
        if isinstance(cell, bytes):
            whole = hashlib.sha256(cell).digest()[:KEY_BYTES] if len(cell) > HEAD_BYTES else None
            head = cell[:HEAD_BYTES]
            fault = "" if format_of(head, name) else describe(head)
            return _Image(len(cell), content_key(len(cell), head), whole, fault)
        path = local_path(cell)
        if far is None and _SCHEME.match(path):
            return _bad("not on a disk or a store: read it with spark.read.format('binaryFile')")
        try:
            if far is None:
                size, _, head = read_file_head(path_of(path), HEAD_BYTES, dated=True)
            else:
                size, head = far.read()
        except BadImage as error:
            return _bad(str(error))
        except OSError as error:
            return _bad(str(image_fault(error, path)))
        fault = "" if format_of(head, name) else describe(head)
        return _Image(size, content_key(size, head), None, fault)

    def _row_faults(
        self, rows: Columns, row: int, splits: list[str], labels: list[tuple[str, ...]]
    ) -> Iterator[str]:
        if self.has_splits and not splits[row]:
            yield "no split"
        yield from map(label_fault, labels[row])
        if not (labels[row] or self.form.is_multilabel or splits[row] == TEST):
            yield "no label"
        for at, (name, kind) in enumerate(self.form.extras):
            value = rows[f"c{at}"][row]
            if isinstance(value, float) and not _fits(value, kind):
                yield f"{value!r} in column {name} is not {'an' if kind == 'int' else 'a'} {kind}"


def digest_of(image: bytes) -> bytes:
    """Return a hash of all bytes of an image."""
    return xxh3_128_digest(image)


def _extra_cell(cell: Any, kind: ColumnKind) -> ColumnValue | None:
    """Return the value of a feature; None if it is missing."""
    if isinstance(cell, list):
        return cell_text(cell_of(cell))
    if cell is None or cell == "" or cell != cell:  # NaN alone differs from itself
        return None
    if kind is ColumnKind.INT:
        return int(cell) if _fits(cell, kind) else 0
    return cell  # type: ignore[no-any-return]  # Spark has cast it to this kind


def _fits(number: float, kind: ColumnKind) -> bool:
    """Return whether a float can be a feature."""
    if kind is ColumnKind.INT:
        return number % 1 == 0 and abs(number) < _MAX_INT64
    return math.isnan(number) or math.isinf(number) or abs(number) <= _MAX_FLOAT32


def _bad(fault: str) -> _Image:
    return _Image(0, bytes(KEY_BYTES), None, fault)


class FoundLabels(NamedTuple):
    """The labels of all rows."""

    class_of: Mapping[str, str]
    """The class of each label, as the rows spell it."""
    images: Mapping[str, int]
    """The number of good rows of each class."""
    order: tuple[str, ...] | None
    """Classes in the order of their labels, where the labels fix it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scanned:
    """The rows of a DataFrame and what the scan found out about them."""

    rows: DataFrame
    """Columns as in `PROBED`."""
    good: int
    notes: Notes
    labels: FoundLabels
    has_groups: bool
    frame: Frame
    images: DataFrame | None
    """Columns `filename` and `image`, if the DataFrame holds the images themselves."""
    near: NearPairs | None = None
    """The near-duplicates; None if nobody asked for them."""
    has_near: bool = False
    """Whether any of them must stay in one split."""


def scan(frame: Frame, request: Request, job: Job, *, hashes_files: bool) -> Scanned:
    """Probe all rows; raise SourceError if they cannot be packed."""
    from pyspark.sql import functions as f

    probe = Probe(
        is_path=frame.is_path,
        form=frame.form,
        seed=job.options.seed,
        root=request.root,
        has_splits=bool(request.split) and _has_splits(frame.rows, request.split),
        label_sep=request.label_sep,
        hashes_files=hashes_files,
    )
    is_bad = f.col("fault").isNotNull()
    with job.small_batches():
        rows = job.persist(job.map_batches(frame.rows, probe, frame.form.fields(PROBED)))
        counts = rows.groupBy("split", is_bad.alias("is_bad")).count().collect()
    bad, good = (
        sum(row["count"] for row in counts if row["is_bad"] == flag) for flag in (True, False)
    )
    if not counts:
        raise SourceError("the DataFrame has no rows", hint="give a row for each image")
    _refuse_bad(rows, good, bad, job.options.max_bad)
    _refuse_repeated(rows)
    refuse_unfit({row["split"] for row in counts if not row["is_bad"]}, job.options)
    faults = rows.where(is_bad).select("filename", "fault").collect() if bad else []
    labels, doubts = _labels(rows, request, frame.form)
    return Scanned(
        rows=rows,
        good=good,
        notes=(
            *sorted(Note(row["filename"], row["fault"], NoteKind.BAD) for row in faults),
            *warnings_of((*doubts, *_missing_cells(rows, frame.form, good + bad))),
        ),
        labels=labels,
        has_groups=bool(request.group),
        frame=frame,
        images=None if frame.is_path else _images(frame, probe),
    )


def labels_in(name: str, form: Form) -> tuple[str, ...]:
    """Return the labels in a `class_name` of `PROBED`."""
    if not form.is_multilabel:
        return (name,)
    return tuple(name.split(_LABEL_END)) if name else ()


def _labels(rows: DataFrame, request: Request, form: Form) -> tuple[FoundLabels, tuple[str, ...]]:
    """Return the labels of all rows, and what is doubtful about them."""
    from pyspark.sql import functions as f

    name = f.col("class_name")
    each = f.explode(f.split(name, _LABEL_END)) if form.is_multilabel else name
    counts = (
        rows.select(each.alias("label"), "fault")
        .where("label != ''")
        .groupBy("label")
        .agg(f.sum(f.col("fault").isNull().cast("bigint")).alias("good"))
        .orderBy("label")
        .collect()
    )
    words = [row["label"] for row in counts]
    found = read_labels(words, "the DataFrame", SourceOptions())
    class_of = {word: own[0] for word, own in zip(words, found.sets, strict=True)}
    images: Counter[str] = Counter()
    for row in counts:
        images[class_of[row["label"]]] += row["good"]
    doubts = () if form.is_multilabel else found.warnings
    if request.label_sep and not rows.where(f.instr(name, _LABEL_END) > 0).limit(1).count():
        doubts = (f"--label-sep {request.label_sep!r} is in no label",)
    return FoundLabels(class_of, dict(sorted(images.items())), found.order), doubts


def _missing_cells(rows: DataFrame, form: Form, count: int) -> Iterator[str]:
    """Warn about missing cells in each extra column."""
    from pyspark.sql import functions as f

    if not form.extras:
        return
    cells = [f.col(f"c{at}") for at in range(len(form.extras))]
    missing = [f.sum(cell.isNull().cast("bigint")) for cell in cells]
    held = [
        f.max((cell == f.lit(default)).cast("int"))
        for cell, default in zip(cells, form.defaults, strict=True)
    ]
    (found,) = rows.agg(*missing, *held).collect()
    for at, ((name, _), default) in enumerate(zip(form.extras, form.defaults, strict=True)):
        if found[at]:
            is_held = bool(found[len(cells) + at])
            yield missing_cells(name, found[at], count, default, is_used=is_held)


def _has_splits(rows: DataFrame, column: str) -> bool:
    """Check for splits; raise SourceError for an unknown split name."""
    found = rows.select("split").distinct().limit(_MOST_WORDS).collect()
    words = sorted(row["split"] or "" for row in found)
    try:
        return any(read_splits(words, column, "the DataFrame").splits)
    except SourceError as error:
        error.hint = "write train, val or test; or name another column with split="
        raise


def _refuse_bad(rows: DataFrame, good: int, bad: int, max_bad: float) -> None:
    """Raise SourceError if there are too many bad rows, before listing them on the driver."""
    from pyspark.sql import functions as f

    if not bad or (good and bad <= max_bad * (good + bad)):
        return
    faults = rows.where("fault is not null").groupBy("fault")
    most = faults.agg(f.count("*").alias("rows"), f.min("filename").alias("name"))
    shown = "; ".join(
        f"{row['rows']} x {row['fault']} (such as {printable(row['name'])})"
        for row in most.orderBy(f.desc("rows"), "fault").limit(_SHOWN).collect()
    )
    raise SourceError(
        f"{bad} of {good + bad} images are bad, more than --max-bad {max_bad:g} allows: {shown}",
        hint="fix these rows, or raise --max-bad",
    )


def _refuse_repeated(rows: DataFrame) -> None:
    named = rows.where("filename != ''").groupBy("filename").count()
    repeated = named.where("count > 1").limit(_SHOWN).collect()
    if repeated:
        shown = ", ".join(sorted(printable(row["filename"]) for row in repeated))
        raise SourceError(
            f"several rows of the DataFrame have the same name: {shown}",
            hint="choose a column of unique names with filename=, or drop duplicates",
        )


def _images(frame: Frame, probe: Probe) -> DataFrame:
    from pyspark.sql import functions as f

    name = f.udf(probe.name, "string")(f.col("filename")) if probe.root else f.col("filename")
    return frame.rows.select(name.alias("filename"), "image")
